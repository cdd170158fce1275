"""Steps that depend on blocks of several ranks, such as a global mean: their contributions are joined step by step."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bbflow.errors import BbflowError
from bbflow.operators.space.placement import Local, Placement
from bbflow.operators.steps import Array
from bbflow.transit.folding.shards import ShardKey
from bbflow.transit.folding.work import PartialSteps


class Joined(NamedTuple):
    """What ranks' contributions to a field have come to."""

    name: str
    """The diagnostic."""
    numbers: tuple[int, ...]
    """Numbers of steps."""
    arrays: Sequence[Array]
    """For each its values, of shape (points,)."""
    others: Mapping[str, Sequence[Array]]
    """Those of the operators' further inputs, by their text."""


def join_partials(
    partials: Sequence[PartialSteps], placements: Mapping[str, Placement], local: Callable[[ShardKey], Local | None]
) -> Iterator[Joined]:
    """Join the contributions to each field.

    Parameters
    ----------
    partials
        Of one batch.
    placements
        Diagnostic to where its field lies.
    local
        Gives what a shard has of its field.

    Yields
    ------
    Joined
        One for each field; the values of each step are the same if all parts are of their mean.

    Raises
    ------
    BbflowError
        If the ranks don't have the same steps.
    """
    by_name: dict[str, list[PartialSteps]] = {}
    for part in sorted(partials, key=lambda part: (part.key.diagnostic, part.key.start, part.key.node)):
        by_name.setdefault(part.key.diagnostic, []).append(part)
    for name, parts in by_name.items():
        numbers = parts[0].numbers
        if any(part.numbers != numbers for part in parts):
            raise BbflowError(
                f"{name}: some ranks have no block of it in some of the steps {numbers[0]} to {numbers[-1]}"
            )
        known = [(own, part) for part in parts if (own := local(part.key)) is not None]
        joined = _finished(placements[name], [(own, part.values) for own, part in known])
        others = {
            text: _finished(placements[name], [(own, part.others[text]) for own, part in known])
            for text in parts[0].others
        }
        yield Joined(name, numbers, joined if len(joined) == len(numbers) else joined * len(numbers), others)


def _finished(placement: Placement, placed: Sequence[tuple[Local, Array]]) -> list[Array]:
    return [*map(np.ascontiguousarray, placement.finish(placement.assemble(len(placed[0][1]), placed)))]


def uneven(partials: Sequence[PartialSteps]) -> frozenset[str]:
    """Return the diagnostics of which some blocks have the steps and others their mean: these can't be joined."""
    lengths: dict[str, set[int]] = {}
    for part in partials:
        lengths.setdefault(part.key.diagnostic, set()).add(len(part.values))
    return frozenset(name for name, own in lengths.items() if len(own) > 1)

"""Steps that depend on blocks of several ranks, such as a global mean: their contributions are joined step by step."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from bbflow.errors import BbflowError
from bbflow.operators.space.placement import Local, Placement
from bbflow.operators.steps import Array
from bbflow.transit.folding.shards import ShardKey
from bbflow.transit.folding.task import PartialSteps


def join_partials(
    partials: Sequence[PartialSteps], placements: Mapping[str, Placement], local: Callable[[ShardKey], Local | None]
) -> Iterator[tuple[str, tuple[int, ...], Sequence[Array]]]:
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
    tuple
        A diagnostic's name, numbers of steps, and for each of them its values, of shape (points,): the same of each if
        all parts are of their mean.

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
        placed = [(known, part.values) for part in parts if (known := local(part.key)) is not None]
        count = len(parts[0].values)
        joined = [*map(np.ascontiguousarray, placements[name].finish(placements[name].assemble(count, placed)))]
        yield name, numbers, joined if count == len(numbers) else joined * len(numbers)


def uneven(partials: Sequence[PartialSteps]) -> frozenset[str]:
    """Return the diagnostics of which some blocks have the steps and others their mean: these can't be joined."""
    lengths: dict[str, set[int]] = {}
    for part in partials:
        lengths.setdefault(part.key.diagnostic, set()).add(len(part.values))
    return frozenset(name for name, own in lengths.items() if len(own) > 1)

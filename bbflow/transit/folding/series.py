"""Steps that depend on blocks of several ranks, such as a global mean: their contributions are joined step by step."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from bbflow.errors import BbflowError
from bbflow.operators.space.placement import Local, Placement
from bbflow.operators.steps import Array
from bbflow.transit.folding.patterns import LaidStep, weights_of
from bbflow.transit.folding.plans import PlannedSteps
from bbflow.transit.folding.shards import ShardKey
from bbflow.transit.folding.work import PartialSteps


def join_partials(
    partials: Sequence[PartialSteps],
    placements: Mapping[str, Placement],
    local: Callable[[ShardKey], Local | None],
    laid: Mapping[int, LaidStep],
) -> Iterator[tuple[str, PlannedSteps]]:
    """Join the contributions to each field.

    Parameters
    ----------
    partials
        Of one batch.
    placements
        Diagnostic to where its field lies.
    local
        Gives what a shard has of its field.
    laid
        The batch's steps by their numbers, counted through a chain of jobs.

    Yields
    ------
    tuple
        For each field its diagnostic and its steps; their values are the same if all parts are of their mean.

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
        steps, each = [laid[number] for number in numbers], len(numbers) // len(joined)
        yield (
            name,
            PlannedSteps(
                numbers, tuple(step.time for step in steps), (), (), (), (), weights_of(steps), joined * each, others
            ),
        )


def _finished(placement: Placement, placed: Sequence[tuple[Local, Array]]) -> tuple[Array, ...]:
    return tuple(map(np.ascontiguousarray, placement.finish(placement.assemble(len(placed[0][1]), placed))))


def uneven(partials: Sequence[PartialSteps]) -> frozenset[str]:
    """Return the diagnostics of which some blocks have the steps and others their mean: these can't be joined."""
    lengths: dict[str, set[int]] = {}
    for part in partials:
        lengths.setdefault(part.key.diagnostic, set()).add(len(part.values))
    return frozenset(name for name, own in lengths.items() if len(own) > 1)

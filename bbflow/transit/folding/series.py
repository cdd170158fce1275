"""Steps that depend on blocks of several ranks, such as a global mean: their contributions are joined step by step."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from bbflow.errors import BbflowError, StreamError
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.space.placement import Local, Placement
from bbflow.operators.steps import Array, DType
from bbflow.transit.folding.patterns import LaidStep, weights_of
from bbflow.transit.folding.plans import PlannedSteps, come_and_go
from bbflow.transit.folding.work import PartialSteps
from bbflow.transit.states.shards import ShardKey

SAME = 1e-12
"""By so much sums of the same weights may differ."""


def join_partials(
    partials: Sequence[PartialSteps],
    placements: Mapping[str, Placement],
    local: Callable[[ShardKey], Local | None],
    laid: Mapping[int, LaidStep],
    diagnostics: Mapping[str, Diagnostic],
    dtypes: Mapping[str, DType],
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
    diagnostics
        What is computed, by its key.
    dtypes
        Diagnostic to the type of its field's values: the one that they have where a block has all of them, since
        a state continues when blocks are divided in another way.

    Yields
    ------
    tuple
        For each field its diagnostic and its steps; their values are the same if all parts are of their mean.

    Raises
    ------
    BbflowError
        If the ranks don't have the same steps.
    StreamError
        If ranks have folded some blocks, and values come and go in any of them.
    """
    by_name: dict[str, list[PartialSteps]] = {}
    # Sorted: sums are the same bit for bit, whichever task ends first.
    for part in sorted(partials, key=lambda part: (part.key.diagnostic, part.key.start, part.key.node)):
        by_name.setdefault(part.key.diagnostic, []).append(part)
    for name, parts in by_name.items():
        if any(part.is_folded for part in parts):  # all that there is of their blocks is the mean of the steps
            parts = [replace(part, values=_mean_partial(diagnostics[name], part.values)) for part in parts]
        numbers = parts[0].numbers
        if any(part.numbers != numbers for part in parts):
            raise BbflowError(
                f"{name}: some ranks have no block of it in some of the steps {numbers[0]} to {numbers[-1]}"
            )
        known = [(own, part) for part in parts if (own := local(part.key)) is not None]
        joined = _finished(placements[name], [(own, part.values) for own, part in known], dtypes[name])
        others = {
            text: _finished(placements[name], [(own, part.others[text]) for own, part in known], np.dtype("f8"))
            for text in parts[0].others
        }
        steps, each = [laid[number] for number in numbers], len(numbers) // len(joined)
        yield (
            name,
            PlannedSteps(
                numbers, tuple(step.time for step in steps), (), (), (), (), weights_of(steps), joined * each, others
            ),
        )


def _finished(placement: Placement, placed: Sequence[tuple[Local, Array]], dtype: DType) -> tuple[Array, ...]:
    values = placement.finish(placement.assemble(len(placed[0][1]), placed))
    return tuple(np.ascontiguousarray(own, dtype) for own in values)


def uneven(partials: Sequence[PartialSteps]) -> frozenset[str]:
    """Return the diagnostics that some blocks have the steps of and others their mean: these can't be joined.

    Those whose blocks ranks have folded can: all are brought to their mean.
    """
    folded = {part.key.diagnostic for part in partials if part.is_folded}
    lengths: dict[str, set[int]] = {}
    for part in (part for part in partials if part.key.diagnostic not in folded):
        lengths.setdefault(part.key.diagnostic, set()).add(len(part.values))
    return frozenset(name for name, own in lengths.items() if len(own) > 1)


def _mean_partial(diagnostic: Diagnostic, values: Array) -> Array:
    """Return what a block contributes to the mean of some steps, of what it does to each.

    Parameters
    ----------
    diagnostic
        What is computed, which is of means.
    values
        Of shape (steps, 2, points): sums, and the weights of what is valid.

    Raises
    ------
    StreamError
        If it doesn't have the same weights in all steps.
    """
    if not np.allclose(values[:, 1], values[0, 1], rtol=SAME, atol=0.0):
        raise StreamError(come_and_go(diagnostic))
    with np.errstate(invalid="ignore"):  # infinite values of either sign
        return np.stack([values[:, 0].mean(axis=0), values[0, 1]])[np.newaxis]

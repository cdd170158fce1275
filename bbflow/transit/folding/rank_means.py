"""Means that ranks have folded, of what is remapped or averaged in space: they stand for each of their steps."""

from collections.abc import Sequence
from math import prod

import numpy as np

from bbflow.errors import BbflowError, StreamError
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.steps import Array, DType, Steps
from bbflow.stream.cf import Encoding
from bbflow.stream.folded import state_places
from bbflow.stream.layouts import BlockForm
from bbflow.transit.folding.inputs import Inputs, MappedSteps, read_variables
from bbflow.transit.folding.kernel_table import MEAN, come_and_go, lacking
from bbflow.transit.folding.plans import PlannedShard
from bbflow.transit.folding.slots import Keys

Part = tuple[MappedSteps, PlannedShard]
"""Steps that lie alike, and how a shard lies there."""


def shard_inputs(parts: Sequence[Part], keys: Keys) -> Inputs | None:
    """Return what a shard folds: its blocks, or means where ranks have folded these.

    Parameters
    ----------
    parts
        The steps, in their order; none give None.
    keys
        The spans that they are in.

    Raises
    ------
    StreamError
        If values come and go among the steps of a mean, or the mean isn't enough for the diagnostic.
    """
    if not has_means(parts):
        return Inputs.joined([own.inputs(shard, keys) for own, shard in parts])
    found, waiting = list[Inputs](), list[MappedSteps]()
    for own, shard in parts:
        form = _folded_form(own, shard)
        if form is None:
            found.append(_widened(own.inputs(shard, keys)))
        elif form.waits:
            waiting.append(own)
        else:
            found += _means(own, shard, form, waiting)
            waiting = []
    if waiting:
        raise BbflowError("a batch ends among steps that its ranks have folded together")
    return Inputs.joined(found)


def has_means(parts: Sequence[Part]) -> bool:
    """Whether ranks have folded a shard's block in some of the steps."""
    return any(own.plan.layout.has_folded and _folded_form(own, shard) is not None for own, shard in parts)


def _folded_form(own: MappedSteps, shard: PlannedShard) -> BlockForm | None:
    forms = (own.plan.layout.forms[at] for node, at in shard.places.values() if node == own.plan.node)
    folded = next((form for form in forms if form.folded), None)
    diagnostic = own.plan.diagnostics[shard.key.diagnostic]
    if folded is not None and not diagnostic.is_of_means:
        raise StreamError(lacking(diagnostic, folded, ["the steps themselves"]))
    return folded


def _means(own: MappedSteps, shard: PlannedShard, form: BlockForm, waiting: Sequence[MappedSteps]) -> list[Inputs]:
    """Return the steps of states, each with the mean of its own; the first one has those that wait, too."""
    diagnostic, found = own.plan.diagnostics[shard.key.diagnostic], []
    [(_, at)] = shard.places.values()
    told = [steps.steps for steps in waiting]
    before = [pair for steps in told for pair in zip(steps.numbers, steps.times, strict=True)]
    for offset, number, time in zip(own.offsets(at), own.steps.numbers, own.steps.times, strict=True):
        numbers, times = zip(*before, (number, time), strict=True)
        mean = _mean(diagnostic, form, own, offset, len(numbers))
        values = {form.name: (mean,) * len(numbers)}
        found.append(Inputs(numbers, times, {form.name: Encoding()}, values, bytes=form.bytes))
        before = []
    return found


def _mean(diagnostic: Diagnostic, form: BlockForm, own: MappedSteps, offset: int, steps: int) -> Array:
    """Return the mean of so many steps in a state; float64 of shape (points,), NaN where all are missing.

    Raises
    ------
    StreamError
        If it lacks something, or only some of a point's values are missing: then other points weigh more in some steps.
    """
    points, (places, _) = prod(form.count), state_places(form.folded, form.dtype.itemsize, prod(form.count))
    if absent := [name for name in MEAN if name not in places]:
        raise StreamError(lacking(diagnostic, form, absent))
    types: tuple[DType, ...] = (np.dtype("i4"), form.dtype, np.dtype("f8"))
    begins = [offset + places[name] for name in MEAN]
    count, shift, first = (
        np.ndarray((points,), dtype, own.pool, begin) for dtype, begin in zip(types, begins, strict=True)
    )
    found: Array = np.full(points, np.nan)
    some = count > 0
    with np.errstate(invalid="ignore", over="ignore"):
        np.divide(first, count, out=found, where=some)
        found += shift
    if (some & ((count != steps) | np.isnan(found))).any():
        raise StreamError(come_and_go(diagnostic))
    return found


def _widened(inputs: Inputs) -> Inputs:
    """Return the same in float64, with NaN for what is missing, as means are."""
    found = {}
    for name, steps in read_variables(inputs).items():
        assert isinstance(steps, Steps)  # ranks fold what needs no decoding
        wide = [np.array(values, "f8") for values in steps.values]
        for values, own in zip(wide, steps.values, strict=True):
            if steps.fill is not None:
                values[own == steps.fill] = np.nan
        found[name] = tuple(wide)
    return Inputs(inputs.numbers, inputs.times, dict.fromkeys(found, Encoding()), found, bytes=inputs.bytes)

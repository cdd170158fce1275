"""The fold: a batch of steps into a partial state, and through the filters, in one pass."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bbflow.errors import BbflowError
from bbflow.operators import kernel
from bbflow.operators.accumulators import Array
from bbflow.operators.blocks import as_blocks, as_fill
from bbflow.operators.filter import Extremes, Filter, choose_intervals, gather_rows, row_dtype
from bbflow.operators.state import StateLayout


def fold_steps(
    layout: StateLayout,
    source: Any,
    target: Any,
    blocks: Sequence[Array],
    fill_value: float | None = None,
    *,
    filters: Sequence[Filter] = (),
    steps: Sequence[int] | None = None,
    extremes: Sequence[Extremes] | None = None,
) -> dict[str, Array]:
    """Set target = source (+) blocks.

    Parameters
    ----------
    layout
        Of both states.
    source
        Buffer with the state so far, which is only read; None stands for the identity.
    target
        Buffer that gets the new state; may be `source`.
    blocks
        One for each step, contiguous, of shape (points,) and the layout's type; only read.
    fill_value
        Value that stands for 'missing', besides NaN; compared in the variable's type.
    filters
        What is kept as it is, each under a name of its own.
    steps
        Numbers of the steps; 0, 1, … if None.
    extremes
        For each step its smallest and largest value, or None; blocks that no filter can keep anything of are
        not searched.

    Returns
    -------
    dict
        Filter name to what passed: see `Filter.rows`.

    Raises
    ------
    BbflowError
        If a block or buffer doesn't fit the layout.
    """
    numbers = range(len(blocks)) if steps is None else steps
    known: Sequence[Extremes] = [None] * len(blocks) if extremes is None else extremes
    if len(numbers) != len(blocks) or len(known) != len(blocks):
        raise BbflowError(
            f"{len(blocks)} blocks, {len(numbers)} step numbers and {len(known)} extremes were given: each "
            "block needs one of both"
        )
    targets = layout.views(target)
    if not all(view.flags.writeable for view in targets.values()):
        raise BbflowError("the target buffer of a fold is read-only: map it for writing")
    if not blocks:
        _copy(layout, source, target)
        return {item.name: np.empty(0, row_dtype(layout.dtype)) for item in filters}
    sources = None if source is None else layout.views(source)
    checked = as_blocks(blocks, layout.dtype, layout.points)
    intervals = choose_intervals(filters, layout.dtype, known)
    passed = kernel.run(
        layout.dtype,
        layout.points,
        sources,
        targets,
        checked,
        as_fill(fill_value, layout.dtype),
        list(intervals.values()),
    )
    return gather_rows(filters, intervals, passed, checked, numbers)


def _copy(layout: StateLayout, source: Any, target: Any) -> None:
    if source is None:
        layout.clear(target)
        return
    values = layout.views(source)
    for name, view in layout.views(target).items():
        view[...] = values[name]

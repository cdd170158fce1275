"""The fold: a batch of steps into a partial state, and through the filters, in one pass."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bbflow.errors import BbflowError
from bbflow.operators import kernel
from bbflow.operators.blocks import as_blocks, as_fill
from bbflow.operators.family import Array, Steps, Views
from bbflow.operators.filter import Extremes, Filter, choose_intervals, gather_rows, row_dtype
from bbflow.operators.moments import Moments
from bbflow.operators.state import StateLayout, part_of, parts_of

TILE_BYTES = 1 << 20
"""About so much of a batch goes through all families before the next tile is touched: it stays in the cache."""


def fold_steps(
    layout: StateLayout,
    source: Any,
    target: Any,
    blocks: Sequence[Array],
    fill_value: float | None = None,
    *,
    filters: Sequence[Filter] = (),
    steps: Sequence[int] | None = None,
    times: Sequence[float] | None = None,
    extremes: Sequence[Extremes] | None = None,
    others: Mapping[str, Steps] | None = None,
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
        Value that stands for 'missing', besides NaN; compared in the input's type.
    filters
        What is kept as it is, each under a name of its own.
    steps
        Numbers of the steps; 0, 1, … if None.
    times
        Their times in the stream's units, ascending; the steps' numbers if None.
    extremes
        For each step its smallest and largest value, or None; blocks that no filter can keep anything of are
        not searched.
    others
        Further inputs by their expression, each with as many steps and points.

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
    if not all(view.flags.writeable for views in targets.values() for view in views.values()):
        raise BbflowError("the target buffer of a fold is read-only: map it for writing")
    if not blocks:
        _copy(layout, source, target)
        return {item.name: np.empty(0, row_dtype(layout.dtype)) for item in filters}
    batch = Steps(
        as_blocks(blocks, layout.dtype, layout.points),
        as_fill(fill_value, layout.dtype),
        np.asarray(numbers if times is None else times, "f8"),
        np.asarray(numbers, "i8"),
        others or {},
    )
    intervals = choose_intervals(filters, layout.dtype, known)
    sources = None if source is None else layout.views(source)
    passed = _fold_tiles(layout, sources, targets, batch, list(intervals.values()))
    return gather_rows(filters, intervals, passed, batch.values, numbers)


def _fold_tiles(
    layout: StateLayout,
    sources: Mapping[str, Views] | None,
    targets: Mapping[str, Views],
    batch: Steps,
    intervals: Sequence[kernel.Interval],
) -> list[Array]:
    """Fold tile by tile; the kernel, which filters too, cuts its own tiles and takes all points if it is alone."""
    alone = all(isinstance(family, Moments) for family in layout.families)
    size = layout.points if alone else tile_points(layout, len(batch.values))
    found: list[list[Array]] = [[] for _ in intervals]
    for part in parts_of(max(layout.points, 1), max(size, 1)):
        tile = batch.part(part)
        moments: tuple[Views, Views | None] = ({}, None)
        for family in layout.families:
            into = part_of(targets[family.name], part)
            out_of = None if sources is None else part_of(sources[family.name], part)
            if isinstance(family, Moments):
                moments = into, out_of
            else:
                family.fold_from(into, out_of, tile)
        for rows, passed in zip(found, kernel.run(*moments, tile, intervals), strict=True):
            passed["index"] += part.start
            rows.append(passed)
    return [_in_order(rows) for rows in found]


def tile_points(layout: StateLayout, steps: int) -> int:
    """Give a number of points whose values in all steps, and whose state, fit into the cache."""
    state_bytes = layout.nbytes // max(layout.points, 1)
    return max(TILE_BYTES // (steps * layout.dtype.itemsize + state_bytes), 256)


def _in_order(tiles: Sequence[Array]) -> Array:
    rows = np.concatenate(tiles)
    return rows[np.argsort(rows["step"], kind="stable")]


def _copy(layout: StateLayout, source: Any, target: Any) -> None:
    if source is None:
        layout.clear(target)
        return
    values = layout.views(source)
    for family, views in layout.views(target).items():
        for name, view in views.items():
            view[...] = values[family][name]

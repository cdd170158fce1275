"""The fold: a batch of steps into a partial state, and through the filters, in one pass."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from bbflow.errors import BbflowError
from bbflow.operators import kernel
from bbflow.operators.filter import Extremes, Filter, choose_intervals, gather_rows, in_order, row_dtype
from bbflow.operators.kernel_arrays import as_blocks, as_fill
from bbflow.operators.kernel_family import KernelFamily
from bbflow.operators.state import StateLayout, part_of, parts_of
from bbflow.operators.statistics.moments import Moments
from bbflow.operators.steps import Array, Steps, Views

TILE_BYTES = 1 << 20
"""About how much of a batch goes through all families before the next tile is touched: it stays in the cache."""


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
    weights: Sequence[float] = (),
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
    weights
        How much each step counts, for operators that are weighted.

    Returns
    -------
    dict
        Filter name to what passed: of shape (rows,) and `row_dtype`, ordered by step and then index.

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
    if not blocks:
        _check_target(layout.views(target))
        _copy(layout, source, target)
        return {item.name: np.empty(0, row_dtype(layout.dtype)) for item in filters}
    batch = Steps(
        as_blocks(blocks, layout.dtype, layout.points),
        as_fill(fill_value, layout.dtype),
        np.asarray(numbers if times is None else times, "f8"),
        np.asarray(numbers, "i8"),
        others or {},
        np.asarray(weights, "f8"),
    )
    return fold_tiles(layout, source, target, batch, known, filters)


class HasTiles(Protocol):
    """Steps of which any part of the points can be had."""

    def part(self, points: slice) -> Steps:
        """Return some of the points."""


def fold_tiles(
    layout: StateLayout,
    source: Any,
    target: Any,
    batch: HasTiles,
    extremes: Sequence[Extremes],
    filters: Sequence[Filter] = (),
) -> dict[str, Array]:
    """Set target = source (+) batch, tile by tile: each tile goes through everything before the next one is made.

    Parameters
    ----------
    layout, source, target, filters
        As for `fold_steps`.
    batch
        One step or more, of the layout's type and points.
    extremes
        For each step its smallest and largest value, or None.

    Returns
    -------
    dict
        Filter name to what passed.
    """
    intervals = choose_intervals(filters, layout.dtype, extremes)
    sources = None if source is None else layout.views(source)
    targets = layout.views(target)
    _check_target(targets)
    found: dict[str, list[Array]] = {item.name: [] for item in filters}
    # The kernel cuts tiles of its own, if it notes no rows: it takes all points of steps that are there if it is alone.
    own_tiles = all(family.own_tiles for family in layout.families) and not (filters and len(layout.families) > 1)
    alone = own_tiles and isinstance(batch, Steps)
    size = layout.points if alone or layout.gathers else tile_points(layout, len(extremes))
    for part in parts_of(layout.points, size):
        tile = batch.part(part)
        moments: tuple[Views, Views | None] = ({}, None)
        further = list[int]()
        for family in layout.families:
            into = part_of(targets[family.name], part)
            out_of = None if sources is None else part_of(sources[family.name], part)
            if isinstance(family, Moments) and not family.is_weighted:
                moments = into, out_of
            elif isinstance(family, KernelFamily):
                further += family.task(into, out_of)
            else:
                family.fold_from(into, out_of, tile)
        passed = kernel.fold_state(*moments, tile, list(intervals.values()), further)
        for name, places in zip(intervals, passed, strict=True):
            found[name].append(gather_rows(tile, places, part.start))
    return {name: in_order(rows, layout.dtype) for name, rows in found.items()}


def tile_points(layout: StateLayout, steps: int) -> int:
    """Return a number of points whose values in all steps fit into the cache, with the state that needs tiles."""
    tiled = StateLayout(tuple(item for item in layout.families if not item.own_tiles), layout.dtype, layout.points)
    state_bytes = tiled.nbytes // max(layout.points, 1)
    return max(TILE_BYTES // (steps * layout.dtype.itemsize + state_bytes), 256)


def _check_target(targets: Mapping[str, Views]) -> None:
    if not all(view.flags.writeable for views in targets.values() for view in views.values()):
        raise BbflowError("the target buffer of a fold is read-only: map it for writing")


def _copy(layout: StateLayout, source: Any, target: Any) -> None:
    if source is None:
        layout.clear(target)
        return
    values = layout.views(source)
    for family, views in layout.views(target).items():
        for name, view in views.items():
            view[...] = values[family][name]

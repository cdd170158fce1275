"""The fold task: a batch of steps into the partial states of some shards, where the blocks lie."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.config import VariableConfig
from bbflow.operators import Filter, Operator, StateLayout, fold_steps
from bbflow.operators.windows import Window
from bbflow.records import Block
from bbflow.store.pool import read_block
from bbflow.transit.shards import ShardState, WindowKey
from bbflow.transit.states import map_source, map_target, next_file


@dataclass(frozen=True, slots=True)
class FoldWork:
    """What one task does for one shard."""

    state: ShardState
    """The state that counts now."""
    config: VariableConfig
    """What is computed."""
    steps: tuple[tuple[int, Block], ...]
    """Step numbers and blocks, oldest first; all in one span of the finest window."""
    base_key: WindowKey
    """That span."""
    reset: frozenset[str]
    """Coarser windows whose span ended with the last one: they start anew."""
    fill_value: float | int | None
    """Value that stands for 'missing', besides NaN."""
    times: Mapping[int, float]
    """Step number to time, for the rows that pass filters."""
    pool: str
    """Path of the node's pool."""
    state_directory: str
    """Where the node keeps states."""
    rows_directory: str
    """Where rows that pass filters are put until they are published."""


@dataclass(frozen=True, slots=True)
class FoldReceipt:
    """What a fold task has done; it counts once the driver has committed it."""

    states: tuple[ShardState, ...]
    """The next states."""
    bytes: int
    """Bytes of the blocks."""
    started_s: float
    """When it began (seconds since the epoch)."""
    ended_s: float
    """When it ended."""


def fold_batch(works: Sequence[FoldWork]) -> FoldReceipt:
    """Fold a batch of steps into the states of some shards.

    It changes nothing that counts: a second run of the same task, on any worker, gives the same states.

    Parameters
    ----------
    works
        One for each shard.
    """
    started_s = time.time()
    states = tuple(_fold_shard(work) for work in works)
    size = sum(block.bytes for work in works for _, block in work.steps)
    return FoldReceipt(states, size, started_s, time.time())


def _fold_shard(work: FoldWork) -> ShardState:
    operators, filters = split(work.config.operators)
    base, *coarser = work.config.windows
    dtype, points = np.dtype(work.state.dtype), max(work.steps[0][1].points, 1)
    layout = StateLayout.of(operators, dtype=dtype, points=points)
    rolls = work.state.base_key is not None and work.state.base_key != work.base_key
    files = _roll(work, layout, coarser) if rolls else dict(work.state.files)
    current = files.get(base.name)
    target_path = next_file(work.state_directory, work.state.key.label, base.name, work.state.files.get(base.name))
    blocks = [_values(work.pool, block) for _, block in work.steps]
    rows = fold_steps(
        layout,
        map_source(current) if current else None,
        map_target(target_path, max(layout.nbytes, 1)),
        blocks,
        fill_value=work.fill_value,
        filters=filters,
        steps=[number for number, _ in work.steps],
        extremes=[_extremes(block) for _, block in work.steps],
    )
    files[base.name] = target_path
    return replace(
        work.state,
        last_step=work.steps[-1][0],
        base_key=work.base_key,
        files=files,
        rows=work.state.rows + _keep_rows(work, rows),
    )


def _roll(work: FoldWork, layout: StateLayout, coarser: Sequence[Window]) -> dict[str, str]:
    """Combine the finest window's closed span into the coarser ones, and let it start anew."""
    old = dict(work.state.files)
    base_name = work.config.windows[0].name
    files: dict[str, str] = {}
    for window in coarser:
        if window.name in work.reset:
            continue
        path = next_file(work.state_directory, work.state.key.label, window.name, old.get(window.name))
        target = map_target(path, max(layout.nbytes, 1))
        combine_files(layout, [old.get(window.name), old[base_name]], target)
        files[window.name] = path
    return files


def combine_files(layout: StateLayout, paths: Sequence[str | None], target: Any) -> None:
    """Merge the states of some files into a buffer; None stands for a state without any step."""
    layout.clear(target)
    for path in paths:
        if path is not None:
            layout.combine(target, map_source(path), target)


def split(
    operators: Sequence[Operator | Filter],
) -> tuple[tuple[Operator, ...], tuple[Filter, ...]]:
    """Part the statistics from the filters."""
    statistics = tuple(item for item in operators if not isinstance(item, Filter))
    filters = tuple(item for item in operators if isinstance(item, Filter))
    return statistics, filters


def _values(pool: str, block: Block) -> np.ndarray[Any, Any]:
    if block.bytes == 0:
        return np.array([block.value], block.dtype)
    return read_block(pool, block).reshape(-1)


def _extremes(block: Block) -> tuple[float, float] | None:
    return None if block.min is None or block.max is None else (block.min, block.max)


def _with_time(rows: np.ndarray[Any, Any], work: FoldWork) -> np.ndarray[Any, Any]:
    timed = np.empty(len(rows), [*rows.dtype.descr, ("time", "f8")])
    for name in rows.dtype.names or ():
        timed[name] = rows[name]
    timed["time"] = [work.times[step] for step in rows["step"].tolist()]
    return timed


def _keep_rows(work: FoldWork, rows: dict[str, np.ndarray[Any, Any]]) -> tuple[str, ...]:
    """Write the rows that passed to files whose names a repeated task gives again."""
    kept = []
    first, last = work.steps[0][0], work.steps[-1][0]
    for name, passed in rows.items():
        if len(passed):
            label = f"{work.state.key.node}.{work.state.key.label}"
            path = Path(work.rows_directory) / f"{name}.{label}.{first:010d}-{last:010d}.npy"
            temporary = path.with_suffix(f".{os.getpid()}.tmp")
            with temporary.open("wb") as file:
                np.save(file, _with_time(passed, work))
            temporary.rename(path)
            kept.append(str(path))
    return tuple(kept)

"""The fold of the C++ kernel through ctypes, which lets other Python threads run meanwhile."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from bbflow.errors import BbflowError
from bbflow.operators.library import (
    FAMILY_TASK,
    FAMILY_WORDS,
    FIELDS,
    NO_FAMILIES,
    addresses,
    load,
    type_address,
)
from bbflow.operators.steps import Array, Steps, Views

ROW = np.dtype([("step", "i8"), ("index", "i8")])
"""``BbflowRow`` in Rows.h."""
TASK = np.dtype(
    [
        *((name, "u8", len(FIELDS)) for name in ("source", "target")),
        *((name, "u8") for name in ("blocks", "steps", "points", "fill", "filters", "filter_count")),
    ]
)
"""``BbflowTask`` in Fold.h: each pointer is an address, 0 for none."""
FILTER = np.dtype([(name, "u8") for name in ("lowest", "highest", "skip", "rows")])
"""``BbflowFilter`` in Fold.h."""
NO_FILTERS: Array = np.zeros(0, FILTER)


@dataclass(frozen=True, slots=True)
class Interval:
    """What one filter keeps of a batch."""

    lowest: Array
    """The smallest value that passes; shape (), of the variable's type."""
    highest: Array
    """The largest one."""
    skip: Array
    """For each step, 1 if nothing in it can pass; bytes of shape (steps,)."""


@cache
def _library() -> ctypes.CDLL:
    library = load(BbflowTask=TASK, BbflowFilter=FILTER, BbflowRow=ROW, BbflowFamilyTask=FAMILY_TASK)
    table, count = ctypes.c_void_p, ctypes.c_uint64
    library.bbflow_fold.argtypes = [table, table, count, table, count, ctypes.c_uint32]
    library.bbflow_fold.restype = ctypes.c_int
    library.bbflow_rows_new.argtypes = []
    library.bbflow_rows_new.restype = ctypes.c_void_p
    library.bbflow_rows_count.argtypes = [ctypes.c_void_p]
    library.bbflow_rows_count.restype = ctypes.c_uint64
    library.bbflow_rows_data.argtypes = [ctypes.c_void_p]
    library.bbflow_rows_data.restype = ctypes.c_void_p
    library.bbflow_rows_free.argtypes = [ctypes.c_void_p]
    library.bbflow_rows_free.restype = None
    return library


def fold(
    types: Array, tasks: Array, families: Array = NO_FAMILIES, threads: int = 1, filters: Array = NO_FILTERS
) -> list[Array]:
    """Fold a table of blocks, on some threads.

    Parameters
    ----------
    types
        Of each task, by the codes of `TYPES`; of shape (tasks,).
    tasks
        Of `TASK` and that shape. What they point to must stay, and none may write what another reads or writes.
    families
        What states have besides moments and extremes: of `FAMILY_TASK`, in the order of their tasks.
    threads
        How many.
    filters
        Of `FILTER`: those that some tasks point to, without the rows that they get.

    Returns
    -------
    list of numpy.ndarray
        For each filter what passed: its position in the batch and its index in the block (`ROW`), ordered by step
        and then index.

    Raises
    ------
    BbflowError
        If there is no memory for it.
    """
    types, tasks = np.ascontiguousarray(types, "i4"), np.ascontiguousarray(tasks, TASK)
    families = np.ascontiguousarray(families, FAMILY_TASK)
    tables = types.ctypes.data, tasks.ctypes.data, len(tasks), families.ctypes.data, len(families)
    return _fold(tables, threads, filters)


def _fold(tables: Sequence[int], threads: int, filters: Array) -> list[Array]:
    """Fold a table that lies at some addresses."""
    library = _library()
    handles = [library.bbflow_rows_new() for _ in filters]
    try:
        if handles:
            filters["rows"] = [handle or 0 for handle in handles]
        if not all(handles) or library.bbflow_fold(*tables, max(threads, 1)) != 0:
            raise BbflowError(
                f"no memory to fold blocks into {tables[2]} states: let the batches be shorter, filters narrower, or "
                "histograms have fewer bins"
            )
        return [_take(library, handle) for handle in handles]
    finally:
        for handle in handles:
            library.bbflow_rows_free(handle)


def fold_state(
    target: Views,
    source: Views | None,
    steps: Steps,
    intervals: Sequence[Interval] = (),
    families: Sequence[int] = (),
) -> list[Array]:
    """Fold and filter a batch of steps into one state in one pass.

    Parameters
    ----------
    target, source
        Moments and extremes by name; no source stands for the identity, no names for none.
    steps
        The batch: one block for each step, contiguous and aligned.
    intervals
        One for each filter.
    families
        What the state has besides: the words of `FAMILY_TASK` of each, one after the other.

    Returns
    -------
    list of numpy.ndarray
        As `fold`.
    """
    first = steps.values[0]
    # These have names since the kernel gets addresses only: what was written into the call would be freed before it.
    blocks = np.array([block.ctypes.data for block in steps.values], "u8")
    limits = [(item.lowest.ctypes.data, item.highest.ctypes.data, item.skip.ctypes.data, 0) for item in intervals]
    filters = np.array(limits, FILTER) if limits else NO_FILTERS
    words = np.array([
        *addresses(source or {}), *addresses(target), blocks.ctypes.data, len(blocks), first.size,
        0 if steps.fill is None else steps.fill.ctypes.data, filters.ctypes.data if limits else 0, len(filters),
        *families,
    ], "u8")  # fmt: skip
    at = words.ctypes.data
    tables = type_address(first.dtype), at, 1, at + TASK.itemsize, len(families) // FAMILY_WORDS
    return _fold(tables, 1, filters)


def _take(library: ctypes.CDLL, handle: int) -> Array:
    """Copy rows out of the library; they come tile by tile and are put into the order of steps."""
    size = library.bbflow_rows_count(handle) * ROW.itemsize
    # A copy: the caller frees what it is copied of.
    rows = np.frombuffer(ctypes.string_at(library.bbflow_rows_data(handle), size), ROW)
    return rows[np.argsort(rows["step"], kind="stable")]

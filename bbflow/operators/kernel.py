"""The C++ fold kernel through ctypes, which lets other Python threads run meanwhile."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from bbflow.errors import BbflowError
from bbflow.operators.library import FAMILY, FAMILY_TASK, FIELDS, TYPES, Pointers, load, pointers
from bbflow.operators.steps import Array, Steps, Views

ROW = np.dtype([("step", "i8"), ("index", "i8")])
"""``BbflowRow`` in Rows.h."""


class _FilterTask(ctypes.Structure):
    """``BbflowFilter`` in Fold.h."""

    _fields_ = [
        ("lowest", ctypes.c_void_p),
        ("highest", ctypes.c_void_p),
        ("skip", ctypes.c_void_p),
        ("rows", ctypes.c_void_p),
    ]


class _Task(ctypes.Structure):
    """``BbflowTask`` in Fold.h."""

    _fields_ = [
        ("source", Pointers),
        ("target", Pointers),
        ("blocks", ctypes.c_void_p),
        ("steps", ctypes.c_uint64),
        ("points", ctypes.c_uint64),
        ("fill", ctypes.c_void_p),
        ("filters", ctypes.c_void_p),
        ("filter_count", ctypes.c_uint64),
    ]


TASK = np.dtype(
    [
        *((name, "u8", len(FIELDS)) for name in ("source", "target")),
        *((name, "u8") for name in ("blocks", "steps", "points", "fill", "filters", "filter_count")),
    ]
)
"""The same as `_Task`, for tables of tasks: each pointer is an address, 0 for none."""
FILTER = np.dtype([(item[0], "u8") for item in _FilterTask._fields_])
"""The same as `_FilterTask`."""
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
    library = load(BbflowTask=_Task, BbflowFilter=_FilterTask, BbflowRow=ROW)
    load(BbflowTask=TASK, BbflowFilter=FILTER, BbflowFamily=FAMILY, BbflowFamilyTask=FAMILY_TASK)
    library.bbflow_fold.argtypes = [ctypes.c_int, ctypes.POINTER(_Task)]
    library.bbflow_fold.restype = ctypes.c_int
    table, count = ctypes.c_void_p, ctypes.c_uint64
    library.bbflow_fold_many.argtypes = [table, table, count, table, count, ctypes.c_uint32]
    library.bbflow_fold_many.restype = ctypes.c_int
    library.bbflow_rows_new.argtypes = []
    library.bbflow_rows_new.restype = ctypes.c_void_p
    library.bbflow_rows_count.argtypes = [ctypes.c_void_p]
    library.bbflow_rows_count.restype = ctypes.c_uint64
    library.bbflow_rows_data.argtypes = [ctypes.c_void_p]
    library.bbflow_rows_data.restype = ctypes.c_void_p
    library.bbflow_rows_free.argtypes = [ctypes.c_void_p]
    library.bbflow_rows_free.restype = None
    return library


def run(target: Views, source: Views | None, steps: Steps, intervals: Sequence[Interval]) -> list[Array]:
    """Fold and filter a batch of steps in one pass.

    Parameters
    ----------
    target, source
        Accumulators by name; no source stands for the identity, no names for a filter alone.
    steps
        The batch: one block for each step, contiguous and aligned.
    intervals
        One for each filter.

    Returns
    -------
    list of numpy.ndarray
        For each interval what passed: its position in the batch and its index in the block (`ROW`), ordered
        by step and then index.

    Raises
    ------
    BbflowError
        If there is no memory for the rows.
    """
    blocks, fill = steps.values, steps.fill
    dtype, points = blocks[0].dtype, blocks[0].size
    library = _library()
    addresses = np.array([block.ctypes.data for block in blocks], np.uintp)
    handles = [library.bbflow_rows_new() for _ in intervals]
    try:
        filters = (_FilterTask * len(intervals))(
            *(
                _FilterTask(item.lowest.ctypes.data, item.highest.ctypes.data, item.skip.ctypes.data, handle)
                for item, handle in zip(intervals, handles, strict=True)
            )
        )
        task = _Task(
            source=pointers(source or {}),
            target=pointers(target),
            blocks=addresses.ctypes.data,
            steps=len(blocks),
            points=points,
            fill=None if fill is None else fill.ctypes.data,
            filters=ctypes.addressof(filters),
            filter_count=len(intervals),
        )
        if not all(handles) or library.bbflow_fold(TYPES[dtype], ctypes.byref(task)) != 0:
            raise BbflowError(
                f"no memory for the rows of {len(blocks)} steps of {points} points that pass a filter: "
                "make its limits narrower, or the batches shorter"
            )
        return [_take(library, handle) for handle in handles]
    finally:
        for handle in handles:
            library.bbflow_rows_free(handle)


def fold_many(types: Array, tasks: Array, families: Array, threads: int, filters: Array = NO_FILTERS) -> list[Array]:
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
        What passed each filter, as `run` returns it.

    Raises
    ------
    BbflowError
        If there is no memory for it.
    """
    types, tasks = np.ascontiguousarray(types, "i4"), np.ascontiguousarray(tasks, TASK)
    library, families = _library(), np.ascontiguousarray(families, FAMILY_TASK)
    handles = [library.bbflow_rows_new() for _ in filters]
    try:
        filters["rows"] = [handle or 0 for handle in handles]
        tables = types.ctypes.data, tasks.ctypes.data, len(tasks), families.ctypes.data, len(families)
        if not all(handles) or library.bbflow_fold_many(*tables, max(threads, 1)) != 0:
            raise BbflowError(f"no memory to fold {len(tasks)} blocks at once: let the batches be shorter")
        return [_take(library, handle) for handle in handles]
    finally:
        for handle in handles:
            library.bbflow_rows_free(handle)


def _take(library: ctypes.CDLL, handle: int) -> Array:
    """Copy rows out of the library; they come tile by tile and are put into the order of steps."""
    size = library.bbflow_rows_count(handle) * ROW.itemsize
    rows = np.frombuffer(ctypes.string_at(library.bbflow_rows_data(handle), size), ROW)
    return rows[np.argsort(rows["step"], kind="stable")]

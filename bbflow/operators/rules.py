"""What the kernel does with states besides folding: merging two of them, and making results of one."""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np

from bbflow.errors import BbflowError
from bbflow.operators.library import FIELDS, FORMULAS, RULES, TYPES, Pointers, load, pointers

Array = np.ndarray[Any, Any]
NEEDED = {
    "mean": ("count", "shift", "first"),
    "var": ("count", "first", "second"),
    "std": ("count", "first", "second"),
    "sum": ("count", "shift", "first"),
    "min": ("count", "min"),
    "max": ("count", "max"),
    "range": ("count", "min", "max"),
}
"""Formula to the fields that it is of."""
MERGE_TASK = np.dtype([*((name, "u8", len(FIELDS)) for name in ("left", "right", "target")), ("points", "u8")])
"""``BbflowMergeTask`` in Merge.h: each pointer is an address, 0 for none."""


class _Numbers(ctypes.Structure):
    """``BbflowNumbers`` in Merge.h."""

    _fields_ = [("first", ctypes.c_void_p), ("stride", ctypes.c_uint64)]


@cache
def _library() -> ctypes.CDLL:
    library = load(BbflowMergeTask=MERGE_TASK, BbflowNumbers=_Numbers)
    numbers, address, size = ctypes.POINTER(_Numbers), ctypes.c_void_p, ctypes.c_uint64
    library.bbflow_merge.argtypes = [ctypes.c_int, ctypes.c_int, numbers, numbers, numbers, size, size]
    library.bbflow_merge_moments.argtypes = [ctypes.c_int, Pointers, Pointers, Pointers, size]
    library.bbflow_merge_many.argtypes = [address, address, size, ctypes.c_uint32]
    library.bbflow_finish.argtypes = [ctypes.c_int, ctypes.c_int, Pointers, ctypes.c_double, address, size]
    return library


def identity(rule: str | None, dtype: np.dtype[Any]) -> float | int:
    """Return the number that a rule leaves any other as it is with; 0 where there is no rule."""
    if rule not in ("min", "max"):
        return 0
    if dtype.kind == "f":
        return np.inf if rule == "min" else -np.inf
    limits = np.iinfo(dtype)
    return int(limits.max if rule == "min" else limits.min)


def merge(rule: str, target: Array, left: Array, right: Array) -> None:
    """Set target = left (+) right, number by number; the target may be either side.

    Parameters
    ----------
    rule
        Of `RULES`.
    target, left, right
        Of one type and shape (inner, points), points side by side.
    """
    rows = prod(target.shape[:-1])
    sides = (_Numbers(side.ctypes.data, side.strides[-2] if side.ndim > 1 else 0) for side in (left, right, target))
    _library().bbflow_merge(TYPES[target.dtype], RULES.index(rule), *sides, rows, target.shape[-1])


def merge_state(target: Mapping[str, Array], left: Mapping[str, Array], right: Mapping[str, Array]) -> None:
    """Set target = left (+) right of moments and extremes: fields of one dimension, those of `FIELDS` that are there.

    The target may be either side.
    """
    into, other = pointers(target), pointers(right)
    sides = into if left is target else pointers(left), other, into
    dtype = next((target[name].dtype for name in ("shift", "min", "max") if name in target), np.dtype("f8"))
    points = next(iter(target.values())).size
    if "shift" in target:  # first: it needs the left side's counts
        _library().bbflow_merge_moments(TYPES[dtype], *sides, points)
    for rule, name, own in (("add", "count", np.dtype("i4")), ("min", "min", dtype), ("max", "max", dtype)):
        if name in target:
            numbers = (_Numbers(side[FIELDS.index(name)], 0) for side in sides)
            _library().bbflow_merge(TYPES[own], RULES.index(rule), *numbers, 1, points)


def merge_many(types: Array, tasks: Array, threads: int) -> None:
    """Set target = left (+) right for a table of states of moments and extremes, on some threads.

    Parameters
    ----------
    types
        Of each state's values, by the codes of `TYPES`; of shape (tasks,).
    tasks
        Of `MERGE_TASK` and that shape; where there is no left side the right one is copied. What they point to must
        stay, and none may write what another reads; the target may be the left side.
    threads
        How many.

    Raises
    ------
    BbflowError
        If there is no memory for it.
    """
    types, tasks = np.ascontiguousarray(types, "i4"), np.ascontiguousarray(tasks, MERGE_TASK)
    if _library().bbflow_merge_many(types.ctypes.data, tasks.ctypes.data, len(tasks), max(threads, 1)) != 0:
        raise BbflowError(f"no memory to merge {len(tasks)} states at once: let the worker have more")


@dataclass(frozen=True, slots=True)
class Formula:
    """What a state of moments and extremes comes to: one of the kernel's formulas."""

    name: str
    """Of `FORMULAS`."""

    def __call__(self, views: Mapping[str, Array], *, ddof: int = 0, out: Array | None = None) -> Array:
        """Return the result, of shape (points,); NaN where there are no values.

        It is written to `out` if that is of the result's type and its values lie side by side.
        """
        state = {name: views[name] for name in NEEDED[self.name]}
        own = next((state[name].dtype for name in ("shift", "min", "max") if name in state), np.dtype("f8"))
        kept = self.name in ("min", "max") and own.kind == "f"
        dtype = own if kept else np.dtype("f8")
        fits = out is not None and out.dtype == dtype and out.flags.c_contiguous
        result = out if out is not None and fits else np.empty(state["count"].shape, dtype)
        code = FORMULAS.index(self.name)
        _library().bbflow_finish(code, TYPES[own], pointers(state), ddof, result.ctypes.data, result.size)
        return result

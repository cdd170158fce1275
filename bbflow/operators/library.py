"""The kernel's library, and what it does with states besides folding: merging two of them, and making results of one.

It is loaded once, and checked against what this package takes it to be.
"""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.errors import BbflowError, MissingToolError
from bbflow.operators.steps import Array, Views

LIBRARY = "libbbflow_fold.so"
TYPES = {np.dtype(name): code for code, name in enumerate(["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"])}
"""Its codes of types."""
FIELDS = ("count", "shift", "first", "second", "min", "max")
"""Moments and extremes in its order: ``BbflowAccumulator`` in Fold.h."""
Pointers = ctypes.c_void_p * len(FIELDS)
"""Where a state's fields lie, as the library takes it."""
RULES = ("add", "min", "max")
"""``BbflowRule`` in Merge.h."""
FORMULAS = ("mean", "var", "std", "sum", "min", "max", "range")
"""``BbflowFormula`` in Merge.h."""
FAMILIES = ("sketches", "edges", "grids")
"""``BbflowFamilyKind`` in Many.h."""
FAMILY = np.dtype([("kind", "u8"), ("offsets", "u8", 6), *((name, "u8") for name in ("size", "top", "bins"))])
"""``BbflowFamily`` in Many.h."""
FAMILY_TASK = np.dtype([(name, "u8") for name in ("task", "family", "left", "right", "target")])
"""``BbflowFamilyTask`` in Many.h: each pointer is an address, 0 for none."""

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
LATEST = ("fold_families", "remap_sum")
"""What came to it last."""


Mirror = type[ctypes.Structure] | np.dtype[Any]


@cache
def load(**mirrors: Mirror) -> ctypes.CDLL:
    """Load the library that was built with the package, as `load_from` does."""
    return load_from(Path(__file__).with_name(LIBRARY), **mirrors)


def load_from(path: Path, **mirrors: Mirror) -> ctypes.CDLL:
    """Load a library of the kernel.

    Parameters
    ----------
    path
        Its file.
    **mirrors
        By the name that a struct has in the library, how it is laid out here.

    Raises
    ------
    MissingToolError
        If it isn't there, can't be loaded, or was built for another CPU or from other sources than these.
    """
    again = "install bbflow again with pip (from a source tree: 'pip install -e .'), which builds it"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        reason = str(error) if path.exists() else "it was not built"
        raise MissingToolError(f"can't load the fold kernel {path}: {reason}; {again}") from None
    if missing := _said(library, "bbflow_missing_cpu"):
        all_cpus = "build it for all CPUs: BBFLOW_CPU=all pip install -e ."
        raise MissingToolError(f"the fold kernel {path} was built on a host whose CPU has {missing}; {all_cpus}")
    expected = "; ".join(map(" ".join, (FIELDS, RULES, FORMULAS, FAMILIES, LATEST)))
    if (found := _said(library, "bbflow_names")) != expected:
        raise MissingToolError(f"the fold kernel {path} has {found!r}, not {expected!r}: {again}")
    structs = dict(struct.split(" ", 1) for struct in _said(library, "bbflow_structs").split("; ") if struct)
    for name, mirror in mirrors.items():
        if (found := structs.get(name, "")) != (expected := layout_of(mirror)):
            raise MissingToolError(f"the fold kernel {path} lays {name} out as {found!r}, not {expected!r}: {again}")
    return library


def layout_of(mirror: Mirror) -> str:
    """Return a struct's size and its fields' offsets as ``bbflow_structs`` tells them: ``16 Step@0 Index@8``."""
    if isinstance(mirror, np.dtype):
        size, offsets = mirror.itemsize, {name: field[1] for name, field in (mirror.fields or {}).items()}
    else:
        size, offsets = ctypes.sizeof(mirror), {item[0]: getattr(mirror, item[0]).offset for item in mirror._fields_}
    fields = (f"{name.title().replace('_', '')}@{offset}" for name, offset in offsets.items())
    return " ".join((str(size), *fields))


def _said(library: ctypes.CDLL, function: str) -> str:
    """Ask for a text about itself; a library from before it could tell has none."""
    try:
        ask = getattr(library, function)
    except AttributeError:
        return ""
    ask.restype = ctypes.c_char_p
    return bytes(ask()).decode()


def pointers(views: Views) -> "ctypes.Array[ctypes.c_void_p]":
    """Return where the fields of a state lie that are among some views."""
    return Pointers(*(views[name].ctypes.data if name in views else None for name in FIELDS))


class _Numbers(ctypes.Structure):
    """``BbflowNumbers`` in Merge.h."""

    _fields_ = [("first", ctypes.c_void_p), ("stride", ctypes.c_uint64)]


@cache
def _library() -> ctypes.CDLL:
    library = load(BbflowMergeTask=MERGE_TASK, BbflowNumbers=_Numbers)
    numbers, address, size = ctypes.POINTER(_Numbers), ctypes.c_void_p, ctypes.c_uint64
    library.bbflow_merge.argtypes = [ctypes.c_int, ctypes.c_int, numbers, numbers, numbers, size, size]
    library.bbflow_merge_moments.argtypes = [ctypes.c_int, Pointers, Pointers, Pointers, size]
    library.bbflow_merge_many.argtypes = [address, address, size, address, size, ctypes.c_uint32]
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


def merge_many(types: Array, tasks: Array, families: Array, threads: int) -> None:
    """Set target = left (+) right for a table of states, on some threads.

    Parameters
    ----------
    types
        Of each state's values, by the codes of `TYPES`; of shape (tasks,).
    tasks
        Of `MERGE_TASK` and that shape; where there is no left side the right one is copied. What they point to must
        stay, and none may write what another reads; the target may be the left side.
    families
        What states have besides moments and extremes: of `FAMILY_TASK`, in the order of their tasks; the target is
        neither side.
    threads
        How many.

    Raises
    ------
    BbflowError
        If there is no memory for it.
    """
    types, tasks = np.ascontiguousarray(types, "i4"), np.ascontiguousarray(tasks, MERGE_TASK)
    families = np.ascontiguousarray(families, FAMILY_TASK)
    tables = types.ctypes.data, tasks.ctypes.data, len(tasks), families.ctypes.data, len(families)
    if _library().bbflow_merge_many(*tables, max(threads, 1)) != 0:
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

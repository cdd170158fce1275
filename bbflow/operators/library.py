"""The kernel's library, and what it does with states besides folding: merging two of them, and making results of one.

It is loaded once, and checked against what this package takes it to be.
"""

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
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
FORMULAS = ("mean", "var", "std", "sum", "min", "max", "range")
"""``BbflowFormula`` in Merge.h."""
FAMILIES = ("sketches", "edges", "grids")
"""``BbflowFamilyKind`` in Many.h."""
MOST_FIELDS = 6
"""Of a family: ``BbflowFamilyFields`` in Many.h."""
PLACES = np.dtype([("fields", "u8", MOST_FIELDS), ("stride", "u8")])
"""``BbflowPlaces`` in Many.h: each field is an address, 0 for none; the stride is from row to row, in values."""
FAMILY_TASK = np.dtype(
    [
        *((name, "u8") for name in ("task", "kind", "size", "top", "bins")),
        *((name, PLACES) for name in ("left", "right", "target")),
    ]
)
"""``BbflowFamilyTask`` in Many.h."""
FAMILY_WORDS = FAMILY_TASK.itemsize // 8
NO_FAMILIES: Array = np.zeros(0, FAMILY_TASK)

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
LATEST = ("one_fold", "remap_sum")
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
    expected = "; ".join(map(" ".join, (FIELDS, FORMULAS, FAMILIES, LATEST)))
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


def addresses(views: Views) -> list[int]:
    """Return where the fields of a state lie that are among some views; 0 for those that aren't."""
    return [views[name].ctypes.data if name in views else 0 for name in FIELDS]


@cache
def _code(dtype: np.dtype[Any]) -> tuple[int, Array]:
    code = np.array([TYPES[dtype]], "i4")
    # With the array, which keeps what lies at its address.
    return code.ctypes.data, code


def type_address(dtype: np.dtype[Any]) -> int:
    """Return where a type's code lies, as a table of one has it."""
    return _code(dtype)[0]


@cache
def _library() -> ctypes.CDLL:
    library = load(BbflowMergeTask=MERGE_TASK, BbflowPlaces=PLACES, BbflowFamilyTask=FAMILY_TASK)
    address, size = ctypes.c_void_p, ctypes.c_uint64
    library.bbflow_merge.argtypes = [address, address, size, address, size, ctypes.c_uint32]
    library.bbflow_find.argtypes = [ctypes.c_int, address, size, address, address]
    library.bbflow_finish.argtypes = [ctypes.c_int, ctypes.c_int, address, ctypes.c_double, address, size]
    return library


def merge(types: Array, tasks: Array, families: Array = NO_FAMILIES, threads: int = 1) -> None:
    """Set target = left (+) right for a table of states, on some threads.

    Parameters
    ----------
    types
        Of each state's values, by the codes of `TYPES`; of shape (tasks,).
    tasks
        Of `MERGE_TASK` and that shape; where there is no left side the right one is copied. What they point to must
        stay, and none may write what another reads; the target may be either side.
    families
        What states have besides moments and extremes: of `FAMILY_TASK`, in the order of their tasks; the target may be
        either side, but for sketches.
    threads
        How many.

    Raises
    ------
    BbflowError
        If there is no memory for it.
    """
    types, tasks = np.ascontiguousarray(types, "i4"), np.ascontiguousarray(tasks, MERGE_TASK)
    families = np.ascontiguousarray(families, FAMILY_TASK)
    _merge((types.ctypes.data, tasks.ctypes.data, len(tasks), families.ctypes.data, len(families)), threads)


def _merge(tables: Sequence[int], threads: int) -> None:
    if _library().bbflow_merge(*tables, max(threads, 1)) != 0:
        raise BbflowError(f"no memory to merge {tables[2]} states at once: let the worker have more")


def merge_state(dtype: np.dtype[Any], words: Sequence[int], family: Sequence[int] = ()) -> None:
    """Set target = left (+) right of one state.

    Parameters
    ----------
    dtype
        Of its values.
    words
        Of `MERGE_TASK`.
    family
        Of `FAMILY_TASK`, if the state has one.
    """
    table = np.array([*words, *family], "u8")
    at = table.ctypes.data
    _merge((type_address(dtype), at, 1, at + MERGE_TASK.itemsize, len(family) // FAMILY_WORDS), 1)


def find(dtype: np.dtype[Any], sketches: Sequence[int], weights: Array) -> Array:
    """Return of each point of sketches the smallest value up to which what is kept weighs at least so much.

    Parameters
    ----------
    dtype
        Of the values.
    sketches
        The words of a `FAMILY_TASK` whose target they are.
    weights
        At least 1, of shape (points,).

    Raises
    ------
    BbflowError
        If there is no memory for it.
    """
    found, wanted = np.empty(weights.shape, dtype), np.ascontiguousarray(weights, "i8")
    task = np.array(sketches, "u8")
    where = task.ctypes.data, wanted.size, wanted.ctypes.data, found.ctypes.data
    if _library().bbflow_find(TYPES[dtype], *where) != 0:
        raise BbflowError("no memory to look into sketches: a few hundred KiB are needed besides the state")
    return found


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
        fields, code = np.array(addresses(state), "u8"), FORMULAS.index(self.name)
        _library().bbflow_finish(code, TYPES[own], fields.ctypes.data, ddof, result.ctypes.data, result.size)
        return result

"""The kernel's library, loaded once and checked against what this package takes it to be."""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.errors import MissingToolError
from bbflow.operators.steps import Views

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

LATEST = ("merge_many", "remap_sum")
"""What came to it last."""


Mirror = type[ctypes.Structure] | np.dtype[Any]


@cache
def load(**mirrors: Mirror) -> ctypes.CDLL:
    """Load the library that was built with the package.

    Parameters
    ----------
    **mirrors
        By the name that a struct has in the library, how it is laid out here.

    Raises
    ------
    MissingToolError
        If it isn't there, can't be loaded, or was built for another CPU or from other sources than these.
    """
    path = Path(__file__).with_name(LIBRARY)
    again = "install bbflow again with pip (from a source tree: 'pip install -e .'), which builds it"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        reason = str(error) if path.exists() else "it was not built"
        raise MissingToolError(f"can't load the fold kernel {path}: {reason}; {again}") from None
    if missing := _said(library, "bbflow_missing_cpu"):
        all_cpus = "build it for all CPUs: BBFLOW_CPU=all pip install -e ."
        raise MissingToolError(f"the fold kernel {path} was built on a host whose CPU has {missing}; {all_cpus}")
    expected = "; ".join(map(" ".join, (FIELDS, RULES, FORMULAS, LATEST)))
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

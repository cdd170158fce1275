"""The kernel's library, loaded once and checked against what this package takes it to be."""

import ctypes
from functools import cache
from pathlib import Path

import numpy as np

from bbflow.errors import MissingToolError

LIBRARY = "libbbflow_fold.so"
TYPES = {np.dtype(name): code for code, name in enumerate(["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"])}
"""Its codes of types."""
FIELDS = ("count", "shift", "first", "second", "min", "max")
"""Moments and extremes in its order: ``BbflowAccumulator`` in Fold.h."""
RULES = ("add", "min", "max")
"""``BbflowRule`` in Merge.h."""
FORMULAS = ("mean", "var", "std", "sum", "min", "max", "range")
"""``BbflowFormula`` in Merge.h."""

LATEST = ("merge_many",)
"""What came to it last."""


@cache
def load() -> ctypes.CDLL:
    """Load the library that was built with the package.

    Raises
    ------
    MissingToolError
        If it isn't there, can't be loaded, or was built from other sources than these.
    """
    path = Path(__file__).with_name(LIBRARY)
    again = "install bbflow again with pip (from a source tree: 'pip install -e .'), which builds it"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        reason = str(error) if path.exists() else "it was not built"
        raise MissingToolError(f"can't load the fold kernel {path}: {reason}; {again}") from None
    if (found := _names(library)) != (expected := "; ".join(map(" ".join, (FIELDS, RULES, FORMULAS, LATEST)))):
        raise MissingToolError(f"the fold kernel {path} has {found!r}, not {expected!r}: {again}")
    return library


def _names(library: ctypes.CDLL) -> str:
    """Ask which names its codes stand for; a library from before it could tell has none."""
    try:
        library.bbflow_names.restype = ctypes.c_char_p
        return bytes(library.bbflow_names()).decode()
    except AttributeError:
        return ""

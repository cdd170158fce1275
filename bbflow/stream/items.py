"""The types that ADIOS2 has for one item."""

import ctypes
from collections.abc import Mapping

ITEMS: Mapping[str, tuple[str, int]] = {
    "char": ("i1", 1),
    **{f"{u}int{8 * n}_t": (f"{u or 'i'}{n}", n) for u in ("", "u") for n in (1, 2, 4, 8)},
    "float": ("f4", 4),
    "double": ("f8", 8),
    "long double": ("g", ctypes.sizeof(ctypes.c_longdouble)),
    "float complex": ("c8", 8),
    "double complex": ("c16", 16),
}
"""ADIOS2's type names, what NumPy calls them, and the bytes of one; ``string`` has no array form."""

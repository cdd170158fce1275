"""ADIOS2's types in NumPy, which an agent does without: importing it costs half of the agent's start."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bbflow.stream.items import ITEMS

Numbers = np.ndarray[Any, np.dtype[np.int64]]
DTYPES: Mapping[str, np.dtype[Any]] = {name: np.dtype(code) for name, (code, _) in ITEMS.items()}
"""ADIOS2's type names and what NumPy calls them; ``string`` has no array form."""


def wide_dtype(name: str) -> np.dtype[Any]:
    """Return the type in which minimum and maximum of blocks of an ADIOS2 type are kept: of 8 bytes, without loss."""
    kind = DTYPES[name].kind if name in DTYPES else "f"
    return np.dtype({"i": "<i8", "u": "<u8"}.get(kind, "<f8"))

"""Python's parser, for one thread at a time: CPython 3.11 counts its depth for all threads together (gh-106905).

Two that parse side by side fail now and then with "AST constructor recursion depth mismatch". NumPy parses, too: the
header of each file of an array is Python.
"""

import threading
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bbflow.errors import DamagedError, one_line

PARSING = threading.RLock()
"""To be held while anything is parsed that other threads may parse too."""


def load_array(path: str | Path, mode: Literal["r"] | None = None) -> np.ndarray[Any, Any]:
    """Read an array's file.

    Parameters
    ----------
    path
        The file (`numpy.save`).
    mode
        To map it instead of reading it all: 'r'.

    Raises
    ------
    DamagedError
        If it holds none, or not all of it.
    """
    try:
        with PARSING:
            values: np.ndarray[Any, Any] = np.load(path, mmap_mode=mode)
    except (ValueError, EOFError) as error:
        raise DamagedError(f"{path} is damaged: {one_line(str(error))}") from None
    return values

"""Values of blocks as arrays, where they lie: in a pool, or in a file that they were spilled to."""

import math
import mmap
from typing import Any

import numpy as np

from bbflow.errors import StreamError
from bbflow.store.pool import map_pool
from bbflow.store.spilled import map_spilled
from bbflow.stream.records import FOLDED, Block, BlockForm

Memory = mmap.mmap | np.ndarray[Any, Any]
"""A pool, or a file of spilled blocks, that is mapped."""


def read_block(pool: str, block: Block) -> np.ndarray[Any, Any]:
    """Return a committed block as an array, a view of the pool or of the file that it was spilled to, without a copy.

    Parameters
    ----------
    pool
        Path of the pool.
    block
        An array block.

    Returns
    -------
    numpy.ndarray
        Read-only, of shape ``block.count``. It is valid until the step is done with.
    """
    if block.file:
        return spilled_values(block.file, block.offset, block).reshape(block.count)
    return values_at(map_pool(pool), block.offset, block).reshape(block.count)


def spilled_values(path: str, offset: int, form: Block | BlockForm) -> np.ndarray[Any, Any]:
    """Return the values of a block that begin at a byte of a file, as `values_at`; raises as `map_spilled`, too."""
    return values_at(map_spilled(path, offset, _reach(form) * form.dtype.itemsize), offset, form)


def _reach(form: Block | BlockForm) -> int:
    """Return how many values lie between a block's first and its last one, these included."""
    points = math.prod(form.count)
    return points and (points - 1) * form.stride + 1


def values_at(memory: Memory, offset: int, form: Block | BlockForm) -> np.ndarray[Any, Any]:
    """Return the values of a block that begin at a byte of a pool or a file: of shape (points,), without a copy.

    Raises
    ------
    StreamError
        If its rank has folded it, so that there are no values; or if the memory is too short for it.
    """
    if form.folded:
        raise StreamError(
            f"{form.name} can't be read: {FOLDED}: let the operators be as they were, or start the program again"
        )
    reach = _reach(form)
    if offset + reach * form.dtype.itemsize > len(memory):
        raise StreamError(f"{form.name} can't be read: its memory ends before")
    return np.frombuffer(memory, form.dtype, reach, offset)[:: form.stride]

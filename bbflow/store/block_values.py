"""Values of blocks as arrays, where they lie: in a pool, or in a file that they were spilled to."""

import math
import mmap
from typing import Any

import numpy as np

from bbflow.errors import StreamError
from bbflow.store.pool import map_pool
from bbflow.stream.records import FOLDED, Block, BlockForm

Memory = mmap.mmap | np.ndarray[Any, Any]
"""A pool, or a file of spilled blocks, that is mapped."""


def map_file(path: str) -> np.ndarray[Any, Any]:
    """Map a file of spilled blocks for reading, as long as an array looks at it."""
    return np.memmap(path, "u1", "r")


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
    memory = map_file(block.file) if block.file else map_pool(pool)
    return values_at(memory, block.offset, block).reshape(block.count)


def values_at(memory: Memory, offset: int, form: Block | BlockForm) -> np.ndarray[Any, Any]:
    """Return the values of a block that begin at a byte of a pool or a file: of shape (points,), without a copy.

    Raises
    ------
    StreamError
        If its rank has folded it, so that there are no values; or if the file that it was spilled to was cut.
    """
    if form.folded:
        raise StreamError(
            f"{form.name} can't be read: {FOLDED}: let the operators be as they were, or start the program again"
        )
    points = math.prod(form.count)
    reach = points and (points - 1) * form.stride + 1
    if offset + reach * form.dtype.itemsize > len(memory):
        where = f"{memory.filename} was cut" if isinstance(memory, np.memmap) else "its memory ends before"
        raise StreamError(f"{form.name} can't be read: {where}")
    return np.frombuffer(memory, form.dtype, reach, offset)[:: form.stride]

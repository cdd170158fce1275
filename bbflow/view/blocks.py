"""Whole blocks, from wherever they lie: this host's pool, a file that all hosts see, or another host's pool."""

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.errors import StreamError
from bbflow.net.contact import read_contact
from bbflow.store.block_values import read_block, values_at
from bbflow.store.pool import map_pool
from bbflow.stream.puts import seen
from bbflow.stream.records import FOLDED, Block
from bbflow.view.layout import PlacedBlock
from bbflow.view.lease import Lease, NodeReturn

Array = np.ndarray[Any, Any]


class BlockReader:
    """Reads blocks of steps that someone else holds, for as long as a task takes.

    Parameters
    ----------
    contact
        The contact file; it tells where the nodes are, and has the key that they ask for.
    stream
        The stream.
    returning
        As `Lease` has it.

    Raises
    ------
    NodeError
        If there is no such file.
    """

    def __init__(self, contact: Path, stream: str, returning: NodeReturn | None = None) -> None:
        self._nodes = {node.name: node for node in read_contact(contact)}
        self._lease = Lease(contact, stream, returning)

    def read(self, node: str, step: int, block: Block) -> Array:
        """Return an array block of a step.

        Returns
        -------
        numpy.ndarray
            Of shape ``block.count``; on its own host a view of the pool, valid as long as the step is held.

        Raises
        ------
        NodeError
            If its node is gone.
        StreamError
            If the step is, or its ranks have folded the block.
        """
        if block.folded:
            raise StreamError(f"{block.name} of step {step} can't be read: {FOLDED}")
        if block.file or self._nodes[node].host == socket.gethostname():
            return read_block(self._nodes[node].pool, block)
        values = np.empty(block.reach, "u1")
        if values.size:
            self._lease.get(node, step, block.offset, values.data)
        return values_at(values, 0, block).reshape(block.count)

    def pool(self, node: str) -> Array | None:
        """Return a node's whole pool as bytes; None if it is on another host."""
        if self._nodes[node].host != socket.gethostname():
            return None
        return np.frombuffer(map_pool(self._nodes[node].pool), np.uint8)

    def assemble(self, step: int, placed: Sequence[PlacedBlock], fill: Any = None) -> Array:
        """Put the blocks of one variable in one step together.

        Parameters
        ----------
        step
            The step.
        placed
            All blocks of the variable; where they overlap the last Put counts (`seen`).
        fill
            What stands in holes; by default NaN (0 for integers).

        Returns
        -------
        numpy.ndarray
            Of the global shape. One block that covers it all is given as `read` gives it.

        Raises
        ------
        NodeError, StreamError
            As for `read`.
        """
        placed = seen(placed)
        node, first = placed[0]
        if first.kind == "GlobalValue":
            return np.asarray(first.value, first.dtype)
        if len(placed) == 1 and first.count == first.shape:
            return self.read(node, step, first)
        if fill is None:
            fill = np.nan if first.dtype.kind in "fc" else 0
        field = np.full(first.shape, fill, first.dtype)
        for node, block in placed:
            region = tuple(slice(at, at + size) for at, size in zip(block.start, block.count, strict=True))
            field[region] = self.read(node, step, block)
        return field

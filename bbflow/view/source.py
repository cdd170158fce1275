"""Reading pieces of a variable: a view of the pool on its own host, else its bytes over the network."""

import socket
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.errors import StreamError
from bbflow.net.contact import NodeAddress
from bbflow.store.block_values import read_block, values_at
from bbflow.store.pool import forget_pools
from bbflow.view.layout import Field, Piece, Region
from bbflow.view.lease import Lease

Array = np.ndarray[Any, Any]


class Source:
    """Reads the values of one dataset's variables.

    It can be pickled; in another process each array that it gives holds the steps that it needs for itself.

    Parameters
    ----------
    contact
        The contact file.
    stream
        The stream.
    lease
        Holds the steps of the dataset.
    """

    def __init__(self, contact: Path, stream: str, lease: Lease | None) -> None:
        self._contact = contact
        self._stream = stream
        self._lease = lease
        self._closed = False
        self._pools: set[str] = set()
        weakref.finalize(self, forget_pools, self._pools)

    def __getstate__(self) -> dict[str, Any]:
        # Connections can't be pickled: the opener's lease holds the steps for as long as that lives.
        return vars(self) | {"_lease": None, "_pools": set()}

    def close(self) -> None:
        """Release the steps, as soon as no array looks at them any more."""
        self._closed, self._lease = True, None
        forget_pools(self._pools)

    def read(self, field: Field, index: int, region: Region) -> Array:
        """Return a part of a variable in one step.

        Parameters
        ----------
        field
            The variable.
        index
            Which of its steps.
        region
            Begin and end in each dimension.

        Returns
        -------
        numpy.ndarray
            Of the region's shape. A region within one block is a read-only view of the pool, without a copy, and
            keeps its step there as long as the array lives.
        """
        pieces = field.steps[index].within(region)
        if len(pieces) == 1 and pieces[0][1] == region:
            return _part(*pieces[0], *self._held(pieces))
        whole = np.full([at.stop - at.start for at in region], field.fill, field.dtype)
        self._fill(whole, region, pieces)
        return whole

    def read_into(self, target: Array, field: Field, index: int, region: Region) -> None:
        """Write a part of a variable in one step into an array, holes included."""
        pieces = field.steps[index].within(region)
        if field.has_holes:
            target[...] = field.fill
        self._fill(target, region, pieces)

    def _fill(self, target: Array, region: Region, pieces: Sequence[tuple[Piece, Region]]) -> None:
        origin, held = tuple(at.start for at in region), self._held(pieces)
        for piece, common in pieces:
            target[_within(common, origin)] = _part(piece, common, *held)

    def _held(self, pieces: Sequence[tuple[Piece, Region]]) -> tuple[Lease, dict[str, NodeAddress]]:
        """Make sure that a step's pieces are still there; each node is asked once."""
        if self._closed:
            raise StreamError(f"the dataset of stream {self._stream!r} was closed: open it again")
        lease = self._lease or Lease(self._contact, self._stream)
        places = {(piece.node, piece.step) for piece, _ in pieces}
        nodes = {node: lease.check(node, step) for node, step in places}
        self._pools.update(node.pool for node in nodes.values())
        return lease, nodes


def _part(piece: Piece, region: Region, lease: Lease, nodes: Mapping[str, NodeAddress]) -> Array:
    """Return what a piece has of a region: on its own host as it lies there."""
    node, inside = nodes[piece.node], _within(region, piece.start)
    if piece.block.file or node.host == socket.gethostname():
        block = read_block(node.pool, piece.block).reshape(piece.count)
        return np.asarray(_Held(block[inside], lease))
    return _fetch(lease, piece, inside)


class _Held:
    """Memory whose step stays as long as an array looks at it: it is the array's base."""

    def __init__(self, array: Array, lease: Lease) -> None:
        self.__array_interface__ = array.__array_interface__
        self._owners = (array, lease)


def _fetch(lease: Lease, piece: Piece, inside: Region) -> Array:
    """Get the rows of a block that a part lies in: they are in one piece."""
    count = inside[0].stop - inside[0].start, *piece.count[1:]
    part = replace(piece.block, count=count, bytes=prod(count) * piece.block.dtype.itemsize)
    before = inside[0].start * prod(count[1:]) * piece.block.stride * piece.block.dtype.itemsize
    rows = np.empty(part.reach, "u1")
    lease.get(piece.node, piece.step, piece.block.offset + before, rows.data)
    return values_at(rows, 0, part).reshape(count)[(slice(None), *inside[1:])]


def _within(region: Region, origin: tuple[int, ...]) -> Region:
    return tuple(slice(at.start - zero, at.stop - zero) for at, zero in zip(region, origin, strict=True))

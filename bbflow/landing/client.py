"""Talking to an agent from Python."""

import socket
from collections.abc import Sequence

from msgspec import UNSET, Struct

from bbflow.errors import NodeError, StreamError
from bbflow.landing.fabric import FabricReads
from bbflow.landing.replies import FabricReply, StatusReply
from bbflow.landing.requests import FabricRequest, GetRequest, StatusRequest
from bbflow.net.connection import ATTEMPTS, NodeConnection
from bbflow.net.contact import NodeAddress
from bbflow.net.verdicts import BytesReply, DoneReply

LEAST_BYTES = 256 << 10
"""Fewer bytes come over TCP: to register them costs more."""


class NodeClient(NodeConnection):
    """A connection to one BB node's agent; what it refuses is a `StreamError`.

    Parameters
    ----------
    node
        Where it is.

    Raises
    ------
    NodeError
        If nothing listens there, or not who should.
    """

    refusal = StreamError

    _reads: FabricReads | None = None
    _has_asked = False

    def use_fabric(self, providers: Sequence[str]) -> None:
        """Get bytes by libfabric from now on, if the node has one of some providers; the stream must have been joined.

        They aren't encrypted: from a node with TLS it gets them over TCP as before.

        Raises
        ------
        FabricError
            If the provider that both have doesn't lead there: this connection is of no use any more.
        NodeError
            If the agent is gone.
        """
        if self._has_asked or not providers or self.node.tls or self._socket.family == socket.AF_UNIX:
            return
        self._has_asked = True
        reply = self.request(FabricRequest(providers=tuple(providers)), FabricReply)
        if reply.fabric is not UNSET:
            self._reads = FabricReads(reply.fabric, self._socket)

    def close(self) -> None:
        """Close the connection."""
        if self._reads:
            self._reads.close()
        super().close()

    def _receive(self, reply: BytesReply, target: memoryview) -> None:
        if reply.key is not UNSET and self._reads:
            self._reads.read(target, reply.key)
        else:
            super()._receive(reply, target)

    def status(self) -> StatusReply:
        """Ask how the node is.

        Raises
        ------
        NodeError
            If the agent is gone.
        """
        return self.request(StatusRequest(), StatusReply)

    def get(self, step: int, offset: int, target: memoryview) -> None:
        """Read a part of the pool of a node on another host; the stream must have been joined.

        Parameters
        ----------
        step
            A step that this connection holds.
        offset
            First byte in the pool.
        target
            Where the bytes go; its length says how many.

        Raises
        ------
        StreamError
            If the agent refuses.
        FabricError
            If libfabric fails: this connection is of no use any more.
        NodeError
            If the agent is gone, or the bytes arrive damaged again and again.
        """
        size = len(target)
        asked = GetRequest(step=step, offset=offset, bytes=size, by_key=self._reads is not None and size >= LEAST_BYTES)
        if self.fetch(asked, target) != size:
            raise NodeError(f"{size} bytes from BB node {self.node.name} arrived damaged {ATTEMPTS} times")


def tell_node(node: NodeAddress, asked: Struct) -> None:
    """Connect, and have one thing done.

    Raises
    ------
    StreamError, NodeError
        As `NodeConnection.request`.
    """
    with NodeClient(node) as client:
        client.request(asked, DoneReply)


def status_of(node: NodeAddress) -> StatusReply:
    """Connect, and ask how a node is.

    Raises
    ------
    NodeError
        If it doesn't answer.
    """
    with NodeClient(node) as client:
        return client.status()

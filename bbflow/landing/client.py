"""Talking to an agent from Python."""

from msgspec import Struct

from bbflow.errors import NodeError, StreamError
from bbflow.landing.replies import StatusReply
from bbflow.landing.requests import GetRequest, StatusRequest
from bbflow.net.connection import ATTEMPTS, NodeConnection
from bbflow.net.contact import NodeAddress
from bbflow.net.verdicts import DoneReply


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
        NodeError
            If the agent is gone, or the bytes arrive damaged again and again.
        """
        if self.fetch(GetRequest(step=step, offset=offset, bytes=len(target)), target) != len(target):
            raise NodeError(f"{len(target)} bytes from BB node {self.node.name} arrived damaged {ATTEMPTS} times")


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

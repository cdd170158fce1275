"""Talking to an agent from Python: one connection, one request at a time."""

import socket
from types import TracebackType
from typing import Any

from bbflow.errors import NodeError, StreamError
from bbflow.landing.contact import NodeAddress
from bbflow.records import Message
from bbflow.store.frames import FrameReader, encode

GRACE_S = 30.0
"""How long an agent may take to answer a request that doesn't wait."""


class NodeClient:
    """A connection to one BB node's agent.

    Parameters
    ----------
    node
        Where it is.

    Raises
    ------
    NodeError
        If nobody listens there.
    """

    def __init__(self, node: NodeAddress) -> None:
        self.node = node
        self._reader = FrameReader()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(node.socket)
        except OSError as error:
            self._socket.close()
            raise NodeError(
                f"BB node {node.name} on {node.host} doesn't answer at {node.socket} ({error.strerror}): "
                "start it, or write a new contact file"
            ) from None

    def request(self, op: str, timeout_s: float = 0.0, **keys: Any) -> Message:
        """Send a request and give its reply.

        Parameters
        ----------
        op
            Name of the request (FORMAT.md, 'Analysis and agent').
        timeout_s
            How long the agent may hold the reply back; it is sent along if not zero.
        **keys
            The request's other keys.

        Raises
        ------
        StreamError
            If the agent refuses; the message is the agent's.
        NodeError
            If the agent is gone.
        """
        message = {"op": op, **keys} | ({"timeout_s": timeout_s} if timeout_s else {})
        self._socket.settimeout(timeout_s + GRACE_S)
        try:
            self._socket.sendall(encode(message))
            reply = self._receive()
        except OSError as error:
            raise NodeError(f"BB node {self.node.name} is gone ({error})") from None
        if not reply.pop("ok", False):
            raise StreamError(str(reply.get("error", "the agent refused and gave no reason")))
        return reply

    def _receive(self) -> Message:
        while data := self._socket.recv(1 << 20):
            for message in self._reader.feed(data):
                return message
        raise NodeError(f"BB node {self.node.name} closed the connection")

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def __enter__(self) -> "NodeClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def request_once(node: NodeAddress, op: str, **keys: Any) -> Message:
    """Connect, send one request, give its reply."""
    with NodeClient(node) as client:
        return client.request(op, **keys)

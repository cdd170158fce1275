"""A lease: steps that stay on their nodes as long as someone looks at them."""

import threading
import weakref
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from bbflow.errors import NodeError, StreamError
from bbflow.host.log import log
from bbflow.landing.client import LEAST_BYTES, NodeClient
from bbflow.landing.fabric import FabricError, providers
from bbflow.landing.replies import JoinReply, PinReply
from bbflow.landing.requests import JoinRequest, PinRequest, UnpinRequest
from bbflow.net.contact import NodeAddress, read_contact
from bbflow.net.verdicts import DoneReply

PART_BYTES = 16 << 20
"""Most bytes that are asked for at once."""


class Lease:
    """Pins steps of one stream; they are let go when nobody refers to the lease any more.

    Safe in several threads.

    Parameters
    ----------
    contact
        The contact file.
    stream
        The stream.
    """

    def __init__(self, contact: Path, stream: str) -> None:
        self._contact = contact
        self._stream = stream
        self._lock = threading.Lock()
        self._clients: dict[str, NodeClient] = {}
        self._pins: dict[str, set[int]] = {}
        self._by_tcp: set[str] = set()
        weakref.finalize(self, _close_all, self._clients)

    def pin(self, node: str, steps: Iterable[int]) -> set[int]:
        """Hold steps on a node; give those that are still there.

        Raises
        ------
        NodeError
            If the node is gone.
        StreamError
            If it has no such stream.
        """
        with self._lock:
            pinned = self._pin(self._client(node), sorted(steps))
            self._pins.setdefault(node, set()).update(pinned)
            return pinned

    def unpin(self, node: str, steps: Iterable[int]) -> None:
        """Release some steps."""
        with self._lock:
            self._client(node).request(UnpinRequest(steps=tuple(sorted(steps))), DoneReply)
            self._pins[node].difference_update(steps)

    def check(self, node: str, step: int) -> NodeAddress:
        """Make sure that a step is still there; an agent that was started again is asked to hold all steps again.

        Returns
        -------
        NodeAddress
            Where the node is.

        Raises
        ------
        NodeError
            If the node is gone.
        StreamError
            If the step is.
        """
        with self._lock:
            self._check(node, step)
            return self._client(node).node

    def get(self, node: str, step: int, offset: int, target: memoryview) -> None:
        """Read bytes of the pool of a node on another host.

        Raises
        ------
        NodeError, StreamError
            As for `check`.
        """
        with self._lock:
            try:
                self._read(node, step, offset, target)
            except FabricError as error:
                log(f"bbflow: BB node {node} is read by TCP, since libfabric doesn't work: {error}")
                self._forget(node)
                self._by_tcp.add(node)
                self._read(node, step, offset, target)

    def _read(self, node: str, step: int, offset: int, target: memoryview) -> None:
        self._check(node, step)
        client = self._client(node)
        if len(target) >= LEAST_BYTES and node not in self._by_tcp:
            client.use_fabric(_providers())
        for begin in range(0, len(target), PART_BYTES):
            client.get(step, offset + begin, target[begin : begin + PART_BYTES])

    def _forget(self, node: str) -> None:
        if client := self._clients.pop(node, None):
            client.close()

    def _address(self, node: str) -> NodeAddress:
        for address in read_contact(self._contact):
            if address.name == node:
                return address
        raise NodeError(f"BB node {node} is not in {self._contact} any more: its steps are gone")

    def _check(self, node: str, step: int) -> None:
        try:
            pinned = self._pin(self._client(node), [step])
        except NodeError:
            self._forget(node)
            pinned = self._pin(self._client(node), [step, *self._pins.get(node, ())])
        if step not in pinned:
            raise StreamError(
                f"step {step} of stream {self._stream!r} is gone from BB node {node}: open the dataset again, "
                "and keep it open while you read"
            )

    def _pin(self, client: NodeClient, steps: list[int]) -> set[int]:
        return set(client.request(PinRequest(steps=tuple(steps)), PinReply).pinned)

    def _client(self, node: str) -> NodeClient:
        if node not in self._clients:
            client = NodeClient(self._address(node))
            try:
                client.request(JoinRequest(stream=self._stream, after=-1, follow=False), JoinReply)
            except BaseException:
                client.close()
                raise
            self._clients[node] = client
        return self._clients[node]


@cache
def _providers() -> list[str]:
    """Return libfabric's providers on this host that are better than TCP."""
    try:
        return providers()
    except NodeError:  # it has such a network, but no libfabric
        return []


def _close_all(clients: dict[str, NodeClient]) -> None:
    for client in clients.values():
        client.close()

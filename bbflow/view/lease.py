"""A lease: steps that stay on their nodes as long as someone looks at them."""

import threading
import weakref
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path
from typing import Protocol

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


class NodeReturn(Protocol):
    """Waits for nodes to come back, as `Returning` does."""

    def until_s(self) -> float:
        """Until when a node that has just been missed is waited for (`time.monotonic`)."""

    def client(self, node: NodeAddress, error: NodeError, until_s: float) -> NodeClient:
        """Connect to a node again, or raise by what it was missed."""


class Lease:
    """Pins steps of one stream; they are released when the lease is no longer referenced.

    Safe in several threads.

    Parameters
    ----------
    contact
        The contact file.
    stream
        The stream.
    returning
        Waits for a node whose agent is killed; without it such a node is tried again.
    """

    def __init__(self, contact: Path, stream: str, returning: NodeReturn | None = None) -> None:
        self._contact = contact
        self._stream, self._returning = stream, returning
        self._lock = threading.Lock()
        self._clients: dict[str, NodeClient] = {}
        self._pins: dict[str, set[int]] = {}
        self._by_tcp: set[str] = set()
        # The dictionary, not this object, which would live forever; nodes release the steps of connections that end.
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
            asked = {*steps}
            pinned = self._pin(node, asked) & asked
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
            except NodeError as error:
                if isinstance(error, FabricError):
                    log(f"bbflow: BB node {node} is read by TCP, since libfabric doesn't work: {error}")
                    self._by_tcp.add(node)
                # An agent that was killed in the middle is waited for as where steps are held.
                self._forget(node)
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
        pinned = self._pin(node, [step])
        if step not in pinned:
            raise StreamError(
                f"step {step} of stream {self._stream!r} is gone from BB node {node}: open the dataset again, "
                "and keep it open while you read"
            )

    def _pin(self, node: str, steps: Collection[int]) -> set[int]:
        try:
            return self._ask(self._client(node), steps)
        except NodeError as error:
            return self._pin_again(node, steps, error)

    def _pin_again(self, node: str, steps: Collection[int], error: NodeError) -> set[int]:
        """Hold steps, and those that were held, on a node whose agent was killed, when it is back."""
        address, wanted = self._address(node), {*steps, *self._pins.get(node, ())}
        until_s = 0.0 if self._returning is None else self._returning.until_s()
        while True:
            self._forget(node)
            try:
                if self._returning is None:
                    return self._ask(self._client(node), wanted)
                return self._ask(self._joined(self._returning.client(address, error, until_s)), wanted)
            except NodeError as missed:
                # When it is waited for no more, `error` itself is raised.
                if self._returning is None or missed is error:
                    raise

    @staticmethod
    def _ask(client: NodeClient, steps: Iterable[int]) -> set[int]:
        return set(client.request(PinRequest(steps=tuple(sorted(steps))), PinReply).pinned)

    def _client(self, node: str) -> NodeClient:
        return self._clients.get(node) or self._joined(NodeClient(self._address(node)))

    def _joined(self, client: NodeClient) -> NodeClient:
        try:
            client.request(JoinRequest(stream=self._stream, after=-1, follow=False), JoinReply)
        except BaseException:
            client.close()
            raise
        self._clients[client.node.name] = client
        return client


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

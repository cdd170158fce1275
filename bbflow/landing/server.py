"""The agent's shell: the sockets around `Agent`."""

import select
import socket
import sys
import time
from collections.abc import Callable

from bbflow.errors import CapacityError
from bbflow.host.belongings import foreign, remove
from bbflow.host.log import log
from bbflow.landing.agent import Agent, Reply
from bbflow.landing.fabric import FabricGates
from bbflow.landing.requests import DataRequest, LandedRequest, Request, parse_request
from bbflow.net.handshake import WelcomeReply
from bbflow.net.link import Landed, Link
from bbflow.net.listen import split_address
from bbflow.net.peers import Endpoint, PeerServer
from bbflow.store.node import NodeStore

SOCKET_NAME = "agent.sock"
RETRY_S = 0.1
RETRIES = 6000
"""How many times a node with a full file system waits for room, ten minutes in all, before it lets its writers go."""


def steady_clock() -> Callable[[], float]:
    """Return a clock (seconds since the epoch) that isn't set: every rank would be late if the host's went forward."""
    began_s = time.time() - time.monotonic()
    return lambda: began_s + time.monotonic()


class Server(PeerServer):
    """Serves one node until someone asks it to stop.

    Parameters
    ----------
    store
        What the node keeps.
    name
        The node's name.
    endpoint
        How it lets peers in.
    stop_at_eof
        A descriptor whose end also ends the server.

    Raises
    ------
    NodeError
        If another agent serves the directory.
    """

    def __init__(self, store: NodeStore, name: str, endpoint: Endpoint, stop_at_eof: int | None = None) -> None:
        host = socket.gethostname()
        self._gates = FabricGates(split_address(endpoint.address)[0], store.pool)
        self._clock = steady_clock()
        self._agent = Agent(store, name=name, host=host, clock=self._clock, gates=self._gates)
        self._name, self._stop_at_eof = name, stop_at_eof
        store.wait_for_room = self._wait_for_room
        identity = WelcomeReply(name=name, host=host)
        super().__init__("bbflow node", identity, store.directory / SOCKET_NAME, endpoint, store.pool, stop_at_eof)

    @property
    def _is_over(self) -> bool:
        return self._agent.stopped

    def _due_s(self) -> float | None:
        deadline_s = self._agent.next_deadline_s()
        return None if deadline_s is None else deadline_s - self._clock()

    def _do_due(self) -> None:
        self._deliver(self._agent.expire())

    def _decode(self, payload: bytes) -> Request:
        asked: Request = parse_request(payload)
        return asked

    def _take(self, peer: int, link: Link, item: Request | Landed) -> None:
        if isinstance(item, Landed):
            self._agent.landed(peer, item.offset, intact=item.intact)
        elif isinstance(item, DataRequest):
            self._agent.check_target(peer, item.offset, item.bytes)
            # Only now: what follows goes straight into the pool.
            link.expect(item.offset, item.bytes, item.check)
        elif isinstance(item, LandedRequest):
            self._agent.check_target(peer, item.offset, item.bytes)
            self._agent.landed(peer, item.offset, intact=link.has(item.offset, item.bytes, item.check))
        else:
            self._deliver(self._agent.handle(peer, item))

    def _wait_for_room(self, error: CapacityError, tried: int) -> bool:
        """Make all peers wait while the node's file system is full, rather than end their streams."""
        if tried == 1:
            log(f"bbflow node {self._name}: {error}; until then it waits")
        ends = [] if self._stop_at_eof is None else [self._stop_at_eof]
        # It serves no one meanwhile, so it looks for its parent's end by itself.
        is_told_to_end = self.interrupted or any(select.select(ends, [], [], RETRY_S))
        return tried < RETRIES and not is_told_to_end

    def close(self) -> None:
        """Close all connections, so that the pool isn't written any more."""
        # First: by libfabric peers write without a socket of ours.
        self._gates.close()
        super().close()

    def _left(self, peer: int, *, by_itself: bool) -> None:
        self._deliver(self._agent.disconnect(peer, by_itself=by_itself))

    def _deliver(self, replies: list[Reply]) -> None:
        for peer, message in replies:
            self._send(peer, message)


def serve(
    store: NodeStore, name: str, endpoint: Endpoint, ready: Callable[[str], None], *, with_parent: bool = False
) -> None:
    """Run one node in this process until it is told to stop.

    Its directory goes with it, unless a signal or a failure ends it while it holds steps: a node started again
    on the same directory takes them over. An embedded node's stays until its parent ends.

    Parameters
    ----------
    store
        What it keeps; it is closed in the end.
    name
        The node's name.
    endpoint
        How it lets peers in.
    ready
        Called with the address for other hosts when peers may come.
    with_parent
        An embedded node: it also ends when standard input ends, which its parent keeps open.
    """
    directory = store.directory
    server = Server(store, name, endpoint, sys.stdin.fileno() if with_parent else None)
    server.stop_at_signals()
    ready(server.tcp)
    log(f"bbflow node {name}: ready in {directory}")
    is_told_to_end = False
    try:
        server.run()
        is_told_to_end = server.orphaned or not server.interrupted
    finally:
        store.close()
        held = sum(len(stream.steps) for stream in store.streams.values())
        # A signal may be followed by another agent on the directory; a request to end, or the parent's end, isn't.
        is_needed = with_parent or held or any(stream.status == "open" for stream in store.streams.values())
        if is_needed and not is_told_to_end:
            log(f"bbflow node {name}: {held} steps stay in {directory}")
        else:
            remove(directory)
            for path in foreign(directory):
                log(f"bbflow node {name}: {path} stays: no node put it there")

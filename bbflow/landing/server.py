"""The agent's shell: one thread, one selector, the sockets around `Agent`."""

import errno
import os
import resource
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from bbflow.belongings import foreign, remove
from bbflow.errors import DamagedError, ProtocolError
from bbflow.landing.agent import Agent, Reply
from bbflow.landing.handshake import TIMEOUT_S, NodeHandshake
from bbflow.landing.link import GoneError, Landed, Link, answer_handshake, raw_target
from bbflow.landing.listen import LOOPBACK, listen_tcp, listen_unix, public_address, split_address, tune
from bbflow.landing.tls import Certificate
from bbflow.records import Message
from bbflow.store.node import NodeStore

SOCKET_NAME = "agent.sock"
RESERVED_FILES = 32
"""Descriptors that are kept for what isn't a peer: listeners, index, pool."""
STAY_S = 0.5
"""A stranger that others wait for may stay so long, and so long nobody else is let in."""


@dataclass(frozen=True, slots=True)
class Door:
    """How a node lets peers in."""

    key: str
    """The contact file's key."""
    address: str = LOOPBACK
    """``host[:port]`` of its TCP socket."""
    certificate: Certificate | None = None
    """For TLS on its TCP socket."""


class Server:
    """Serves one node until someone asks it to stop.

    Parameters
    ----------
    store
        What the node keeps.
    name
        The node's name.
    door
        How it lets peers in.
    stop_at_eof
        A descriptor whose end also ends the server: an embedded node must not outlive its parent.

    Raises
    ------
    NodeError
        If another agent serves the directory.
    """

    def __init__(self, store: NodeStore, name: str, door: Door, stop_at_eof: int | None = None) -> None:
        self._store = store
        self._identity = {"name": name, "host": socket.gethostname()}
        self._door = door
        self._tls = door.certificate.context() if door.certificate else None
        self._agent = Agent(store, **self._identity, clock=time.time)
        self._selector = selectors.DefaultSelector()
        self._links: dict[int, Link] = {}
        self._strangers: dict[int, float] = {}
        self._most_links = _open_files() - RESERVED_FILES
        self._closed_until_s: dict[socket.socket, float] = {}
        self.interrupted = False
        """Whether a signal or the parent's end stops it, not a request."""
        self._unix = listen_unix(store.directory / SOCKET_NAME)
        self._tcp = listen_tcp(door.address)
        for listener in (self._unix, self._tcp):
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ, "listener")
        if stop_at_eof is not None:
            self._selector.register(stop_at_eof, selectors.EVENT_READ, "eof")
        # A signal must wake the selector, or `interrupt` is seen at the next message only.
        self._wakeup, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wakeup, selectors.EVENT_READ, "signal")
        signal.set_wakeup_fd(wake)

    @property
    def tcp(self) -> str:
        """``host:port`` by which other hosts reach it."""
        return public_address(self._tcp, split_address(self._door.address)[0])

    def run(self) -> None:
        """Serve; returns when asked to stop."""
        while not self._agent.stopped and not self.interrupted:
            for key, _ in self._selector.select(self._timeout_s()):
                if key.data == "eof":
                    self.interrupted = not os.read(key.fd, 1)
                elif key.data == "signal":
                    os.read(key.fd, 64)
                elif key.data == "listener":
                    self._accept(self._tcp if key.fileobj is self._tcp else self._unix)
                else:
                    self._serve(key.fd)
            self._deliver(self._agent.expire())
            self._turn_strangers_away()
            self._open_again()
        self._close()

    def interrupt(self) -> None:
        """Make `run` return soon; safe in a signal handler."""
        self.interrupted = True

    def _timeout_s(self) -> float | None:
        deadlines_s = [*self._strangers.values(), *self._closed_until_s.values()]
        if (deadline_s := self._agent.next_deadline_s()) is not None:
            deadlines_s.append(deadline_s)
        return max(min(deadlines_s) - time.time(), 0.0) if deadlines_s else None

    def _accept(self, listener: socket.socket) -> None:
        strangers = [key for key in self._strangers if self._links[key].socket.family == listener.family]
        if len(self._links) >= self._most_links or len(strangers) >= self._most_links // 2:
            self._make_room(listener, strangers)
            return  # who waits is let in next
        try:
            peer, _ = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._make_room(listener, strangers)
            return  # else it has given up already
        if listener is self._tcp:
            tune(peer)
            if self._tls:
                peer.setblocking(False)
                peer = self._tls.wrap_socket(peer, server_side=True, do_handshake_on_connect=False)
        handshake = NodeHandshake(self._door.key, self._identity)
        self._links[peer.fileno()] = Link(peer, handshake, self._store.pool)
        self._strangers[peer.fileno()] = time.time() + TIMEOUT_S
        self._selector.register(peer, selectors.EVENT_READ)

    def _make_room(self, listener: socket.socket, strangers: list[int]) -> None:
        """Let the stranger go that has been silent for longest, or let nobody in for a moment."""
        oldest = min(strangers, key=lambda key: self._strangers[key], default=None)
        now_s = time.time()
        until_s = now_s + STAY_S if oldest is None else self._strangers[oldest] - TIMEOUT_S + STAY_S
        if oldest is not None and until_s <= now_s:
            self._cut_off(oldest, "others wait for its place")
        else:
            self._closed_until_s[listener] = until_s
            self._selector.unregister(listener)

    def _open_again(self) -> None:
        now_s = time.time()
        for listener in [key for key, until_s in self._closed_until_s.items() if until_s <= now_s]:
            del self._closed_until_s[listener]
            self._selector.register(listener, selectors.EVENT_READ, "listener")

    def _turn_strangers_away(self) -> None:
        now_s = time.time()
        for descriptor in [key for key, deadline_s in self._strangers.items() if deadline_s <= now_s]:
            self._cut_off(descriptor, f"it didn't prove itself within {TIMEOUT_S:.0f} s")

    def _serve(self, descriptor: int) -> None:
        link = self._links.get(descriptor)
        if link is None:
            return
        if link.is_sending:
            self._flush(descriptor, link)
        try:
            while descriptor in self._links:
                for item in link.receive():
                    self._take(descriptor, link, item)
                    if descriptor not in self._links:
                        return
                if not link.has_unread:
                    return
        except GoneError as gone:
            self._hang_up(descriptor, by_itself=gone.by_itself)
        except ProtocolError as error:
            self._cut_off(descriptor, str(error), by_itself=not isinstance(error, DamagedError))

    def _take(self, descriptor: int, link: Link, item: Message | Landed) -> None:
        if isinstance(item, Landed):
            self._agent.landed(descriptor, item.offset, intact=item.intact)
        elif not link.handshake.done:
            refused = answer_handshake(link, item)
            if refused:
                self._cut_off(descriptor, refused)
            elif link.handshake.done:
                del self._strangers[descriptor]
        elif item.get("op") == "data":
            offset, size, crc = raw_target(item)
            self._agent.check_target(descriptor, offset, size)
            link.expect(offset, size, crc)
        else:
            self._deliver(self._agent.handle(descriptor, item))

    def _deliver(self, replies: list[Reply]) -> None:
        for descriptor, message in replies:
            if link := self._links.get(descriptor):
                link.send(message)
                self._flush(descriptor, link)

    def _flush(self, descriptor: int, link: Link) -> None:
        link.flush()
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.is_sending else 0)
        self._selector.modify(descriptor, events)

    def _cut_off(self, descriptor: int, reason: str, *, by_itself: bool = True) -> None:
        peer = _where(self._links[descriptor].socket)
        print(f"bbflow node: cut off a peer at {peer}: {reason}", file=sys.stderr, flush=True)
        self._hang_up(descriptor, by_itself=by_itself)

    def _hang_up(self, descriptor: int, *, by_itself: bool) -> None:
        link = self._links.pop(descriptor)
        self._strangers.pop(descriptor, None)
        self._selector.unregister(descriptor)
        link.socket.close()
        self._deliver(self._agent.disconnect(descriptor, by_itself=by_itself))

    def _close(self) -> None:
        for link in self._links.values():
            link.socket.close()
        self._unix.close()
        self._tcp.close()
        self._selector.close()


def _open_files() -> int:
    """Let this process have as many descriptors as it may, and give how many that is."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most if most != resource.RLIM_INFINITY else 1 << 20


def _where(peer: socket.socket) -> str:
    try:
        name = peer.getpeername()
    except OSError:
        return "an address that is gone"
    return f"{name[0]} port {name[1]}" if isinstance(name, tuple) else "the Unix socket"


def serve(store: NodeStore, name: str, door: Door, ready: Callable[[str], None], *, with_parent: bool = False) -> None:
    """Run one node in this process until it is told to stop.

    Its directory goes with it, unless a signal or a failure ends it while it holds steps: a node started again
    on the same directory carries on with them.

    Parameters
    ----------
    store
        What it keeps; it is closed in the end.
    name
        The node's name.
    door
        How it lets peers in.
    ready
        Called with the address for other hosts when peers may come.
    with_parent
        An embedded node: it also ends when standard input ends, and always cleans up.
    """
    directory = store.directory
    server = Server(store, name, door, sys.stdin.fileno() if with_parent else None)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.interrupt())
    ready(server.tcp)
    print(f"bbflow node {name}: ready in {directory}", file=sys.stderr, flush=True)
    may_stay = not with_parent
    try:
        server.run()
        may_stay = may_stay and server.interrupted
    finally:
        store.close()
        held = sum(len(stream.steps) for stream in store.streams.values())
        is_needed = held or any(stream.status == "open" for stream in store.streams.values())
        if is_needed and may_stay:
            print(f"bbflow node {name}: {held} steps stay in {directory}", file=sys.stderr, flush=True)
        else:
            remove(directory)
            for path in foreign(directory):
                print(f"bbflow node {name}: {path} stays: no node put it there", file=sys.stderr, flush=True)

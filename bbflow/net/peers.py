"""Serving many peers with one thread: a selector, listeners, and connections that must prove themselves first."""

import errno
import itertools
import os
import selectors
import signal
import socket
import ssl
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Raw, Struct

from bbflow.errors import DamagedError, NodeError, ProtocolError
from bbflow.host.dumps import keep_from_dumps
from bbflow.host.dying import dying_process
from bbflow.host.log import log
from bbflow.net.handshake import TIMEOUT_S, HelloMessage, NodeHandshake, ProveMessage, WelcomeReply
from bbflow.net.link import GoneError, Landed, Link, answer_handshake
from bbflow.net.listen import (
    LOOPBACK,
    SILENCE_S,
    is_silent,
    listen_tcp,
    listen_unix,
    public_address,
    public_host,
    raise_open_files,
    tune,
)
from bbflow.net.tls import Certificate
from bbflow.net.verdicts import RefusedReply

RESERVED_FILES = 32
"""Descriptors that are kept for what isn't a peer: listeners, index, pool."""
STAY_S = 0.5
"""A peer that hasn't proved itself may stay this long if others wait, and this long no other is let in."""
LONGEST_SLEEP_S = 3600.0
"""The kernel's type for it overflows after 24 days."""
MOST_UNSENT_BYTES = 160 << 20
"""A peer that has more to read is cut off: one message and its raw bytes are below that."""
STUCK_S = 600.0
"""So is one that has something to read and reads nothing for so long."""
LOOK_S = 5.0
"""How often it is looked for hosts that are silent, and for the Unix socket."""
FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How a node lets peers in."""

    key: str
    """The contact file's key."""
    address: str = LOOPBACK
    """``host[:port]`` of its TCP socket."""
    certificate: Certificate | None = None
    """For TLS on its TCP socket."""

    def context(self) -> ssl.SSLContext | None:
        """Return what peers' TCP sockets are wrapped with, if they are.

        Raises
        ------
        ConfigError
            If the certificate can't be used, or no peer would accept it at this address.
        """
        return self.certificate.context(public_host(self.address)) if self.certificate else None


class PeerServer(ABC):
    """Serves until someone asks it to stop.

    Parameters
    ----------
    title
        Begins its messages.
    identity
        Who it is: the last reply of a handshake.
    socket_path
        Its Unix socket; None for a server that is reached by TCP alone.
    endpoint
        How it lets peers in.
    pool
        Gives where raw bytes of peers land.
    stop_at_eof
        A descriptor whose end also ends the server: an embedded node must not outlive its parent.

    Raises
    ------
    NodeError
        If another server has the socket.
    """

    def __init__(
        self,
        title: str,
        identity: WelcomeReply,
        socket_path: Path | None,
        endpoint: Endpoint,
        pool: Callable[[], memoryview],
        stop_at_eof: int | None = None,
    ) -> None:
        keep_from_dumps()
        self._title, self._identity, self._endpoint, self._pool = title, identity, endpoint, pool
        self._tls = endpoint.context()
        self._selector = selectors.DefaultSelector()
        self._numbers = itertools.count(1)
        self._links: dict[int, Link] = {}
        self._unproven: dict[int, float] = {}
        self._stuck: dict[int, tuple[int, float]] = {}
        """By peer: how much it has to read, and until when some of it."""
        self._remote: set[int] = set()
        """Peers of other hosts."""
        self._look_s = 0.0
        """When they, and the socket's name, are looked at next."""
        self._dying: dict[int, int] = {}
        """Peers whose process has ended and isn't gone yet, by the descriptor that tells."""
        self._unread: set[int] = set()
        """Peers whose turn has ended before all was taken in that is here."""
        self._most_links = raise_open_files() - RESERVED_FILES
        self._closed_until_s: dict[socket.socket, float] = {}
        self.interrupted = False
        """Whether a signal or the parent's end stops it, not a request."""
        self.orphaned = False
        """Whether it was the parent's end."""
        self._socket_path = socket_path
        unix = [] if socket_path is None else [listen_unix(socket_path)]
        self._tcp = listen_tcp(endpoint.address)
        self._listeners = [*unix, self._tcp]
        self._wait_for_events(stop_at_eof)

    def _wait_for_events(self, stop_at_eof: int | None) -> None:
        """Register all that a turn looks at beside the peers."""
        for listener in self._listeners:
            self._wait_at(listener)
        if stop_at_eof is not None:
            self._selector.register(stop_at_eof, selectors.EVENT_READ, "eof")
        # A signal must wake the selector, or `interrupt` is seen at the next message only.
        self._wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wakeup[0], selectors.EVENT_READ, "signal")
        signal.set_wakeup_fd(self._wakeup[1])

    def _wait_at(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, "listener")

    # What a server is for.

    @abstractmethod
    def _decode(self, payload: bytes) -> Any:
        """Return what a peer that has proved itself says."""

    @abstractmethod
    def _take(self, peer: int, link: Link, item: Any) -> None:
        """Take in what a peer that has proved itself sends."""

    @abstractmethod
    def _left(self, peer: int, *, by_itself: bool) -> None:
        """Take in that a peer is gone."""

    @abstractmethod
    def _do_due(self) -> None:
        """Do what is due by the clock."""

    @abstractmethod
    def _due_s(self) -> float | None:
        """Return in how many seconds something is due; None if nothing is."""

    @property
    @abstractmethod
    def _is_over(self) -> bool:
        """Whether a request has asked for its end."""

    def _end_round(self) -> None:  # noqa: B027 - who answers each message at once has nothing to do
        """Send what is to be sent once all that came together is taken in."""

    def _let_in(self, peer: int, link: Link) -> None:  # noqa: B027 - most have nothing to do
        """Take in that someone has connected, who must still prove themselves."""

    # How it serves.

    @property
    def tcp(self) -> str:
        """``host:port`` by which other hosts reach it."""
        return public_address(self._tcp, self._endpoint.address)

    def run(self) -> None:
        """Serve; returns when asked to stop."""
        while not self._is_over and not self.interrupted:
            self.turn()
        self.close()

    def turn(self, most_s: float = LONGEST_SLEEP_S) -> None:
        """Wait for something to do, and do it.

        Parameters
        ----------
        most_s
            How long to wait at most.
        """
        due_s = self._next_due_s()
        # What was read of these before makes no event any more.
        turns, self._unread = dict.fromkeys(self._unread, 0), set()
        now_s = time.monotonic()
        left_s = most_s if due_s is None else due_s - now_s
        rest_s = 0.0 if turns else min(max(left_s, 0.0), most_s)
        for key, events in self._selector.select(rest_s):
            if key.data == "eof":
                self.interrupted = self.orphaned = not os.read(key.fd, 64)
            elif key.data == "signal":
                os.read(key.fd, 64)
            elif key.data == "dying":
                self._bury(key.fd)
            elif key.data == "listener":
                self._accept(next(listener for listener in self._listeners if key.fileobj is listener))
            else:
                turns[key.data] = events
        for peer, events in turns.items():
            self._serve(peer, events)
        if due_s is not None and time.monotonic() >= due_s:
            self._do_due()
            self._cut_off_unproven()
            self._cut_off_stuck()
            self._look_around()
            self._open_again()
        self._end_round()

    def interrupt(self) -> None:
        """Make `run` return soon; safe in a signal handler."""
        self.interrupted = True

    def stop_at_signals(self) -> None:
        """End it by SIGTERM and SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.interrupt())

    def _next_due_s(self) -> float | None:
        due_s = self._due_s()
        own_s = [] if due_s is None else [time.monotonic() + due_s]
        stuck_s = (until_s for _, until_s in self._stuck.values())
        look_s = [self._look_s] if self._remote or self._socket_path else []
        return min([*own_s, *look_s, *self._unproven.values(), *stuck_s, *self._closed_until_s.values()], default=None)

    def _accept(self, listener: socket.socket) -> None:
        unproven = [peer for peer in self._unproven if self._links[peer].socket.family == listener.family]
        # Half at most are strangers: many that stay silent don't keep out who has the key.
        if len(self._links) >= self._most_links or len(unproven) >= self._most_links // 2:
            self._make_room(listener, unproven)
            return  # who waits is let in next
        try:
            accepted, _ = listener.accept()
        except OSError as error:
            if error.errno in FULL:
                self._make_room(listener, unproven)
            return  # else it has given up already
        try:
            if listener is self._tcp:
                accepted = self._over_network(accepted)
            link = Link(accepted, NodeHandshake(self._endpoint.key, self._identity), self._pool)
        except OSError:  # its host has reset it meanwhile
            accepted.close()
            return
        peer = next(self._numbers)
        self._links[peer] = link
        self._unproven[peer] = time.monotonic() + TIMEOUT_S
        if listener is self._tcp:
            self._remote.add(peer)
        self._selector.register(accepted, selectors.EVENT_READ, peer)
        self._let_in(peer, link)

    def _over_network(self, accepted: socket.socket) -> socket.socket:
        tune(accepted)
        if not self._tls:
            return accepted
        accepted.setblocking(False)
        return self._tls.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)

    def _make_room(self, listener: socket.socket, unproven: list[int]) -> None:
        """Cut off the peer that has failed to prove itself for longest, or let no one in for a moment."""
        oldest = min(unproven, key=lambda peer: self._unproven[peer], default=None)
        now_s = time.monotonic()
        until_s = now_s + STAY_S if oldest is None else self._unproven[oldest] - TIMEOUT_S + STAY_S
        if oldest is not None and until_s <= now_s:
            self._cut_off(oldest, "others wait for its place")
        else:
            self._closed_until_s[listener] = until_s
            self._selector.unregister(listener)

    def _open_again(self) -> None:
        now_s = time.monotonic()
        for listener in [key for key, until_s in self._closed_until_s.items() if until_s <= now_s]:
            del self._closed_until_s[listener]
            self._selector.register(listener, selectors.EVENT_READ, "listener")

    def _cut_off_unproven(self) -> None:
        now_s = time.monotonic()
        for peer in [peer for peer, deadline_s in self._unproven.items() if deadline_s <= now_s]:
            self._cut_off(peer, f"it didn't prove itself within {TIMEOUT_S:.0f} s")

    def _cut_off_stuck(self) -> None:
        now_s = time.monotonic()
        for peer in [peer for peer, (_, until_s) in self._stuck.items() if until_s <= now_s]:
            self._cut_off(peer, f"it read nothing of what it was sent for {STUCK_S:.0f} s")

    def _look_around(self) -> None:
        now_s = time.monotonic()
        if now_s < self._look_s:
            return
        self._look_s = now_s + LOOK_S
        self._cut_off_silent()
        if self._socket_path is not None and not os.path.exists(self._socket_path):  # also where it can't be seen
            self._listen_anew(self._socket_path)

    def _listen_anew(self, path: Path) -> None:
        """Listen at the Unix socket's path again, whose name somebody has removed: peers come by it."""
        try:
            new = listen_unix(path)
        except (NodeError, OSError):  # its directory is gone, too, or no descriptor is free: it is looked for again
            return
        log(f"{self._title}: {path} was removed, and is made again")
        old, self._listeners[0] = self._listeners[0], new
        if self._closed_until_s.pop(old, None) is None:
            self._selector.unregister(old)
        old.close()
        self._wait_at(new)

    def _cut_off_silent(self) -> None:
        for peer in [peer for peer in self._remote if is_silent(self._links[peer].socket)]:
            self._cut_off(peer, f"its host has acknowledged nothing for {SILENCE_S} s", by_itself=False)

    def _serve(self, peer: int, events: int) -> None:
        link = self._links.get(peer)
        if link is None:
            return
        if events & selectors.EVENT_WRITE:
            self._flush(peer, link)
            if peer not in self._links:
                return
        try:
            for item in link.receive():
                if link.handshake.done:
                    self._take(peer, link, item)
                else:
                    self._shake_hands(peer, link, item)
                if peer not in self._links:  # it was cut off for what it has sent
                    return
            if link.has_unread and not link.is_choked:
                self._unread.add(peer)
        except GoneError as gone:
            self._hang_up(peer, by_itself=gone.by_itself)
        except DamagedError as error:
            self._cut_off(peer, str(error), by_itself=False)
        except ProtocolError as error:
            self._refuse(peer, str(error))
        except Exception as error:  # a mistake of this program's: it costs one peer its connection, not the node
            log(f"{self._title}: {''.join(traceback.format_exception(error))}")
            self._refuse(peer, f"it failed at what it was asked ({error!r}): see its log")

    def _refuse(self, peer: int, reason: str) -> None:
        """Send a peer the reason why it is cut off, as far as it reads; one that hasn't proved itself gets nothing."""
        if self._links[peer].handshake.done:
            self._send(peer, RefusedReply(error=reason))
        if peer in self._links:
            self._cut_off(peer, reason)

    def _shake_hands(self, peer: int, link: Link, item: HelloMessage | ProveMessage | Landed) -> None:
        if isinstance(item, Landed):
            raise ProtocolError("raw bytes before a handshake")
        if refused := answer_handshake(link, item, self._decode):
            self._cut_off(peer, refused)
        elif link.handshake.done:
            del self._unproven[peer]

    def _send(self, peer: int, message: Struct | Raw) -> None:
        """Send a message, if its peer is still there; if no frame can hold it, only its peer is told so."""
        if link := self._links.get(peer):
            try:
                link.send(message)
            except ProtocolError as error:
                link.send(RefusedReply(error=str(error)))
            if peer in self._stuck or link.unsent_bytes:
                self._flush(peer, link)

    def _flush(self, peer: int, link: Link) -> None:
        link.flush()
        unsent_bytes = link.unsent_bytes
        if unsent_bytes > MOST_UNSENT_BYTES:
            self._cut_off(peer, f"{unsent_bytes} bytes wait for it, and it doesn't read")
            return
        if not unsent_bytes:
            self._stuck.pop(peer, None)
        elif self._stuck.get(peer, (0, 0.0))[0] != unsent_bytes:
            self._stuck[peer] = unsent_bytes, time.monotonic() + STUCK_S
        events = (selectors.EVENT_WRITE if unsent_bytes else 0) | (0 if link.is_choked else selectors.EVENT_READ)
        if self._selector.get_key(link.socket).events != events:
            self._selector.modify(link.socket, events, peer)
            if link.has_unread and not link.is_choked:
                self._unread.add(peer)

    def _cut_off(self, peer: int, reason: str, *, by_itself: bool = True) -> None:
        where = _where(self._links[peer].socket)
        log(f"{self._title}: cut off a peer at {where}: {reason}")
        self._hang_up(peer, by_itself=by_itself)

    def _hang_up(self, peer: int, *, by_itself: bool) -> None:
        link = self._links.pop(peer)
        self._unproven.pop(peer, None)
        self._stuck.pop(peer, None)
        self._remote.discard(peer)
        self._selector.unregister(link.socket)
        # Before the socket is closed, which names the process.
        dying = dying_process(link.socket) if by_itself else None
        link.socket.close()
        # What a process that is ending has on its way into the pool may still come: until it is gone, its room isn't
        # free.
        if dying is None:
            self._say_left(peer, by_itself=by_itself)
        else:
            self._dying[dying] = peer
            self._selector.register(dying, selectors.EVENT_READ, "dying")

    def _bury(self, dying: int) -> None:
        """Take in that a peer's process is gone."""
        self._selector.unregister(dying)
        os.close(dying)
        self._say_left(self._dying.pop(dying), by_itself=True)

    def _say_left(self, peer: int, *, by_itself: bool) -> None:
        try:
            self._left(peer, by_itself=by_itself)
        except Exception as error:  # as above
            log(f"{self._title}: {''.join(traceback.format_exception(error))}")

    def close(self) -> None:
        """Close all connections to peers."""
        for link in self._links.values():
            link.socket.close()
        for listener in self._listeners:
            listener.close()
        self._selector.close()
        signal.set_wakeup_fd(-1)
        for descriptor in (*self._wakeup, *self._dying):
            os.close(descriptor)


def _where(peer: socket.socket) -> str:
    try:
        name = peer.getpeername()
    except OSError:
        return "an address that is gone"
    return f"{name[0]} port {name[1]}" if isinstance(name, tuple) else "the Unix socket"

"""A master's shell: one thread, one selector, the sockets around `Master`."""

import itertools
import os
import selectors
import signal
import socket
import struct
import sys
import time
from pathlib import Path

from bbflow.errors import BbflowError, ProtocolError
from bbflow.files.master import Master
from bbflow.landing.contact import read_masters
from bbflow.landing.handshake import TIMEOUT_S, NodeHandshake
from bbflow.landing.link import GoneError, Landed, Link, answer_handshake
from bbflow.landing.listen import listen_tcp, listen_unix, public_address, split_address, tune
from bbflow.landing.server import Door
from bbflow.records import Message

SOCKET_NAME = "master.sock"
TICK_S = 0.25
"""What is due by the clock is looked at so often."""


class MasterServer:
    """Serves one master until someone asks it to stop.

    Parameters
    ----------
    master
        Its decisions.
    name
        As it stands in the contact file.
    directory
        Where its Unix socket is.
    door
        How it lets peers in.
    contact
        The contact file, which names the other masters.
    stop_at_eof
        A descriptor whose end also ends the server.
    """

    def __init__(
        self, master: Master, name: str, directory: Path, door: Door, contact: Path, stop_at_eof: int | None = None
    ) -> None:
        self._master, self._door = master, door
        self._contact, self._seen_ns = contact, 0
        self._identity: Message = {"name": name, "host": socket.gethostname()}
        self._tls = door.certificate.context() if door.certificate else None
        self._selector = selectors.DefaultSelector()
        self._peers = itertools.count(1)
        self._links: dict[int, Link] = {}
        self._users: dict[int, int | None] = {}
        self._strangers: dict[int, float] = {}
        self._writing: set[int] = set()
        self.stopped = False
        """Whether it is to end."""
        self._unix = listen_unix(directory / SOCKET_NAME)
        self._tcp = listen_tcp(door.address)
        for listener in (self._unix, self._tcp):
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ, 0)
        if stop_at_eof is not None:
            self._selector.register(stop_at_eof, selectors.EVENT_READ, -1)

    @property
    def tcp(self) -> str:
        """``host:port`` by which other hosts reach it."""
        return public_address(self._tcp, split_address(self._door.address)[0])

    def run(self) -> None:
        """Serve; returns when asked to stop."""
        due_s = 0.0
        while not self.stopped:
            for key, events in self._selector.select(TICK_S):
                if key.data > 0:
                    self._serve(key.data, events)
                elif key.data == 0:
                    self._accept(self._tcp if key.fileobj is self._tcp else self._unix)
                elif not os.read(key.fd, 64):
                    self.stopped = True
            if time.monotonic() >= due_s:
                self._master.expire()
                self._look_for_masters()
                self._turn_strangers_away()
                due_s = time.monotonic() + TICK_S
            self._deliver()
            self.stopped = self.stopped or self._master.is_over
        self._close()

    def _look_for_masters(self) -> None:
        """See which other masters there are, whenever the contact file was written anew."""
        try:
            changed_ns = self._contact.stat().st_mtime_ns
            if changed_ns != self._seen_ns:
                self._master.graft({master.subtree: master.number for master in read_masters(self._contact)})
                self._seen_ns = changed_ns
        except (OSError, BbflowError):
            pass  # it comes back, or everything ends

    def _accept(self, listener: socket.socket) -> None:
        try:
            peer, _ = listener.accept()
        except OSError:
            return  # it has given up already
        user = None
        if listener is self._tcp:
            tune(peer)
            if self._tls:
                peer.setblocking(False)
                peer = self._tls.wrap_socket(peer, server_side=True, do_handshake_on_connect=False)
        else:
            user = user_of(peer)
        number = next(self._peers)
        self._links[number] = Link(peer, NodeHandshake(self._door.key, self._identity), _no_pool)
        self._users[number] = user
        self._strangers[number] = time.monotonic() + TIMEOUT_S
        self._selector.register(peer, selectors.EVENT_READ, number)

    def _turn_strangers_away(self) -> None:
        now_s = time.monotonic()
        for number in [number for number, deadline_s in self._strangers.items() if deadline_s <= now_s]:
            self._cut_off(number, f"it didn't prove itself within {TIMEOUT_S:.0f} s")

    def _serve(self, number: int, events: int) -> None:
        link = self._links.get(number)
        if link is None:
            return
        if events & selectors.EVENT_WRITE:
            self._flush(number, link)
        try:
            while number in self._links:
                for message in link.receive():
                    self._take(number, link, message)
                    if number not in self._links:
                        return
                if not link.has_unread:
                    return
        except GoneError:
            self._hang_up(number)
        except ProtocolError as error:
            self._cut_off(number, str(error))

    def _take(self, number: int, link: Link, message: Message | Landed) -> None:
        if isinstance(message, Landed):
            raise ProtocolError("raw bytes for a master")
        if link.handshake.done:
            self._master.handle(number, message, self._users[number])
        elif refused := answer_handshake(link, message):
            self._cut_off(number, refused)
        elif link.handshake.done:
            del self._strangers[number]

    def _deliver(self) -> None:
        """Send what may be sent, now that everything before is stored."""
        for number, message in self._master.take_out():
            link = self._links.get(number)
            if link is None:
                continue
            if message.get("op") == "cut off":
                self._cut_off(number, "it didn't answer while others waited for it")
                continue
            link.send(message)
            self._flush(number, link)

    def _flush(self, number: int, link: Link) -> None:
        if link.is_sending:
            link.flush()
        if link.is_sending != (number in self._writing):
            self._writing ^= {number}
            write = selectors.EVENT_WRITE if link.is_sending else 0
            self._selector.modify(link.socket, selectors.EVENT_READ | write, number)

    def _cut_off(self, number: int, reason: str) -> None:
        print(f"bbflow files master: cut off a peer: {reason}", file=sys.stderr, flush=True)
        self._hang_up(number)

    def _hang_up(self, number: int) -> None:
        link = self._links.pop(number, None)
        if link is None:
            return
        self._strangers.pop(number, None)
        self._users.pop(number, None)
        self._writing.discard(number)
        self._selector.unregister(link.socket)
        link.socket.close()
        self._master.disconnect(number)

    def _close(self) -> None:
        for link in self._links.values():
            link.socket.close()
        self._unix.close()
        self._tcp.close()
        self._selector.close()


def user_of(peer: socket.socket) -> int:
    """Give the user at the other end of a Unix socket."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


def _no_pool() -> memoryview:
    raise ProtocolError("a master keeps no bytes")


def stop_at_signals(server: MasterServer) -> None:
    """Let SIGTERM and SIGINT end a server."""

    def stop(*_: object) -> None:
        server.stopped = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)

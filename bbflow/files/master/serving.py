"""A master's shell: the sockets around `Master`."""

import socket
import struct
import time
from pathlib import Path

from bbflow.errors import BbflowError, CapacityError, ProtocolError
from bbflow.files.master.core import CutOff
from bbflow.files.master.master import Master
from bbflow.files.requests import Heard, parse_heard
from bbflow.host.log import log
from bbflow.net.contact import read_masters
from bbflow.net.handshake import WelcomeReply
from bbflow.net.link import Landed, Link
from bbflow.net.peers import Endpoint, PeerServer

SOCKET_NAME = "master.sock"
TICK_S = 0.25
"""How often it is looked what is due by the clock."""
RETRY_S = 0.5
"""How often a database whose file system is full is written to again."""


class MasterServer(PeerServer):
    """Serves one master until someone asks it to stop.

    Parameters
    ----------
    master
        Its decisions.
    name
        As it stands in the contact file.
    directory
        Where its Unix socket is.
    endpoint
        How it lets peers in.
    contact
        The contact file, which names the other masters.
    stop_at_eof
        A descriptor whose end also ends the server.
    """

    def __init__(
        self,
        master: Master,
        name: str,
        directory: Path,
        endpoint: Endpoint,
        contact: Path,
        stop_at_eof: int | None = None,
    ) -> None:
        self._master, self._contact, self._seen_ns = master, contact, 0
        self._users: dict[int, int] = {}
        self._next_s = self._full_until_s = 0.0
        identity = WelcomeReply(name=name, host=socket.gethostname())
        super().__init__("bbflow files master", identity, directory / SOCKET_NAME, endpoint, _no_pool, stop_at_eof)

    @property
    def _is_over(self) -> bool:
        return self._master.is_over

    def _due_s(self) -> float | None:
        return self._next_s - time.monotonic()

    def _do_due(self) -> None:
        self._master.expire()
        self._look_for_masters()
        self._next_s = time.monotonic() + TICK_S

    def _look_for_masters(self) -> None:
        """See which other masters there are, whenever the contact file was rewritten."""
        try:
            changed_ns = self._contact.stat().st_mtime_ns
            if changed_ns != self._seen_ns:
                self._master.graft({master.subtree: master.number for master in read_masters(self._contact)})
                self._seen_ns = changed_ns
        except (OSError, BbflowError):
            pass  # it comes back, or everything ends

    def _let_in(self, peer: int, link: Link) -> None:
        if link.socket.family == socket.AF_UNIX:
            self._users[peer] = user_of(link.socket)

    def _decode(self, payload: bytes) -> Heard:
        heard: Heard = parse_heard(payload)
        return heard

    def _take(self, peer: int, link: Link, item: Heard | Landed) -> None:
        if isinstance(item, Landed):
            raise ProtocolError("raw bytes for a master")
        self._master.handle(peer, item, self._users.get(peer))

    def _left(self, peer: int, *, by_itself: bool) -> None:
        self._users.pop(peer, None)
        self._master.disconnect(peer)

    def _end_round(self) -> None:
        """Send what may be sent, now that everything before is stored; while there is no room for that, nothing is."""
        if time.monotonic() < self._full_until_s:
            return
        try:
            out = self._master.take_out()
        except CapacityError as error:
            if not self._full_until_s:
                log(f"{self._title}: {error}; until then it waits")
            self._full_until_s = time.monotonic() + RETRY_S
            return
        self._full_until_s = 0.0
        for peer, message in out:
            if not isinstance(message, CutOff):
                self._send(peer, message)
            elif peer in self._links:
                self._cut_off(peer, "it didn't answer while others waited for it")


def user_of(peer: socket.socket) -> int:
    """Return the user at the other end of a Unix socket."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


def _no_pool() -> memoryview:
    raise ProtocolError("a master keeps no bytes")

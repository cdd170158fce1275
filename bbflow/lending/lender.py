"""The process on a node that lends its copies to other nodes: `python -m bbflow.lending.lender`.

It reads a `Shelves` and the run's exchange as a line of JSON, and writes into the node's directory where it is. It ends
when no worker of the run is left there.
"""

import json
import os
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bbflow.errors import ProtocolError
from bbflow.host.atomic import write_whole
from bbflow.host.locks import lock
from bbflow.lending.exchange import Exchange, no_pool
from bbflow.lending.whereabouts import PartReply, ReadMessage, parse_read
from bbflow.net.handshake import WelcomeReply
from bbflow.net.link import Link
from bbflow.net.listen import split_address
from bbflow.net.peers import Endpoint, PeerServer
from bbflow.net.verdicts import RefusedReply

ADDRESS = "lender.json"
"""In the node's directory: where its lender is."""
MOST_BYTES = 4 << 20
"""Of a part."""
TICK_S = 0.5


@dataclass(frozen=True, slots=True)
class Shelves:
    """Where a node's copies are."""

    directory: str
    """The node's, which its workers share."""
    alive: str
    """A file in it that each of them holds a lock of, together."""
    whole: str
    """Directory in it of the one file of an entry, once it is whole; ``{name}`` stands for the entry's name."""

    def file(self, name: str) -> Path | None:
        """Return a whole file."""
        with suppress(FileNotFoundError, StopIteration):
            return next(Path(self.directory, self.whole.format(name=name)).iterdir())
        return None


class LendingServer(PeerServer):
    """Lends the copies of a node.

    Parameters
    ----------
    shelves
        Where they are.
    endpoint
        How it lets borrowers in.
    """

    def __init__(self, shelves: Shelves, endpoint: Endpoint) -> None:
        self._shelves, self._next_s, self._is_empty = shelves, time.monotonic() + TICK_S, False
        self._lent: dict[int, tuple[str, int]] = {}
        """What each borrower reads: the file stays while it is open, whether the node needs its room or not."""
        super().__init__("bbflow lender", WelcomeReply(name="", host=socket.gethostname()), None, endpoint, no_pool)

    @property
    def _is_over(self) -> bool:
        return self._is_empty

    def _decode(self, payload: bytes) -> Any:
        return parse_read(payload)

    def _due_s(self) -> float | None:
        return self._next_s - time.monotonic()

    def _do_due(self) -> None:
        """Check whether the last worker has left."""
        self._next_s = time.monotonic() + TICK_S
        try:
            alive = lock(Path(self._shelves.directory, self._shelves.alive), wait=False, create=False)
        except FileNotFoundError:
            self._is_empty = True
            return
        if alive is not None:
            os.close(alive)
        self._is_empty = alive is not None

    def _take(self, peer: int, link: Link, item: Any) -> None:
        if not isinstance(item, ReadMessage):
            raise ProtocolError("raw bytes that aren't expected")
        try:
            content = os.pread(self._open(peer, item.name), min(item.size, MOST_BYTES), item.offset)
        except OSError as error:
            self._send(peer, RefusedReply(error=f"{item.name} isn't here ({error.strerror})"))
        else:
            self._send(peer, PartReply(content=content))

    def _open(self, peer: int, name: str) -> int:
        if (lent := self._lent.get(peer)) is not None and lent[0] == name:
            return lent[1]
        self._left(peer, by_itself=True)
        path = None if "/" in name else self._shelves.file(name)
        if path is None:
            raise FileNotFoundError(2, "no such copy")
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._lent[peer] = (name, descriptor)
        return descriptor

    def _left(self, peer: int, *, by_itself: bool) -> None:
        if (lent := self._lent.pop(peer, None)) is not None:
            os.close(lent[1])


def address_towards(tcp: str) -> str:
    """Return the address of this host by which another one is reached, without sending anything."""
    host, port = split_address(tcp)
    (family, _, _, _, target), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(target)
        own = str(probe.getsockname()[0])
    return f"[{own}]" if ":" in own else own


def main() -> None:
    """Serve."""
    told = json.loads(sys.stdin.readline())
    shelves, exchange = Shelves(**told["shelves"]), Exchange(**told["exchange"])
    server = LendingServer(shelves, Endpoint(exchange.key, address_towards(exchange.tcp)))
    with suppress(FileNotFoundError):  # everybody has left already
        write_whole(
            Path(shelves.directory, ADDRESS), json.dumps({"host": socket.gethostname(), "tcp": server.tcp}).encode()
        )
    server.run()


if __name__ == "__main__":
    main()

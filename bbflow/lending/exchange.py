"""The process of a run that tells each node where to copy a file from: `python -m bbflow.lending.exchange`.

It reads its key and address as a line of JSON, says where it is in another, and ends with its standard input.
"""

import json
import socket
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from bbflow.errors import NodeError, ProtocolError
from bbflow.host.closable import Closable
from bbflow.lending.whereabouts import (
    FailedMessage,
    HaveMessage,
    Lender,
    TurnReply,
    WantMessage,
    Whereabouts,
    parse_said,
)
from bbflow.net.contact import NodeAddress, new_key
from bbflow.net.handshake import WelcomeReply
from bbflow.net.link import Landed, Link
from bbflow.net.peers import Endpoint, PeerServer
from bbflow.net.verdicts import DoneReply

START_S = 60.0
_NAME = "the exchange of copies"


def no_pool() -> memoryview:
    """Return nowhere: no raw bytes are sent here."""
    return memoryview(b"")


class ExchangeServer(PeerServer):
    """Serves workers until its parent ends.

    Parameters
    ----------
    endpoint
        How it lets them in.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._whereabouts = Whereabouts()
        identity = WelcomeReply(name=_NAME, host=socket.gethostname())
        super().__init__("bbflow exchange", identity, None, endpoint, no_pool, sys.stdin.fileno())

    @property
    def _is_over(self) -> bool:
        return False

    def _decode(self, payload: bytes) -> Any:
        return parse_said(payload)

    def _due_s(self) -> float | None:
        return None

    def _do_due(self) -> None:
        """Nothing is."""

    def _take(self, peer: int, link: Link, item: Any) -> None:
        match item:
            case WantMessage():
                self._tell(self._whereabouts.want(peer, item.name))
            case HaveMessage():
                self._tell(self._whereabouts.have(peer, item.name, item.lender))
                self._send(peer, DoneReply())
            case FailedMessage():
                self._tell(self._whereabouts.failed(peer, is_away=item.is_away))
                self._send(peer, DoneReply())
            case Landed():
                raise ProtocolError("raw bytes that aren't expected")

    def _left(self, peer: int, *, by_itself: bool) -> None:
        self._tell(self._whereabouts.left(peer))

    def _tell(self, turns: Iterable[tuple[int, Lender | None]]) -> None:
        for worker, lender in list(turns):
            self._send(worker, TurnReply(lender=lender))


@dataclass(frozen=True)
class Exchange:
    """How workers reach the exchange."""

    host: str
    """Its host."""
    tcp: str
    """``host:port``."""
    key: str = field(repr=False)
    """What proves that one belongs to the run."""

    def node(self, lender: Lender | None = None) -> NodeAddress:
        """Return where a lender is, or the exchange."""
        host, tcp = (self.host, self.tcp) if lender is None else (lender.host, lender.tcp)
        return NodeAddress(_NAME if lender is None else tcp, host, "", "", self.key, tcp)


class RunningExchange(Closable):
    """An exchange that was started, as long as the run lasts.

    Parameters
    ----------
    address
        ``host[:port]`` at which the nodes reach this host.

    Raises
    ------
    NodeError
        If it can't listen there.
    """

    def __init__(self, address: str) -> None:
        key = new_key()
        command = [sys.executable, "-m", "bbflow.lending.exchange"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"key": key, "address": address}) + "\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline() or '{"error": "it ended at once"}')
        if "error" in said:
            self.close()
            raise NodeError(f"peers={address!r}: {said['error']}")
        self.address = Exchange(socket.gethostname(), said["tcp"], key)
        """How workers reach it."""

    def close(self) -> None:
        """End it."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        try:
            self._process.wait(START_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main() -> None:
    """Serve."""
    told = json.loads(sys.stdin.readline())
    try:
        server = ExchangeServer(Endpoint(told["key"], told["address"]))
    except Exception as error:
        print(json.dumps({"error": str(error)}), flush=True)
        raise SystemExit(1) from None
    print(json.dumps({"tcp": server.tcp}), flush=True)
    server.run()


if __name__ == "__main__":
    main()

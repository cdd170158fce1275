"""Copies that a node gets from other nodes: it asks the exchange where, and falls back on the source."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from msgspec import Struct, convert

from bbflow.errors import NodeError, ProtocolError
from bbflow.host.waiting import until
from bbflow.lending.exchange import Exchange
from bbflow.lending.lender import ADDRESS, MOST_BYTES, Shelves
from bbflow.lending.whereabouts import (
    FailedMessage,
    HaveMessage,
    Lender,
    PartReply,
    ReadMessage,
    TurnReply,
    WantMessage,
)
from bbflow.net.connection import NodeConnection, ReplyT
from bbflow.net.contact import NodeAddress
from bbflow.net.verdicts import DoneReply

START_S = 30.0
"""How long a node's lender may take to start."""


class ExchangeError(NodeError):
    """The exchange is gone, or was never reached."""


class LenderError(NodeError):
    """A copy can't be had from another node."""

    def __init__(self, message: str, *, is_away: bool = False) -> None:
        super().__init__(message)
        self.is_away = is_away
        """Whether no lender runs there."""


class Borrower:
    """One worker's way to the copies of other nodes.

    Parameters
    ----------
    exchange
        The run's.
    directory
        The node's, where its lender says where it is.

    Raises
    ------
    ExchangeError
        If it can't be reached, or the node's lender doesn't start.
    """

    def __init__(self, exchange: Exchange, directory: Path) -> None:
        self._exchange = exchange
        self._own = _own_lender(directory)
        self._of_thread = threading.local()
        self._connections: list[NodeConnection] = []
        try:
            self._connect()
        except NodeError as error:
            raise ExchangeError(str(error)) from None

    def close(self) -> None:
        """Leave; the node's copies are lent all the same."""
        for connection in self._connections:
            connection.close()

    @contextmanager
    def turn(self, name: str) -> Iterator[NodeAddress | None]:
        """Wait until it is this node's turn to copy a file, and give from which node: from its source if None.

        When the ``with`` ends the node has the file; with an exception it hasn't, and another's turn comes.

        Raises
        ------
        ExchangeError
            If that can't be found out.
        """
        lender = self._ask(WantMessage(name=name), TurnReply).lender
        try:
            yield None if lender is None else self._exchange.node(lender)
        except BaseException as error:
            with suppress(ExchangeError):
                is_away = isinstance(error, LenderError) and error.is_away
                self._ask(FailedMessage(name=name, is_away=is_away), DoneReply)
            raise
        self.have(name)

    def have(self, name: str) -> None:
        """Announce that the node has a file; if that is lost, others ask its source."""
        with suppress(ExchangeError):
            self._ask(HaveMessage(name=name, lender=self._own), DoneReply)

    def _ask(self, message: Struct, kind: type[ReplyT]) -> ReplyT:
        try:
            return self._connect().request(message, kind, within_s=None)  # a turn may be long in coming
        except (NodeError, ProtocolError) as error:
            raise ExchangeError(str(error)) from None

    def _connect(self) -> NodeConnection:
        """Return this thread's connection: over one of them, one file is brought at a time."""
        connection: NodeConnection | None = getattr(self._of_thread, "connection", None)
        if connection is None:
            connection = NodeConnection(self._exchange.node())
            self._of_thread.connection = connection
            self._connections.append(connection)
        return connection


def borrow(lender: NodeAddress, name: str, size_bytes: int, target: Path) -> None:
    """Copy a file from another node.

    Raises
    ------
    LenderError
        If it can't be had there whole; what came of it is removed.
    OSError
        If this node can't take it whole.
    """
    try:
        connection = NodeConnection(lender)
    except NodeError as error:
        raise LenderError(str(error), is_away=True) from None
    try:
        with connection, target.open("wb") as file:  # one without a buffer may write less and say nothing
            for offset in range(0, size_bytes, MOST_BYTES):
                want = min(MOST_BYTES, size_bytes - offset)
                content = connection.request(ReadMessage(name=name, offset=offset, size=want), PartReply).content
                if len(content) != want:
                    raise LenderError(f"{name} at {lender.tcp} has {offset + len(content)} bytes, not {size_bytes}")
                file.write(content)
    except BaseException as error:
        target.unlink(missing_ok=True)
        if isinstance(error, NodeError | ProtocolError):
            raise LenderError(str(error)) from None
        raise


def start_lender(exchange: Exchange, shelves: Shelves) -> None:
    """Start a node's lender, which stays until the node's last worker has left."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bbflow.lending.lender"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # It outlives the worker, whose process group may be killed as a whole.
        start_new_session=True,
        cwd="/",
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(json.dumps({"exchange": asdict(exchange), "shelves": asdict(shelves)}).encode() + b"\n")
    process.returncode = 0  # it isn't waited for: it outlives this process


def _own_lender(directory: Path) -> Lender:
    if not until((directory / ADDRESS).exists, START_S):
        raise ExchangeError(f"no process lends the copies in {directory}: they are read from their sources")
    return convert(json.loads((directory / ADDRESS).read_bytes()), Lender)

"""An IOnode: a thread for each client, one that follows the master, and a few for the shared storage."""

import errno
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bbflow.errors import BbflowError, ConfigError, NodeError
from bbflow.files.client.calling import Caller, Gone, address_of
from bbflow.files.commands import (
    CapacityNotice,
    Command,
    CommandAnswer,
    DeleteCommand,
    EndCommand,
    FillCommand,
    FitsNotice,
    IonodeTold,
    JoinIonode,
    MoveCommand,
    NodesNotice,
    UploadCommand,
    parse_told,
)
from bbflow.files.giving_way import GivingWay
from bbflow.files.ionode.bound import Bound
from bbflow.files.ionode.commanded import Transfers, refusal
from bbflow.files.ionode.conversation import Conversation
from bbflow.files.ionode.door import Door
from bbflow.files.ionode.fills import Fills
from bbflow.files.ionode.storage import Storage
from bbflow.files.piece_requests import (
    BeginConnectionRequest,
    CopyRequest,
    CutRequest,
    PieceRequest,
    ReadRequest,
    ReadyRequest,
    UsageRequest,
    WriteRequest,
)
from bbflow.files.pieces import SOCKET_NAME, Pieces
from bbflow.files.replies import FileRefusal, FileReply, UsageReply
from bbflow.host.dumps import write_no_cores
from bbflow.host.log import log
from bbflow.net.contact import NodeAddress, read_masters
from bbflow.net.handshake import WelcomeReply
from bbflow.net.listen import listen_tcp, listen_unix, public_address, raise_open_files, tune
from bbflow.net.peers import Endpoint
from bbflow.store.shared_room import NodeRoom

COME_BACK_S = 0.2
"""How often a master that is away is tried again."""
LOOK_S = 0.1
"""How often it looks what the streams leave, and whether its pieces are there."""
INVENTORY_PART = 100_000
THREADS = 8
INSIDE_PART = 4
"""Each listener's clients may have this part of the descriptors; the rest is for what they read and write."""


@dataclass(frozen=True, slots=True)
class IoNodeSettings:
    """Where an IOnode is, and what it may use."""

    name: str
    """Unique under its master."""
    contact: Path
    """The contact file, which names its master."""
    directory: Path
    """Where its pieces lie."""
    capacity: int
    """Bytes that they may take."""
    subtree: str = "/"
    """Which master's it is."""
    room: NodeRoom | None = None
    """What they share with the pool of the node's streams; None if they share nothing."""


class IoNode:
    """Serves pieces to clients, and does what its master commands.

    Parameters
    ----------
    settings
        Where it is.
    endpoint
        How it lets peers in.
    storage
        The shared storage; one without a URL is none.
    giving_way
        When transfers may run.
    """

    def __init__(self, settings: IoNodeSettings, endpoint: Endpoint, storage: Storage, giving_way: GivingWay) -> None:
        write_no_cores()
        self._settings, self._endpoint = settings, endpoint
        self._giving_way = giving_way
        self._pieces = Pieces(settings.directory)
        self._bound = Bound(settings.capacity, settings.room)
        self._identity = WelcomeReply(name=settings.name, host=socket.gethostname())
        self._tls = endpoint.context()
        self._unix = listen_unix(settings.directory / SOCKET_NAME)
        self._tcp = listen_tcp(endpoint.address)
        self._addresses = dict[str, NodeAddress]()
        self._fills = Fills(self._pieces, storage, giving_way.chunk, THREADS)
        self._transfers = Transfers(
            settings.name, self._pieces, self._fills, storage, lambda: self._addresses, giving_way.chunk
        )
        self._workers = ThreadPoolExecutor(THREADS, thread_name_prefix="bbflow-transfer")
        # A delay policy may hold all of these; what clients wait for, such as a look at a directory, continues.
        self._uploads = ThreadPoolExecutor(THREADS, thread_name_prefix="bbflow-upload")
        self._begun: dict[str, Conversation] = {}
        self._sending = threading.Lock()
        self._told: Caller | None = None
        self._busy: dict[str, int] = {}
        self.is_over = False
        """Whether the master has told it to end, and to keep nothing."""
        self.is_removed = False
        """Whether it ends since its directory isn't there any more."""
        self._own_requests: dict[type, Callable[[Conversation, Any], None]] = {
            BeginConnectionRequest: self._begin,
            WriteRequest: self._write,
            CutRequest: self._cut,
            CopyRequest: self._copy,
        }
        self._requests: dict[type, Callable[[Any], FileReply]] = {
            ReadyRequest: self._ready,
            UsageRequest: self._usage,
        }

    def start(self) -> None:
        """Accept clients, in threads of its own."""
        most = raise_open_files() // INSIDE_PART
        for listener, meet in ((self._unix, self._meet_here), (self._tcp, self._meet_elsewhere)):
            door = Door(listener, most, meet, self._serve)
            threading.Thread(target=door.run, daemon=True).start()
        threading.Thread(target=self._watch, name="bbflow-watch", daemon=True).start()

    # Clients.

    def _meet_here(self, peer: socket.socket, timeout_s: float) -> Conversation:
        return Conversation(peer, self._endpoint.key, self._identity, None, timeout_s)

    def _meet_elsewhere(self, peer: socket.socket, timeout_s: float) -> Conversation:
        tune(peer)
        return Conversation(peer, self._endpoint.key, self._identity, self._tls, timeout_s)

    def _serve(self, client: Conversation) -> None:
        try:
            while (asked := client.receive()) is not None:
                self._answer(client, asked)
        finally:
            self._begun.pop(client.name, None)

    def _answer(self, client: Conversation, asked: PieceRequest) -> None:
        try:
            if isinstance(asked, ReadRequest):
                self._read(client, asked)
            elif isinstance(asked, BeginConnectionRequest | WriteRequest | CutRequest | CopyRequest):
                self._own_requests[type(asked)](client, asked)
                client.send(FileReply())
            else:
                client.send(self._requests[type(asked)](asked))
        except OSError as error:
            client.send(FileRefusal(errno=error.errno or errno.EIO, error=error.strerror or str(error)))

    def _read(self, client: Conversation, asked: ReadRequest) -> None:
        with self._whole(asked.key, asked.offset, asked.bytes) as descriptor:
            client.send_raw(os.pread(descriptor, asked.bytes, asked.offset))

    @contextmanager
    def _whole(self, key: str, offset: int, size: int) -> Iterator[int]:
        """Open a piece, and wait until a range of it has come."""
        with self._pieces.opened(key) as descriptor:  # first: one that begins to come later would be zeros
            self._fills.wait(key, offset, size)
            if not os.fstat(descriptor).st_nlink:
                raise FileNotFoundError(errno.ENOENT, f"piece {key} isn't here any more")
            yield descriptor

    def _begin(self, client: Conversation, asked: BeginConnectionRequest) -> None:
        client.name = asked.connection
        self._begun[client.name] = client
        for name in asked.without:
            if (other := self._begun.get(name)) is not None:
                other.retire()

    def _write(self, client: Conversation, asked: WriteRequest) -> None:
        content, is_intact = client.receive_raw(asked.bytes, asked.check)
        if not is_intact:
            raise OSError(errno.EBADMSG, f"{asked.bytes} bytes arrived damaged")
        with client.changing():
            if not asked.make:
                self._pieces.require(asked.key, 0)
            self._pieces.write(asked.key, asked.offset, content, make=asked.make)

    def _cut(self, client: Conversation, asked: CutRequest) -> None:
        with client.changing():
            if asked.bytes:
                self._pieces.require(asked.key, asked.bytes)
            self._pieces.cut(asked.key, asked.bytes)

    def _copy(self, client: Conversation, asked: CopyRequest) -> None:
        self._pieces.require(asked.of, asked.bytes)
        with self._whole(asked.of, 0, asked.bytes) as source, client.changing():
            self._pieces.copy(asked.key, source, asked.bytes)

    def _ready(self, asked: ReadyRequest) -> FileReply:
        with self._whole(asked.key, asked.offset, asked.bytes):
            return FileReply()

    def _usage(self, asked: UsageRequest) -> UsageReply:
        return UsageReply(capacity=self._settings.capacity, used=self._pieces.used_bytes())

    # The master.

    def follow(self) -> None:
        """Do what the master commands, forever; it may go and come back."""
        while True:
            try:
                with Caller(self._master()) as master:
                    master.decode_by(parse_told)
                    self._register(master)
                    self._obey(master)
            except (NodeError, ConfigError):
                pass  # it is away
            except (BbflowError, OSError, RuntimeError) as error:
                log(f"bbflow files ionode: starts over with its master: {error}")
            time.sleep(COME_BACK_S)

    def _master(self) -> NodeAddress:
        for master in read_masters(self._settings.contact):
            if master.subtree == self._settings.subtree:
                return master.address
        raise NodeError(f"no master of {self._settings.subtree!r} stands in {self._settings.contact} yet")

    def _register(self, master: Caller) -> None:
        settings = self._settings
        certificate = self._endpoint.certificate
        about = JoinIonode(
            name=settings.name,
            host=self._identity.host,
            socket=str(settings.directory / SOCKET_NAME),
            directory=str(settings.directory),
            tcp=public_address(self._tcp, self._endpoint.address),
            tls=str(certificate.authority.resolve()) if certificate else "",
            capacity=self._bound.tell(),
            most=settings.capacity,
            keys=(),
            verifier=self._pieces.verifier,
        )
        inventory = [(key, size) for key, size in self._pieces.inventory() if not self._fills.is_filling(key)]
        # A node of millions of pieces would break the limit of a message. Even one without any sends a part: the last
        # one says that all is told.
        parts = [tuple(inventory[at : at + INVENTORY_PART]) for at in range(0, max(len(inventory), 1), INVENTORY_PART)]
        for part in parts[:-1]:
            master.send(replace(about, keys=part))
        with self._sending:  # what ends from now on is told to this master, though another one may have commanded it
            master.send(replace(about, keys=parts[-1], last=True, busy=self._busy))
            self._told = master

    def _learn(self, nodes: Iterable[IonodeTold]) -> None:
        self._addresses = {told.name: address_of(told, self._endpoint.key) for told in nodes if told.up}
        self._giving_way.nodes = len(self._addresses)

    def _obey(self, master: Caller) -> None:
        while True:
            told = master.receive()
            if isinstance(told, NodesNotice):
                self._learn(told.nodes)
            elif isinstance(told, FitsNotice):
                self._bound.fits(told.bytes)
            elif isinstance(told, EndCommand):
                self.is_over = True
                self._tell(told, CommandAnswer())
                _end()
            elif type(told) in self._transfers.quick:
                self._tell(told, self._transfers.quick[type(told)](told))
            elif isinstance(told, FillCommand):  # it only queues; in order with what drops the same piece
                self._execute(told)
            else:
                with self._sending:
                    self._busy |= _object_of(told)
                (self._uploads if isinstance(told, UploadCommand) else self._workers).submit(self._execute, told)

    def _watch(self) -> None:
        """Report to the master whenever streams want more of the node, or less; end once its directory has gone."""
        while not self.is_over:
            time.sleep(LOOK_S)
            if self._pieces.is_removed and not self.is_over:
                # To go on would keep the verifier, by which what was written here counts.
                self.is_removed = True
                _end()
                return
            with self._sending, suppress(Gone, OSError):  # no descriptor may be free
                if self._told is not None and self._bound.has_changed():
                    self._told.send(CapacityNotice(bytes=self._bound.tell()))

    def _execute(self, command: Command) -> None:
        try:
            self._transfers.slow[type(command)](command, lambda answer: self._tell(command, answer))
        except (BbflowError, OSError, RuntimeError) as error:
            self._tell(command, refusal(error))

    def _tell(self, command: Command, answer: CommandAnswer) -> None:
        with self._sending, suppress(Gone):  # it is asked again once it is back
            if answer.done:
                for path, task in _object_of(command).items():
                    if self._busy.get(path) == task:
                        del self._busy[path]
            if self._told is not None:
                self._told.send(replace(answer, task=command.task))


def _end() -> None:
    os.kill(os.getpid(), signal.SIGTERM)  # the main thread waits for signals alone (sigwait)


def _object_of(command: Command) -> dict[str, int]:
    """Return the object that a command makes or removes, if it does, with the task's number."""
    match command:
        case UploadCommand(path=path) | DeleteCommand(path=path) | MoveCommand(to=path):
            return {path: command.task}
    return {}

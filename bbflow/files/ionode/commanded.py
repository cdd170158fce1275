"""What an IOnode does when its master commands it: one function a command."""

import errno
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import Any

from bbflow.errors import (
    BbflowError,
    ChangedSourceError,
    ConflictError,
    NodeError,
    ProtocolError,
    SourceError,
    one_line,
)
from bbflow.files.client.calling import IonodeCaller, address_of
from bbflow.files.commands import (
    CHANGED,
    STOPPED,
    TAKEN,
    Command,
    CommandAnswer,
    DeleteCommand,
    DiscardCommand,
    DropCommand,
    FetchCommand,
    FillCommand,
    HaveCommand,
    MoveCommand,
    ScanCommand,
    StopCommand,
    UploadCommand,
)
from bbflow.files.inodes import holders, key_of
from bbflow.files.ionode.fills import Fill, Fills
from bbflow.files.ionode.storage import Failed, Storage, errno_of
from bbflow.files.piece_requests import MOST_BYTES
from bbflow.files.pieces import Pieces, write_all
from bbflow.net.contact import NodeAddress

Answer = Callable[[CommandAnswer], None]


class Transfers:
    """Executes commands.

    Parameters
    ----------
    name
        The IOnode's.
    pieces
        Its piece files.
    fills
        Fetches from the shared storage.
    storage
        The shared storage.
    addresses
        Gives the IOnodes of the master by name.
    gate
        Gives what bytes pass on their way to the shared storage.
    """

    def __init__(
        self,
        name: str,
        pieces: Pieces,
        fills: Fills,
        storage: Storage,
        addresses: Callable[[], dict[str, NodeAddress]],
        gate: Callable[[int], AbstractContextManager[None]],
    ) -> None:
        self._name, self._pieces, self._fills, self._storage = name, pieces, fills, storage
        self._addresses, self._gate = addresses, gate
        self._stopped: set[int] = set()
        self.quick: dict[type[Command], Callable[[Any], CommandAnswer]] = {
            HaveCommand: self._have,
            DropCommand: self._drop,
            DiscardCommand: self._discard,
            StopCommand: self._stop,
        }
        """Commands that are done at once, in their order."""
        self.slow: dict[type[Command], Callable[[Any, Answer], None]] = {
            FillCommand: self._fill,
            FetchCommand: self._fetch,
            UploadCommand: self._upload,
            ScanCommand: self._scan,
            MoveCommand: self._move,
            DeleteCommand: self._delete,
        }
        """Commands that take time."""

    def _have(self, command: HaveCommand) -> CommandAnswer:
        # A piece on its way has its whole length from the start, and zeros where nothing has come.
        keys = self._pieces.sizes(command.keys)
        return CommandAnswer(keys=tuple((key, size) for key, size in keys if not self._fills.is_filling(key)))

    def _drop(self, command: DropCommand) -> CommandAnswer:
        for key in command.keys:
            self._fills.give_up(key)
            # The mark last: without it, what a kill leaves of a piece that was still to come would count as whole.
            self._pieces.drop(key)
            self._pieces.finish(key)
        return CommandAnswer()

    def _discard(self, command: DiscardCommand) -> CommandAnswer:
        self._pieces.discard(command.version)
        for key, size in command.cut:
            self._pieces.shorten(key, size)
        return CommandAnswer()

    def _fill(self, command: FillCommand, answer: Answer) -> None:
        def done(error: OSError | None) -> None:
            answer(CommandAnswer() if error is None else refusal(error))

        def begun() -> None:
            answer(CommandAnswer(done=False))  # who opens the file finds it from now on

        # Whoever opens it learns its size then: that the object is still what it was is known with the first chunk.
        is_checked = command.urgent and command.start == 0
        last = (begun,) if is_checked else ()
        self._fills.begin(
            Fill(command.key, command.path, command.start, command.bytes, command.facts, done, *last),
            urgent=command.urgent,
        )
        if not is_checked:
            begun()

    def _fetch(self, command: FetchCommand, answer: Answer) -> None:
        key, size = command.key, command.bytes
        # All nodes of a contact file have its key, and no message has it.
        address = address_of(command.node, next(iter(self._addresses().values())).key)
        try:
            with IonodeCaller(address) as caller, self._pieces.opened(key, make=True) as descriptor:
                at, buffer = 0, memoryview(bytearray(min(MOST_BYTES, size)))
                while at < size and (count := caller.read(key, at, buffer[: size - at])):
                    write_all(descriptor, buffer[:count], at)
                    at += count
            if at < size:
                raise OSError(errno.EIO, f"{command.node.name} has {at} of {size} bytes of piece {key}")
        except (BbflowError, OSError) as error:
            self._pieces.drop(key)  # the master counts no part of it
            if isinstance(error, NodeError):
                raise OSError(errno.EHOSTDOWN, str(error)) from None
            raise
        answer(CommandAnswer())

    def _stop(self, command: StopCommand) -> CommandAnswer:
        self._stopped.add(command.upload)
        return CommandAnswer()

    def _upload(self, command: UploadCommand, answer: Answer) -> None:
        passes = 0
        """How often its bytes were gone through: those of one may have come through although no answer did."""

        def parts() -> Iterator[bytes]:
            nonlocal passes
            passes += 1
            for part in self._content(command):
                if command.task in self._stopped:
                    raise _StoppedError(f"{command.path} has gone while it was written back")
                yield part

        try:
            facts = self._storage.write(
                command.path,
                parts,
                command.size,
                command.over,
                unsure=command.unsure,
                failed=_failed(answer),
            )
        except ConflictError as error:
            raise OSError(TAKEN, str(error)) from error
        except _StoppedError as error:
            # A client that repeats a request after a lost answer meets its own object then: what is there is not known.
            raise OSError(errno.EIO if passes > 1 or command.unsure else STOPPED, str(error)) from error
        finally:
            # A stop that comes too late would be remembered for good.
            self._stopped.discard(command.task)
        answer(CommandAnswer(facts=facts, weakness=self._storage.weakness(command.path)))

    def _content(self, command: UploadCommand) -> Iterator[bytes]:
        """Iterate over the bytes of a version, holes included."""
        size, piece_bytes = command.size, command.piece_bytes
        pieces, index = command.pieces, 0
        if piece_bytes <= 0 < size:
            raise ProtocolError(f"{size} bytes in pieces of {piece_bytes}")
        while index * piece_bytes < size:
            version, count = pieces[index] if index < len(pieces) else (0, 0)
            length = min(piece_bytes, size - index * piece_bytes)
            there = min(count, length) if version else 0
            yield from self._piece(command, version, index, there)
            yield from zeros(length - there)
            index += 1

    def _piece(self, command: UploadCommand, version: int, index: int, size: int) -> Iterator[bytes]:
        if not size:
            return
        key, nodes = key_of(version, index), holders(command.ring, index, command.replicas)
        caller = None if self._name in nodes else self._caller(nodes)
        try:
            for at in range(0, size, MOST_BYTES):
                length = min(MOST_BYTES, size - at)
                part = bytearray(length)
                read = caller.read if caller else self._pieces.read_into
                count = 0
                with suppress(FileNotFoundError):
                    count = read(key, at, memoryview(part))
                # A copy that has missed an append is shorter: what it lacks would be written as zeros.
                if count < length:
                    raise SourceError(f"piece {key} has {at + count} of {size} bytes on its node: it is tried again")
                with self._gate(length):
                    yield bytes(part)
        finally:
            if caller:
                caller.close()

    def _caller(self, nodes: tuple[str, ...]) -> IonodeCaller:
        addresses = self._addresses()
        for name in nodes:
            try:
                return IonodeCaller(addresses[name])
            except (KeyError, NodeError):
                continue
        raise OSError(errno.EHOSTDOWN, f"none of the IOnodes {', '.join(nodes)} answers")

    def _scan(self, command: ScanCommand, answer: Answer) -> None:
        for part in self._storage.scan(command.path, below=command.below):
            answer(part)
        answer(CommandAnswer())

    def _move(self, command: MoveCommand, answer: Answer) -> None:
        try:
            facts = self._storage.move(command.path, command.to, command.facts, command.over, _failed(answer))
        except ConflictError as error:
            raise OSError(TAKEN, str(error)) from error
        except ChangedSourceError as error:
            raise OSError(CHANGED, str(error)) from error
        answer(CommandAnswer(facts=facts, weakness=self._storage.weakness(command.to)))

    def _delete(self, command: DeleteCommand, answer: Answer) -> None:
        try:
            self._storage.remove(command.path, command.facts, _failed(answer))
        except ConflictError as error:
            raise OSError(CHANGED, str(error)) from error
        answer(CommandAnswer(weakness=self._storage.weakness(command.path)))


class _StoppedError(SourceError):
    """An upload was stopped."""


def zeros(size: int) -> Iterator[bytes]:
    """Iterate over this many zeros."""
    for at in range(0, size, MOST_BYTES):
        yield bytes(min(MOST_BYTES, size - at))


def _failed(answer: Answer) -> Failed:
    """Report failed attempts to the master, while they are repeated here."""
    return lambda reason: answer(CommandAnswer(done=False, error=one_line(reason)))


def refusal(error: Exception) -> CommandAnswer:
    """Return the answer to a command that failed."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return CommandAnswer(errno=errno_of(error), error=one_line(text) or type(error).__name__)

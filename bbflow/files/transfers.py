"""What an IOnode does when its master commands it: one function a command."""

import errno
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from bbflow.errors import NodeError
from bbflow.files.calling import MOST_BYTES, Caller, address_of
from bbflow.files.fills import Fill, Fills
from bbflow.files.inodes import holders, key_of
from bbflow.files.pieces import Pieces, write_all
from bbflow.files.storage import Storage, errno_of
from bbflow.landing.contact import NodeAddress
from bbflow.records import Message

Answer = Callable[[Message], None]


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
        self.quick: dict[str, Callable[[Message], Message]] = {
            "have": self._have,
            "drop": self._drop,
            "discard": self._discard,
        }
        """Commands that are done at once, in their order."""
        self.slow: dict[str, Callable[[Message, Answer], None]] = {
            "fill": self._fill,
            "fetch": self._fetch,
            "upload": self._upload,
            "scan": self._scan,
            "move": self._move,
            "delete": self._delete,
        }
        """Commands that take time."""

    def _have(self, command: Message) -> Message:
        keys = self._pieces.sizes(command["keys"])
        return {"ok": True, "keys": [[key, size] for key, size in keys if not self._fills.is_filling(key)]}

    def _drop(self, command: Message) -> Message:
        for key in command["keys"]:
            self._fills.give_up(key)
            self._pieces.finish(key)
            self._pieces.drop(key)
        return {"ok": True}

    def _discard(self, command: Message) -> Message:
        self._pieces.discard(int(command["version"]))
        for key, size in command["cut"]:
            self._pieces.shorten(key, int(size))
        return {"ok": True}

    def _fill(self, command: Message, answer: Answer) -> None:
        def done(error: OSError | None) -> None:
            answer({"ok": True} if error is None else {"errno": error.errno, "error": str(error.strerror or error)})

        facts = (int(command["facts"][0]), str(command["facts"][1]))
        fill = Fill(command["key"], command["path"], int(command["start"]), int(command["bytes"]), facts, done)
        self._fills.begin(fill, urgent=bool(command["urgent"]))
        answer({"ok": True, "done": False})  # who opens the file finds it from now on

    def _fetch(self, command: Message, answer: Answer) -> None:
        key, size, told = command["key"], int(command["bytes"]), command["node"]
        address = address_of(told, next(iter(self._addresses().values())).key)
        try:
            with Caller(address) as caller, self._pieces.opened(key, make=True) as descriptor:
                at, buffer = 0, memoryview(bytearray(min(MOST_BYTES, size)))
                while at < size and (count := caller.read(key, at, buffer[: size - at])):
                    write_all(descriptor, buffer[:count], at)
                    at += count
        except NodeError as error:
            self._pieces.drop(key)
            raise OSError(errno.EHOSTDOWN, str(error)) from None
        answer({"ok": True})

    def _upload(self, command: Message, answer: Answer) -> None:
        facts = self._storage.write(command["path"], lambda: self._content(command))
        answer({"ok": True, "facts": facts})

    def _content(self, command: Message) -> Iterator[bytes]:
        """Go through the bytes of a version, holes included."""
        size, piece_bytes = int(command["size"]), int(command["piece_bytes"])
        pieces, index = command["pieces"], 0
        while index * piece_bytes < size:
            version, count = pieces[index] if index < len(pieces) else (0, 0)
            length = min(piece_bytes, size - index * piece_bytes)
            yield from self._piece(command, int(version), index, min(int(count), length) if version else 0)
            yield from zeros(length - (min(int(count), length) if version else 0))
            index += 1

    def _piece(self, command: Message, version: int, index: int, size: int) -> Iterator[bytes]:
        if not size:
            return
        key, nodes = key_of(version, index), holders(tuple(command["ring"]), index, int(command["replicas"]))
        caller = None if self._name in nodes else self._caller(nodes)
        try:
            for at in range(0, size, MOST_BYTES):
                length = min(MOST_BYTES, size - at)
                part = bytearray(length)
                if caller:
                    caller.read(key, at, memoryview(part))
                else:
                    self._pieces.read_into(key, at, memoryview(part))
                with self._gate(length):
                    yield bytes(part)
        finally:
            if caller:
                caller.close()

    def _caller(self, nodes: tuple[str, ...]) -> Caller:
        addresses = self._addresses()
        for name in nodes:
            try:
                return Caller(addresses[name])
            except (KeyError, NodeError):
                continue
        raise OSError(errno.EHOSTDOWN, f"none of the IOnodes {', '.join(nodes)} answers")

    def _scan(self, command: Message, answer: Answer) -> None:
        for part in self._storage.scan(command["path"], below=bool(command["below"])):
            answer({"done": False, "ok": True, **part})
        answer({"ok": True})

    def _move(self, command: Message, answer: Answer) -> None:
        facts = self._storage.move(command["path"], command["to"], again=command.get("again"))
        answer({"ok": True, "facts": facts})

    def _delete(self, command: Message, answer: Answer) -> None:
        self._storage.remove(command["path"])
        answer({"ok": True})


def zeros(size: int) -> Iterator[bytes]:
    """Go through so many zeros."""
    for at in range(0, size, MOST_BYTES):
        yield bytes(min(MOST_BYTES, size - at))


def refusal(error: Exception) -> Message:
    """Give the answer to a command that failed."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return {"errno": errno_of(error), "error": text or type(error).__name__}

"""The files of moments: the states of all fields across members, and the ledger of what is in them, in one rename."""

import mmap
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bbflow.errors import DamagedError, naming
from bbflow.host.atomic import beside
from bbflow.net.decoders import msgpack_decoder

SUFFIX = ".moment"
SPARE = ".spare"
"""A moment's file whose place another has taken: its pages are touched already, and serve the next."""
REPLACED = ".replaced"
"""The same until the other has it."""
MAGIC = b"bbflowM1"
POPULATED = mmap.MAP_SHARED | mmap.MAP_POPULATE
"""All pages are mapped at once: each is needed, and one fault for each would take longer than the fold."""
ALIGNMENT_BYTES = 64
"""States begin at a multiple of this, as `StateLayout` wants its fields."""


class Counted(msgspec.Struct, frozen=True, array_like=True):
    """What of a member is in a moment."""

    through: int
    """Every time of the member up to this one is (microseconds, see `CommonGrid`): its times come in their order."""
    fields: int
    """How many of them are in the moment."""


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a moment, and what became of it."""

    window: str
    """The window's name."""
    begin: int
    """Microseconds, see `CommonGrid`: the time itself, or the begin of the span."""
    end: int
    """End of the span; the same as `begin` for a time."""
    numbers: tuple[float, float, float]
    """Its time, begin and end in the ensemble's units; with starts the lead times in hours."""
    start: str = ""
    """Of the forecasts whose moment it is; empty if members have no starts."""
    serial: int = 0
    """Grows with each change; of two files of one moment the greater counts."""
    members: dict[str, Counted] = {}
    """By name."""
    left_out: tuple[str, ...] = ()
    """Members that came too late."""
    closed: bool = False
    """Whether it takes nothing more: its states are gone."""

    @property
    def fields(self) -> int:
        """How many fields of members are in it."""
        return sum(counted.fields for counted in self.members.values())

    @property
    def name(self) -> str:
        """What its file is called, without the suffix: files of one window lie in the order of time."""
        return f"{self.window}.{self.start and f'{self.start}.'}{self.begin + (1 << 62):020d}"


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment as its file has it."""

    ledger: Ledger
    """What is in it."""
    states: Any
    """A read-only buffer with the states of all fields, one after another; empty before the first and after the
    last."""


class MomentFiles:
    """The moments of an ensemble.

    Parameters
    ----------
    fast
        A directory in memory.
    capacity
        Bytes that moments may take there.
    slow
        A directory for the others, and for ledgers of closed ones.
    """

    def __init__(self, fast: Path, capacity: int, slow: Path) -> None:
        self._directories = fast, slow
        self._capacity = capacity
        self._places: dict[str, Path] = {}
        self._bytes: dict[str, int] = {}
        """Of those in the fast directory."""
        self.ledgers: dict[str, Ledger] = {}
        """Of all moments, by name."""
        self.through: dict[tuple[str, str], int] = {}
        """Window and member to the last of its times that was taken before this process began (microseconds)."""
        for directory in self._directories:
            directory.mkdir(parents=True, exist_ok=True)
            # Of a process that was killed it may be a moment's file too: the name goes, and the moment stays.
            for left in (directory / SPARE, directory / REPLACED, *directory.glob(".*.part")):
                left.unlink(missing_ok=True)
            for path in sorted(directory.glob(f"*{SUFFIX}")):
                self._find(path)

    def _find(self, path: Path) -> None:
        """Take in what is there; a process that was killed between two renames has left a moment twice."""
        ledger = _read(path).ledger
        known = self.ledgers.get(ledger.name)
        if known is not None and known.serial >= ledger.serial:
            path.unlink()
            return
        if known is not None:
            self._places[ledger.name].unlink()
            self._bytes.pop(ledger.name, None)
        self._note(ledger, path)
        taken = {name: counted.through for name, counted in ledger.members.items()}
        for name, through in {**dict.fromkeys(ledger.left_out, ledger.end), **taken}.items():
            key = ledger.window, name
            self.through[key] = max(through, self.through.get(key, through))

    def _note(self, ledger: Ledger, path: Path) -> None:
        # Of closed ones only the file knows which members are in them: in time there are many.
        self.ledgers[ledger.name] = msgspec.structs.replace(ledger, members={}) if ledger.closed else ledger
        self._places[ledger.name] = path
        self._bytes.pop(ledger.name, None)
        if path.parent == self._directories[0]:
            self._bytes[ledger.name] = path.stat().st_size

    @property
    def bytes(self) -> int:
        """Bytes of the moments in memory."""
        return sum(self._bytes.values())

    def get(self, name: str) -> Moment | None:
        """Return a moment with its states; None if there is none yet."""
        path = self._places.get(name)
        return None if path is None else _read(path)

    def put(self, ledger: Ledger, nbytes: int) -> "Replacement":
        """Begin to replace a moment, or to make one.

        Parameters
        ----------
        ledger
            What will be in it.
        nbytes
            Of its states.
        """
        return Replacement(self, ledger, nbytes, self._place(ledger, nbytes))

    def _place(self, ledger: Ledger, nbytes: int) -> Path:
        fast, slow = self._directories
        others = self.bytes - self._bytes.get(ledger.name, 0)
        fits = nbytes > 0 and 2 * nbytes + others <= self._capacity  # while it is replaced it is there twice
        return (fast if fits else slow) / f"{ledger.name}{SUFFIX}"

    def close(self, ledger: Ledger) -> None:
        """Release a moment, but for its ledger: it takes nothing more."""
        closed = msgspec.structs.replace(ledger, serial=ledger.serial + 1, closed=True)
        self.put(closed, 0).commit()

    def empty(self, ledger: Ledger) -> None:
        """Empty a moment; who has folded it before folds it again."""
        self.put(msgspec.structs.replace(ledger, serial=ledger.serial + 1, members={}, closed=False), 0).commit()

    def members_of(self, name: str) -> frozenset[str]:
        """Return the members that are in a moment."""
        found = self.get(name)
        return frozenset(found.ledger.members) if found is not None else frozenset()

    def took(self, ledger: Ledger, path: Path) -> None:
        """Note that a moment has been replaced."""
        before = self._places.get(ledger.name)
        self._note(ledger, path)
        if before is not None and before != path:
            with suppress(FileNotFoundError):
                before.unlink()

    def of(self, window: str) -> Iterator[Ledger]:
        """Iterate over a window's moments in the order of time."""
        return (self.ledgers[name] for name in sorted(self.ledgers) if self.ledgers[name].window == window)

    def clear(self) -> None:
        """Remove all."""
        for path in self._places.values():
            path.unlink(missing_ok=True)
        for directory in self._directories:
            (directory / SPARE).unlink(missing_ok=True)
        self._places, self._bytes, self.ledgers = {}, {}, {}

    def take_spare(self, path: Path, temporary: Path) -> bool:
        """Begin a moment's next file with pages that are there; False if there are none."""
        try:
            os.rename(path.with_name(SPARE), temporary)
        except FileNotFoundError:
            return False
        return True

    def replace(self, temporary: Path, path: Path) -> None:
        """Put a file into a moment's place, and keep the pages of the one that was there."""
        replaced = path.with_name(REPLACED)
        try:
            if path.parent == self._directories[0]:
                # A second name keeps the pages when the rename below takes the first.
                os.link(path, replaced)
        except FileNotFoundError:
            pass
        os.replace(temporary, path)
        with suppress(FileNotFoundError):  # not before: until now it was the moment
            os.rename(replaced, path.with_name(SPARE))


class Replacement:
    """A moment's next file, until its rename."""

    def __init__(self, moments: MomentFiles, ledger: Ledger, nbytes: int, path: Path) -> None:
        self._moments, self._ledger, self._path = moments, ledger, path
        self._temporary = beside(path)
        head = _head_of(ledger)
        is_spare = nbytes > 0 and moments.take_spare(path, self._temporary)
        with naming(str(self._temporary)), self._temporary.open("r+b" if is_spare else "w+b") as file:
            there, whole = os.fstat(file.fileno()).st_size, len(head) + nbytes
            file.write(head)
            file.truncate(min(there, whole) if is_spare else None)
            if nbytes:
                if whole > there:
                    os.posix_fallocate(file.fileno(), there, whole - there)  # a full disk is an error here, no SIGBUS
                self._map: Any = mmap.mmap(file.fileno(), whole, flags=POPULATED)
            else:
                self._map = None
        self._begin = len(head)

    @property
    def states(self) -> memoryview:
        """A buffer for the states of all fields."""
        return memoryview(self._map)[self._begin :] if self._map is not None else memoryview(bytearray())

    def commit(self) -> None:
        """Commit it: from here on it is in the ledger, and never again."""
        with naming(str(self._path)):
            self._moments.replace(self._temporary, self._path)
        self._moments.took(self._ledger, self._path)


def _head_of(ledger: Ledger) -> bytes:
    packed = msgspec.msgpack.encode(ledger)
    head = MAGIC + len(packed).to_bytes(8, "little") + packed
    return head + bytes(-len(head) % ALIGNMENT_BYTES)


def _read(path: Path) -> Moment:
    with naming(str(path)), path.open("rb") as file:
        head = file.read(16)
        if head[:8] != MAGIC:
            raise DamagedError(f"{path} isn't a moment of an ensemble: it is damaged")
        length = int.from_bytes(head[8:], "little")
        try:
            ledger: Ledger = msgpack_decoder(Ledger).decode(file.read(length))
        except msgspec.MsgspecError as error:
            raise DamagedError(f"{path}: its ledger is damaged ({error})") from None
        begin = 16 + length + -(16 + length) % ALIGNMENT_BYTES
        size = os.fstat(file.fileno()).st_size
        if size <= begin:
            return Moment(ledger, memoryview(b""))
        return Moment(ledger, memoryview(mmap.mmap(file.fileno(), size, flags=POPULATED, prot=mmap.PROT_READ))[begin:])

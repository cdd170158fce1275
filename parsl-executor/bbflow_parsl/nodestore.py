"""The burst buffer of one node, which its worker processes share; what it holds is in its files and locks only.

::

    turn                      held by who waits for room: none overtakes
    room                      held while room is counted, given and taken
    entries/<name>/room       bytes that are reserved
    entries/<name>/hold       locked together by the tasks that use it
    entries/<name>/fetch      held by who copies it, so that it is copied once
    entries/<name>/whole/     the file, once it is whole: renamed, so it never appears in part

A worker that is killed holds nothing any more: what it was copying may be resumed, or goes.
"""

import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from bbflow.errors import CapacityError
from bbflow.host.locks import lock, locked
from bbflow.lending.lender import Shelves
from bbflow.staging.buffer_room import first_enough
from bbflow.units import format_bytes
from bbflow_parsl.locks import POLL_S
from bbflow_parsl.sweeping import ALIVE

ENTRIES, ROOM, HOLD, FETCH, WHOLE = "entries", "room", "hold", "fetch", "whole"


class NodeFiles:
    """Room on a node, and the files in it.

    Parameters
    ----------
    directory
        On the node; must be there.
    capacity_bytes
        Room for files.
    """

    def __init__(self, directory: Path, capacity_bytes: int) -> None:
        self._directory, self._capacity_bytes = directory, capacity_bytes
        self._entries = directory / ENTRIES
        self._entries.mkdir(exist_ok=True)

    @contextmanager
    def holding(self, wanted: Mapping[str, int]) -> Iterator[None]:
        """Hold a task's set of files for as long as a ``with`` lasts.

        The set is admitted whole, after those who came earlier.

        Parameters
        ----------
        wanted
            Name of each entry, to the bytes to reserve if it isn't there.

        Raises
        ------
        CapacityError
            If the set is larger than the capacity.
        """
        need_bytes = sum(wanted.values())
        if need_bytes > self._capacity_bytes:
            raise CapacityError(
                f"the task's files need {format_bytes(need_bytes)} on the node's burst buffer at once, which has "
                f"{format_bytes(self._capacity_bytes)}: give it more room (node_capacity), or let such tasks read "
                "directly (options={'oversize': 'direct'})"
            )
        # One after the other: small sets that take whatever becomes free would keep a large one waiting for good.
        with locked(self._directory / "turn"):
            while (holds := self._try_to_hold(wanted)) is None:
                time.sleep(POLL_S)
        try:
            yield
        finally:
            for descriptor in holds:
                os.close(descriptor)

    def entry(self, name: str) -> Path:
        """Return an entry's directory."""
        return self._entries / name

    def whole(self, name: str) -> Path | None:
        """Return an entry's file, if it is whole."""
        return shelves_of(self._directory).file(name)

    @contextmanager
    def fetching(self, name: str) -> Iterator[None]:
        """Be the only one who copies an entry, for as long as a ``with`` lasts; it must be held."""
        with locked(self.entry(name) / FETCH):
            yield

    def resize(self, name: str, size_bytes: int) -> None:
        """Correct how much room an entry takes; what isn't held goes if there is too little for all."""
        with locked(self._directory / "room"):
            self._write_room(name, size_bytes)
            victims = self._victims({}, 0)
            self._remove(victims or [])

    def rename(self, name: str, new: str) -> None:
        """Rename an entry, unless there is one of that name."""
        with locked(self._directory / "room"), suppress(OSError):
            if not self.entry(new).exists():
                self.entry(name).rename(self.entry(new))

    @property
    def used_bytes(self) -> int:
        """Room that is taken or reserved."""
        with locked(self._directory / "room"):
            return sum(self._sizes().values())

    def _try_to_hold(self, wanted: Mapping[str, int]) -> list[int] | None:
        with locked(self._directory / "room"):
            new = {name: size for name, size in wanted.items() if not self.entry(name).exists()}
            victims = self._victims(wanted, sum(new.values()))
            if victims is None:
                return None
            self._remove(victims)
            for name, size_bytes in new.items():
                self.entry(name).mkdir()
                self._write_room(name, size_bytes)
            # Still within the lock: else another process could choose one to go before it is held.
            return [self._hold(name) for name in wanted]

    def _hold(self, name: str) -> int:
        descriptor = lock(self.entry(name) / HOLD, shared=True)
        assert descriptor is not None
        # Its time of change is when the entry was used last, for all processes.
        os.utime(descriptor)
        return descriptor

    def _victims(self, keep: Mapping[str, int], need_bytes: int) -> list[tuple[str, int]] | None:
        """Choose what goes, the longest unused first, and lock it; None if all that may go isn't enough."""
        sizes = self._sizes()
        short_bytes = sum(sizes.values()) + need_bytes - self._capacity_bytes
        idle = self._idle(sizes.keys() - keep.keys())
        chosen, short_bytes = first_enough(idle, short_bytes, lambda victim: sizes[victim[0]])
        if short_bytes <= 0:
            return chosen
        for _, descriptor in chosen:
            os.close(descriptor)
        return None

    def _idle(self, names: Iterable[str]) -> Iterator[tuple[str, int]]:
        """Lock one unheld entry after the other, the longest unused first."""
        for name in sorted(names, key=self._used_s):
            descriptor = lock(self.entry(name) / HOLD, wait=False)
            if descriptor is not None:
                yield name, descriptor

    def _remove(self, victims: list[tuple[str, int]]) -> None:
        for name, descriptor in victims:
            # Removed while its lock is held: no one can begin to use it half-way.
            shutil.rmtree(self.entry(name), ignore_errors=True)
            os.close(descriptor)

    def _used_s(self, name: str) -> float:
        try:
            return (self.entry(name) / HOLD).stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def _sizes(self) -> dict[str, int]:
        return {path.name: _read_room(path / ROOM) for path in self._entries.iterdir() if _is_entry(path)}

    def _write_room(self, name: str, size_bytes: int) -> None:
        (self.entry(name) / ROOM).write_text(str(size_bytes))


def shelves_of(directory: Path) -> Shelves:
    """Return where a node's whole files are, in its directory."""
    return Shelves(str(directory), ALIVE, f"{ENTRIES}/{{name}}/{WHOLE}")


def _is_entry(path: Path) -> bool:
    """Whether we made it: an owner that was killed before it could say how much room it takes left it empty."""
    return (path / ROOM).exists() or not any(path.iterdir())


def _read_room(path: Path) -> int:
    """Read what is reserved; nothing if its owner was killed before it could say how much."""
    try:
        return int(path.read_text() or 0)
    except FileNotFoundError:
        return 0

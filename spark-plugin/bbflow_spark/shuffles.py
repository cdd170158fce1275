"""Shuffles on the burst buffer: they share the room with the inputs, and what is too much goes to the disk."""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bbflow.events import EventLog

LOOK_S = 0.5
INPUTS_SHARE = 0.25
"""Of the capacity, that shuffles leave to the inputs."""
MOVED = "moved-*"
"""Matches the names that files have on the disk."""
_MARK = ".on-disk"


@dataclass(frozen=True, slots=True)
class Taken:
    """What lies in the directory of the shuffles."""

    bb_bytes: int
    """On the burst buffer."""
    disk_bytes: int
    """Moved to the disk."""


class Shuffles:
    """The directory that Spark's ``spark.local.dir`` names.

    A shuffle file is never changed once it has its name. So one that must go is copied to the disk, and a link takes
    its place; who reads it meanwhile continues with what it has open.

    Parameters
    ----------
    directory
        On the BB.
    disk
        Directory where files go for which the BB has no room.
    limit_bytes
        What may lie on the BB.
    """

    def __init__(self, directory: Path, disk: Path, limit_bytes: int) -> None:
        self._directory = directory
        self._disk = disk
        self._limit_bytes = limit_bytes

    def look(self) -> Taken:
        """See what is there, and make room if it is too much."""
        files, linked = self._files()
        bb_bytes = sum(size for _, size, _ in files)
        for path, size, _ in sorted((f for f in files if _is_whole(f[0].name)), key=lambda file: file[2]):
            if bb_bytes <= self._limit_bytes:
                break
            if self._move(path):
                bb_bytes -= size
                linked.add(self._place(path))
        return Taken(bb_bytes, self._tidy(linked))

    def _files(self) -> tuple[list[tuple[Path, int, float]], set[Path]]:
        """Return the files with their sizes and ages, and where links lead to."""
        files: list[tuple[Path, int, float]] = []
        linked: set[Path] = set()
        for folder, _, names in os.walk(self._directory):
            for name in names:
                path = Path(folder, name)
                with suppress(OSError):  # Spark has removed it meanwhile
                    if path.is_symlink():
                        linked.add(path.readlink())
                    else:
                        found = path.stat()
                        files.append((path, found.st_size, found.st_mtime))
        return files, linked

    def _place(self, path: Path) -> Path:
        return self._disk / MOVED.replace("*", str(path.relative_to(self._directory)).replace(os.sep, "_"))

    def _move(self, path: Path) -> bool:
        """Move a file to the disk; false if it goes meanwhile, or the disk has no room."""
        place, link = self._place(path), path.with_name(path.name + _MARK)
        try:
            shutil.copyfile(path, place)
            link.symlink_to(place)
            path.stat()  # else it was removed meanwhile
            link.replace(path)
        except OSError:
            link.unlink(missing_ok=True)
            place.unlink(missing_ok=True)
            return False
        return True

    def _tidy(self, linked: set[Path]) -> int:
        """Remove from the disk what no link leads to any more; return the bytes that stay."""
        size_bytes = 0
        for path in self._disk.glob(MOVED):
            if path in linked:
                size_bytes += path.stat().st_size
            else:
                path.unlink(missing_ok=True)
        return size_bytes


def _is_whole(name: str) -> bool:
    """Whether a file has got its last name: others are being written."""
    return name.startswith("shuffle_") and name.endswith(".data")


@contextmanager
def shared_room(
    shuffles: Shuffles, capacity_bytes: int, resize: Callable[[int], None], events: EventLog
) -> Iterator[None]:
    """Share the BB between shuffles and inputs for as long as the block lasts.

    Parameters
    ----------
    shuffles
        Looked at about twice a second.
    capacity_bytes
        For both.
    resize
        Told the inputs' room whenever it changes.
    events
        Where it is noted what lies where.
    """
    ended = threading.Event()

    def follow() -> None:
        before = Taken(0, 0)
        while not ended.wait(LOOK_S):
            taken = shuffles.look()
            if taken != before:
                resize(capacity_bytes - taken.bb_bytes)
                events.add("shuffle", at_s=time.time(), bb_bytes=taken.bb_bytes, disk_bytes=taken.disk_bytes)
                before = taken

    thread = threading.Thread(target=follow, name="bbflow-shuffles")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()

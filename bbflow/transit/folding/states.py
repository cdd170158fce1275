"""State files: partial states in shared memory that a killed worker can't tear.

A task reads the state that counts and writes the next one into another file; which file counts is decided
by the receipt, not by the file system. Each worker process writes into two files of its own for each shard
and window, in turn, so that pages are touched once and a worker that was given up can't write into a file
that counts. A file's number says whose turn it is: all that one task writes, however often and wherever it runs, has
the number that the state before it hasn't. So what dead processes have left of the other number is done with, and goes
while a living one makes its files; but what has the task's own number may count already: the driver can have the
receipt of a worker that died before the whole batch was done, which lets Dask run its tasks again.
"""

import fcntl
import mmap
import os
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from bbflow.errors import naming
from bbflow.operators import StateLayout

PROCESS = uuid.uuid4().hex[:12]
"""Names this process's files; a number such as the pid could come back."""

ALIVE = "alive"
"""A process holds a lock on a file whose name ends so, for as long as it lives."""

_mapped: dict[str, tuple[int, mmap.mmap]] = {}
_fresh: set[str] = set()
"""Those that were written once."""
_locks: dict[str, int] = {}
_claiming = threading.Lock()


def next_file(directory: str, shard: str, slot: str, current: str | None) -> str:
    """Give the one of this process's two files whose number the current state, whoever wrote it, hasn't."""
    number = "1" if current is not None and _number(current) == "0" else "0"
    return f"{directory}/{shard}.{slot}.{PROCESS}.{number}"


def map_target(path: str, size: int, current: str | None) -> mmap.mmap:
    """Map a file of this process for writing; when it is made, and used again, what the dead have left goes.

    Parameters
    ----------
    path
        As `next_file` gives it.
    size
        Bytes of the state.
    current
        The file that counts, which stays whoever wrote it.
    """
    known = _mapped.get(path)
    if known is not None and Path(path).exists() and os.stat(path).st_ino == known[0]:
        if path in _fresh:  # the third batch: now the state of the dead goes that counted before the first
            _fresh.discard(path)
            _tidy(path, current)
        return known[1]
    _say_alive(os.path.dirname(path))
    _tidy(path, current)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with naming(path):
            os.posix_fallocate(descriptor, 0, size)
        mapping = mmap.mmap(descriptor, size)
        _mapped[path] = (os.fstat(descriptor).st_ino, mapping)
        _fresh.add(path)
    finally:
        os.close(descriptor)
    return mapping


def map_source(path: str) -> mmap.mmap:
    """Map a state for reading, whoever wrote it."""
    known = _mapped.get(path)
    if known is not None:
        return known[1]
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)


def combine_files(layout: StateLayout, paths: Iterable[str], target: Any) -> None:
    """Merge the states of some files, the earlier ones first, into a buffer."""
    layout.merge([map_source(path) for path in paths], target)


def remove_shards(directory: str, labels: Iterable[str]) -> None:
    """Remove all states of some shards of a node, whoever wrote them, and the locks that guard no state any more."""
    _remove(str(path) for label in labels for path in Path(directory).glob(f"{label}.*"))
    _remove_locks(directory)


def forget(paths: Iterable[str]) -> None:
    """Remove all files of the states that some files were the last of, whoever wrote them. Safe in any thread."""
    _remove(file for path in paths for file in list(_files_of_slot(path)))


def _remove(paths: Iterable[str]) -> None:
    """Remove files, and unmap what others have removed."""
    paths = list(paths)
    for path in paths:
        Path(path).unlink(missing_ok=True)
    for path in tuple(_mapped) if paths else ():
        if not Path(path).exists():
            _mapped.pop(path, None)
            _fresh.discard(path)


def _tidy(path: str, current: str | None) -> None:
    """Remove what the dead have left, but for what counts and for what may come to count."""
    for other in _files_of_slot(path):
        if other != current and _number(other) != _number(path) and not _is_alive(other):
            Path(other).unlink(missing_ok=True)


def _number(path: str) -> str:
    return path.rpartition(".")[2]


def _files_of_slot(path: str) -> Iterator[str]:
    """Go through all processes' files for the state that a file is of."""
    directory, name = os.path.split(path)
    slot = name.rsplit(".", 2)[0]
    with suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.rsplit(".", 2)[0] == slot:
                yield entry.path


def _say_alive(directory: str) -> None:
    """Hold this process' lock in a directory, until it ends in whatever way."""
    with _claiming:
        if directory not in _locks:
            descriptor = os.open(f"{directory}/{PROCESS}.{ALIVE}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            _locks[directory] = descriptor


def _remove_locks(directory: str) -> None:
    """Remove the locks of dead processes, and this one's own, where they have no state."""
    with _claiming, suppress(FileNotFoundError):  # a node that has ended took its directory along
        names = [path.name for path in Path(directory).iterdir()]
        locks = {name.removesuffix(f".{ALIVE}") for name in names if name.endswith(f".{ALIVE}")}
        for process in locks - {name.rsplit(".", 2)[-2] for name in names if name.count(".") > 1}:
            if process == PROCESS or not _is_alive(f"{directory}/any.{process}.0"):
                Path(directory, f"{process}.{ALIVE}").unlink(missing_ok=True)
        if not Path(directory, f"{PROCESS}.{ALIVE}").exists() and directory in _locks:
            os.close(_locks.pop(directory))


def _is_alive(path: str) -> bool:
    """Whether the process lives that has written a file; who has no lock to try is left alone."""
    directory, name = os.path.split(path)
    process = name.rsplit(".", 2)[1]
    if process == PROCESS:
        return True
    try:
        descriptor = os.open(f"{directory}/{process}.{ALIVE}", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False

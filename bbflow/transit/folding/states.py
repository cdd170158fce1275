"""State files: partial states in shared memory that a killed worker can't tear.

A task reads the states that count and writes the next ones into other files; which of them count is decided by the
receipt, not by the file system. The states of a lane's shards that are of one slot lie in one file, each in a place of
its own. Each worker process has two such files of each slot, and a shard's states go into them in turn: so pages are
touched once, and a worker that was given up can't write where anything counts.

Dask runs tasks again whose worker has died, also those whose receipts the driver knows, and of several batches. So each
process notes which batch of a lane it begins. What a dead process has left goes with a batch after its last one: who
runs that very batch again can't know whether its receipt counts. And a batch is not begun after a later one: it would
remove, or write over, what counts by now.
"""

import mmap
import os
import threading
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from bbflow.errors import naming
from bbflow.locks import lock
from bbflow.operators import StateLayout
from bbflow.transit.folding.shards import Extent, StatePlace

PROCESS = uuid.uuid4().hex[:12]
"""Names this process's files; a number such as the pid could come back."""

ALIVE = "alive"
"""A process holds a lock on a file whose name ends so, for as long as it lives."""
BEGUN = "begun"
"""A lane's file whose name ends so has, for each process, the batch that it began last."""


@dataclass(frozen=True, slots=True)
class _Mapped:
    """A state file that is mapped for writing."""

    inode: int
    """Its number: the name may become another file's."""
    mapping: mmap.mmap
    """All of it."""
    made: set[Extent]
    """Parts that have their pages."""


MADV_POPULATE_WRITE = 23
"""Linux's number, which Python has no name for."""

_mapped: dict[str, _Mapped] = {}
"""This process's own files."""
_sources: "WeakValueDictionary[tuple[str, int, int], mmap.mmap]" = WeakValueDictionary()
"""Those of others, as long as somebody looks into them."""
_locks: dict[str, int] = {}
_claiming = threading.Lock()
_folding: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
"""Path of a lane's files, up to its name, to what a thread of this process holds while it folds there."""


def next_file(directory: str, lane: str, slot: str, current: str | None) -> str:
    """Give the one of this process's two files of a lane and slot that hasn't the current state."""
    names = (f"{directory}/{lane}.{slot}.{PROCESS}.{number}" for number in (0, 1))
    return next(name for name in names if name != current)


@contextmanager
def begun(directory: str, lane: str, batch: int, counted: Collection[str], left: Iterable[str] = ()) -> Iterator[bool]:
    """Fold a batch of a lane, after removing what dead processes have left of earlier ones.

    Gives False if a later batch has begun, in whatever process: then nobody waits for this one any more.

    Parameters
    ----------
    directory
        Where the node keeps states.
    lane
        Begins the files' names.
    batch
        Its first step: a later batch has a larger one, and the same one that runs again has the same.
    counted
        The files in which any state counted when it was submitted.
    left
        Slots (`slot_of`) in which none did any more.
    """
    with _folding[f"{directory}/{lane}"]:
        yield _begin(directory, lane, batch, counted, left)


def _begin(directory: str, lane: str, batch: int, counted: Collection[str], left: Iterable[str]) -> bool:
    descriptor = lock(f"{directory}/{lane}.{BEGUN}")
    assert descriptor is not None
    try:
        last = msgspec.json.decode(os.pread(descriptor, os.fstat(descriptor).st_size, 0) or b"{}", type=dict[str, int])
        if max(last.values(), default=batch) > batch:
            return False
        forget(left)
        same = {process: at for process, at in last.items() if at == batch}
        _tidy(directory, lane, same, counted)
        content = msgspec.json.encode(same | {PROCESS: batch})
        os.pwrite(descriptor, content.ljust(os.fstat(descriptor).st_size), 0)
        return True
    finally:
        os.close(descriptor)


def _tidy(directory: str, lane: str, spared: Collection[str], counted: Collection[str]) -> None:
    """Remove what dead processes have left of a lane's states, but for what counts, and for some processes."""
    with suppress(FileNotFoundError), os.scandir(directory) as entries:
        paths = [entry.path for entry in entries if entry.name.startswith(f"{lane}.")]
    for path in set(paths) - set(counted) - {f"{directory}/{lane}.{BEGUN}"}:
        if path.rsplit(".", 2)[1] not in spared and not _is_alive(path):
            Path(path).unlink(missing_ok=True)


def map_target(path: str, extents: Sequence[Extent]) -> mmap.mmap:
    """Map a file of this process for writing; it is made if it isn't there.

    Parameters
    ----------
    path
        As `next_file` gives it.
    extents
        What of it will be written, and has its pages then.
    """
    known = _mapped.get(path)
    if known is None or not _is_file(path, known.inode):
        known = None
        _say_alive(os.path.dirname(path))
    made = set() if known is None else known.made
    if known is None or not made.issuperset(extents):
        known = _mapped[path] = _Mapped(*_make(path, set(extents) - made), made)
        made.update(extents)
    return known.mapping


def _make(path: str, extents: Collection[Extent]) -> tuple[int, mmap.mmap]:
    """Give parts of a file their pages, and map it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with naming(path):
            for offset, size in extents:
                os.posix_fallocate(descriptor, offset, size)
        mapping = mmap.mmap(descriptor, 0)
        for offset, size in extents:
            _touch(mapping, offset, size)
        return os.fstat(descriptor).st_ino, mapping
    finally:
        os.close(descriptor)


def _touch(mapping: mmap.mmap, offset: int, size: int) -> None:
    """Map pages for writing in one call: one by one, as they are written, takes twice as long."""
    first = offset // mmap.PAGESIZE * mmap.PAGESIZE
    with suppress(OSError):  # Linux before 5.14
        mapping.madvise(MADV_POPULATE_WRITE, first, offset + size - first)


def map_file(path: str) -> mmap.mmap:
    """Map a state file for reading, whoever wrote it."""
    status = os.stat(path)
    own = _mapped.get(path)
    if own is not None and own.inode == status.st_ino:
        return own.mapping
    key = path, status.st_ino, status.st_size
    mapping = _sources.get(key)
    if mapping is None:
        with open(path, "rb") as file:
            mapping = _sources[key] = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    return mapping


def map_source(place: StatePlace) -> memoryview:
    """Map a state for reading, whoever wrote it: from its first byte on."""
    return memoryview(map_file(place.path))[place.offset :]


def combine_files(layout: StateLayout, places: Iterable[StatePlace], target: Any) -> None:
    """Merge some states, the earlier ones first, into a buffer."""
    layout.merge([map_source(place) for place in places], target)


def slot_of(path: str) -> str:
    """Give what all processes' files of one lane and slot have in common, the directory included."""
    return path.rsplit(".", 2)[0]


def forget(slots: Iterable[str]) -> None:
    """Remove all files of some lanes' slots (`slot_of`), whoever wrote them. Safe in any thread."""
    _remove(file for slot in slots for file in list(_files_of_slot(f"{slot}..")))


def remove_states(directory: str, run: str) -> None:
    """Remove all states of a run, whoever wrote them, and the locks that guard no state any more."""
    _remove(str(path) for path in Path(directory).glob(f"{run}-*"))
    _remove_locks(directory)


def remove_stale(directory: str, run: str, epoch: str, counted: Collection[str]) -> None:
    """Remove what earlier analyses of a run have left, but for what counts.

    Parameters
    ----------
    directory
        Where the node keeps states.
    run, epoch
        Of the analysis that takes over: they begin the names of its own files, and later epochs are greater.
    counted
        The files in which any state counts.
    """
    names = (path for path in Path(directory).glob(f"{run}-*") if path.name.split("-")[1] < epoch)
    _remove(str(path) for path in names if str(path) not in counted)


def _remove(paths: Iterable[str]) -> None:
    """Remove files, and unmap what others have removed."""
    paths = list(paths)
    for path in paths:
        Path(path).unlink(missing_ok=True)
    for path, known in _mapped.copy().items() if paths else ():  # in one step: others map meanwhile
        if not _is_file(path, known.inode):
            _mapped.pop(path, None)


def _is_file(path: str, inode: int) -> bool:
    try:
        return os.stat(path).st_ino == inode
    except FileNotFoundError:
        return False


def _files_of_slot(path: str) -> Iterator[str]:
    """Go through all processes' files for the slot that a file is of."""
    directory, name = os.path.split(path)
    slot = slot_of(name)
    with suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            if slot_of(entry.name) == slot:
                yield entry.path


def _say_alive(directory: str) -> None:
    """Hold this process' lock in a directory, until it ends in whatever way."""
    with _claiming:
        if directory not in _locks:
            descriptor = lock(f"{directory}/{PROCESS}.{ALIVE}")
            assert descriptor is not None
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
        descriptor = lock(f"{directory}/{process}.{ALIVE}", shared=True, wait=False, create=False)
    except OSError:
        return True
    if descriptor is None:
        return True
    os.close(descriptor)
    return False

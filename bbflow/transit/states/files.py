"""State files: partial states in shared memory that a killed worker can't tear.

A task reads the states that count and writes the next ones into other files; which of them count is decided by the
receipt, not by the file system. Each worker process has numbered files of a lane's levels, in which each shard has a
place of its own. They belong to no slot: a state goes into the first one whose place the shard doesn't need, so pages
are touched once, and one file's state may stand for several slots. A shard needs the places of its states that count,
of those that it has written since in the same task, and those that it holds (`ShardState.held`): these are what the
stored checkpoint names, and what is read of them to be published. The driver lets go of these, once a later checkpoint
is stored. A worker that was given up can't write where anything counts, since it knows its own files only.

Dask runs tasks again whose worker has died, also those whose receipts the driver knows, and of several batches. So each
process notes which batch of a lane it begins. What a dead process has left goes with a batch after its last one: who
runs that very batch again can't know whether its receipt counts. And a batch is not begun after a later one: it would
remove, or write over, what counts by now.
"""

import mmap
import os
import threading
import uuid
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import msgspec
import numpy as np

from bbflow.errors import NodeError, StreamError, naming
from bbflow.host.locks import lock
from bbflow.operators.state import StateLayout
from bbflow.operators.steps import Array
from bbflow.store.pool import is_file, make_pages
from bbflow.transit.states.shards import Extent, StatePlace

PROCESS = uuid.uuid4().hex[:12]
"""Names this process's files; a number such as the pid could come back. A fork gets its own."""

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
    made: list[Extent] = field(default_factory=list)
    """Parts that have their pages, in their order: none touches another."""


MADV_POPULATE_READ, MADV_POPULATE_WRITE = 22, 23
"""Linux's numbers, which Python has no names for."""

_mapped: dict[str, _Mapped] = {}
"""This process's own files."""
_sources: "WeakValueDictionary[tuple[str, int, int], mmap.mmap]" = WeakValueDictionary()
"""Those of others, as long as somebody looks into them."""
_locks: dict[str, int] = {}
_claiming = threading.Lock()
_making: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
"""Path to what a thread holds while it maps that file."""
_folding: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
"""What begins the paths of a lane's files to what a thread of this process holds while it folds there."""


def _begin_fork() -> None:
    """Give a fork its own name, and nothing of its parent's: it would take the parent's files for its own."""
    global PROCESS
    PROCESS = uuid.uuid4().hex[:12]
    _mapped.clear()
    for descriptor in _locks.values():
        os.close(descriptor)
    _locks.clear()


os.register_at_fork(after_in_child=_begin_fork)


def free_file(lane: str, level: str, taken: Collection[str]) -> str:
    """Return the first of this process's files of a lane's level that isn't among those whose place a shard needs."""
    names = (f"{lane}.{level}.{PROCESS}.{number}" for number in count())
    return next(name for name in names if name not in taken)


class LaneTurn(NamedTuple):
    """Which of two tasks of a lane is the later one."""

    batch: int
    """First step of its batch: a later batch has a larger one."""
    attempt: int
    """Number of the task, which is larger if the driver has given up the one before."""


@contextmanager
def begun(lane: str, turn: LaneTurn, counted: Collection[str]) -> Iterator[bool]:
    """Fold a batch of a lane, after removing what dead processes have left of earlier ones.

    Returns False if a later turn has begun, in whatever process: then this one isn't awaited any more.

    Parameters
    ----------
    lane
        Begins the files' paths.
    turn
        Whose it is; Dask may give the same one to two processes.
    counted
        The files in which any state counted when it was submitted, or was held.
    """
    with _folding[lane]:
        yield _begin(lane, turn, counted)


def _begin(lane: str, turn: LaneTurn, counted: Collection[str]) -> bool:
    descriptor = lock(f"{lane}.{BEGUN}")
    assert descriptor is not None
    try:
        content = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
        try:
            last = msgspec.json.decode(content or b"{}", type=dict[str, LaneTurn])
        except msgspec.DecodeError as error:  # the next analysis has lanes of its own
            raise NodeError(f"{lane}.{BEGUN} was cut or changed ({error})") from None
        if max(last.values(), default=turn) > turn:
            return False
        # A process that died after this very batch may have given its receipt, which names its files: they stay.
        same = {process: own for process, own in last.items() if own.batch == turn.batch}
        _tidy(lane, same, counted)
        content = msgspec.json.encode(same | {PROCESS: turn})
        os.pwrite(descriptor, content.ljust(os.fstat(descriptor).st_size), 0)
        return True
    finally:
        os.close(descriptor)


def _tidy(lane: str, spared: Collection[str], counted: Collection[str]) -> None:
    """Remove what dead processes have left of a lane's states, but for what counts, and for some processes."""
    with suppress(FileNotFoundError), os.scandir(os.path.dirname(lane)) as entries:
        paths = [entry.path for entry in entries if entry.path.startswith(f"{lane}.")]
    for path in set(paths) - set(counted) - {f"{lane}.{BEGUN}"}:
        if path.rsplit(".", 2)[1] not in spared and not _is_alive(path):
            Path(path).unlink(missing_ok=True)


def map_target(path: str, pages: Sequence[Extent]) -> mmap.mmap:
    """Map a file of this process for writing; it is made if it isn't there.

    Parameters
    ----------
    path
        As `free_file` gives it.
    pages
        What of it will be written (`pages_of`); these are made then.
    """
    with _making[path]:
        known = _mapped.get(path)
        if known is None or not is_file(path, known.inode):
            known = None
            _say_alive(os.path.dirname(path))
        made = [] if known is None else known.made
        missing = _without(made, pages)
        if known is None or missing:
            known = _mapped[path] = _make(path, missing, known)
            known.made[:] = pages_of([*made, *missing])
        return known.mapping


def pages_of(extents: Array | Sequence[Extent]) -> list[Extent]:
    """Return the pages of extents, those that touch together: no two shards' places share one."""
    told = np.asarray(extents, "i8").reshape(-1, 2)
    told = told[told[:, 1] > 0]
    told = told[np.argsort(told[:, 0], kind="stable")]
    begins = told[:, 0] // mmap.PAGESIZE * mmap.PAGESIZE
    ends = np.maximum.accumulate(-(-told.sum(axis=1) // mmap.PAGESIZE) * mmap.PAGESIZE)
    firsts = np.flatnonzero(np.append(len(told) > 0, begins[1:] > ends[:-1]))
    begins, ends = begins[firsts], ends[np.append(firsts[1:], len(told))[: len(firsts)] - 1]
    return list(zip(begins.tolist(), (ends - begins).tolist(), strict=True))


def _without(made: Sequence[Extent], wanted: Sequence[Extent]) -> list[Extent]:
    """Return the parts of extents that aren't made; those that are follow each other, and don't touch."""
    found = []
    for offset, size in wanted:
        at, end = offset, offset + size
        for first, length in made[max(bisect_right(made, (offset, 0)) - 1, 0) :]:
            if first >= end:
                break
            if first > at:
                found.append((at, first - at))
            at = max(at, first + length)
        if at < end:
            found.append((at, end - at))
    return found


def _make(path: str, extents: Sequence[Extent], known: _Mapped | None) -> _Mapped:
    """Return parts of a file their pages, and map it; a mapping that is long enough stays."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with naming(path):
            for offset, size in extents:
                make_pages(descriptor, offset, size)
        length = os.fstat(descriptor).st_size
        mapping = mmap.mmap(descriptor, 0) if known is None or len(known.mapping) < length else known.mapping
        for offset, size in extents:
            _map_pages(mapping, offset, size)
        return _Mapped(os.fstat(descriptor).st_ino, mapping)
    finally:
        os.close(descriptor)


def _map_pages(mapping: mmap.mmap, offset: int, size: int) -> None:
    """Map pages for writing in one call: one by one, as they are written, takes twice as long.

    Tmpfs maps 16 pages with one fault where they are only read, and lets them be written then: so that comes first.
    """
    with suppress(OSError):  # Linux before 5.14
        mapping.madvise(MADV_POPULATE_READ, offset, size)
        mapping.madvise(MADV_POPULATE_WRITE, offset, size)


def make_ready(lane: str, files: Iterable[tuple[str, int, Sequence[Extent]]]) -> None:
    """Make this process's files as they will be needed, beside what is folded; a task.

    Parameters
    ----------
    lane
        Begins the files' paths.
    files
        Of a level this many files, and the pages of each that will be written; fewer files of more come first.
    """
    with suppress(OSError):  # without room the batch that needs them says so
        for level, number, pages in files:
            for at in range(number):
                map_target(f"{lane}.{level}.{PROCESS}.{at}", pages)


def map_file(path: str) -> mmap.mmap:
    """Map a state file for reading, whoever wrote it.

    Raises
    ------
    StreamError
        If somebody has removed it: it won't come back, whoever tries again.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise StreamError(
            f"{path} was removed: what it held of the statistics since the last publication is lost"
        ) from None
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
    assert place.offset >= 0  # else it would be counted from the end
    return memoryview(map_file(place.path))[place.offset :]


def combine_files(state_layout: StateLayout, places: Iterable[StatePlace], target: Any) -> None:
    """Merge some states, the earlier ones first, into a buffer."""
    state_layout.merge([map_source(place) for place in places], target)


def forget(lane: str) -> None:
    """Remove all files of a lane, whoever wrote them. Safe in any thread."""
    directory, name = os.path.split(lane)
    _remove(str(path) for path in Path(directory).glob(f"{name}.*"))


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
    if paths:
        _unmap_gone()


def _unmap_gone() -> None:
    for path, known in _mapped.copy().items():  # in one step: others map meanwhile
        if not is_file(path, known.inode):
            _mapped.pop(path, None)


def forget_gone() -> None:
    """Release what this process has mapped and locked on nodes that are gone."""
    _unmap_gone()
    for guards in (_making, _folding):
        for path in guards.copy():
            if not os.path.isdir(os.path.dirname(path)):
                guards.pop(path, None)
    with _claiming:
        for directory in [directory for directory in _locks if not os.path.isdir(directory)]:
            os.close(_locks.pop(directory))


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

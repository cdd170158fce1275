"""The pool: a memory-mapped file whose pages are all there before the first step.

A second name with its length tells it from a file that took its place, and from one that was cut: who reads either
would find zeros where values were.
"""

import ctypes
import errno
import mmap
import os
import resource
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bbflow.errors import CapacityError, NodeError
from bbflow.units import format_bytes

TMPFS_MAGIC, STATFS_BYTES = 0x01021994, 256
ZEROS = memoryview(bytes(1 << 18))
DIGITS = 16
"""Of the capacity in a pool's second name."""
_LIBC = ctypes.CDLL(None)


def create_pool(path: Path, capacity: int) -> None:
    """Make a pool file and back it with pages at once, so that capacity is a promise.

    Parameters
    ----------
    path
        The file; it must not exist.
    capacity
        Its bytes.

    Raises
    ------
    CapacityError
        If the file system has no room for it; nothing is left behind.
    """
    try:
        empty_pool(path, capacity)
        back_pool(path, 0, capacity)
    except CapacityError:
        path.unlink()
        raise
    name_pool(path, capacity)


def name_pool(path: Path, capacity: int) -> None:
    """Give a new pool its second name."""
    second = _second_name(str(path), capacity)
    Path(second).unlink(missing_ok=True)
    try:
        os.link(path, second)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        raise NodeError(f"the file system of {path.parent} has no hard links: give another directory") from None


def _second_name(path: str, capacity: int) -> str:
    return f"{path}.{capacity:0{DIGITS}}"


def pool_identity(pool: str | int) -> tuple[int, int, int, int] | None:
    """Return what changes if a pool is cut, emptied or replaced: inode, length, pages, names; None if it is gone.

    Parameters
    ----------
    pool
        Its path or descriptor.
    """
    try:
        status = os.stat(pool)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_blocks, status.st_nlink


def check_pool(path: str, *, is_backed: bool = True) -> int:
    """Return the inode of a pool.

    Parameters
    ----------
    path
        The file.
    is_backed
        Whether it has all its pages, as it must where it holds steps.

    Raises
    ------
    NodeError
        If the pool that the node made isn't there any more, or was emptied.
    """
    with suppress(FileNotFoundError):
        status = os.stat(path)
        is_own = os.stat(_second_name(path, status.st_size)).st_ino == status.st_ino
        if is_own and not (is_backed and _lacks_pages(path, status)):
            return status.st_ino
    raise NodeError(
        f"{path} was removed, cut or replaced: what the BB node held is lost; start it in another directory"
    )


def _lacks_pages(path: str, status: os.stat_result) -> bool:
    """Whether a pool in memory has fewer pages than it was given: it was cut, and made as long again."""
    if status.st_blocks * 512 >= status.st_size:
        return False
    with open(path, "rb") as file:  # other file systems count blocks as they like
        return _is_in_memory(file.fileno())


def empty_pool(path: Path, capacity: int) -> None:
    """Make a pool file without any pages, whatever there was; who has mapped it keeps its mapping.

    Raises
    ------
    CapacityError
        If no file of the file system can be that long.
    """
    with _opened(path, capacity, os.O_CREAT) as descriptor:
        # To nothing first, which gives the pages back.
        os.ftruncate(descriptor, 0)
        os.ftruncate(descriptor, capacity)


def back_pool(path: Path, offset: int, size: int) -> None:
    """Back a part of a pool file, to which nothing was written, with pages.

    Raises
    ------
    CapacityError
        If the file system has no room for them.
    """
    with _opened(path, size) as descriptor:
        make_pages(descriptor, offset, size)


def keep_backed(path: Path, capacity: int) -> None:
    """Back what lacks pages of a pool file that may have steps.

    Raises
    ------
    CapacityError
        If the file system has no room for them.
    """
    with _opened(path, capacity) as descriptor:
        os.posix_fallocate(descriptor, 0, capacity)


def make_pages(descriptor: int, offset: int, size: int) -> None:
    """Allocate the pages of a part of a file to which nothing was written, all of them or none.

    Pages of tmpfs that were only allocated get their zeros one by one, with a fault for each, from whoever maps them
    first; it maps 16 with one fault if they were written. On a disk that would be as many bytes to write.

    Raises
    ------
    OSError
        If there is no room for them.
    """
    os.posix_fallocate(descriptor, offset, size)
    # Only now, when room is certain: writes alone could run out of it half-way.
    at, end = offset, offset + (size if _is_in_memory(descriptor) else 0)
    while at < end:
        at += os.pwrite(descriptor, ZEROS[: min(len(ZEROS), end - at)], at)


def _is_in_memory(descriptor: int) -> bool:
    """Whether a file is in tmpfs: statfs(2)."""
    told = ctypes.create_string_buffer(STATFS_BYTES)
    # Python's `os.fstatvfs` leaves out what kind of file system it is.
    failed = _LIBC.fstatfs(descriptor, told)
    return not failed and ctypes.c_long.from_buffer(told).value == TMPFS_MAGIC


@contextmanager
def _opened(path: Path, size: int, flags: int = 0) -> Iterator[int]:
    """Open a pool file to make room of this many bytes."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
    try:
        yield descriptor
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM):
            raise
        raise _without_room(path, size) from None
    finally:
        os.close(descriptor)


def check_free(path: Path, size: int) -> None:
    """Check that a pool of this many bytes could be backed with pages now.

    Raises
    ------
    CapacityError
        If the file system has less.
    """
    if free_bytes(path.parent) < size:
        raise _without_room(path, size)


def free_bytes(directory: str | Path) -> int:
    """Return what is free on the file system of a directory; also a task."""
    room = os.statvfs(directory)
    return room.f_bavail * room.f_frsize


def _without_room(path: Path, size: int) -> CapacityError:
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit != resource.RLIM_INFINITY and limit < size:
        return CapacityError(
            f"{path}: the pool needs {format_bytes(size)}, but files may have {format_bytes(limit)}: raise ulimit -f"
        )
    free = format_bytes(free_bytes(path.parent))
    return CapacityError(
        f"{path.parent} has {free} free, but the pool needs {format_bytes(size)}: give a smaller capacity or another "
        "directory"
    )


_pools: dict[str, tuple[int, mmap.mmap]] = {}
"""Path to inode and mapping of the pools that this process has mapped."""
_mapping = threading.Lock()


def map_pool(path: str, *, is_backed: bool = True) -> mmap.mmap:
    """Map a pool for reading; a process maps each pool once, and keeps it mapped until `forget_pools`.

    Parameters
    ----------
    path, is_backed
        As for `check_pool`.

    Raises
    ------
    NodeError
        As for `check_pool`.
    """
    known, inode = _pools.get(path), check_pool(path, is_backed=is_backed)
    if known is not None and known[0] == inode:
        return known[1]
    # One thread maps, the others find its mapping: a second one would map all pages once more.
    with _mapping, open(path, "rb") as file:
        status, inode = os.fstat(file.fileno()), check_pool(path, is_backed=is_backed)
        known = _pools.get(path)
        if known is None or known[0] != inode:
            forget_pools()
            # To map pages ahead would also make those that a pool without streams has left to the node's files.
            populate = mmap.MAP_POPULATE if status.st_blocks * 512 >= status.st_size else 0
            mapping = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_SHARED | populate, prot=mmap.PROT_READ)
            known = _pools[path] = inode, mapping
        return known[1]


def forget_pools(paths: Iterable[str] = ()) -> None:
    """Release pools that are done with, and of all whose node is gone: the last array that looks at one unmaps it."""
    done = set(paths)
    for path, (inode, _) in _pools.copy().items():  # in one step: others map meanwhile
        if path in done or not is_file(path, inode):
            _pools.pop(path, None)


def is_file(path: str, inode: int) -> bool:
    """Whether a file is still the one of that name."""
    try:
        return os.stat(path).st_ino == inode
    except OSError:
        return False


def map_pool_for_writing(path: Path) -> memoryview:
    """Map a pool as the place where bytes from other hosts land.

    Its pages are there already but are mapped one by one: mapping all at once would hold up every writer.
    """
    with path.open("rb+") as file:
        return memoryview(mmap.mmap(file.fileno(), 0))

"""State files: partial states in shared memory that a killed worker can't tear.

A task reads the state that counts and writes the next one into another file; which file counts is decided
by the receipt, not by the file system. Each worker process writes into two files of its own for each shard
and window, in turn, so that pages are touched once and a worker that was given up can't write into a file
that counts.
"""

import mmap
import os
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bbflow.errors import naming
from bbflow.operators import StateLayout

PROCESS = uuid.uuid4().hex[:12]
"""Names this process's files; a number such as the pid could come back."""

_mapped: dict[str, tuple[int, mmap.mmap]] = {}


def next_file(directory: str, shard: str, slot: str, current: str | None) -> str:
    """Give the one of this process's two files that is not the current state."""
    names = (f"{directory}/{shard}.{slot}.{PROCESS}.{number}" for number in (0, 1))
    return next(name for name in names if name != current)


def map_target(path: str, size: int) -> mmap.mmap:
    """Map a file of this process for writing; it is made when it isn't there."""
    known = _mapped.get(path)
    if known is not None and Path(path).exists() and os.stat(path).st_ino == known[0]:
        return known[1]
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with naming(path):
            os.posix_fallocate(descriptor, 0, size)
        mapping = mmap.mmap(descriptor, size)
        _mapped[path] = (os.fstat(descriptor).st_ino, mapping)
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
    layout.clear(target)
    for path in paths:
        layout.combine(target, map_source(path), target)


def remove_shards(directory: str, labels: Iterable[str]) -> None:
    """Remove all states of some shards of a node, whoever wrote them."""
    forget(str(path) for label in labels for path in Path(directory).glob(f"{label}.*"))


def forget(paths: Iterable[str]) -> None:
    """Remove states that are done with, and unmap what others have removed. Safe in any thread."""
    paths = list(paths)
    for path in paths:
        Path(path).unlink(missing_ok=True)
    for path in tuple(_mapped) if paths else ():
        if not Path(path).exists():
            _mapped.pop(path, None)

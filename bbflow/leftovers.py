"""Shared memory that killed processes leave behind, of an MPI and of Python: nobody else removes it."""

import os
from contextlib import suppress
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
PATTERNS = ("mpich_shm_*", "sem.mp-*")
"""How MPICH and Python's multiprocessing name their segments."""


def segments() -> set[Path]:
    """Give the segments of this user that are there now."""
    found = (path for pattern in PATTERNS for path in SHARED_MEMORY.glob(pattern))
    return {path for path in found if _is_own(path)}


def remove_leftovers(before: set[Path]) -> None:
    """Remove the segments that came since `before` and that no living process has mapped.

    Parameters
    ----------
    before
        What `segments` gave before the processes were started.
    """
    new = segments() - before
    if new:
        mapped = _mapped_inodes()
        for path in new:
            with suppress(FileNotFoundError):
                if path.stat().st_ino not in mapped:
                    path.unlink()


def _is_own(path: Path) -> bool:
    try:
        return path.stat().st_uid == os.getuid()
    except FileNotFoundError:
        return False


def _mapped_inodes() -> set[int]:
    """Give the inodes in /dev/shm that living processes have mapped.

    Not their names: a semaphore is mapped before it gets its name, and is known to the kernel by its first one.
    """
    inodes: set[int] = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            lines = maps.read_text().splitlines()
        except OSError:
            continue  # it has ended, or belongs to somebody else
        inodes |= {int(line.split(maxsplit=5)[4]) for line in lines if line.count("/dev/shm/")}
    return inodes

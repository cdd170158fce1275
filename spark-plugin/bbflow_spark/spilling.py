"""Where shuffles go for which the BB has no room: each prefetcher has a directory, which it leaves if it is killed."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir

from bbflow.errors import ConfigError
from bbflow.host.belongings import is_made, locked, make, remove
from bbflow_spark.shuffles import MOVED, Shuffles

_NAME = "bbflow-spark-"
_LINK = "shuffles"
"""Leads to the directory on the BB; it is there only while, and after, the prefetcher holds its own."""


def default_place() -> Path:
    """Return where shuffles go if the user says nothing: a place that no other process that lives has."""
    return Path(gettempdir(), f"{_NAME}{os.getpid()}")


@contextmanager
def spilling(disk: Path, shuffle: Path) -> Iterator[None]:
    """Provide a directory on the disk for as long as the block lasts.

    Parameters
    ----------
    disk
        That directory.
    shuffle
        Directory of the shuffles on the BB, from which links will lead there.

    Raises
    ------
    ConfigError
        If it is another's, or another prefetcher uses it.
    """
    make(disk, MOVED, _LINK)
    with locked(disk, f"another prefetcher uses {disk}: give another directory as --spill"):
        link = disk / _LINK
        link.unlink(missing_ok=True)
        link.symlink_to(shuffle)
        try:
            yield
        finally:
            remove(disk)


def remove_leftovers(folder: Path) -> None:
    """Remove what killed prefetchers have left in a folder, but for what a Spark may still read that continues."""
    for disk in folder.glob(f"{_NAME}*"):
        with suppress(OSError, ConfigError):  # it is gone, or its prefetcher lives
            if disk.stat().st_uid == os.geteuid() and is_made(disk):
                shuffle = (disk / _LINK).readlink()
                with locked(disk, "in use"):
                    if not Shuffles(shuffle, disk, sys.maxsize).look().disk_bytes:
                        remove(disk)

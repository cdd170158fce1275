"""What killed processes leave, known by a name that the run has given them: Python's semaphores, Dask's directories."""

import multiprocessing
import os
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from bbflow.host import belongings
from bbflow.host.locks import lock

SHARED_MEMORY = Path("/dev/shm")
VARIABLE = "BBFLOW_RUN_NAME"
FRESH_S = 600.0
"""A directory younger than this may be one that somebody has made, and not locked yet."""


def name_semaphores() -> None:
    """Name the semaphores of this process, and of those that it starts, after the run."""
    if name := os.environ.get(VARIABLE):
        # Processes of any start method inherit it; multiprocessing has no public way.
        multiprocessing.current_process()._config["semprefix"] = f"/{name}"  # type: ignore[attr-defined]


@contextmanager
def scratch() -> Iterator[Path]:
    """Provide a directory for Dask while this lasts; one that is restarted in the same run gets the same."""
    _remove_abandoned()
    directory = _scratch(os.environ.get(VARIABLE) or _new_name())
    belongings.make(directory, "**")
    os.utime(directory)  # it may be that of an analysis of the same run that was killed long ago
    with ExitStack() as stack:
        stack.callback(belongings.remove, directory)
        with suppress(OSError):  # a file system without locks: then nobody can say that it is abandoned
            held = lock(directory / belongings.MARK, shared=True, create=False)
            assert held is not None
            stack.callback(os.close, held)
        yield directory


@contextmanager
def run_name() -> Iterator[str]:
    """Provide a name that no other run has, for its processes' environment (`VARIABLE`); what they leave is removed."""
    name = _new_name()
    try:
        yield name
    finally:
        _remove_leftovers(name)


def _remove_abandoned() -> None:
    """Remove what runs of this user have left whose processes were all killed."""
    for directory in Path(tempfile.gettempdir()).glob(_scratch("bbflow-*").name):
        with suppress(OSError):
            found = directory.lstat()
            is_fresh = time.time() - found.st_mtime < FRESH_S
            if found.st_uid != os.geteuid() or is_fresh or not belongings.is_made(directory):
                continue
            if (held := lock(directory / belongings.MARK, wait=False, create=False)) is not None:
                os.close(held)
                _remove_leftovers(directory.name.removesuffix("-dask"))


def _remove_leftovers(name: str) -> None:
    for path in SHARED_MEMORY.glob(f"sem.{name}-*"):
        path.unlink(missing_ok=True)
    belongings.remove(_scratch(name))


def _scratch(name: str) -> Path:
    return Path(tempfile.gettempdir()) / f"{name}-dask"


def _new_name() -> str:
    return f"bbflow-{uuid.uuid4().hex[:16]}"

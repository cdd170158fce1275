"""What killed processes leave, known by a name that the run has given them: Python's semaphores, Dask's directories."""

import multiprocessing
import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bbflow.host import belongings

SHARED_MEMORY = Path("/dev/shm")
VARIABLE = "BBFLOW_RUN_NAME"


def name_semaphores() -> None:
    """Name the semaphores of this process, and of those that it starts, after the run."""
    if name := os.environ.get(VARIABLE):
        # Processes of any start method inherit it; multiprocessing has no public way.
        multiprocessing.current_process()._config["semprefix"] = f"/{name}"  # type: ignore[attr-defined]


@contextmanager
def scratch() -> Iterator[Path]:
    """Provide a directory for Dask while this lasts; one that is restarted in the same run gets the same."""
    directory = _scratch(os.environ.get(VARIABLE) or _new_name())
    belongings.make(directory, "**")
    try:
        yield directory
    finally:
        belongings.remove(directory)


@contextmanager
def run_name() -> Iterator[str]:
    """Provide a name that no other run has, for its processes' environment (`VARIABLE`); what they leave is removed."""
    name = _new_name()
    try:
        yield name
    finally:
        _remove_leftovers(name)


def _remove_leftovers(name: str) -> None:
    for path in SHARED_MEMORY.glob(f"sem.{name}-*"):
        path.unlink(missing_ok=True)
    belongings.remove(_scratch(name))


def _scratch(name: str) -> Path:
    return Path(tempfile.gettempdir()) / f"{name}-dask"


def _new_name() -> str:
    return f"bbflow-{uuid.uuid4().hex[:16]}"

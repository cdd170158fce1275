"""Semaphores of Python that killed processes leave in shared memory: known by a name that the run has given them."""

import multiprocessing
import os
import uuid
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
VARIABLE = "BBFLOW_SEMAPHORES"


def new_name() -> str:
    """Make a name that no other run's semaphores have; processes find it in the environment as `VARIABLE`."""
    return f"bbflow-{uuid.uuid4().hex[:16]}"


def name_semaphores() -> None:
    """Let the semaphores of this process, and of those that it starts, have the run's name."""
    if name := os.environ.get(VARIABLE):
        # Processes of any start method inherit it; multiprocessing has no public way.
        multiprocessing.current_process()._config["semprefix"] = f"/{name}"  # type: ignore[attr-defined]


def remove_semaphores(name: str) -> None:
    """Remove what is left of a run's semaphores."""
    for path in SHARED_MEMORY.glob(f"sem.{name}-*"):
        path.unlink(missing_ok=True)

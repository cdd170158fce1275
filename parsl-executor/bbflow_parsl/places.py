"""One making of a file on the burst buffer, with where it lies and who waits for it."""

from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bbflow.staging.makings import Making


@dataclass(eq=False, slots=True, kw_only=True)
class Place(Making):
    """One making of a file on the burst buffer."""

    path: Path
    """On the burst buffer."""
    writer: Future[Any]
    """The task that makes it."""
    written: Future[None] = field(default_factory=Future)
    """Done when the task is final; the task's error if it failed."""
    staged_out: Future[None] = field(default_factory=Future)
    """Done when a result is in its own place."""
    is_stream: bool = False
    """Whether it is standard output or error: a result of a task that failed too."""

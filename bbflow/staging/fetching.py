"""Requests to the fetchers, and their outcomes."""

from dataclasses import dataclass
from pathlib import Path

from bbflow.staging.files import File

MOST_BYTES = 64 << 10
"""Of a small file."""


@dataclass(frozen=True, slots=True)
class FetchJob:
    """A file to be copied."""

    file: File
    """Which file."""
    wave: int
    """Number of the wave that wants it."""
    rank: int
    """Its place in the order of all files."""

    @property
    def is_small(self) -> bool:
        """Whether it may be one of a batch."""
        return self.file.size_bytes is not None and self.file.size_bytes <= MOST_BYTES


@dataclass(frozen=True, slots=True)
class Fetched:
    """What became of a job."""

    job: FetchJob
    """Which one."""
    fetcher: int
    """Number of the thread."""
    started_s: float
    """When it began, in seconds since the epoch."""
    ended_s: float
    """When it ended."""
    transferred_bytes: int = 0
    """What was read from the source."""
    error: Exception | None = None
    """Why it failed."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a transfer did."""

    path: Path
    """Where the whole file lies."""
    size_bytes: int
    """Its size."""
    transferred_bytes: int
    """What was read from the source: less than the size if an earlier life had begun."""


@dataclass(frozen=True, slots=True)
class SmallBatch:
    """What became of some small files."""

    receipts: list[Receipt | None]
    """One for each file; None if it must be transferred the long way."""
    ended_s: list[float]
    """When each was done, by `time.perf_counter`, counted from the batch's begin."""
    cpu_s: float
    """How long the thread really worked."""

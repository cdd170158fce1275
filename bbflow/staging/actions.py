"""What a plan wants done; the order of a list of actions matters."""

from dataclasses import dataclass

from bbflow.staging.files import File


@dataclass(frozen=True, slots=True)
class Stage:
    """Copy a file to the BB; its room is reserved."""

    file: File
    """What to copy."""
    wave: int
    """Number of the wave that wants it first."""


@dataclass(frozen=True, slots=True)
class Check:
    """Check that a copy, unused for a while, is still one of its source; copy it again if it isn't."""

    file: File
    """Which copy."""
    wave: int
    """Number of the wave that wants it."""


@dataclass(frozen=True, slots=True)
class Evict:
    """Remove a file from the BB; what follows in the list counts on its room."""

    url: str
    """Which file."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A task may run."""

    key: str
    """Which task."""
    direct: frozenset[str] = frozenset()
    """URLs of its files that have no room on the BB: it reads and writes them where the URL says."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A task can't run; it counts as final."""

    key: str
    """Which task."""
    error: Exception
    """Why."""


Action = Stage | Check | Evict | Ready | Refused

"""An I/O phase: who works on which file system, from when to when."""

from dataclasses import dataclass

PFS = "pfs"
"""Name of the file system, where a site has only one."""


@dataclass(frozen=True, slots=True)
class Phase:
    """An I/O phase of an application."""

    application: str
    """Who is in it."""
    file_system: str
    """Where, by the site's name for it."""
    began_s: float
    """Seconds since the epoch."""
    ended_s: float | None = None
    """Seconds since the epoch; None while it lasts."""
    source: str = "announced"
    """announced or observed."""

    @property
    def duration_s(self) -> float | None:
        """Seconds it lasted; None while it lasts."""
        return None if self.ended_s is None else self.ended_s - self.began_s


@dataclass(frozen=True, slots=True)
class Prediction:
    """When the next I/O phase is expected."""

    begins_s: float
    """Seconds since the epoch."""
    duration_s: float
    """How long it will last."""
    confidence: float
    """From 0 (a guess) to 1 (like clockwork)."""
    tolerance_s: float
    """How far earlier or later the phases have come so far."""

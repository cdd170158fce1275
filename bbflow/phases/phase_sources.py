"""Where the phases of others are seen: the board, or several places together."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from bbflow.phases.board import Board
from bbflow.phases.phase import Phase


class PhaseSource(Protocol):
    """A place where phases of others are seen."""

    def now(self, own_bytes: int = 0) -> Sequence[Phase]:
        """Return the phases that last now.

        Parameters
        ----------
        own_bytes
            What our own transfers have read so far: it isn't others' traffic.
        """

    def past(self) -> Sequence[Phase]:
        """Return phases that have ended, as far as they are known, in the order in which they began."""


class BoardSource:
    """Phases that others have announced.

    Parameters
    ----------
    directory
        Of the announcements; by default that of the variable ``BBFLOW_PHASES``.
    file_system
        The only one that counts; all if None.
    ignore
        Applications that don't count: one's own.
    """

    def __init__(
        self, directory: Path | None = None, file_system: str | None = None, ignore: Collection[str] = ()
    ) -> None:
        self._board = Board(directory)
        self._file_system, self._ignore = file_system, frozenset(ignore)

    def now(self, own_bytes: int = 0) -> list[Phase]:
        """Return the phases that last now."""
        return [item.phase for item in self._board.read() if self._counts(item.phase)]

    def past(self) -> list[Phase]:
        """Return the newest phases that have ended."""
        return [phase for phase in self._board.past() if self._counts(phase)]

    def _counts(self, phase: Phase) -> bool:
        return phase.application not in self._ignore and self._file_system in (None, phase.file_system)


class SourcesTogether:
    """Phases that are seen in any of several places.

    Parameters
    ----------
    places
        At least one.
    """

    def __init__(self, places: Sequence[PhaseSource]) -> None:
        self._places = places

    def now(self, own_bytes: int = 0) -> list[Phase]:
        """Return the phases that last now."""
        return [phase for place in self._places for phase in place.now(own_bytes)]

    def past(self) -> list[Phase]:
        """Return phases that have ended."""
        return sorted((phase for place in self._places for phase in place.past()), key=lambda phase: phase.began_s)

"""Where a stager sees the phases of others: the board."""

from collections.abc import Collection
from pathlib import Path

from bbflow.phases.board import Board
from bbflow.phases.phase import Phase


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

    def now(self) -> list[Phase]:
        """Give the phases that last now."""
        phases = [item.phase for item in self._board.read()]
        return [phase for phase in phases if self._counts(phase)]

    def past(self) -> list[Phase]:
        """Give the newest phases that have ended."""
        return [phase for phase in self._board.past() if self._counts(phase)]

    def _counts(self, phase: Phase) -> bool:
        return phase.application not in self._ignore and self._file_system in (None, phase.file_system)

"""Rosters in the output: checkpoints name them, and an analysis that continues reads them."""

from collections.abc import Iterable
from pathlib import Path

from bbflow.host.atomic import write_whole
from bbflow.transit.states.tables import Roster

ROSTERS_DIRECTORY = ".rosters"
"""In the output, while the run lasts."""


class RosterFiles:
    """Keeps the rosters of a run.

    Parameters
    ----------
    output
        Of the run.
    """

    def __init__(self, output: Path) -> None:
        self._directory = output / ROSTERS_DIRECTORY
        self._there: set[str] = set()

    def keep(self, rosters: Iterable[Roster]) -> None:
        """Write those that aren't there yet: before a checkpoint names them."""
        for roster in rosters:
            if roster.digest not in self._there:
                self._directory.mkdir(parents=True, exist_ok=True)
                write_whole(self._directory / roster.digest, roster.packed)
                self._there.add(roster.digest)

    def drop(self, named: Iterable[str]) -> None:
        """Remove all but some: once no checkpoint names them any more."""
        for digest in self._there - set(named):
            (self._directory / digest).unlink(missing_ok=True)
            self._there.remove(digest)

    def read(self, digest: str) -> Roster:
        """Return one that is there."""
        self._there.add(digest)
        path = self._directory / digest
        return Roster.unpacked(path.read_bytes(), str(path))

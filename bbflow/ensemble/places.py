"""Where an ensemble keeps what it needs while it runs."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from bbflow.ensemble.ensemble_settings import MEMBERS, EnsembleAnalysis
from bbflow.ensemble.roster import ROSTER_FILES
from bbflow.errors import ConfigError
from bbflow.host.atomic import write_whole
from bbflow.host.belongings import claim, is_made, make, remove
from bbflow.transit.output.claiming import written
from bbflow.zarr_store.growing import zarr_files

STORE = "ensemble.zarr"
RESULTS = "results.zarr"
GRID = ".ensemble/grid"
STATUS = ".ensemble/status"
CONTACT = ".ensemble/contact"
DOWN = ".ensemble/down"
LOCK = ".ensemble/lock"
"""Held by the analysis …"""
UP = ".ensemble/up"
"""… and by the process that keeps it and the nodes."""
HOST = ".ensemble/host"
"""Which host that process is on: not in the lock, which is opened in place, so a link there would be followed."""
LOG = "ensemble.log"
_STATES = ".ensemble/states"
_SLOW = ".moments"


@dataclass(frozen=True, slots=True)
class EnsemblePlaces:
    """Directories of an ensemble's moments."""

    output: Path
    """The ensemble's."""
    fast: Path
    """In memory."""

    @classmethod
    def of(cls, analysis: EnsembleAnalysis) -> "EnsemblePlaces":
        """Return the places of an ensemble; the same output finds the same ones again."""
        output = analysis.output
        told = f"{os.getuid()} {output.resolve()} {output.stat().st_ino}"
        name = f"bbflow-ensemble-{hashlib.sha256(told.encode()).hexdigest()[:12]}"
        return cls(output, analysis.ensemble.states.directory.resolve() / name)

    @property
    def slow(self) -> Path:
        """In the output."""
        return self.output / _SLOW

    def make(self) -> None:
        """Make them, or find them again.

        Raises
        ------
        ConfigError
            If states were there that have gone with the host's memory.
        """
        token = self.output / _STATES
        if token.exists() and not is_made(Path(token.read_text())):
            raise ConfigError(
                f"the states of open moments in {token.read_text()} are gone with the host's memory: what members gave "
                f"can't be folded again; start over with another output than {self.output}, or run the members again"
            )
        if not token.exists():
            make(self.fast, "*", ".*")
            token.parent.mkdir(exist_ok=True)
            write_whole(token, str(self.fast))
        self.slow.mkdir(exist_ok=True)

    def clear(self) -> None:
        """Remove them: all is shown."""
        # First: one whose directory is gone would be taken for that of states that were lost, and refused.
        (self.output / _STATES).unlink(missing_ok=True)
        remove(self.fast)


def claim_ensemble(output: Path) -> None:
    """Note in an ensemble's output what is the ensemble's.

    Raises
    ------
    ConfigError
        If something that isn't ours is in the way.
    """
    claim(
        output,
        *zarr_files(STORE),
        *ROSTER_FILES,
        ".ensemble/*",
        ".ensemble/.*",
        f"{_SLOW}/*",
        f"{_SLOW}/.*",
        *written(LOG),
        f"{MEMBERS}/**",
    )

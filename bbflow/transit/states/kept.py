"""What a fold keeps, as a value for those who publish, save or copy it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bbflow.configuring.settings import Config
from bbflow.transit.spans.timeline import Closing, Timeline
from bbflow.transit.states.inherited import Origins
from bbflow.transit.states.shards import Region
from bbflow.transit.states.tables import States


@dataclass(frozen=True, slots=True)
class Kept:
    """What the fold keeps, as it is at one moment."""

    config: Config
    """The run's configuration."""
    states: Mapping[str, Sequence[States]]
    """Diagnostic to its states that count, in the order in which they take over what was before them."""
    origins: Origins
    """What new shards begin with."""
    errors: Mapping[str, str]
    """What failed in users' operators, which are called no more."""
    timeline: Timeline
    """The spans of time that are alive."""
    last_number: int
    """Number of the last step that was folded, counted through a chain of jobs."""

    def of(self, diagnostic: str) -> Sequence[States]:
        """Return a diagnostic's states."""
        return self.states.get(diagnostic, ())

    def regions(self, diagnostic: str) -> list[Region]:
        """Return the parts of a diagnostic's field that have states."""
        return [region for alike in self.of(diagnostic) for region in alike.roster.regions]


class EndedSpans(NamedTuple):
    """Windows' spans that have ended together."""

    closings: Sequence[Closing]
    """Which ones."""
    kept: Kept
    """What was kept when they ended, which stays until they are published."""

"""Members' stores as their analyses write them, without nodes: the real writer of results, and the real roster."""

import numpy as np

from bbflow.ensemble.ensemble_settings import FIELD_FILES
from bbflow.ensemble.gathering import EnsembleFold
from bbflow.ensemble.places import RESULTS, claim_ensemble
from bbflow.ensemble.roster import MemberRoster, Verdict
from bbflow.operators.parse import parse_operators
from bbflow.operators.windows.calendars import STEP_CLOCK, Clock
from bbflow.operators.windows.parse_windows import parse_window
from bbflow.stream.cf import StreamAttributes
from bbflow.transit.output.fields import ResultField
from bbflow.transit.output.results import Results
from bbflow.transit.spans.timeline import Closing, Span

STEP = parse_window({"steps": {"count": 1, "name": "step"}})
DAYS = Clock("days since 2001-01-01", "standard")
(MAX,) = parse_operators(["max"])


class MemberStreams:
    """Writes what members' analyses would."""

    def __init__(self, analysis, units="K", clock=DAYS, coordinates=None, **attributes):
        analysis.output.mkdir(parents=True, exist_ok=True)
        claim_ensemble(analysis.output)
        self.analysis, self.roster = analysis, MemberRoster(analysis.output)
        self._attributes = ({"units": units} if units else {}) | attributes
        self._clock, self._coordinates = clock, coordinates or {}
        self._results, self._steps, self._attempts = {}, {}, {}

    def write(self, member, *fields, window=STEP, step=None, steps=1):
        """Show the fields of a member's next step: name to values."""
        if member not in self._results:
            self.begin(member)
        step = self._steps.get(member, 0) if step is None else step
        first = step / 4.0
        key = window.key(self._clock.date(first), step)
        closing = Closing(window, (Span(key, first, first, steps, 0),), frozenset())
        (values,) = fields
        published = {}
        for name, value in values.items():
            dims = tuple(f"dim{at}" for at in range(value.ndim))
            described = ResultField(name, value.dtype.str, value.shape, dims, self._attributes, {})
            published[name] = described, [MAX], {"max": value}
        self._results[member].publish(closing, published, {})
        self._steps[member] = step + 1

    def begin(self, member, clock=None):
        """Start a member's program."""
        self._attempts[member] = self.roster.begin(member)
        folder = self.analysis.output_of(member)
        folder.mkdir(parents=True, exist_ok=True)
        self._results[member] = Results(
            folder / RESULTS, "model", StreamAttributes({}), clock or self._clock, FIELD_FILES
        )
        for name, told in self._coordinates.items():
            values, own = told if isinstance(told, tuple) else (told, {})
            if not self._results[member].has(name):
                self._results[member].add_coordinate(name, values, (name,), own)

    def attempt_of(self, member):
        """Return its last attempt."""
        return self._attempts[member]

    def end(self, member, *, code=0, complete=True):
        """End it."""
        attempt = self._attempts[member]
        self.roster.end(member, attempt, code)
        self._results[member].commit(bbflow_status="complete" if complete else "incomplete")
        self.roster.judge(member, Verdict(attempt=attempt.number, complete=complete))

    def fail(self, member):
        """Kill it."""
        self.end(member, code=137, complete=False)


def gathered(analysis, most_turns=1000, begin=None):
    """Run an analysis until all members are over; return whether it is complete, and what it said."""
    said = []
    gathering = EnsembleFold(analysis, begin, said.append)
    for _ in range(most_turns):
        busy = gathering.turn()
        if not busy and gathering.is_over:
            return gathering.finish(), said
    raise AssertionError("it isn't over")


def field(member, step, shape=(3, 4)):
    """A member's field."""
    return np.random.default_rng([int(member), step]).normal(280, 5, shape)


__all__ = ["DAYS", "STEP_CLOCK", "MemberStreams", "field", "gathered"]

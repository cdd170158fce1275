"""Ranks that fold their own blocks: they are told how as soon as it is known, and up to where again and again."""

import math
import sys

from bbflow.transit.driver.run_context import Running, Seen
from bbflow.transit.folding.bookkeeping import Folding
from bbflow.transit.folding.patterns import Pattern, parts_of
from bbflow.transit.folding.planning import FoldSite
from bbflow.transit.folding.rank_plans import (
    FoldedArrays,
    StepsToCome,
    folded_arrays,
    most_together,
    plan_of,
    why_no_times,
)
from bbflow.view.times import StepTimes, told_by


class RankFolding:
    """Tells the ranks of a stream what they may fold.

    Parameters
    ----------
    run
        The run.
    """

    def __init__(self, run: Running) -> None:
        self._run = run
        self._arrays: FoldedArrays | None = None
        self._most = math.inf
        """So many steps may land together."""
        self._next = 0
        """Before this step has been folded there is nothing to tell."""
        self._said = ""

    def look(self, folding: Folding, pattern: Pattern, site: FoldSite, seen: Seen) -> None:
        """Tell ranks of steps to come, if it is time for it.

        Parameters
        ----------
        folding
            What is folded.
        pattern, site
            How its last steps lie, and where they are folded.
        seen
            What is known of the stream.
        """
        run, passed = self._run, folding.timeline.passed
        is_mixed = any(layout.has_folded for layout in pattern.layouts.values())
        if folding.cursor < self._next or passed.steps < 2 or run.view.ended or (is_mixed and self._arrays is None):
            return
        if not is_mixed:
            self._most = most_together(pattern.layouts.values(), run.capacity)
        every, time = int(min(run.config.fold.land_states_every, self._most)), self._time(folding, seen)
        steps = StepsToCome(folding.cursor, folding.number, passed, seen.clock, folding.timeline.windows)
        why = why_no_times(passed) if seen.is_plain else "its steps are taken by a schema"
        why = why or ("no number in each step tells the time" if time is None else "")
        ends = [] if why else steps.ends(every)
        if ends and not is_mixed:
            plans, layouts = [*folding.planning.plans(pattern, site).values()], [*pattern.layouts.values()]
            used = {name for item in run.config.diagnostics.values() for name in item.variables}
            self._arrays = folded_arrays(plans, layouts, site.encodings, steps.longest(ends), run.capacity, used)
        if not ends or time is None or self._arrays is None or self._arrays.why_not:
            self._next = folding.cursor + every
            self._say(why or (self._arrays.why_not if self._arrays else "its next steps have no dates"))
            return
        fold = run.config.fold
        device_bytes = fold.device_memory if fold.on == "device" else 0
        run.consumers.let_fold(plan_of(self._arrays, steps, ends, time, device_bytes))
        self._next = (folding.cursor + ends[-1]) // 2
        self._said = ""

    def _time(self, folding: Folding, seen: Seen) -> str | None:
        """Return the name of what tells the time, none if steps are counted; None if it is no single number."""
        config, parts = self._run.config, parts_of(self._run.view, folding.cursor)
        if StepTimes(config.time, seen.clock).are_counted:
            return ""
        told = told_by(parts, config.time.variable)
        is_number = told is not None and told.source == "variable" and not isinstance(told.value, str)
        return config.time.variable if is_number else None

    def _say(self, why: str) -> None:
        if why != self._said:
            stream = self._run.config.stream
            print(f"bbflow: ranks don't fold stream {stream!r}: {why}; steps land", file=sys.stderr, flush=True)
        self._said = why

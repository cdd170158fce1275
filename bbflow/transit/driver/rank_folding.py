"""Ranks that fold their own blocks: they are told how as soon as it is known, and up to where again and again."""

import math
from collections.abc import Collection, Sequence, Set

from bbflow.host.log import tell
from bbflow.operators.windows.calendars import Clock
from bbflow.operators.windows.date_texts import DIGITS
from bbflow.stream.records import Layout
from bbflow.transit.driver.rank_plans import (
    FoldedArrays,
    StepPace,
    StepsToCome,
    folded_arrays,
    most_together,
    plan_of,
    why_no_times,
)
from bbflow.transit.driver.stage import Running, Seen
from bbflow.transit.folding.batches import Batch
from bbflow.transit.folding.bookkeeping import Folding
from bbflow.transit.folding.planning import FoldSite
from bbflow.transit.spans.timeline import Passed
from bbflow.view.times import StepTimes, told_by


class RankFolding:
    """Sends the ranks of a stream what they may fold.

    Parameters
    ----------
    run
        The run.
    """

    def __init__(self, run: Running) -> None:
        self._run = run
        self._arrays: FoldedArrays | None = None
        self._next = 0
        """Before this step has been folded there is nothing to tell."""
        self._pace = StepPace()
        self._used = {name for item in run.config.diagnostics.values() for name in item.variables}
        self._said = ""
        self._taken, self._folded, self._before = 0, 0, 0
        """Steps that were taken, those of them that ranks had folded, and the others before the first of these."""
        self.has_told = False
        """Whether ranks may fold."""

    def look(
        self, folding: Folding, batch: Batch, site: FoldSite, seen: Seen, steady: Collection[str]
    ) -> None:  # fmt: skip
        """Send ranks a plan of the steps after a batch, if it is time for it.

        Parameters
        ----------
        folding, batch
            What is folded, and the next of it.
        site
            Where.
        seen
            What is known of the stream.
        steady
            Arrays whose first steps' values count.
        """
        run, pattern, passed = self._run, batch.laid[-1].pattern, batch.passed
        layouts = [*pattern.layouts.values()]
        is_mixed = any(layout.has_folded for layout in layouts)
        # Ranks may fold by an earlier analysis' plan; arrays are found in a step that landed as it is, after that.
        if batch.through < self._next or run.view.ended or (is_mixed and self._arrays is None):
            return
        is_counted = StepTimes(run.config.time, seen.clock).are_counted
        if is_counted and passed.interval is None:
            passed = passed._replace(interval=1.0)
        if passed.interval is None:
            return  # the second step tells
        time = "" if is_counted else run.config.time.variable
        most = self._most_together(layouts, {time, *steady}, is_mixed=is_mixed)
        every = int(min(self._pace_at(batch).together(run.config.fold.land_states_every), most))
        why = self._why_no_times(batch, passed, seen, is_counted=is_counted)
        steps = _steps_to_come(folding, batch, passed, seen.clock)
        ends = [] if why else steps.ends(every)
        if ends and not is_mixed:
            plans = [*folding.planning.plans(pattern, site).values()]
            self._arrays = folded_arrays(
                plans, layouts, site.encodings, steps.longest(ends), run.capacity, self._used, most, steady
            )  # fmt: skip
        if not ends or self._arrays is None or self._arrays.why_not:
            self._next = batch.through + every
            self._say(why or (self._arrays.why_not if self._arrays else "its next steps have no dates"))
            return
        fold = run.config.fold
        device_bytes = fold.device_memory if fold.on == "device" else 0
        run.consumers.let_fold(plan_of(self._arrays, steps, ends, time, device_bytes))
        is_timed = fold.land_states_every.seconds < math.inf
        # Renewed halfway: past a plan's last end ranks land their steps as they are.
        self._next = batch.through + every if is_timed else (batch.through + ends[-1]) // 2
        self._said, self.has_told = "", True

    def _most_together(self, layouts: Sequence[Layout], beside: Set[str], *, is_mixed: bool) -> float:
        """Return how many steps ranks may fold together, by the room that they take."""
        if is_mixed and self._arrays is not None:
            return self._arrays.most
        has_all = self._used <= {form.name for layout in layouts for form in layout.forms}
        return most_together(layouts, self._run.capacity, beside, is_all=not has_all)

    def _pace_at(self, batch: Batch) -> StepPace:
        """Return how fast steps come, by the last one of a batch."""
        committed_s = max(part.committed_s for part in batch.laid[-1].parts.values())
        self._pace = self._pace.at(batch.through, committed_s)
        return self._pace

    def _why_no_times(self, batch: Batch, passed: Passed, seen: Seen, *, is_counted: bool) -> str:
        """Return why ranks can't know the times of the next steps; empty if they can."""
        if not seen.is_plain:
            return "its steps are taken by a schema"
        told = None if is_counted else told_by(batch.laid[-1].parts, self._run.config.time.variable)
        is_number = told is not None and told.source == "variable" and not isinstance(told.value, str)
        if told is not None and DIGITS.fullmatch(told.axis[0] or ""):
            is_number = False  # what ranks compare are numbers of the stream's clock
        return why_no_times(passed) or ("" if is_counted or is_number else "no number in each step tells the time")

    def take(self, batch: Batch) -> None:
        """Count what ranks have folded of a batch."""
        self._taken += len(batch.steps)
        for step in batch.laid:
            self._folded += any(layout.has_folded for layout in step.pattern.layouts.values())
            self._before += not self._folded

    def conclude(self) -> None:
        """Report how many steps ranks have folded, and why not the others."""
        why = ""
        if not self._folded:
            why = self._said or "the stream ended before they knew how, or had steps enough for a state"
        elif self._folded < self._taken:
            why = f"the first {self._before} landed before they knew how"
            if rest := self._taken - self._folded - self._before:
                why += f", {rest} later ones since they took less room so, or had other times, sizes or arrays"
        told = f"ranks folded {self._folded} of {self._taken} steps of stream {self._run.config.stream!r}"
        tell(f"{told}{why and ': '}{why}")

    def _say(self, why: str) -> None:
        if why != self._said:
            stream = self._run.config.stream
            tell(f"ranks don't fold stream {stream!r}: {why}; steps land")
        self._said = why


def _steps_to_come(folding: Folding, batch: Batch, passed: Passed, clock: Clock) -> StepsToCome:
    span = batch.spans[-1]
    in_span = folding.common.timeline.steps_in(span.keys) + len(span.steps)
    return StepsToCome(batch.through, batch.through + batch.offset, passed, clock, folding.windows.all, in_span)

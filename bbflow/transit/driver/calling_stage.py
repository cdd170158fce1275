"""The stage that calls users' functions: step by step, and with each span of a window, beside fold and drain."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

from bbflow.drain.draining import bare
from bbflow.errors import BbflowError, OperatorError
from bbflow.functions import Said, UserFunction
from bbflow.host.atomic import write_whole
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.records import Parts
from bbflow.transit.calling.answers import ANSWERS_LOST, ERROR, KEPT, STOP, THROUGH, Answers, AxisPlace
from bbflow.transit.calling.calls import CallReceipt, SpanCall, StepCall, call_function
from bbflow.transit.clusters.cluster import TaskBatch, let_go
from bbflow.transit.driver.stage import Running, Seen, StageReport, StreamStart
from bbflow.transit.folding.patterns import parts_of
from bbflow.transit.output.claiming import STOP_FILE
from bbflow.transit.output.results import Results
from bbflow.view.consumers import CALLS, no_checkpoint
from bbflow.view.judging import Judging, WholeFields

Call = StepCall | SpanCall


@dataclass(slots=True)
class Calling:
    """One function, and how far it was called."""

    function: UserFunction
    """Which function."""
    answers: Answers
    """What it has published."""
    next: int
    """The step, or the span, that comes next."""
    judging: Judging | None = None
    """Chooses the steps that it is called with, if a condition does."""
    tasks: TaskBatch[Call] | None = None
    """The call that runs."""
    error: str = ""
    """What failed in it: it isn't called any more."""
    kept: set[int] = field(default_factory=set)
    """Steps for which it has asked."""

    @property
    def done(self) -> float:
        """Every step up to this one is done, as far as it goes."""
        if self.error:
            return math.inf
        return self.next - 1 if self.tasks is None else self.tasks.batch.at - 1

    @property
    def settled(self) -> float:
        """How many spans it was called with whose answers are committed; called by any thread."""
        tasks, after = self.tasks, self.next
        if self.error:
            return math.inf
        return min(self.answers.through + 1, after if tasks is None else tasks.batch.at)


class CallStage:
    """Calls users' functions.

    Each function is called with one field after the other, in their order, and several functions side by side. What
    it answers counts with the commit of its store; after that the nodes are told that the step is done.

    Parameters
    ----------
    run
        What holds for all stages.
    """

    def __init__(self, run: Running) -> None:
        self._run = run
        self._told = min((step for step, _ in run.consumers.of(CALLS).values()), default=-1)
        self._results: Results | None = None
        self.wait_s = math.inf
        """It waits for nothing but steps and spans."""
        self._steps: list[Calling] = []
        self._spans: list[Calling] = []
        for function in run.config.functions:
            answers = Answers(run.config.output, function.name)
            # What the last span has come to may have been shown again just before an analysis was killed. Of steps that
            # are done with nothing is left to call it with again, whatever has become of its store.
            first = max(answers.through, self._told) + 1 if function.of else max(answers.through, 0)
            calling = Calling(function, answers, first, error=answers.error, kept=set(answers.kept))
            (self._steps if function.of else self._spans).append(calling)
        self.stopped = ""
        """Why the simulation is to end; empty if nothing has asked for that."""
        for calling in self._all:
            if calling.answers.stop:
                self._ask_to_stop(calling.answers.stop)

    @property
    def _all(self) -> list[Calling]:
        return [*self._steps, *self._spans]

    def settled(self, window: str) -> float:
        """Return how many of a window's spans no function will be called with."""
        return min((calling.settled for calling in self._spans if calling.function.window == window), default=math.inf)

    @property
    def errors(self) -> list[str]:
        """Return which functions failed."""
        return [calling.error for calling in self._all if calling.error]

    @property
    def cursor(self) -> float:
        """Every step up to this one is done with; the nodes know it."""
        return self._told if self._steps else math.inf

    @property
    def idle(self) -> bool:
        """Whether no call runs, and none is due."""
        return not any(calling.tasks is not None for calling in self._all) and not any(map(self._has_span, self._spans))

    def asking(self, name: str | None) -> Calling | None:
        """Return the function of that name; None without one."""
        return next((calling for calling in self._steps if calling.function.name == name), None)

    def open(self, start: StreamStart) -> None:
        """Begin, in the grid that the first step has shown."""
        self._results, attributes = start.results, start.attributes
        fields = WholeFields(self._run.contact, self._run.config.stream, attributes)
        for calling in self._all:
            calling.answers.begin(is_continued=start.results.is_continued, is_repeated=not calling.function.of)
        for calling in self._steps:
            when, where = calling.function.when, f"functions: {calling.function.name}: when"
            calling.judging = None if when is None else Judging(when, where, fields, attributes)

    def begin(self, seen: Seen) -> None:
        """Submit the next call of each function."""
        if self._results is None:
            return
        for calling in self._steps:
            if calling.tasks is None and not calling.error:
                self._begin_step(calling, seen)
        self._begin_spans()
        self._tell()

    def _begin_spans(self) -> None:
        for calling in self._spans:
            if calling.tasks is None and self._results is not None and self._has_span(calling):
                call = SpanCall(calling.function, calling.next, self._results.path)
                self._submit(calling, call, next(iter(self._run.nodes.values())).host)

    def _has_span(self, calling: Calling) -> bool:
        if self._results is None or calling.error:
            return False
        return calling.next < self._results.shown(calling.function.window)

    def _begin_step(self, calling: Calling, seen: Seen) -> None:
        view, through = self._run.view, calling.answers.through
        for number in view.steps_after(calling.next - 1):
            parts = parts_of(view, number)
            if number > through and self._is_chosen(calling, number, parts):
                self._submit_step(calling, number, parts, seen)
                return
            calling.next = number + 1
        calling.next = max(calling.next, view.frontier + 1)  # the others were discarded

    @staticmethod
    def _is_chosen(calling: Calling, number: int, parts: Parts) -> bool:
        if number % calling.function.every:
            return False
        return calling.judging is None or calling.judging.holds(parts)

    def _submit_step(self, calling: Calling, number: int, parts: Parts, seen: Seen) -> None:
        assert self._results is not None
        call = StepCall(
            calling.function,
            self._run.contact,
            self._run.config.stream,
            number,
            seen.time_of(number, parts),
            {node: bare(part) for node, part in parts.items()},
            seen.attributes,
            seen.clock,
            self._results.path,
        )
        calling.next = number
        self._submit(calling, call, self._run.nodes[next(iter(parts))].host)

    def _submit(self, calling: Calling, call: Call, host: str) -> None:
        calling.next += 1
        calling.tasks = TaskBatch(self._run.cluster, call, call_function, [((call,), host)], self._run.wake)

    def take(self, seen: Seen) -> None:
        """Commit calls that are done; functions of spans are called again with those that were shown again."""
        for window, index in seen.shown:
            for calling in self._spans:
                if calling.function.window == window:
                    calling.next = min(calling.next, index)
        for calling in self._all:
            receipts: list[CallReceipt] | None = calling.tasks.results() if calling.tasks is not None else None
            if calling.tasks is not None and receipts is not None:
                let_go(calling.tasks.tasks)
                self._count(calling, calling.tasks.batch, receipts[0], seen)
                calling.tasks = None  # after its answer is committed: until then what it was called with stays
        self._tell()

    def finish(self, seen: Seen) -> StageReport:
        """Call what is still to be called with the last spans, wait for it, and say which functions failed."""
        self.take(seen)
        while not self.idle:
            self._begin_spans()
            for calling in self._all:
                if calling.tasks is not None:
                    calling.tasks.tasks[0].exception()  # waits
            # Without what was shown, which was taken in above: else those spans would be called with again and again.
            self.take(replace(seen, shown=()))
        for calling in self._all:
            if not calling.error and (lost := calling.answers.lost()):
                calling.error = f"function {calling.function.name}: {ANSWERS_LOST.format(', '.join(lost))}"
                calling.answers.commit(**{ERROR: calling.error})
        return StageReport(self.errors, not self.errors)

    def _count(self, calling: Calling, call: Call, receipt: CallReceipt, seen: Seen) -> None:
        at = f"step {call.at}" if isinstance(call, StepCall) else f"{calling.function.window} {call.at}"
        said, told = receipt.said, dict[str, Any]()
        try:
            if said is None:
                raise OperatorError(receipt.error)
            told = self._answered(calling, call, said, at, seen)
        except BbflowError as error:  # or its store is damaged
            calling.error = f"function {calling.function.name} ({calling.function.origin}) failed in {at}: {error}"
            told = {ERROR: calling.error}
        # A span that is shown again is called with again, and is behind those that have answered.
        calling.answers.commit(**{THROUGH: max(call.at, calling.answers.through), **told})
        if STOP in told:
            # Once it is stored: if this analysis dies before it has asked, the next one finds it there, and asks.
            self._ask_to_stop(told[STOP])

    def _answered(self, calling: Calling, call: Call, said: Said, at: str, seen: Seen) -> dict[str, Any]:
        """Add what is published, and return what else counts with it."""
        told: dict[str, Any] = {}
        is_asked = self._run.config.raw.asked_by == calling.function.name
        if said.keep and not is_asked:
            raise OperatorError("it asks for a step to be kept, but isn't the function that raw: asked_by names")
        if said.found is not None:
            calling.answers.add(said.found, self._place(call, seen.clock))
        if isinstance(call, StepCall) and is_asked:
            kept = {*calling.kept, *([call.at] if said.keep else ())}
            # What the drain is past is decided: kept for good, the list would grow with the run.
            calling.kept = {number for number in kept if number > seen.drained}
            told[KEPT] = sorted(calling.kept)
        if said.stop is not None and not self._run.view.ended:
            told[STOP] = f"{calling.function.name} asked in {at} for the simulation's end: {said.stop}"
        return told

    def _place(self, call: Call, clock: Clock) -> AxisPlace:
        assert self._results is not None
        told = clock.attributes | clock.meaning
        if isinstance(call, StepCall):
            time = call.at if call.time is None else call.time
            return AxisPlace(float(time), told, number=call.at)
        time, bounds = self._results.stamp(call.function.window, call.at)
        return AxisPlace(time, told, bounds=bounds)

    def _ask_to_stop(self, why: str) -> None:
        if not self.stopped:
            self.stopped = why
            write_whole(self._run.config.output / STOP_FILE, why.encode())
            self._run.log.add("stop", why=why)

    def _tell(self) -> None:
        """Commit on the nodes which steps are done."""
        done = min((calling.done for calling in self._steps), default=math.inf)
        done = int(min(done, self._run.view.frontier))
        if self._steps and done > self._told:
            self._run.consumers.commit(CALLS, done, self._run.nodes, no_checkpoint)
            self._told = done

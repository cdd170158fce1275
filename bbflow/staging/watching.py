"""Watches I/O phases and keeps the gate as the policy says: one thread around pure decisions."""

import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Protocol

from bbflow.models.interference import Interference, PhaseSample, fit_interference
from bbflow.phases import Phase, PhaseSource, Prediction
from bbflow.phases.prediction import NEWEST, predict
from bbflow.staging.gate import Decision
from bbflow.staging.policies import Policy, Situation

POLL_S = 0.01
"""How often announcements are looked at."""


class Gated(Protocol):
    """What a policy's decisions are applied to: the gate of real chunks, or that of simulated ones."""

    fetchers: int
    """At most this many transfers at once."""

    @property
    def decision(self) -> Decision:
        """What holds now."""

    @property
    def passed_bytes(self) -> int:
        """Of everything that has begun to be transferred."""

    def apply(self, decision: Decision) -> None:
        """Apply a decision from now on."""


@dataclass(frozen=True, slots=True)
class Load:
    """What transfers have to do."""

    remaining_bytes: int
    """Still to be transferred for the admitted tasks."""
    deadline_s: float | None
    """When the next wave could begin to compute, in seconds since the epoch."""


@dataclass(slots=True)
class _Seen:
    """A phase that lasts."""

    phase: Phase
    passed_bytes: int


@dataclass(slots=True)
class Memory:
    """What is known of past phases and of the transfers' rate."""

    lasting: dict[tuple[str, str, float], _Seen] = field(default_factory=dict)
    past: dict[str, list[Phase]] = field(default_factory=dict)
    samples: list[PhaseSample] = field(default_factory=list)
    ended: list[Phase] = field(default_factory=list)
    """Phases that ended at the last look."""

    def recall(self, phases: Sequence[Phase]) -> None:
        """Take phases that ended before the first look, the oldest first."""
        for phase in phases:
            past = self.past.setdefault(phase.application, [])
            past.append(phase)
            del past[:-NEWEST]

    def look(self, phases: Sequence[Phase], now_s: float, passed_bytes: int) -> None:
        """Take what lasts now.

        Parameters
        ----------
        phases
            Of others.
        now_s
            Seconds since the epoch.
        passed_bytes
            What we have transferred so far.
        """
        present = {(phase.application, phase.file_system, phase.began_s): phase for phase in phases}
        for key, phase in present.items():
            self.lasting.setdefault(key, _Seen(phase, passed_bytes))
        self.ended = []
        for key in self.lasting.keys() - present.keys():
            seen = self.lasting.pop(key)
            begun = seen.phase
            phase = Phase(begun.application, begun.file_system, begun.began_s, now_s, begun.source)
            self.recall([phase])
            self.samples.append(PhaseSample(max(now_s - phase.began_s, 1e-6), passed_bytes - seen.passed_bytes))
            del self.samples[: -4 * NEWEST]
            self.ended.append(phase)

    def predicted(self, now_s: float) -> Prediction | None:
        """Return the next phase of any application that is predicted with most confidence, and comes first."""
        found = [predict(past, now_s) for past in self.past.values()]
        return min((p for p in found if p), key=lambda p: (-round(p.confidence, 1), p.begins_s), default=None)

    @property
    def phase_s(self) -> float | None:
        """How long phases last."""
        durations = [phase.duration_s for past in self.past.values() for phase in past if phase.duration_s]
        return median(durations) if durations else None

    @property
    def free_share(self) -> float:
        """Share of the time outside all phases."""
        return free_share([phase for past in self.past.values() for phase in past])

    @property
    def model(self) -> Interference | None:
        """The interference model, as far as the phases allow one."""
        return fit_interference(self.samples)


def free_share(past: Sequence[Phase]) -> float:
    """Return the share of the time without a phase, from the first one's begin to the last one's; 1 if there was none.

    Parameters
    ----------
    past
        Phases; what overlaps counts once.
    """
    phases = sorted(past, key=lambda phase: phase.began_s)
    if len(phases) < 2 or phases[0].began_s == phases[-1].began_s:
        return 1.0
    free_s, until_s = 0.0, phases[0].began_s
    for phase in phases:
        free_s += max(phase.began_s - until_s, 0.0)
        until_s = max(until_s, phase.ended_s or phase.began_s)
    return free_s / (phases[-1].began_s - phases[0].began_s)


class Watch:
    """Applies a policy to a gate.

    Parameters
    ----------
    policy, gate
        Which policy, on which gate.
    source
        Where phases are seen; None for nowhere.
    load
        Tells what transfers have to do.
    clock
        Gives seconds since the epoch.
    on_decision, on_phase
        Called with every new decision, and with every phase that has ended.
    poll_s
        How often it looks.
    """

    def __init__(
        self,
        policy: Policy,
        gate: Gated,
        source: PhaseSource | None,
        load: Callable[[], Load],
        clock: Callable[[], float],
        on_decision: Callable[[Decision], None],
        on_phase: Callable[[Phase], None],
        poll_s: float = POLL_S,
    ) -> None:
        self._policy, self._gate, self._source, self._load, self._clock = policy, gate, source, load, clock
        self._on_decision, self._on_phase = on_decision, on_phase
        self._memory = Memory()
        self._poll_s = poll_s
        self._delayed_since_s: float | None = None
        self._peak = PeakRate()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Decide once, then continue in a thread; after `close` it can be started again."""
        self._memory.lasting.clear()  # how long those were that ended unseen is unknown
        self.recall()
        self._ended = threading.Event()
        if not self._keep():
            return
        self._thread = threading.Thread(target=self._run, args=(self._ended,), name="bbflow-phases", daemon=True)
        self._thread.start()

    def recall(self) -> None:
        """Take what the source knows of phases that ended before the first look."""
        if self._source is not None and (past := self._source.past()):
            self._memory.past.clear()
            self._memory.recall(past)

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, ended: threading.Event) -> None:
        while not ended.wait(self._poll_s) and self._keep():
            pass

    def _keep(self) -> bool:
        """Look once; a user's own policy may raise anything, and transfers must not wait forever for it."""
        try:
            self.step()
        except Exception as error:
            self._gate.apply(Decision())
            warnings.warn(
                f"delay policy {type(self._policy).__name__} failed ({type(error).__name__}: {error}): transfers take "
                "no notice of I/O phases any more",
                stacklevel=1,
            )
            return False
        return True

    def step(self) -> None:
        """Look once, and apply what the policy says."""
        now_s, load, passed_bytes = self._clock(), self._load(), self._gate.passed_bytes
        phases = tuple(self._source.now(passed_bytes)) if self._source is not None else ()
        self._memory.look(phases, now_s, passed_bytes)
        for phase in self._memory.ended:
            self._on_phase(phase)
        self._peak.look(now_s, passed_bytes, busy=bool(load.remaining_bytes), free=not phases)
        decision = self._policy.decide(self._situation(now_s, phases, load))
        if decision != self._gate.decision:
            self._gate.apply(decision)
            self._on_decision(decision)

    def _situation(self, now_s: float, phases: tuple[Phase, ...], load: Load) -> Situation:
        if not phases or not load.remaining_bytes:
            self._delayed_since_s = None
        elif self._delayed_since_s is None:
            self._delayed_since_s = now_s
        return Situation(
            now_s=now_s,
            phases=phases,
            predicted=self._memory.predicted(now_s),
            delayed_s=0.0 if self._delayed_since_s is None else now_s - self._delayed_since_s,
            phase_s=self._memory.phase_s,
            remaining_bytes=load.remaining_bytes,
            deadline_s=load.deadline_s,
            peak_bytes_per_s=self._peak.bytes_per_s,
            free_share=self._memory.free_share,
            model=self._memory.model,
        )


@dataclass(slots=True)
class PeakRate:
    """Rate of the transfers while they are busy, outside all phases."""

    bytes_per_s: float | None = None
    _span_s: float = 0.0
    _span_bytes: int = 0
    _last: tuple[float, int] | None = None

    def look(self, now_s: float, passed_bytes: int, busy: bool, free: bool) -> None:
        """Take another look; a rate is taken of every half second that was busy and free."""
        last, self._last = self._last, (now_s, passed_bytes)
        if last is None or not (busy and free):
            return
        self._span_s += now_s - last[0]
        self._span_bytes += passed_bytes - last[1]
        if self._span_s >= 0.5:
            rate = self._span_bytes / self._span_s
            # It falls slowly: half a second in which a store was busy otherwise tells little of what could be.
            self.bytes_per_s = max(rate, 0.8 * (self.bytes_per_s or 0.0)) if rate > 0 else self.bytes_per_s
            self._span_s, self._span_bytes = 0.0, 0

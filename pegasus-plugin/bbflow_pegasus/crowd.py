"""Transfer jobs that run at the same time, on any hosts: waves come in turn, and jobs share what a policy allows."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from bbflow.phases import Announcement, Board
from bbflow.staging import Decision, Policy, Situation

LEASE_S = 30.0
"""A job that died without a word counts for this long."""
LOOK_S = 0.5
"""How often a job looks for the others."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A job's place among those that transfer."""

    number: int = 0
    """Among those whose turn it is, the first has 0."""
    jobs: int = 1
    """How many these are."""
    after: int | None = None
    """The wave that comes first; None if it is the job's turn."""


class Crowd:
    """Who transfers now, as far as a directory that all hosts see can tell.

    Parameters
    ----------
    directory
        Made if it isn't there.
    clock
        Gives seconds since the epoch.
    run
        The workflow's; jobs of another one don't wait for its waves.
    wave
        The job's.
    """

    def __init__(self, directory: Path, clock: Callable[[], float], run: str = "", wave: int = 0) -> None:
        self._board = Board(directory, clock)
        self._clock = clock
        self._run, self._wave = run, wave
        self._own: Announcement | None = None
        self._next_look_s = 0.0
        self._place = Turn()

    def join(self) -> None:
        """Announce this job; a signal may end it at any moment, so who calls this has seen to `leave` before."""
        self._board.sweep()
        # The name is known before the file is there: `leave` removes it though nothing came back.
        self._own = self._board.planned(f"{self._run}:{self._wave}", lease_s=LEASE_S)
        self._board.renew(self._own, LEASE_S)

    def leave(self) -> None:
        """Take the announcement back, if there is one."""
        if self._own is not None:
            self._board.end(self._own.token)

    def __enter__(self) -> Self:
        self.join()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def place(self) -> Turn:
        """Return this job's place: a wave's jobs transfer when those of the run's earlier waves have ended."""
        now_s = self._clock()
        if self._own is not None and now_s >= self._next_look_s:
            self._next_look_s = now_s + LOOK_S
            if now_s > self._own.expires_s - LEASE_S / 2:
                self._own = self._board.renew(self._own, LEASE_S)
            self._place = self._placed(self._board.read())
        return self._place

    def _placed(self, present: Iterable[Announcement]) -> Turn:
        waves = {item.token: _run_and_wave(item.phase.application) for item in present}
        first: dict[str, int] = {}
        for run, wave in waves.values():
            first[run] = min(wave, first.get(run, wave))
        if first.get(self._run, self._wave) < self._wave:
            return Turn(after=first[self._run])
        tokens = [token for token, (run, wave) in waves.items() if wave == first[run]]
        own = "" if self._own is None else self._own.token
        # Its own may be missing, as on a file system that stood still until it had expired: then its last place holds.
        return Turn(tokens.index(own), len(tokens)) if own in tokens else self._place


def _run_and_wave(application: str) -> tuple[str, int]:
    run, _, wave = application.rpartition(":")
    return (run, int(wave)) if wave.isdecimal() else (application, 0)


@dataclass(frozen=True, kw_only=True)
class Together(Policy):
    """What a policy leaves to one of several transfer jobs."""

    policy: Policy
    """For all of them together."""
    place: Callable[[], Turn]
    """Returns the job's place."""

    def choose(self, situation: Situation) -> Decision:
        """Decide as for one job with the rate and the load of all, and take a share, when it is the job's turn."""
        place = self.place()
        if place.after is not None:
            return Decision(hold=True, reason=f"wave {place.after} comes first")
        number, jobs = place.number, place.jobs
        peak = situation.peak_bytes_per_s
        together = replace(
            situation,
            remaining_bytes=situation.remaining_bytes * jobs,
            peak_bytes_per_s=None if peak is None else peak * jobs,
        )
        return portion(self.policy.choose(together), number, jobs)

    def most_fetchers(self, fetchers: int) -> int:
        """Return how many fetchers it may ever use, of a usual number."""
        return self.policy.most_fetchers(fetchers)


def portion(decision: Decision, number: int, jobs: int) -> Decision:
    """Return one job's part of a decision for all.

    Fetchers are parted, and jobs for which none is left hold; the pace is parted among the others.

    Parameters
    ----------
    decision
        For all jobs together.
    number, jobs
        The job's, among how many.
    """
    if jobs == 1:
        return decision
    fetchers, pace = decision.fetchers, decision.bytes_per_s
    own = None if fetchers is None else fetchers // jobs + (number < fetchers % jobs)
    active = jobs if fetchers is None else min(fetchers, jobs)
    return replace(
        decision,
        hold=decision.hold or own == 0,
        fetchers=own or None,
        bytes_per_s=None if pace is None else pace / max(active, 1),
    )

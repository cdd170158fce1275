"""Transfer jobs that run at the same time, on any hosts, and share what a policy allows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from bbflow.phases import Announcement, Board
from bbflow.staging import Decision, Policy, Situation

APPLICATION = "transfers"
LEASE_S = 30.0
"""A job that died without a word counts for so long."""
LOOK_S = 0.5
"""How often a job looks for the others."""


class Crowd:
    """Who transfers now, as far as a directory that all hosts see can tell.

    Parameters
    ----------
    directory
        Made if it isn't there.
    clock
        Gives seconds since the epoch.
    """

    def __init__(self, directory: Path, clock: Callable[[], float]) -> None:
        self._board = Board(directory, clock)
        self._clock = clock
        self._own: Announcement | None = None
        self._next_look_s = 0.0
        self._place = (0, 1)

    def __enter__(self) -> Self:
        self._board.sweep()
        self._own = self._board.begin(APPLICATION, lease_s=LEASE_S)
        return self

    def __exit__(self, *_: object) -> None:
        if self._own is not None:
            self._board.end(self._own.token)

    def place(self) -> tuple[int, int]:
        """Give this job's number among those that transfer, and how many they are."""
        now_s = self._clock()
        if self._own is not None and now_s >= self._next_look_s:
            self._next_look_s = now_s + LOOK_S
            if now_s > self._own.expires_s - LEASE_S / 2:
                self._own = self._board.renew(self._own, LEASE_S)
            tokens = [item.token for item in self._board.read()]
            if self._own.token in tokens:
                self._place = (tokens.index(self._own.token), len(tokens))
        return self._place


@dataclass(frozen=True, kw_only=True)
class Together(Policy):
    """What a policy leaves to one of several transfer jobs."""

    policy: Policy
    """For all of them together."""
    place: Callable[[], tuple[int, int]]
    """Gives the job's number, and how many there are."""

    def choose(self, situation: Situation) -> Decision:
        """Decide as for one job with the rate and the load of all, and take a share."""
        number, jobs = self.place()
        peak = situation.peak_bytes_per_s
        together = replace(
            situation,
            remaining_bytes=situation.remaining_bytes * jobs,
            peak_bytes_per_s=None if peak is None else peak * jobs,
        )
        return portion(self.policy.choose(together), number, jobs)

    def most_fetchers(self, fetchers: int) -> int:
        """Give how many fetchers it may ever use, of a usual number."""
        return self.policy.most_fetchers(fetchers)


def portion(decision: Decision, number: int, jobs: int) -> Decision:
    """Give one job's part of a decision for all.

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

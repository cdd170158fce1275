"""A member as its ensemble's analysis follows it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bbflow.ensemble.member_stores import MemberStore
from bbflow.ensemble.roster import Member, Verdict


class MemberAnalysis(Protocol):
    """A member's own analysis, which runs beside this."""

    def done(self, *, ended: bool) -> Verdict | None:
        """Return what it came to; None while it runs. `ended` says whether the member's program has."""

    def stop(self) -> None:
        """End it; what it has folded stays on the nodes."""


Begin = Callable[[str, int], MemberAnalysis]
"""Begins the analysis of a member's attempt."""


@dataclass(slots=True)
class Followed:
    """A member as this analysis sees it."""

    store: MemberStore
    """Its results."""
    member: Member
    """How it is."""
    analysis: MemberAnalysis | None = None
    """Its analysis, while it runs."""
    is_due: bool = False
    """Whether it has written what no analysis has begun to take."""
    attempt: int = 0
    """Of which attempt that is."""
    is_out: bool = False
    """Whether what it gave was taken out, since it is lost."""
    is_taken: bool = False
    """Whether its grid was compared with the others'."""

    @property
    def is_analysed(self) -> bool:
        """Whether its analysis runs, or is yet to begin: more may come of it, also of one that is lost."""
        return self.analysis is not None or self.is_due

    @property
    def has_ended(self) -> bool:
        """Whether the program that is analysed has ended."""
        attempt = self.member.attempt
        return self.member.number > self.attempt or not (attempt and attempt.runs)

"""How an ensemble is, as its analysis writes it for those who ask."""

import os
import socket
import time
from pathlib import Path

import msgspec

from bbflow.ensemble.ensemble_settings import EnsembleAnalysis
from bbflow.ensemble.gathering import EnsembleFold
from bbflow.ensemble.places import HOST, STATUS, UP
from bbflow.ensemble.roster import Member
from bbflow.errors import ConfigError
from bbflow.host.atomic import write_whole
from bbflow.host.locks import lock
from bbflow.net.decoders import json_decoder


class MemberStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a member is, for those who ask."""

    name: str
    """Its name."""
    standing: str
    """As `Standing` has it."""
    attempts: int
    """How often it was started."""
    times: int
    """How many of its times are folded."""
    why: str = ""
    """What it lacks."""


class EnsembleStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How an ensemble is, for those who ask."""

    name: str
    """The ensemble's."""
    written_s: float
    """When this was written, in seconds since the epoch."""
    state: str
    """running, complete or incomplete."""
    members: tuple[MemberStatus, ...]
    """All."""
    open_moments: int
    """MomentFiles whose states are kept."""
    state_bytes: int
    """What they take in memory."""
    shown: dict[str, int]
    """MomentFiles of each window that are complete."""
    said: tuple[str, ...] = ()
    """What the user should read, the last of it."""


def write_status(gathering: EnsembleFold, analysis: EnsembleAnalysis, state: str) -> None:
    """Write how the ensemble is."""
    status = EnsembleStatus(
        name=analysis.ensemble.name,
        written_s=time.time(),
        state=state,
        members=tuple(
            MemberStatus(
                name=name, standing=member.standing.value, attempts=member.number, times=times, why=_why(member)
            )
            for name, (member, times) in gathering.progress.items()
        ),
        open_moments=sum(not ledger.closed for ledger in gathering.moments.ledgers.values()),
        state_bytes=gathering.moments.bytes,
        shown=gathering.complete_moments,
        said=tuple(gathering.said),
    )
    write_whole(analysis.output / STATUS, msgspec.json.encode(status))


def read_status(output: Path) -> EnsembleStatus:
    """Read how an ensemble is.

    Raises
    ------
    ConfigError
        If there is none.
    """
    try:
        found: EnsembleStatus = json_decoder(EnsembleStatus).decode((output / STATUS).read_bytes())
        return found
    except FileNotFoundError:
        raise ConfigError(f"there is no ensemble in {output}: start one with 'bbflow ensemble up'") from None


def _why(member: Member) -> str:
    if member.mark is not None and member.mark.attempt >= member.number:
        return member.mark.why
    return member.verdict.why if member.verdict is not None and member.verdict.attempt >= member.number else ""


def is_kept_here(output: Path) -> bool:
    """Whether the process that keeps the ensemble, or did so last, is one of this host."""
    try:
        # A file of its own, not what the lock's has: that can't be replaced, and writing it would follow a link.
        return (output / HOST).read_text() == socket.gethostname()
    except OSError:
        return False


def is_up(output: Path) -> bool:
    """Whether an ensemble is kept by a process of this host."""
    try:
        held = lock(output / UP, wait=False, create=False)
    except OSError:
        return False
    if held is not None:
        os.close(held)
    return held is None

"""Who is in an ensemble, and how they are: files that members and users write, each whole."""

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path

import msgspec

from bbflow.errors import ConfigError
from bbflow.host.atomic import beside, write_whole
from bbflow.net.decoders import json_decoder

FOLDER = "roster"
"""Below the output."""
ROSTER_FILES = (f"{FOLDER}/*", f"{FOLDER}/.*")


class Standing(Enum):
    """How a member is."""

    ANNOUNCED = "announced"
    """It hasn't begun."""
    RUNNING = "running"
    """Its program runs, or its analysis hasn't folded all of what it wrote."""
    FAILED = "failed"
    """Its program has ended before its end: it may be started again."""
    DONE = "done"
    """All of it is there."""
    LOST = "lost"
    """It isn't waited for any more."""
    REFUSED = "refused"
    """What it writes doesn't fit the others."""
    SPARED = "spared"
    """It need not start: the ensemble has enough."""
    STOPPED = "stopped"
    """Its program was ended since the ensemble has enough: what it gave stays, and nothing is missing."""

    @property
    def is_enough(self) -> bool:
        """Whether it is over since more of it isn't needed."""
        return self in (Standing.SPARED, Standing.STOPPED)

    @property
    def is_over(self) -> bool:
        """Whether nothing more is waited for."""
        return self not in (Standing.ANNOUNCED, Standing.RUNNING, Standing.FAILED)


class MemberAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """A member's program, from one start to its end."""

    number: int
    """From 1."""
    host: str
    """Where it was started."""
    pid: int
    """Of the process that started it."""
    began_s: float
    """Seconds since the epoch."""
    ended_s: float | None = None
    """When it ended; None while it runs, or if that is unknown."""
    code: int | None = None
    """Its exit code."""

    @property
    def runs(self) -> bool:
        """Whether it may still run: of another host's process nothing is known."""
        if self.ended_s is not None:
            return False
        return self.host != socket.gethostname() or _is_there(self.pid)


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided about a member."""

    standing: str
    """lost, refused, spared or stopped."""
    why: str
    """In a few words."""
    attempt: int
    """Which attempt it was; a later one takes it back."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a member's analysis came to."""

    attempt: int
    """Of which attempt."""
    complete: bool
    """Whether all that was to come is there."""
    why: str = ""
    """What it lacks."""
    refused: bool = False
    """Whether its program writes what can't be analysed."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of a member."""

    name: str
    """Its name."""
    attempt: MemberAttempt | None = None
    """The last one."""
    mark: Mark | None = None
    """What was decided."""
    verdict: Verdict | None = None
    """What its analysis came to, the last one that has ended."""

    @property
    def number(self) -> int:
        """Number of the last attempt; 0 if there is none."""
        return self.attempt.number if self.attempt else 0

    @property
    def standing(self) -> Standing:
        """Return how it is."""
        if self.mark is not None and self.mark.attempt >= self.number:
            return Standing(self.mark.standing)
        if self.attempt is None:
            return Standing.ANNOUNCED
        if self.verdict is None or self.verdict.attempt < self.number or self.attempt.runs:
            return Standing.RUNNING
        return Standing.DONE if self.verdict.complete and not self.attempt.code else Standing.FAILED


class MemberRoster:
    """The files of members, in the ensemble's output.

    Parameters
    ----------
    output
        The ensemble's.
    """

    def __init__(self, output: Path) -> None:
        self._folder = output / FOLDER
        self._known: dict[str, tuple[tuple[int, int], bytes]] = {}

    def members(self, names: tuple[str, ...]) -> dict[str, Member]:
        """Return all members by name."""
        found: dict[str, dict[str, bytes]] = {name: {} for name in names}
        attempts: dict[str, tuple[int, str]] = {}
        with suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                name, _, kind = entry.name.rpartition(".")
                if name not in found or entry.name.startswith("."):
                    continue
                if kind.isdigit():
                    attempts[name] = max(attempts.get(name, (0, "")), (int(kind), entry.name))
                else:
                    found[name][kind] = self._read(entry.name, entry.stat())
        return {name: self._member(name, attempts.get(name), found[name]) for name in names}

    def _member(self, name: str, attempt: tuple[int, str] | None, kinds: Mapping[str, bytes]) -> Member:
        last = None
        if attempt is not None:
            path = self._folder / attempt[1]
            last = json_decoder(MemberAttempt).decode(self._read(attempt[1], path.stat()))
        mark = json_decoder(Mark).decode(kinds["mark"]) if "mark" in kinds else None
        verdict = json_decoder(Verdict).decode(kinds["verdict"]) if "verdict" in kinds else None
        return Member(name=name, attempt=last, mark=mark, verdict=verdict)

    def _read(self, name: str, found: os.stat_result) -> bytes:
        """Read a file, unless it is the one that was read before: each is replaced, never changed."""
        # The inode's number alone may be another file's by then: ext4 gives it again as soon as it is free.
        known, now = self._known.get(name), (found.st_ino, found.st_mtime_ns)
        if known is None or known[0] != now:
            known = self._known[name] = now, (self._folder / name).read_bytes()
        return known[1]

    def begin(self, member: str) -> MemberAttempt:
        """Note that a member's program starts.

        Raises
        ------
        ConfigError
            If another one of it runs.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        last = self.members((member,))[member].attempt
        if last is not None and last.runs and last.host == socket.gethostname():
            raise ConfigError(
                f"member {member} runs already (process {last.pid} on {last.host}): end that first, or wait for its end"
            )
        number = last.number + 1 if last else 1
        attempt = MemberAttempt(number=number, host=socket.gethostname(), pid=os.getpid(), began_s=time.time())
        path = self._path(member, number)
        temporary = beside(path)
        temporary.write_bytes(msgspec.json.encode(attempt))
        try:
            os.link(temporary, path)  # of two that start at once, one gets the number
        except FileExistsError:
            raise ConfigError(f"member {member} was started by someone else at the same moment") from None
        finally:
            temporary.unlink()
        return attempt

    def end(self, member: str, attempt: MemberAttempt, code: int) -> None:
        """Note that a member's program has ended."""
        ended = msgspec.structs.replace(attempt, ended_s=time.time(), code=code)
        write_whole(self._path(member, attempt.number), msgspec.json.encode(ended))

    def mark(self, member: str, standing: Standing, why: str) -> None:
        """Note what was decided about a member; its next start takes it back."""
        self._folder.mkdir(parents=True, exist_ok=True)
        number = self.members((member,))[member].number
        mark = Mark(standing=standing.value, why=why, attempt=number)
        write_whole(self._folder / f"{member}.mark", msgspec.json.encode(mark))

    def judge(self, member: str, verdict: Verdict) -> None:
        """Note what a member's analysis came to."""
        write_whole(self._folder / f"{member}.verdict", msgspec.json.encode(verdict))

    def _path(self, member: str, number: int) -> Path:
        return self._folder / f"{member}.{number}"


def _is_there(pid: int) -> bool:
    try:
        # Signal 0 asks only; PermissionError says that another user's process has the number.
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

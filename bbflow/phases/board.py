"""The board: a directory where applications announce their I/O phases, one small file each.

A file is renamed into place, so it is whole or absent, also on a shared file system. It carries a lease in
seconds since the epoch: an application that died without a word delays others no longer than that. The
hosts' clocks must agree to within a second or so, as NTP sees to. The newest ended phases stay on the board, so that
who comes later can predict the next one at once.
"""

import json
import math
import os
import re
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from bbflow.errors import ConfigError, printable
from bbflow.host.atomic import write_whole
from bbflow.host.held import open_regular
from bbflow.phases.phase import PFS, Phase

DIRECTORY_VARIABLE = "BBFLOW_PHASES"
LEASE_S = 60.0
"""How long an announcement holds that isn't renewed."""
_ENDING, _PAST = ".phase", ".past"
KEPT = 16
"""Ended phases of an application that stay on the board."""
KEPT_S = 86_400.0
"""How long they stay after an application's last phase, as soon as any application's phase ends."""
# RecursionError: JSON nested deeply. Anyone may write to the board, and one file must not end all that read it.
_NONE = ValueError, KeyError, TypeError, OverflowError, RecursionError
"""What reading a text raises that isn't an announcement: one nested too deeply, or a time that no float holds, too."""
_MOST_BYTES = 1 << 16
"""What a file on the board may have: whoever may write there may put anything there, a pipe too."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """An announced phase that has not ended."""

    token: str
    """Name of its file, without the ending."""
    phase: Phase
    """What was announced."""
    expires_s: float
    """End of its lease, in seconds since the epoch."""


def parse_announcement(token: str, text: str) -> Announcement | None:
    """Read an announcement; None if it is none.

    The text is JSON with the keys ``application``, ``file_system``, ``began_s`` and ``expires_s``.
    """
    try:
        content = json.loads(text)
        phase = Phase(*_names(content), float(content["began_s"]))
        announcement = Announcement(token, phase, float(content["expires_s"]))
    except _NONE:
        return None
    return announcement if math.isfinite(phase.began_s) and math.isfinite(announcement.expires_s) else None


def _names(content: Mapping[str, object]) -> tuple[str, str]:
    """Return application and file system as all may print them: any user may have written these."""
    return printable(str(content["application"])), printable(str(content["file_system"]))


def parse_past(text: str) -> Phase | None:
    """Read an ended phase; None if it is none.

    The text is JSON with the keys ``application``, ``file_system``, ``began_s`` and ``ended_s``.
    """
    try:
        content = json.loads(text)
        begin_s, end_s = float(content["began_s"]), float(content["ended_s"])
        phase = Phase(*_names(content), begin_s, end_s)
    except _NONE:
        return None
    return phase if math.isfinite(begin_s) and math.isfinite(end_s) and begin_s <= end_s else None


class Board:
    """Announces phases, and shows those that are announced.

    Parameters
    ----------
    directory
        Of the announcements; made if it isn't there. By default that of the variable ``BBFLOW_PHASES``.
    clock
        Gives seconds since the epoch.

    Raises
    ------
    ConfigError
        If there is no directory, or it can't be made.
    """

    def __init__(self, directory: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        given = directory or os.environ.get(DIRECTORY_VARIABLE)
        if not given:
            raise ConfigError(f"no directory for I/O phases: set {DIRECTORY_VARIABLE}, or name one")
        self.directory = Path(given)
        self._clock = clock
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"can't make {self.directory} for I/O phases: {error.strerror}") from None

    def begin(self, application: str, file_system: str = PFS, lease_s: float = LEASE_S) -> Announcement:
        """Announce that an application's I/O phase begins.

        Parameters
        ----------
        application
            Its name.
        file_system
            Where it works.
        lease_s
            The announcement ends by itself after this many seconds, unless it is renewed.
        """
        announcement = self.planned(application, file_system, lease_s)
        self._write(announcement)
        return announcement

    def planned(self, application: str, file_system: str = PFS, lease_s: float = LEASE_S) -> Announcement:
        """Return what `begin` would announce; `renew` announces it."""
        if not (application and file_system and 0 < lease_s < math.inf):
            raise ConfigError(f"a phase needs an application, a file system and a lease above 0 s, not {lease_s}")
        # Others print it, on terminals and into logs.
        if printable(application) != application:
            raise ConfigError(
                f"the application {application!r} has characters that can't be printed: give it another name"
            )
        now_s = self._clock()
        readable = re.sub(r"[^\w.-]", "_", application)[:64]
        token = f"{readable}-{socket.gethostname()[:64]}-{uuid.uuid4().hex[:12]}"
        return Announcement(token, Phase(application, file_system, now_s), now_s + lease_s)

    def renew(self, announcement: Announcement, lease_s: float = LEASE_S) -> Announcement:
        """Renew the lease of a phase that lasts, from now on."""
        renewed = Announcement(announcement.token, announcement.phase, self._clock() + lease_s)
        self._write(renewed)
        return renewed

    def end(self, token: str) -> bool:
        """Announce that a phase has ended, and keep it among the past ones.

        Returns
        -------
        bool
            Whether it was there.
        """
        item, now_s = self._announcement(token), self._clock()
        if not self._remove(token):
            return False
        # One whose lease was over has ended at a time that no one knows.
        if item is not None and item.phase.began_s <= now_s <= item.expires_s:
            self._keep(token, replace(item.phase, ended_s=now_s))
        return True

    def past(self) -> list[Phase]:
        """Return the newest ended phases, in the order in which they began."""
        return sorted(self._past().values(), key=lambda phase: phase.began_s)

    def read(self) -> list[Announcement]:
        """Return the phases that last now, in the order in which they began."""
        now_s = self._clock()
        return [item for item in self._all() if item.expires_s > now_s]

    def sweep(self) -> None:
        """Remove announcements whose lease is over, and what is kept too long of ended phases."""
        now_s = self._clock()
        for item in self._all():
            if item.expires_s <= now_s:
                _discard(self._path(item.token))
        for path in outdated(self._past(), now_s):
            _discard(path)

    def _all(self) -> list[Announcement]:
        tokens = [name.removesuffix(_ENDING) for name in os.listdir(self.directory) if name.endswith(_ENDING)]
        found = [item for item in map(self._announcement, tokens) if item]
        return sorted(found, key=lambda item: (item.phase.began_s, item.token))

    def _announcement(self, token: str) -> Announcement | None:
        try:
            return parse_announcement(token, _text(self._path(token)))
        except (ConfigError, UnicodeDecodeError):
            return None  # it has ended in this moment, or is someone's rubbish

    def _remove(self, token: str) -> bool:
        try:
            self._path(token).unlink()
        except FileNotFoundError:
            return False
        return True

    def _past(self) -> dict[Path, Phase]:
        found = {}
        for path in self.directory.glob(f"*{_PAST}"):
            try:
                phase = parse_past(_text(path))
            except (ConfigError, UnicodeDecodeError):
                continue
            if phase is not None:
                found[path] = phase
        return found

    def _keep(self, token: str, phase: Phase) -> None:
        content = {
            "application": phase.application,
            "file_system": phase.file_system,
            "began_s": phase.began_s,
            "ended_s": phase.ended_s,
        }
        _write_whole(self.directory / (token + _PAST), content)
        for path in outdated(self._past(), self._clock()):
            _discard(path)

    def _path(self, token: str) -> Path:
        if Path(token).name != token or not token:
            raise ConfigError(f"{token!r} isn't a phase: give what 'begin' printed")
        return self.directory / (token + _ENDING)

    def _write(self, announcement: Announcement) -> None:
        phase = announcement.phase
        content = {
            "application": phase.application,
            "file_system": phase.file_system,
            "began_s": phase.began_s,
            "expires_s": announcement.expires_s,
        }
        _write_whole(self._path(announcement.token), content)


def _text(path: Path) -> str:
    with os.fdopen(open_regular(path, _MOST_BYTES), "rb") as file:
        return file.read(_MOST_BYTES).decode()


def _discard(path: Path) -> None:
    """Remove what is over; where each may remove only their own, another user's stays for that user."""
    with suppress(FileNotFoundError, PermissionError):
        path.unlink()


def outdated(past: Mapping[Path, Phase], now_s: float) -> list[Path]:
    """Pick the files of ended phases that may go: more than `KEPT` of an application, or older than `KEPT_S`."""
    newest: dict[str, int] = {}
    found = []
    for path, phase in sorted(past.items(), key=lambda item: -item[1].began_s):
        newest[phase.application] = newest.get(phase.application, 0) + 1
        if newest[phase.application] > KEPT or (phase.ended_s or phase.began_s) < now_s - KEPT_S:
            found.append(path)
    return found


def _write_whole(path: Path, content: Mapping[str, object]) -> None:
    write_whole(path, json.dumps(content) + "\n")

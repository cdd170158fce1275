"""The board: a directory where applications announce their I/O phases, one small file each.

A file is renamed into place, so it is whole or absent, also on a shared file system. It carries a lease in
seconds since the epoch: an application that died without a word holds nobody back for longer than that. The
hosts' clocks must agree to within a second or so, as NTP sees to.
"""

import json
import math
import os
import re
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bbflow.errors import ConfigError
from bbflow.phases.phase import PFS, Phase

DIRECTORY_VARIABLE = "BBFLOW_PHASES"
LEASE_S = 60.0
"""How long an announcement holds that nobody renews."""
_ENDING = ".phase"


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
        phase = Phase(str(content["application"]), str(content["file_system"]), float(content["began_s"]))
        announcement = Announcement(token, phase, float(content["expires_s"]))
    except (ValueError, KeyError, TypeError):
        return None
    return announcement if math.isfinite(phase.began_s) and math.isfinite(announcement.expires_s) else None


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
            The announcement ends by itself after so many seconds, unless it is renewed.
        """
        if not (application and file_system and 0 < lease_s < math.inf):
            raise ConfigError(f"a phase needs an application, a file system and a lease above 0 s, not {lease_s}")
        now_s = self._clock()
        readable = re.sub(r"[^\w.-]", "_", application)[:64]
        token = f"{readable}-{socket.gethostname()[:64]}-{uuid.uuid4().hex[:12]}"
        announcement = Announcement(token, Phase(application, file_system, now_s), now_s + lease_s)
        self._write(announcement)
        return announcement

    def renew(self, announcement: Announcement, lease_s: float = LEASE_S) -> Announcement:
        """Let a phase that lasts hold for another lease from now on."""
        renewed = Announcement(announcement.token, announcement.phase, self._clock() + lease_s)
        self._write(renewed)
        return renewed

    def end(self, token: str) -> bool:
        """Announce that a phase has ended.

        Returns
        -------
        bool
            Whether it was there.
        """
        try:
            self._path(token).unlink()
        except FileNotFoundError:
            return False
        return True

    def read(self) -> list[Announcement]:
        """Give the phases that last now, in the order in which they began."""
        now_s = self._clock()
        return [item for item in self._all() if item.expires_s > now_s]

    def sweep(self) -> None:
        """Remove announcements whose lease is over."""
        now_s = self._clock()
        for item in self._all():
            if item.expires_s <= now_s:
                self.end(item.token)

    def _all(self) -> list[Announcement]:
        found = []
        for name in os.listdir(self.directory):
            if name.endswith(_ENDING):
                try:
                    text = (self.directory / name).read_text()
                except (OSError, UnicodeDecodeError):
                    continue  # it has ended in this moment, or is somebody's rubbish
                found.append(parse_announcement(name.removesuffix(_ENDING), text))
        return sorted((item for item in found if item), key=lambda item: (item.phase.began_s, item.token))

    def _path(self, token: str) -> Path:
        if Path(token).name != token or not token:
            raise ConfigError(f"{token!r} is no phase: give what 'begin' printed")
        return self.directory / (token + _ENDING)

    def _write(self, announcement: Announcement) -> None:
        phase = announcement.phase
        content = {
            "application": phase.application,
            "file_system": phase.file_system,
            "began_s": phase.began_s,
            "expires_s": announcement.expires_s,
        }
        path = self._path(announcement.token)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(content) + "\n")
        temporary.replace(path)

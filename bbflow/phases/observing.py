"""I/O phases that aren't announced: seen by the traffic of a client's mounts or disks."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bbflow.errors import ConfigError, nearest
from bbflow.phases.counters import (
    Traffic,
    parse_diskstats,
    parse_job_stats,
    parse_llite_stats,
    parse_mountstats,
)
from bbflow.phases.phase import Phase

OWN_MARGIN = 1.2
"""Our own transfers count as this many times what they are: the kernel reads ahead of us."""


@dataclass(frozen=True, slots=True)
class TrafficLimits:
    """When traffic counts as a phase."""

    busy_bytes_per_s: float = 10e6
    """A phase begins with an interval of more than this."""
    quiet_s: float = 1.0
    """It has ended after this long with less than half of it."""
    interval_s: float = 0.1
    """How often the counters are read."""


class Detector:
    """Finds phases in the traffic of one mount, disk or job; pure.

    Parameters
    ----------
    application, file_system
        What the phases are called.
    limits
        When traffic counts.
    """

    def __init__(self, application: str, file_system: str, limits: TrafficLimits) -> None:
        self._application, self._file_system, self._limits = application, file_system, limits
        self._last: tuple[float, Traffic, int] | None = None
        self._busy_s = 0.0
        self._phase: Phase | None = None

    def look(self, now_s: float, traffic: Traffic, own_bytes: int) -> Phase | None:
        """Take the newest counters.

        Parameters
        ----------
        now_s
            Seconds since the epoch.
        traffic
            Of everybody.
        own_bytes
            What our own transfers have read so far.

        Returns
        -------
        Phase or None
            The phase that lasts now. It began with the interval that was busy first.
        """
        last, self._last = self._last, (now_s, traffic, own_bytes)
        if last is None or now_s <= last[0]:
            return self._phase
        rate = foreign_bytes(last[1], traffic, own_bytes - last[2]) / (now_s - last[0])
        if rate > self._limits.busy_bytes_per_s / (1 if self._phase is None else 2):
            self._busy_s = now_s
            self._phase = self._phase or Phase(self._application, self._file_system, last[0], source="observed")
        elif now_s - self._busy_s >= self._limits.quiet_s:
            self._phase = None
        return self._phase


def foreign_bytes(before: Traffic, after: Traffic, own_bytes: int) -> float:
    """Return what others moved between two looks; nothing if the counters started again meanwhile."""
    read_bytes = after.read_bytes - before.read_bytes
    written_bytes = after.written_bytes - before.written_bytes
    if min(read_bytes, written_bytes) < 0:
        return 0.0
    return max(read_bytes - OWN_MARGIN * own_bytes, 0.0) + written_bytes


class CounterSource:
    """Phases that are seen in counters.

    Parameters
    ----------
    read
        Gives the traffic by name; each name has its own phases.
    file_system
        What the phases' file system is called.
    limits
        When traffic counts.
    clock
        Gives seconds since the epoch.
    """

    def __init__(
        self,
        read: Callable[[], Mapping[str, Traffic]],
        file_system: str,
        limits: TrafficLimits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._read, self._file_system, self._clock = read, file_system, clock
        self._limits = limits or TrafficLimits()
        self._detectors: dict[str, Detector] = {}
        self._lasting: list[Phase] = []
        self._looked_s = float("-inf")

    def now(self, own_bytes: int = 0) -> list[Phase]:
        """Return the phases that last now; counters are read at most once an interval."""
        now_s = self._clock()
        if now_s - self._looked_s >= self._limits.interval_s:
            self._looked_s = now_s
            phases = [self._detector(name).look(now_s, traffic, own_bytes) for name, traffic in self._read().items()]
            self._lasting = [phase for phase in phases if phase is not None]
        return self._lasting

    def past(self) -> list[Phase]:
        """Return no phase: counters keep no past."""
        return []

    def _detector(self, name: str) -> Detector:
        return self._detectors.setdefault(name, Detector(name, self._file_system, self._limits))


def observe(what: str, root: Path = Path("/")) -> CounterSource:
    """Observe ``nfs:MOUNT``, ``lustre:FSNAME`` (as a client), ``jobs:FSNAME`` (on its servers) or ``disk:DEVICE``.

    Parameters
    ----------
    what
        Whose counters.
    root
        Where /proc and /sys are.

    Raises
    ------
    ConfigError
        If there are no such counters on this machine.
    """
    kind, _, name = what.partition(":")
    if kind not in _READERS or not name:
        kinds = [f"{kind}:" for kind in _READERS]
        raise ConfigError(f"can't observe {what!r}; {nearest(kind + ':', kinds)}, followed by a name")

    def read() -> Mapping[str, Traffic]:
        return _READERS[kind](root, name)

    try:
        seen = read()
    except OSError as error:
        raise ConfigError(f"can't observe {what}: {error}") from None
    if not seen and not (kind == "jobs" and _job_files(root, name)):
        raise ConfigError(f"can't observe {what}: this machine has no such counters")
    return CounterSource(read, name)


def _read_nfs(root: Path, mount: str) -> Mapping[str, Traffic]:
    found = parse_mountstats((root / "proc/self/mountstats").read_text())
    return {mount: found[mount]} if mount in found else {}


def _read_disk(root: Path, device: str) -> Mapping[str, Traffic]:
    found = parse_diskstats((root / "proc/diskstats").read_text())
    return {device: found[device]} if device in found else {}


def _read_lustre(root: Path, name: str) -> Mapping[str, Traffic]:
    total, found = Traffic(), False
    for path in _lustre_files(root, f"llite/{name}-*/stats"):
        total, found = total + parse_llite_stats(path.read_text()), True
    return {name: total} if found else {}


def _read_jobs(root: Path, name: str) -> Mapping[str, Traffic]:
    found: dict[str, Traffic] = {}
    for path in _job_files(root, name):
        for job, traffic in parse_job_stats(path.read_text()).items():
            found[job] = found.get(job, Traffic()) + traffic
    return found


def _job_files(root: Path, name: str) -> list[Path]:
    return _lustre_files(root, f"obdfilter/{name}-OST*/job_stats")


def _lustre_files(root: Path, pattern: str) -> list[Path]:
    """Find Lustre's files, which have moved with its versions."""
    places = ("proc/fs/lustre", "sys/kernel/debug/lustre", "sys/fs/lustre")
    return [path for place in places for path in sorted((root / place).glob(pattern))]


_READERS: Mapping[str, Callable[[Path, str], Mapping[str, Traffic]]] = {
    "nfs": _read_nfs,
    "lustre": _read_lustre,
    "jobs": _read_jobs,
    "disk": _read_disk,
}

"""One job's part of the burst buffer: made while the job is pending, filled before it begins, emptied after it.

::

    DIRECTORY/.bbflow-jobs/7.json   whose job 7 is, how much room it has, and which directory (by its inode) was made
                                    for it; only the controller's user sees it
    DIRECTORY/.bbflow-jobs/7.lock   held, and with its process' number, while files of job 7 are copied
    DIRECTORY/7/                    the job's own, as its user
    DIRECTORY/7/.bbflow-stream/     what the hosts of its stream tell each other, see `stream`

What is copied is copied as the job's user. A job that is requeued begins with an empty directory.
"""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from bbflow.configuring.config import load_config
from bbflow.errors import CapacityError, ConfigError, SourceError
from bbflow.host.atomic import write_whole
from bbflow.staging import File, Gate, Retry, Sources, Stager, expand
from bbflow.staging.policies import NoAction
from bbflow.staging.transfers import stage_out
from bbflow.staging.watched import WatchedGate
from bbflow.stores.facts import Listed
from bbflow.units import format_bytes, parse_bytes
from bbflow_slurm.directives import StageIn, StageOut
from bbflow_slurm.site import Site
from bbflow_slurm.streams import JobStream, at_analysis, end_holder, held_by_number
from bbflow_slurm.user import Owner, become

RECORDS, STAGED = ".bbflow-jobs", ".bbflow-staged"
END_S = 30.0
"""How long a copy is given to end before it is killed."""


class JobSpace:
    """The part of one job.

    Parameters
    ----------
    site
        The site's burst buffer.
    job
        Slurm's number of the job.

    Raises
    ------
    ConfigError
        If that is no number.
    """

    def __init__(self, site: Site, job: str) -> None:
        if not job.isdigit():
            raise ConfigError(f"{job!r} is no job's number")
        self._site, self._records, self._job = site, site.directory / RECORDS, job
        self.path = site.directory / job
        """The job's directory."""
        self._record, self._lock = self._records / f"{job}.json", self._records / f"{job}.lock"
        self._coming = self._records / f"{job}.coming"

    def set_up(self, owner: Owner) -> None:
        """Make an empty directory for the job; what an earlier life of it left goes.

        Raises
        ------
        ConfigError
            If something else has its name.
        """
        self._records.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._site.directory.chmod(0o711)
        self.tear_down()
        if self.path.exists():
            raise ConfigError(f"{self.path} is there, and no job's: move it, or name another directory for jobs")
        self._coming.mkdir(mode=0o700, exist_ok=True)  # by one that was killed here
        if os.geteuid() == 0:
            os.chown(self._coming, owner.uid, owner.gid)
        note = {"uid": owner.uid, "gid": owner.gid, "bytes": owner.room_bytes, "inode": self._coming.stat().st_ino}
        write_whole(self._record, json.dumps(note).encode())
        self._coming.rename(self.path)

    def stage_in(self, wishes: tuple[StageIn, ...], analysis: Path | None = None) -> int:
        """Copy what the job reads, as its user, and note the analysis that is to run beside it; return the bytes.

        Raises
        ------
        SourceError, CapacityError, ConfigError
            If a file can't be had, all together have no room, or the analysis is wrong.
        """
        owner = self._owner()
        with self._copying():
            become(owner)
            if analysis is not None:
                with at_analysis(analysis):
                    load_config(analysis)
            sources = Sources(self._site.sources)
            places = dict(_places(wishes, sources))
            files = [File(url, size) for url, size in places.values()]
            capacity_bytes = owner.room_bytes or parse_bytes(self._site.capacity)
            _check_room(sum(file.size_bytes or 0 for file in files), capacity_bytes)
            with Stager(
                self.path / STAGED,
                capacity_bytes,
                1,
                policy=self._site.delay_policy,
                phases=self._site.phase_source,
                fetchers=self._site.fetchers,
                options=self._site.sources,
            ) as stager:
                found = stager.submit("the job", files).result()
                for name, (url, _) in places.items():
                    target = self.path / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    os.link(found[url], target)
            shutil.rmtree(self.path / STAGED)
            if analysis is not None:
                self.stream.want(analysis)
            return sum(path.stat().st_size for path in self.path.rglob("*") if path.is_file())

    @property
    def stream(self) -> JobStream:
        """The job's stream, whether it has one or not."""
        return JobStream(self.path, self._job)

    @property
    def stream_hosts(self) -> tuple[str, ...]:
        """The site's hosts for streams; none if jobs have them on their own."""
        return self._site.stream_hosts

    @property
    def stream_launch(self) -> str:
        """What runs a program on one of those."""
        return self._site.stream_launch

    def is_stream_host(self, *, is_set: bool) -> bool:
        """Be the job's user from now on, and say whether a host of this kind has a part in its stream."""
        if is_set != bool(self._site.stream_hosts):
            return False
        try:
            facts = self.path.lstat()
        except FileNotFoundError:
            return False
        become(Owner(facts.st_uid, facts.st_gid, 0))
        return self.stream.is_wanted

    def stage_out(self, wishes: tuple[StageOut, ...]) -> list[str]:
        """Copy what the job has made, as its user; return what it didn't make.

        Raises
        ------
        SourceError
            If it can't be written; all that was made stays.
        """
        missing = []
        with self._copying():
            become(self._owner())
            sources = Sources(self._site.sources)
            with self._gate() as gate:
                for wish in wishes:
                    path = self.path / wish.source
                    if path.exists():
                        stage_out(path, wish.dest, sources, gate, Retry())
                    else:
                        missing.append(wish.source)
        return missing

    def tear_down(self) -> None:
        """End what copies, and remove all that the job has here; what has taken its directory's name stays."""
        if not self._record.exists():
            return
        self._end_copying()
        inode = self._noted()["inode"]
        for path in (self._coming, self.path):
            with suppress(FileNotFoundError):
                if path.lstat().st_ino == inode:
                    shutil.rmtree(path)
        self._record.unlink()
        self._lock.unlink(missing_ok=True)

    def _gate(self) -> AbstractContextManager[Gate]:
        policy = self._site.delay_policy
        free = isinstance(policy, NoAction)
        return nullcontext(Gate(1)) if free else WatchedGate(policy, self._site.phase_source).watched()

    def _owner(self) -> Owner:
        noted = self._noted()
        return Owner(noted["uid"], noted["gid"], noted["bytes"])

    def _noted(self) -> dict[str, int]:
        try:
            noted: dict[str, int] = json.loads(self._record.read_text())
        except FileNotFoundError:
            raise ConfigError(f"{self.path} was not set up for a job: nothing is copied") from None
        return noted

    def _copying(self) -> AbstractContextManager[None]:
        """Let a teardown find this process; only one copies for a job."""
        return held_by_number(self._lock, f"files of {self.path} are being copied already")

    def _end_copying(self) -> None:
        signals = signal.SIGTERM, signal.SIGKILL
        if not any(end_holder(self._lock, number, END_S, os.kill) for number in signals):
            text = f"what copies files of {self.path} doesn't end: look for processes that hold {self._lock}"
            raise ConfigError(text)


def _check_room(size_bytes: int, capacity_bytes: int) -> None:
    if size_bytes > capacity_bytes:
        raise CapacityError(
            f"what is to be staged in has {format_bytes(size_bytes)}, and the job asked for "
            f"{format_bytes(capacity_bytes)}: ask for more by '#BB_LUA pool=… capacity=…'"
        )


def _places(wishes: tuple[StageIn, ...], sources: Sources) -> Iterator[tuple[str, tuple[str, int | None]]]:
    """Say under which name, below the job's directory, each file is to lie; two can't have one."""
    seen: dict[str, str] = {}
    for wish in wishes:
        for name, file in _named(wish, expand(wish.source, sources)):
            if not file.is_usable:
                raise SourceError(f"{file.url} has a name that no path has: stage its neighbours one by one")
            if name in seen:
                raise ConfigError(f"{file.url} and {seen[name]} would both be {name}: give them dests of their own")
            seen[name] = file.url
            yield name, (file.url, file.size_bytes)


def _named(wish: StageIn, files: list[Listed]) -> Iterator[tuple[str, Listed]]:
    if len(files) == 1 and "/" not in files[0].name and files[0].url.rstrip("/") == wish.source.rstrip("/"):
        yield wish.dest, files[0]
        return
    for file in files:
        yield f"{wish.dest}/{file.name}", file

"""One job's part of the burst buffer, made while it is pending, filled before it begins, emptied after it: root's part.

::

    DIRECTORY/                      root's; others only get through it
    DIRECTORY/.bbflow-jobs/         only root sees it
                 7.json             whose job 7 is, how much room it has, and its directory's inode
                 7.lock             held while files of job 7 are copied
                 7.ending           there while what copies is to end
                 7.coming, 7.going  its directory, before it is the job's and when it is no more
    DIRECTORY/7/                    the job's own, as its user
    DIRECTORY/7/.bbflow-stream/     what the hosts of its stream tell each other, see `streams`

Nothing that a user could have made is opened, read or followed here: `children` do that, as the user. A job that is
requeued begins with an empty directory.
"""

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bbflow.errors import ConfigError
from bbflow.host.held import HeldDirectory, open_regular
from bbflow.units import parse_bytes
from bbflow_slurm.children import ChildLimits, ask
from bbflow_slurm.directives import Pool
from bbflow_slurm.site import Site
from bbflow_slurm.user import Owner, nobody

RECORDS = ".bbflow-jobs"
MOST_SCRIPT_BYTES = 16 << 20
"""Slurm takes 4 MiB, unless a site sets `max_script_size`."""
END_S = 40.0
"""How long what copies is given to end."""
COPY_S = 7 * 86400.0
"""How long copies may take at most; Slurm has its own, shorter limit."""
CHECK = ChildLimits(time_s=30.0, memory_bytes=2 << 30, file_bytes=0)
COPY_MEMORY_BYTES = 16 << 30
REMOVE = ChildLimits(time_s=3600.0, memory_bytes=4 << 30, file_bytes=0)
_NOTES_BYTES = 1 << 20
"""What the stager writes beside the files."""
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Noted:
    """What root notes of a job, and believes: what its user can change isn't asked."""

    uid: int
    """User."""
    gid: int
    """Group."""
    room_bytes: int
    """What the job asked for; 0 if it said nothing."""
    inode: int
    """Of the directory that was made for it."""
    stream: str = ""
    """``wanted`` if it has one, ``begun`` once the site's hosts have its parts, until they have ended them."""

    @property
    def owner(self) -> Owner:
        """Whose the job is."""
        return Owner(self.uid, self.gid, self.room_bytes)


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
        If that isn't a number.
    """

    def __init__(self, site: Site, job: str) -> None:
        if not re.fullmatch("[0-9]{1,12}", job):
            raise ConfigError(f"{job!r} isn't a job's number")
        self._site, self._job = site, job
        self.path = site.directory / job
        """The job's directory."""
        self._record, self._lock, self._ending = f"{job}.json", f"{job}.lock", f"{job}.ending"
        self._coming, self._going = f"{job}.coming", f"{job}.going"

    def set_up(self, owner: Owner) -> None:
        """Make an empty directory for the job; what an earlier life of it left goes.

        Raises
        ------
        ConfigError
            If something else has its name, or the site's directory isn't this user's alone.
        """
        self._site.directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        with HeldDirectory.at(self._site.directory) as jobs:
            # mkdir(2) takes the umask off; users pass through to their own, and can't list others'.
            os.fchmod(jobs.descriptor, 0o711)
            with suppress(FileExistsError):
                jobs.make_directory(RECORDS)
        self.tear_down()
        with self._held() as (jobs, records):
            if jobs.facts(self._job) is not None:
                raise ConfigError(f"{self.path} is there, and no job's: move it, or name another directory for jobs")
            with suppress(FileNotFoundError):
                os.rmdir(self._coming, dir_fd=records.descriptor)  # of one that was killed here
            records.make_directory(self._coming)
            inode = self._give(records, owner)
            # Before it has the job's name: if this is killed then, `tear_down` knows by the inode what it may remove.
            self._note(records, Noted(owner.uid, owner.gid, owner.room_bytes, inode))
            os.rename(self._coming, self._job, src_dir_fd=records.descriptor, dst_dir_fd=jobs.descriptor)

    def _give(self, records: HeldDirectory, owner: Owner) -> int:
        with records.directory(self._coming) as made:
            if os.geteuid() == 0:
                os.fchown(made.descriptor, owner.uid, owner.gid)
            return os.fstat(made.descriptor).st_ino

    def stage_in(self, script: Path) -> str:
        """Copy what the job reads, as its user, and note its analysis; return what is to be said.

        Raises
        ------
        BbflowError
            If a file can't be had, all together have no room, or the analysis is wrong.
        """
        with self._open(script) as opened, self._copying() as (owner, records):
            is_wanted = check_script(opened, owner)
            said = self._copy("stage-in", owner, records, opened)
            self._note(records, replace(self._noted(records), stream="wanted" if is_wanted else ""))
            return said

    def stage_out(self, script: Path) -> str:
        """Copy what the job has made, as its user; return what is to be said, such as what it didn't make.

        Raises
        ------
        BbflowError
            If it can't be written; all that was made stays.
        """
        with self._open(script) as opened, self._copying() as (owner, records):
            return self._copy("stage-out", owner, records, opened)

    def _copy(self, step: str, owner: Owner, records: HeldDirectory, script: int) -> str:
        room_bytes = owner.room_bytes or parse_bytes(self._site.capacity)
        facts = {"script": script, "directory": str(self.path), "capacity_bytes": room_bytes}
        facts["site"] = self._site.for_copying()
        most = room_bytes + _NOTES_BYTES if step == "stage-in" else None
        _, said = ask(
            owner,
            step,
            facts,
            ChildLimits(COPY_S, COPY_MEMORY_BYTES, most),
            descriptors=[script],
            is_over=lambda: records.facts(self._ending) is not None,
        )
        return said

    def tear_down(self, end_s: float = END_S) -> None:
        """End what copies, and remove all that the job has here; what has taken its directory's name stays.

        Parameters
        ----------
        end_s
            How long what copies may take to end.

        Raises
        ------
        BbflowError
            If it can't be removed; the record stays, so this can be done again.
        """
        try:
            held = self._held()
            with held as (jobs, records):
                if records.facts(self._record) is not None:
                    # Before the lock is waited for, so that whoever copies sees it and lets go.
                    records.write(self._ending, b"")
                    with self._locked(records, end_s):
                        # The record goes last: by nothing else is a directory known to be the job's.
                        self._remove(jobs, records)
                        records.unlink(self._record)
                for name in (self._ending, self._lock):
                    records.unlink(name)
        except FileNotFoundError:
            return  # no job was ever here

    def _remove(self, jobs: HeldDirectory, records: HeldDirectory) -> None:
        noted = self._noted(records)
        for held, name in ((records, self._going), (records, self._coming), (jobs, self._job)):
            found = held.facts(name)
            if found is None or found.st_ino != noted.inode:
                continue
            if name != self._going:  # out of its user's reach, but for what has it open
                os.rename(name, self._going, src_dir_fd=held.descriptor, dst_dir_fd=records.descriptor)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            opened = os.open(self._going, flags, dir_fd=records.descriptor)
            try:
                ask(noted.owner, "remove", {"directory": opened}, REMOVE, descriptors=[opened])
            finally:
                os.close(opened)
            os.rmdir(self._going, dir_fd=records.descriptor)

    @property
    def noted(self) -> Noted | None:
        """What is noted of the job; None if nothing was set up for it."""
        try:
            with self._held() as (_, records):
                return self._noted(records)
        except (FileNotFoundError, ConfigError):
            return None

    def note_stream(self, stream: str) -> None:
        """Note how far the site's hosts are with the job's stream."""
        with self._held() as (_, records):
            self._note(records, replace(self._noted(records), stream=stream))

    def _noted(self, records: HeldDirectory) -> Noted:
        try:
            return Noted(**json.loads(records.read(self._record)))
        except FileNotFoundError:
            raise ConfigError(f"{self.path} was not set up for a job: nothing is copied") from None

    def _note(self, records: HeldDirectory, noted: Noted) -> None:
        records.write(self._record, json.dumps(asdict(noted)).encode())

    @contextmanager
    def _held(self) -> Iterator[tuple[HeldDirectory, HeldDirectory]]:
        """Hold the directory of jobs and that of records."""
        with HeldDirectory.at(self._site.directory) as jobs, jobs.directory(RECORDS) as records:
            yield jobs, records

    @contextmanager
    def _copying(self) -> Iterator[tuple[Owner, HeldDirectory]]:
        """Be the only one that copies for the job."""
        try:
            with self._held() as (_, records):
                noted = self._noted(records)
                with self._locked(records, 0.0):
                    yield noted.owner, records
        except FileNotFoundError as error:
            if error.filename not in (RECORDS, str(self._site.directory)):
                raise
            raise ConfigError(f"{self.path} was not set up for a job: nothing is copied") from None

    @contextmanager
    def _locked(self, records: HeldDirectory, patience_s: float) -> Iterator[None]:
        end_s = time.monotonic() + patience_s
        while (lock := records.lock(self._lock)) is None:
            if time.monotonic() > end_s:
                raise ConfigError(f"files of {self.path} are being copied already")
            time.sleep(_POLL_S)
        try:
            yield
        finally:
            os.close(lock)

    @contextmanager
    def _open(self, script: Path) -> Iterator[int]:
        opened = open_regular(script, MOST_SCRIPT_BYTES)
        try:
            yield opened
        finally:
            os.close(opened)


def check_script(script: int, owner: Owner | None, pool: Pool | None = None) -> bool:
    """Report what is wrong with an open job script; return whether its job has a stream.

    Parameters
    ----------
    script
        Open.
    owner
        Its user, who must be able to read the analysis; None if that isn't known yet.
    pool
        What Slurm's own lines are checked against, when it is submitted; None once it is in, when its analysis is
        read instead.

    Raises
    ------
    BbflowError
        If anything is.
    """
    facts: dict[str, Any] = {"script": script, "may_read": owner is not None, "pool": pool and asdict(pool)}
    return ask(owner or nobody(), "check", facts, CHECK, descriptors=[script])[0]

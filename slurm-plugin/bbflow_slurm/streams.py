"""A job's stream, as all of its hosts see it: files in the job's directory, all of the job's user.

::

    .bbflow-stream/analysis       path of the configuration
                   contact.json   the BB nodes, while they are up
                   scheduler.json likewise Dask's scheduler
                   HOST.lock      held by what runs on a host; its words are in HOST.log
                   alive          as new as its first host, which has the analysis
                   ready          variables of the job's tasks: it may begin
                   failed         why it can't
                   over           the job has ended
                   done           and so has its analysis
"""

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager, suppress
from pathlib import Path

from bbflow.errors import ConfigError, describe
from bbflow.host.atomic import write_whole
from bbflow.host.locks import lock

FOLDER = ".bbflow-stream"
START_S = 240.0
"""How long a stream's hosts are given to come up."""
ALIVE_S = 5.0
"""How often the first host says that it lives."""
LOST_S = 180.0
"""After this long without a word it is taken for lost; a shared file system may tell times a minute late."""
_POLL_S = 0.1


class JobStream:
    """The stream of a job.

    Parameters
    ----------
    directory
        The job's.
    job
        Its number.
    """

    def __init__(self, directory: Path, job: str) -> None:
        self.job = job
        """Slurm's number."""
        self.folder = directory / FOLDER
        """Seen by all hosts."""
        self.contact = self.folder / "contact.json"
        """Of its BB nodes."""
        self.scheduler = self.folder / "scheduler.json"
        """Of its Dask scheduler."""

    @property
    def is_wanted(self) -> bool:
        """Whether the job has one."""
        return (self.folder / "analysis").exists()

    @property
    def analysis(self) -> Path:
        """Its configuration."""
        return Path((self.folder / "analysis").read_text())

    def want(self, analysis: Path) -> None:
        """Note what is to run beside the job."""
        self.folder.mkdir(mode=0o700)
        write_whole(self.folder / "analysis", str(analysis).encode())

    def allow(self, variables: Mapping[str, str]) -> None:
        """Start the job, whose tasks get these variables."""
        write_whole(self.folder / "ready", "".join(f"{name}={value}\n" for name, value in variables.items()).encode())

    def fail(self, reason: str) -> None:
        """Fail the job, with a reason that its user sees; the first one counts."""
        if not self.is_settled:
            write_whole(self.folder / "failed", f"{reason}\n".encode())

    def end(self) -> None:
        """Announce that the job has ended."""
        with suppress(FileNotFoundError):
            (self.folder / "over").touch()

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Announce that the first host lives, for as long as a ``with`` lasts; then the analysis has ended."""
        ending = threading.Event()

        def say() -> None:
            while True:
                with suppress(FileNotFoundError):
                    (self.folder / "alive").touch()
                if ending.wait(ALIVE_S):
                    return

        saying = threading.Thread(target=say, daemon=True)
        saying.start()
        try:
            yield
        finally:
            ending.set()
            # Before `done`: nothing says that the host lives after that.
            saying.join()
            with suppress(FileNotFoundError):
                (self.folder / "done").touch()

    def await_done(self, lost_s: float = LOST_S) -> None:
        """Wait until the analysis has ended, or wasn't begun, or its host, silent for `lost_s`, is lost."""
        seen, seen_s = 0, time.monotonic()
        while not self.is_done:
            try:
                now = (self.folder / "alive").stat().st_mtime_ns
            except FileNotFoundError:
                if self.is_over:
                    return  # a host that begins later sees that
                now = 0
            # Only whether it changes counts: hosts' clocks differ.
            if now != seen:
                seen, seen_s = now, time.monotonic()
            if time.monotonic() - seen_s > (lost_s if seen else START_S):
                return
            time.sleep(_POLL_S)

    @property
    def is_settled(self) -> bool:
        """Whether it is known if the job may begin."""
        return (self.folder / "ready").exists() or self.why_failed is not None

    @property
    def why_failed(self) -> str | None:
        """Why the job can't begin, if it can't."""
        try:
            return (self.folder / "failed").read_text().strip()
        except FileNotFoundError:
            return None

    @property
    def is_over(self) -> bool:
        """Whether the job has ended, or its directory is gone."""
        return not self.folder.exists() or (self.folder / "over").exists()

    @property
    def is_done(self) -> bool:
        """Whether the analysis has ended, or won't be there any more."""
        return not self.folder.exists() or (self.folder / "done").exists()

    @contextmanager
    def held(self, host: str) -> Iterator[None]:
        """Be what runs on a host.

        Raises
        ------
        ConfigError
            If something does.
        """
        # The kernel's lock: it ends with the process, also where that is killed.
        descriptor = lock(self.folder / f"{host}.lock", wait=False)
        if descriptor is None:
            raise ConfigError(f"something runs on {host} for job {self.job} already")
        try:
            yield
        finally:
            os.close(descriptor)

    def await_end(self, host: str) -> None:
        """Wait until nothing runs on a host any more."""
        path = self.folder / f"{host}.lock"
        while not _is_free(path):
            time.sleep(_POLL_S)


@contextmanager
def at_analysis(analysis: Path) -> Iterator[None]:
    """Be in the directory of an analysis: relative paths in it are below that.

    Raises
    ------
    ConfigError
        If there is no such directory for this user.
    """
    try:
        with chdir(analysis.parent):
            yield
    except OSError as error:
        raise ConfigError(describe(error)) from None


def _is_free(path: Path) -> bool:
    try:
        descriptor = lock(path, wait=False, create=False)
    except FileNotFoundError:
        return True
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is not None

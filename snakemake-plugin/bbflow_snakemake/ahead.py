"""Fetches the inputs of coming jobs while others compute: a stager, and links to what it has staged."""

import atexit
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from pathlib import Path

from bbflow.errors import SourceError
from bbflow.events import EventLog
from bbflow.host.belongings import make, remove
from bbflow.staging import File, Locations, Stager
from bbflow.staging.shelf import make_writable
from bbflow_snakemake.settings import Plan


class Ahead:
    """The inputs of jobs that are ready, fetched in their order.

    Parameters
    ----------
    plan
        The settings.
    directory
        On the burst buffer, for this process alone. What a killed run left there is used.
    slots
        Jobs that can run at once.
    keep
        Whether copies stay when the process ends.

    Raises
    ------
    ConfigError
        If another process stages into the directory, or it isn't ours.
    """

    def __init__(self, plan: Plan, directory: Path, slots: int, keep: bool) -> None:
        if plan.events is not None:
            plan.events.mkdir(parents=True, exist_ok=True)
        self._events = None if plan.events is None else EventLog(plan.events)
        self._directory, self._keep = directory, keep
        make(directory, "lock", "notes/**", "partial/**", "files/**")
        self._stager = Stager(
            directory,
            plan.capacity_bytes,
            slots,
            policy=plan.policy,
            phases=plan.phases,
            fetchers=plan.fetchers,
            lookahead=plan.lookahead,
            oversize=plan.oversize,
            options=plan.sources,
            events=self._events,
        )
        self._coming: dict[str, dict[str, Future[Locations]]] = {}
        self._futures: dict[str, Future[Locations]] = {}
        self._submitted = 0
        # Snakemake's interface has no call for the end of a storage provider.
        atexit.register(self.close)

    def announce(self, sizes: Mapping[str, int]) -> str:
        """Order the inputs of the next job, all together; return the job's key.

        Parameters
        ----------
        sizes
            URL to bytes. With them jobs have room in the order in which they are announced, not in that of answers.
        """
        self._submitted += 1
        key = f"job {self._submitted}"
        future = self._stager.submit(key, [File(url, size_bytes) for url, size_bytes in sizes.items()])
        self._futures[key] = future
        for url in sizes:
            # All jobs that read it count: one of a later wave has its files only after an earlier one has ended.
            self._coming.setdefault(url, {})[key] = future
        return key

    def is_coming(self, key: str) -> bool:
        """Whether a job's inputs have room: they are there, or on their way."""
        return self._stager.is_admitted(key)

    def is_settled(self, key: str) -> bool:
        """Whether a job's inputs are there, or can't be had."""
        return self._futures[key].done()

    def knows(self, url: str) -> bool:
        """Whether a file was announced."""
        return url in self._coming

    def final(self, key: str) -> None:
        """Take in that a job will not run again: its inputs may go."""
        self._futures.pop(key, None)
        for url in [url for url, coming in self._coming.items() if coming.pop(key, None) and not coming]:
            del self._coming[url]
        self._stager.final(key)

    def copy_of(self, url: str, version: str | None) -> Path | None:
        """Wait for a file that was announced, and return its copy.

        None if it wasn't, isn't its source's any more, or couldn't be had: it, or another one of its job, has changed
        since its size was known, and is to be copied now.

        Parameters
        ----------
        url
            Which file.
        version
            As its source tells it now.

        Raises
        ------
        CapacityError
            If it has no room.
        """
        if url not in self._coming:
            return None
        try:
            path = _first_of(self._coming[url].values())[url]
        except SourceError:
            return None
        return path if isinstance(path, Path) and self._stager.version(url) == (version or "") else None

    def has(self, link: Path) -> bool:
        """Whether a path is a link to a copy of ours: it goes with it."""
        with suppress(OSError):
            return os.readlink(link).startswith(f"{self._directory.absolute()}{os.sep}")
        return False

    def close(self) -> None:
        """End all transfers, and remove the copies unless they are kept."""
        atexit.unregister(self.close)
        self._stager.close()
        if self._events is not None:
            self._events.close()
        if not self._keep:
            remove(self._directory)


def _first_of(futures: Iterable["Future[Locations]"]) -> Locations:
    """Wait for the first job that has its files: those of a later one may wait until an earlier one has ended."""
    waiting = set(futures)
    while True:
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        good = [future for future in done if future.exception() is None]
        if good or not waiting:
            return (good or list(done))[0].result()


def link(path: Path, copy: Path, changed_s: float) -> None:
    """Link a copy at a path, by a link as old as its source: Snakemake compares them."""
    make_writable(copy)  # what can't be written to is protected to Snakemake
    temporary = path.with_name(f".{path.name}.link")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(copy)
    os.utime(temporary, (changed_s, changed_s), follow_symlinks=False)
    os.replace(temporary, path)

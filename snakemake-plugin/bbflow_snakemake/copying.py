"""Copies one file now: what wasn't fetched ahead, and what jobs have made."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from bbflow.staging import File, Gate, Retry, Sources
from bbflow.staging.policies import NoAction
from bbflow.staging.shelf import Shelf, make_writable
from bbflow.staging.transfers import Transfer, stage_out
from bbflow.staging.watched import WatchedGate
from bbflow_snakemake.settings import Plan

SMALL_BYTES = 64 << 10
"""A file of this size is as little to a store as a question about it."""


class DirectCopies:
    """Copies from and to stores, one file at a time, and gives way to others as the policy says.

    Parameters
    ----------
    plan
        The settings.
    sources
        The stores.
    directory
        On the burst buffer, where files are while they come; made when it is needed.
    """

    def __init__(self, plan: Plan, sources: Sources, directory: Path) -> None:
        self._sources, self._directory, self._retry = sources, directory, Retry()
        watches = not isinstance(plan.policy, NoAction)
        self._watched = WatchedGate(plan.policy, plan.phases) if watches else None

    def fetch(self, url: str, path: Path) -> None:
        """Copy a file to a path, where it appears whole.

        Raises
        ------
        SourceError, CapacityError
            If it can't be had, or the file system is full.
        """
        coming = self._directory / uuid.uuid4().hex
        shelf = Shelf(coming)
        try:
            with self._gate() as gate:
                receipt = Transfer(File(url), self._sources, shelf, gate, self._retry).run()
            # Snakemake takes what it can't write to for protected, and wouldn't make it anew.
            make_writable(receipt.path)
            os.replace(receipt.path, path)
        finally:
            shelf.close()
            shutil.rmtree(coming, ignore_errors=True)

    def fetch_tree(self, url: str, path: Path) -> None:
        """Copy all files below a directory to a new directory, which appears whole."""
        coming = self._directory / uuid.uuid4().hex
        try:
            coming.mkdir(parents=True)
            for file in self._sources.tree(url):
                place = coming / file.name
                place.parent.mkdir(parents=True, exist_ok=True)
                self.fetch(file.url, place)
            if path.is_dir():
                shutil.rmtree(path)
            coming.rename(path)
        finally:
            shutil.rmtree(coming, ignore_errors=True)

    def store(self, path: Path, url: str) -> None:
        """Copy a file, or a directory, to its store; each file appears there whole.

        A small file doesn't give way: all of Snakemake waits for it, and no phase would notice it.

        Raises
        ------
        SourceError
            If it can't be written.
        """
        is_small = path.is_file() and path.stat().st_size <= SMALL_BYTES
        with nullcontext(Gate(1)) if is_small else self._gate() as gate:
            stage_out(path, url, self._sources, gate, self._retry)

    @contextmanager
    def _gate(self) -> Iterator[Gate]:
        if self._watched is None:
            yield Gate(1)
        else:
            with self._watched.watched() as gate:
                yield gate

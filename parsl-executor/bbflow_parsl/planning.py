"""The staging of one task: its whole set goes to the burst buffer at once, and its room is held until it is final."""

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from bbflow.errors import ConfigError, SourceError
from bbflow.staging.buffer_room import FileState
from bbflow.staging.files import File
from bbflow.staging.stager import Locations, Stager
from bbflow_parsl.futures import StagedFile, when_all_done
from bbflow_parsl.memo import mark_residency
from bbflow_parsl.outputs import Outputs
from bbflow_parsl.places import Place
from bbflow_parsl.settings import absolute, local_path

logger = logging.getLogger(__name__)
Version = tuple[int, int]
"""Bytes and time of modification in nanoseconds."""


class TaskStaging:
    """The staging of one task.

    Parameters
    ----------
    key
        The task's name for the stager.
    files
        Its inputs that the provider took.
    others
        What else it waits for.
    stager
        Fetches what lies at a source.
    outputs
        Knows what other tasks make on the burst buffer.
    versions
        Of the files that were ever fetched, as they were then; added to here.
    """

    def __init__(
        self,
        key: str,
        files: Sequence[StagedFile],
        others: Sequence[Future[Any]],
        stager: Stager,
        outputs: Outputs,
        versions: dict[str, Version | None],
    ) -> None:
        self._key = key
        self._stager = stager
        self._outputs = outputs
        self._others = others
        self._made = [(file, place) for file in files if (place := outputs.hold(absolute(file.file_obj.url)))]
        held = {id(file) for file, _ in self._made}
        self._versions = versions
        self._fetched = [file for file in files if id(file) not in held and is_fetched(file) and self._is_current(file)]
        fetched = {id(file) for file in self._fetched}
        self._unstaged = [file for file in files if id(file) not in held | fetched]
        self._is_submitted = False

    def start(self, final: Future[Any]) -> None:
        """Begin; returns at once.

        Parameters
        ----------
        final
            Done when the task will never run again: its AppFuture.
        """
        final.add_done_callback(lambda _: self._release())
        for file in self._unstaged:
            self._deliver_when_ready(file, [], read_in_place)
        for file, place in self._made:
            self._deliver_when_ready(file, [place.written], partial(_move_to, place))
        if self._fetched:
            self._fetch()

    def _fetch(self) -> None:
        urls = dict.fromkeys(absolute(file.file_obj.url) for file in self._fetched)
        self._is_submitted = True
        arrived = self._stager.submit(self._key, [_source(url, self._versions[url]) for url in urls])
        for file in self._fetched:
            self._deliver_when_ready(file, [], partial(self._place_copy, arrived), after=[arrived])

    def _is_current(self, file: StagedFile) -> bool:
        """Whether a copy that the burst buffer may have is of the file as it is now."""
        url = absolute(file.file_obj.url)
        version = version_of(url)
        return self._versions.setdefault(url, version) == version

    def _place_copy(self, arrived: Future[Locations], file: StagedFile) -> None:
        """Direct the task to the copy, unless its source has changed or gone: then that is the task's own business."""
        url = absolute(file.file_obj.url)
        is_local = local_path(url) is not None
        try:
            where = arrived.result()[url]
        except SourceError as error:
            if not is_local:
                raise
            logger.warning("%s is read directly: %s", url, error)
            read_in_place(file)
            return
        if not is_local and isinstance(where, str):
            raise ConfigError(f"{url} has no room on the burst buffer, and can't be read directly: give it more room")
        if version_of(url) == self._versions[url]:
            file.file_obj.local_path = str(where)
        else:
            read_in_place(file)

    def _deliver_when_ready(
        self,
        file: StagedFile,
        needed: Sequence[Future[Any]],
        act: Callable[[StagedFile], None],
        after: Sequence[Future[Any]] = (),
    ) -> None:
        """Settle a file when it is there and the task waits for nothing else.

        Nothing is lost by waiting for the rest, as the task can't start sooner, and until then a source may change.
        """

        def deliver() -> None:
            try:
                for future in needed if file.maker is None else [*needed, file.maker]:
                    future.result()
                act(file)
            except BaseException as error:
                file.arrival.set_exception(error)
            else:
                file.arrival.set_result(None)

        when_all_done([*needed, *after, *self._others], deliver)

    def _release(self) -> None:
        for _, place in self._made:
            self._outputs.release(place)
        if self._is_submitted:
            self._stager.final(self._key)


def is_fetched(file: StagedFile) -> bool:
    """Whether a source has a file to be fetched before the task is ready.

    What isn't there, or is a directory, is the task's own business; what another task makes outside of the burst buffer
    is read where it was written, as it can't be fetched ahead.

    Raises
    ------
    ConfigError
        If another task makes it where no task can read it directly.
    """
    url = file.file_obj.url
    path = local_path(url)
    if path is None and file.maker is not None:
        raise ConfigError(f"{url} is made by a task, but not on the burst buffer: name its prefix in 'results'")
    return path is None or (file.maker is None and os.path.isfile(path))


def version_of(url: str) -> Version | None:
    """Return the version of a file on this host's file systems; None if it isn't there, or is elsewhere."""
    path = local_path(url)
    try:
        found = os.stat(path) if path is not None else None
    except OSError:
        return None
    return found and (found.st_size, found.st_mtime_ns)


def read_in_place(file: StagedFile) -> None:
    """Direct the task to a file where it is; Parsl itself would end its path at a ``#`` or ``?``."""
    path = local_path(file.file_obj.url)
    if path is not None and {"#", "?"} & set(str(path)):
        file.file_obj.local_path = str(path)


def _source(url: str, version: Version | None) -> File:
    return File(url, size_bytes=version and version[0])


def _move_to(place: Place, file: StagedFile) -> None:
    """Direct the task to what another made; that is in its own place if it was written there directly."""
    if place.state is not FileState.GONE:
        file.file_obj.local_path = str(place.path)
        if not place.is_result:
            mark_residency(file.file_obj, str(place.path))

"""What tasks write to the burst buffer: where each file lies, who reads it, and when it goes to its own place."""

import logging
import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from bbflow.staging.buffer_room import FileState
from bbflow.staging.makings import excess_bytes, has_room, taken_bytes, victims
from bbflow.staging.transfers import size_of
from bbflow.units import format_bytes
from bbflow_parsl.places import Place

logger = logging.getLogger(__name__)


class Outputs:
    """The makings of one executor; safe to use from any thread.

    Parameters
    ----------
    directory
        On the burst buffer; made here.
    capacity_bytes
        What outputs may take. Beyond it the oldest unheld ones go to their own places, and tasks that start
        meanwhile write to their outputs' own places.
    stage_out
        Copies a file to a URL; its future is done when the file is there.
    """

    def __init__(self, directory: Path, capacity_bytes: int, stage_out: Callable[[Path, str], Future[Any]]) -> None:
        directory.mkdir()
        self._directory = directory
        self._capacity_bytes = capacity_bytes
        self._stage_out = stage_out
        # Futures call back in the thread that settles them, which may hold it already.
        self._lock = threading.RLock()
        self._latest: dict[str, Place] = {}
        self._known: list[Place] = []
        self._made = 0
        self._copies: set[Future[None]] = set()

    def __contains__(self, url: str) -> bool:
        return url in self._latest

    @property
    def used_bytes(self) -> int:
        """Bytes of finished outputs on the burst buffer."""
        with self._lock:
            return sum(place.size_bytes for place in self._known if place.is_there)

    @property
    def room_bytes(self) -> int:
        """Bytes that outputs take, those included that running tasks may need."""
        with self._lock:
            return taken_bytes(self._known)

    def place(self, url: str, name: str, writer: Future[Any], is_result: bool, reuse: bool) -> Place:
        """Choose where a task writes a file.

        Parameters
        ----------
        url
            The file's own place.
        name
            Its name there.
        writer
            The task's final future.
        is_result
            Whether it is staged out as soon as it is written.
        reuse
            Give the last making, if the burst buffer has it: the memoiser may know the task.
        """
        with self._lock:
            last = self._latest.get(url)
            if reuse and last is not None and last.is_there:
                return self._place_again(last, writer)
            place = Place(url=url, path=self._new_path(name), writer=writer, is_result=is_result)
            self._latest[url] = place
            self._known.append(place)
            if last is not None:
                self._supersede(last)
        writer.add_done_callback(lambda _: self._written(place))
        return place

    def _place_again(self, place: Place, writer: Future[Any]) -> Place:
        done: Future[None] = Future()
        place.staged_out = done
        writer.add_done_callback(lambda _: self._written_again(place, writer, done))
        return place

    def hold(self, url: str) -> Place | None:
        """Keep a file on the burst buffer for a reader; None if it doesn't lie there, nor will."""
        with self._lock:
            place = self._latest.get(url)
            if place is None or place.state is FileState.GONE:
                return None
            place.readers += 1
            return place

    def release(self, place: Place) -> None:
        """Take back one `hold`."""
        with self._lock:
            place.readers -= 1
            if place.is_superseded and place.is_there and not place.readers:
                self._forget(place)
        self._make_room()

    def reserve(self, place: Place, size_bytes: int) -> bool:
        """Keep room for what a task that starts now writes; without room, it is to write to the file's own place.

        Parameters
        ----------
        place
            Where it would write.
        size_bytes
            What it is expected to write; with 0, a single free byte is room enough.

        Returns
        -------
        bool
            Whether it writes here.
        """
        with self._lock:
            if place.state is not FileState.AWAITED:
                return True
            place.reserved_bytes = size_bytes
        self._make_room(warn=False)
        with self._lock:
            if has_room(self._known, place, self._capacity_bytes) or not place.url.startswith("/"):
                return True
            place.state, place.is_clean, place.reserved_bytes = FileState.GONE, True, 0
            self._known.remove(place)
        Path(place.url).parent.mkdir(parents=True, exist_ok=True)
        return False

    def deliver(self, place: Place) -> Future[None]:
        """Copy a result, which its task has written, to its own place; done at once if the task made nothing."""
        done: Future[None] = Future()
        with self._lock:
            is_made = os.path.lexists(place.path)  # a link to nothing is refused, not left out
            if is_made:
                place.version = _version(place.path)
                place.readers += 1
                self._copies.add(done)
        if is_made:
            self._copy(place, done)
        else:
            done.set_result(None)
        return done

    def publish(self, url: str) -> Future[None]:
        """Stage out a file that stays on the burst buffer otherwise.

        Returns
        -------
        Future
            Done when it is in its own place.

        Raises
        ------
        LookupError
            If no task makes this file on the burst buffer.
        """
        place = self._latest.get(url)
        if place is None:
            raise LookupError(f"no task makes {url} on the burst buffer: is it among the intermediate files?")
        if place.is_result:
            return place.staged_out
        done: Future[None] = Future()
        place.written.add_done_callback(lambda _: self._copy_out(place, done))
        return done

    def wait(self) -> None:
        """Return when no file is on its way to its own place, and every result that was written is there."""
        # Again and again: a copy that has ended may have made others begin. Its error is told by its own future.
        while pending := self._pending():
            for future in pending:
                future.exception()

    def _pending(self) -> list[Future[None]]:
        with self._lock:
            results = [place.staged_out for place in self._known if place.is_result and place.writer.done()]
            return [future for future in (*results, *self._copies) if not future.done()]

    def _new_path(self, name: str) -> Path:
        self._made += 1
        directory = self._directory / str(self._made)
        directory.mkdir()
        return directory / name

    def _supersede(self, place: Place) -> None:
        place.is_superseded = True
        if place.is_there and not place.readers:
            self._forget(place)

    def _written(self, place: Place) -> None:
        """Note that a task is final."""
        error = place.writer.exception()
        with self._lock:
            if place.state is FileState.AWAITED:
                there = error is None and place.path.exists()
                place.state = FileState.HERE if there else FileState.GONE
                place.version = _version(place.path)
                if not there or (place.is_superseded and not place.readers):
                    self._forget(place)
        if error is None:
            place.written.set_result(None)
        else:
            place.written.set_exception(error)
        if place.is_result:
            self._copy_out(place, place.staged_out)
        self._make_room()

    def _written_again(self, place: Place, writer: Future[Any], done: Future[None]) -> None:
        """Note that a task is final which was given an earlier task's place: the memoiser knew it, or it rewrote."""
        error = writer.exception()
        with self._lock:
            if place.is_there and place.version != _version(place.path):
                place.version, place.is_clean = _version(place.path), False
        if error is not None:
            done.set_exception(error)
        elif place.is_result:
            self._copy_out(place, done)
        self._make_room()

    def _copy_out(self, place: Place, done: Future[None]) -> None:
        """Copy a written file to its own place, unless it is there."""
        error = place.written.exception()
        with self._lock:
            is_needed = error is None and place.is_there and not place.is_clean
            if is_needed:
                place.readers += 1
                self._copies.add(done)
        if error is not None:
            done.set_exception(error)
        elif not is_needed:
            done.set_result(None)
        else:
            self._copy(place, done)

    def _copy(self, place: Place, done: Future[None]) -> None:
        try:
            copying = self._stage_out(place.path, place.url)
        # A pool that is shut down refuses at once: whoever waits for `done` is told that way, too.
        except Exception as error:
            copying = Future()
            copying.set_exception(error)
        copying.add_done_callback(lambda copied: self._copied(place, copied.exception(), done))

    def _copied(self, place: Place, error: BaseException | None, done: Future[None]) -> None:
        with self._lock:
            place.readers -= 1
            place.is_clean, place.is_stuck = error is None, error is not None
            if place.state is FileState.LEAVING:
                place.state = FileState.HERE
                if place.may_go:
                    self._forget(place)
        self._make_room()
        # Only now, so that whoever waits sees the copies that this one made room for.
        with self._lock:
            self._copies.discard(done)
        if error is None:
            done.set_result(None)
        else:
            logger.error("%s can't be staged out to %s: %s", place.path, place.url, error)
            done.set_exception(error)

    def _make_room(self, warn: bool = True) -> None:
        with self._lock:
            going = victims(self._known, self._capacity_bytes)
            for place in going:
                if place.is_clean:
                    self._forget(place)
                else:
                    place.state = FileState.LEAVING
            over_bytes = excess_bytes(self._known, self._capacity_bytes)
        if over_bytes > 0 and warn:
            logger.warning("outputs in use are %s above their room on the burst buffer", format_bytes(over_bytes))
        for place in going:
            if place.state is FileState.LEAVING:
                self._copy_out(place, Future())

    def _forget(self, place: Place) -> None:
        place.state = FileState.GONE
        if place in self._known:
            self._known.remove(place)
        if place.path.is_dir() and not place.path.is_symlink():
            shutil.rmtree(place.path)
        else:
            place.path.unlink(missing_ok=True)


def _version(path: Path) -> tuple[int, int]:
    """Return bytes and the last change, of a directory those of all that is below it."""
    try:
        changed_ns = [path.stat().st_mtime_ns, *(each.lstat().st_mtime_ns for each in path.rglob("*"))]
        return (size_of(path), max(changed_ns))
    except OSError:
        return (0, 0)

"""Following a member's store: which of its times are whole, and what its fields are there."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from bbflow.ensemble.common_grid import CommonGrid
from bbflow.errors import BbflowError
from bbflow.operators.steps import Array
from bbflow.operators.windows.calendars import Clock
from bbflow.operators.windows.spans import StepsSpan
from bbflow.operators.windows.window import Window
from bbflow.zarr_store.growing import METADATA, GrowingZarr


@dataclass(frozen=True, slots=True)
class Row:
    """A time of a member."""

    index: int
    """Where on its axis."""
    number: float
    """The time in the member's units."""
    bounds: tuple[float, float]
    """Of its span; the time itself twice for a step."""
    instant: int
    """Microseconds, the same for all members: of a step its time, of a span its begin."""
    end: int
    """Of a span its end, of a step its time."""
    steps: int
    """How many of the member's steps are in it."""


class MemberStore:
    """A member's results, as far as they are shown.

    Parameters
    ----------
    member
        Its name.
    path
        ``results.zarr``; it need not be there yet.
    inner
        The windows whose rows are wanted, by name.
    results
        Names of the results that are needed to their windows' names.
    """

    def __init__(self, member: str, path: Path, inner: Mapping[str, Window], results: Mapping[str, str]) -> None:
        self.member = member
        self._path, self._inner, self._results = path, inner, results
        self._seen: tuple[int, int] | None = None
        self._rows: dict[str, list[Row]] = {name: [] for name in inner}
        self._store: GrowingZarr | None = None
        self.status = ""
        """What the store says of itself: running, complete or incomplete; empty if there is none."""
        self.grid: CommonGrid | None = None
        """What it has; None if not all of it is there."""
        self.next: dict[str, int] = dict.fromkeys(inner, 0)
        """First row of each window that isn't folded, as far as is known."""
        self._last: dict[str, Row] = {}
        """Window to the last row that was folded, as it was then."""
        self.cut: list[tuple[str, Row]] = []
        """Windows and rows that have further steps since they were folded: the program's end had cut them off."""

    def look(self) -> bool:
        """Look whether there is anything new.

        Raises
        ------
        BbflowError
            If somebody has removed the times, or cut off a file.
        """
        try:
            found = (self._path / METADATA).stat()
        except FileNotFoundError:
            return False
        # Each commit is a rename: another inode, even within one tick of the clock.
        if self._seen == (found.st_ino, found.st_mtime_ns):
            return False
        store = GrowingZarr(self._path)
        self._store, self._seen = store, (found.st_ino, found.st_mtime_ns)
        self.status = str(store.attribute("bbflow_status", ""))
        if self.grid is None:
            self.grid = CommonGrid.of(self.member, store, self._results)
        if self.grid is not None:
            for name in self._inner:
                self._take_rows(name, store, self.grid.clock)
        return True

    def missing(self) -> list[str]:
        """Return the names of results that aren't there."""
        if self.grid is not None:
            return []
        return [name for name in self._results if self._store is None or name not in self._store]

    def begin_again(self) -> None:
        """Return all rows again."""
        self._seen, self.next, self._last = None, dict.fromkeys(self.next, 0), {}

    def take(self, window: str, through: int) -> None:
        """Note that the rows before one are folded."""
        self.next[window], self._last[window] = through, self._rows[window][through - 1]

    @property
    def is_open(self) -> bool:
        """Whether what is known of the store is kept."""
        return self._store is not None

    def forget(self) -> None:
        """Release what is known of a store that is folded to its end; it is read again if there is more."""
        self._store, self._rows = None, {name: [] for name in self._rows}

    def recall(self) -> None:
        """Make the next look read what was released, of a member that is started again."""
        if not self.is_open:
            self._seen = None

    def _take_rows(self, window: str, store: GrowingZarr, clock: Clock) -> None:
        known = self._rows[window]
        is_step = isinstance(self._inner[window].spans, StepsSpan)
        times, bounds = store.read(f"time_{window}"), store.read(f"time_{window}_bnds")
        steps = np.ones(len(times), "i8") if is_step else store.read(f"steps_{window}")
        del known[max(len(known) - 1, 0) :]  # the last one may have been a part of a span
        if not (np.isfinite(times[len(known) :]).all() and np.isfinite(bounds[len(known) :]).all()):
            raise BbflowError(f"{self._path}: the times of its {window}s were removed during the run")
        assert self.grid is not None
        for index in range(len(known), len(times)):
            number, (begin, end) = float(times[index]), bounds[index].tolist()
            if is_step:
                begin = end = number
            instants = self.grid.instant(begin, clock), self.grid.instant(end, clock)
            known.append(Row(index, number, (begin, end), *instants, int(steps[index])))
        last = self._last.get(window)
        if last is not None and last.index < len(known) and known[last.index].steps != last.steps:
            self._last[window] = known[last.index]
            self.cut.append((window, last))

    def whole(self, window: str, *, ended: bool) -> Sequence[Row]:
        """Return the rows to which nothing comes any more.

        Parameters
        ----------
        window
            Its name.
        ended
            Whether the member gives nothing more.

        Returns
        -------
        sequence of Row
            Without the last span of the calendar, unless the member has come to a good end: it may be a part, which
            the end of a stream has cut off.
        """
        rows = self._rows[window]
        if isinstance(self._inner[window].spans, StepsSpan) or (ended and self.status == "complete"):
            return rows
        return rows[:-1]

    def read(self, result: str, row: Row) -> Array | None:
        """Return a field, of shape (points,); None if it was let go of, or somebody has removed or cut it off."""
        assert self._store is not None
        chunks = self._store.chunks(result)
        try:
            found = np.fromfile(chunks.path(row.index), chunks.stored)
        except FileNotFoundError:
            return None
        return found if found.size == prod(chunks.shape) else None

    def path(self, result: str, row: Row) -> Path:
        """Return the file of a field."""
        assert self._store is not None
        return self._store.chunks(result).path(row.index)

    def let_go(self, window: str, before: int) -> None:
        """Remove the fields of the rows from the first one that is there to one before which all are folded."""
        assert self._store is not None
        for result, own in self._results.items():
            if own == window:
                chunks = self._store.chunks(result)
                # From the newest backwards, so that the first one that is missing ends the search.
                for index in range(before - 1, -1, -1):
                    try:
                        os.unlink(chunks.path(index))
                    except FileNotFoundError:
                        break  # those before it went earlier

    def coordinate(self, name: str) -> Array:
        """Return a coordinate's values."""
        assert self._store is not None
        return self._store.read(name)

    def attributes_of(self, name: str) -> Mapping[str, object]:
        """Return an array's attributes."""
        assert self._store is not None
        found: Mapping[str, object] = self._store.metadata(name)["attributes"]
        return found

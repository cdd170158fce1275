"""Safe copies: the partial states of all nodes in the output, every few minutes, in case a host is lost."""

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bbflow.host.atomic import write_whole
from bbflow.transit.clusters.cluster import take
from bbflow.transit.states.shards import Row, ShardState, StatePlace
from bbflow.transit.states.tables import CountedStates, Roster, States
from bbflow.transit.states.written import Written, pack, unpack

SAFE_DIRECTORY = ".safe"
"""In the output, while the run lasts."""
LATEST = "latest"


@dataclass(frozen=True, slots=True)
class CopyWork:
    """What one node's task copies."""

    files: tuple[str, ...]
    """State files."""
    directory: str
    """Where to."""


class SafeRecord(Written, frozen=True, kw_only=True):
    """What the file `LATEST` holds."""

    states: tuple[tuple[bytes, tuple[ShardState, ...]], ...]
    """Tables of shards as their files hold them, and their states."""
    attributes: Mapping[str, Any]
    """The stream's."""


@dataclass(frozen=True, slots=True)
class SafeCopy:
    """What was copied last."""

    states: tuple[Row, ...]
    """All nodes' states, whose files are the copies."""
    attributes: Mapping[str, Any]
    """The stream's, which the node of rank 0 alone may have had."""


def copy_states(work: CopyWork) -> None:
    """Copy state files; a task where they lie."""
    target = Path(work.directory)
    target.mkdir(parents=True, exist_ok=True)
    names = {Path(file).name for file in work.files}
    # First: this is the older of two copies, which doesn't count any more, and its room is needed.
    for stale in target.iterdir():
        if stale.name not in names:
            stale.unlink()
    for file in work.files:
        shutil.copyfile(file, target / Path(file).name)


class SafeCopies:
    """Copies states in turn into two places: the one that counts stays whole until the other one is.

    Parameters
    ----------
    output
        Of the run.
    every_s
        Seconds between two copies; 0 for none.
    clock
        Gives seconds that never run backwards.
    """

    def __init__(self, output: Path, every_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._directory, self._every_s, self._clock = output / SAFE_DIRECTORY, every_s, clock
        self._turn = 0
        self._kept_s = clock()

    @property
    def is_due(self) -> bool:
        """Whether it is time for the next copy."""
        return self._every_s > 0 and self._clock() - self._kept_s >= self._every_s

    def keep(self, states: CountedStates, attributes: Mapping[str, Any], submit: Callable[..., Any]) -> int:
        """Copy the states that count; nothing is folded meanwhile.

        Parameters
        ----------
        states
            Those.
        attributes
            The stream's.
        submit
            Starts a task on a node, given by its name first.

        Returns
        -------
        int
            How many files there are.
        """
        self._turn = 1 - self._turn
        place = self._directory / str(self._turn)
        files: dict[str, set[str]] = {}
        for table in states.tables:
            files.setdefault(table.roster.node, set()).update(path for item in table.alike for path in item.paths)
        pending = [
            submit(node, copy_states, CopyWork(tuple(sorted(own)), str(place / node)))
            for node, own in sorted(files.items())
        ]
        take(pending)
        written = SafeRecord(
            states=tuple(
                (copy.roster.packed, copy.alike) for copy in (_moved(table, place) for table in states.tables)
            ),
            attributes=attributes,
        )
        # Last: until here the copy in the other place counts, and nothing was written into it.
        write_whole(self._directory / LATEST, pack(written))
        self._kept_s = self._clock()
        return sum(map(len, files.values()))


def read_safe_copy(output: Path) -> SafeCopy:
    """Return what was copied last; nothing if nothing was.

    Raises
    ------
    ConfigError
        If another version of bbflow has copied it.
    """
    path = output / SAFE_DIRECTORY / LATEST
    if not path.exists():
        return SafeCopy((), {})
    record = unpack(path.read_bytes(), SafeRecord, str(path))
    tables = (States(Roster.unpacked(packed, str(path)), alike) for packed, alike in record.states)
    rows = (row for table in tables for row in table.rows())
    return SafeCopy(tuple(_with_rows_that_are_there(rows)), record.attributes)


def _moved(states: States, place: Path) -> States:
    """Return states whose files are the copies."""
    directory = place / states.roster.node

    def moved(like: ShardState) -> ShardState:
        files = {slot: StatePlace(str(directory / Path(at.path).name), at.offset) for slot, at in like.files.items()}
        return replace(like, files=files)

    return states.changed(moved)


def _with_rows_that_are_there(found: Iterable[Row]) -> Iterable[Row]:
    """Leave out rows that were published since."""
    for key, region, state in found:
        yield key, region, replace(state, rows=tuple(path for path in state.rows if Path(path).exists()))

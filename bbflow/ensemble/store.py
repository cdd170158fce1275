"""ensemble.zarr: statistics across members, which grow while members run."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.ensemble.common_grid import CommonGrid, GridField
from bbflow.ensemble.ensemble_settings import STANDARD_ERROR
from bbflow.ensemble.folding import FieldState, WindowStates
from bbflow.ensemble.member_stores import MemberStore
from bbflow.ensemble.moment_files import Ledger
from bbflow.operators.operator import Operator
from bbflow.operators.space.grid import Grid
from bbflow.operators.steps import Array
from bbflow.operators.windows.calendars import Clock
from bbflow.operators.windows.spans import Run
from bbflow.stream.cf import CF_VERSION
from bbflow.transit.output.cf_attributes import axis_name, axis_variables, with_known_references
from bbflow.transit.output.fields import ResultField, reinterpreted
from bbflow.transit.output.lost_files import lost_files, names_of, note_removed, removed_from
from bbflow.zarr_store.growing import GrowingZarr
from bbflow.zarr_store.stored_names import stored_name

REALIZATION, START = "realization", "start"
CUT = "bbflow_cut_spans"
SCORES = "scores"
"""The group of scores."""
LAST_SCORE = "mse"
"""The score that is written after all others of a moment, and has a value wherever these have one."""
SMALL_BYTES = 1 << 16
"""Values of a lead time for all starts that are written as one chunk."""


class MomentShown(IntEnum):
    """What readers see of a moment."""

    NOT = -1
    """Nothing."""
    OPEN = 0
    """It is shown, and members may still come."""
    COMPLETE = 1
    """All members had passed it."""
    AMENDED = 2
    """Members came after that."""


class EnsembleStore:
    """The one writer of ``ensemble.zarr``.

    Parameters
    ----------
    path
        The store; an existing one is continued.
    name
        The ensemble's.
    members
        Names of all members.
    grid
        What they have in common.
    starts
        Starts of forecasts to their times (microseconds): the second dimension, the first one is the lead time then.
        Empty if members have none: the first is the time.
    is_continued
        Whether it has what can't be written again: moments that are closed.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        members: tuple[str, ...],
        grid: CommonGrid,
        starts: Mapping[str, int],
        *,
        is_continued: bool,
    ) -> None:
        self.path = path
        self._grid, self._clock = grid, grid.clock
        self._store = GrowingZarr(path)
        self._columns = {start: at for at, start in enumerate(starts)}
        self._begins: dict[str, list[float]] = {}
        self._shown: dict[str, dict[tuple[int, ...], tuple[MomentShown, int]]] = {}
        """Window to the places of moments to what readers see of them."""
        gone = [path.name] if self._store.is_new and is_continued else self._store.restore()
        if self._store.is_new:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            self._store.commit(
                title=f"Statistics of ensemble {name}",
                source=f"{len(members)} members of ensemble {name}",
                history=f"{now} bbflow: statistics across members, while they ran",
                Conventions=CF_VERSION,
                bbflow_ensemble=name,
                bbflow_members=list(members),
                bbflow_status="running",
            )
        if starts and START not in self._store:
            told = {"standard_name": "forecast_reference_time", "long_name": "start of the forecasts"}
            numbers = np.array([grid.number(instant) for instant in starts.values()], "f8")
            own = self._clock.attributes | told
            self._store.create(START, (START,), numbers.shape, "f8", own, chunks=numbers.shape)
            self._store.write(START, 0, numbers)
        self.note_removed(gone)
        self.look_for_removed()

    def note_removed(self, names: Iterable[str]) -> None:
        """Note what somebody has removed, of this store or of members' fields before they were taken."""
        note_removed(self._store, names)

    @property
    def cut(self) -> list[str]:
        """Members' spans that a program's end has cut off, and that were joined so, in words."""
        return list(self._store.attribute(CUT, []))

    def note_cut(self, why: str) -> None:
        """Note such a span."""
        self._store.commit(**{CUT: [*self.cut, why]})

    def look_for_removed(self) -> list[str]:
        """Note which files are gone or cut off, and return all that is noted; what is left of them goes."""
        cells = {name for name in self._store.lengths if self._has_cells(name)}
        self._clear(item for item in lost_files(self._store, self._store.chunks, {}, ()) if item[0] not in cells)
        # Then: by how many members are in a cell it is known whether that was written.
        self._clear((name, path) for name in cells for path in self._lost_cells(name))
        self.note_removed(self._store.lost)
        return removed_from(self._store)

    def _clear(self, lost: Iterable[tuple[str, Path]]) -> None:
        """Note arrays' files that are gone or cut off, and remove what is left of them."""
        found = [*lost]
        self.note_removed(names_of(self.path, found))
        for _, path in found:
            path.unlink(missing_ok=True)

    def _has_cells(self, name: str) -> bool:
        """Whether each start of a lead time has a file of its own."""
        node = self._store.metadata(name)
        is_by_start: bool = node["dimension_names"][1:2] == [START]
        return is_by_start and self._store.chunks(name).shape[1] < node["shape"][1]

    def _lost_cells(self, name: str) -> Iterator[Path]:
        chunks, shown = self._store.chunks(name), self._store.lengths[name]
        axis = self._store.metadata(name)["dimension_names"][0]
        there = self._store.read(f"members_{axis.removeprefix('lead_time_')}")[:shown] > 0
        written = self._are_scored(name, there.shape) if "/" in name else there
        for row, column in np.argwhere(there).tolist():
            own = replace(chunks, column=column)
            if not own.is_whole(row) and (written[row, column] or own.path(row).exists()):
                yield own.path(row)

    def _are_scored(self, name: str, shape: tuple[int, ...]) -> Array:
        """Return which cells have had a reference: those with the score that is written last beside an array."""
        known = (own.removesuffix(LAST_SCORE) for own in self._store.lengths if own.endswith(f"_{LAST_SCORE}"))
        found = np.zeros(shape, bool)
        if own := max(filter(name.startswith, known), key=len, default=""):
            values = self._store.read(f"{own}{LAST_SCORE}")[: len(found)]
            found[: len(values)] = np.isfinite(values)
        return found

    def has_coordinates(self) -> bool:
        """Whether the grid's coordinates are written."""
        return all(stored_name(name) in self._store for name in self._grid.coordinates)

    def add_coordinates(self, member: MemberStore) -> None:
        """Take the coordinates of a member's store."""
        for name, coordinate in self._grid.coordinates.items():
            if name not in self._store:
                values = member.coordinate(name)
                own = dict(member.attributes_of(name))
                self._store.create(name, coordinate.dims, values.shape, values.dtype, own, chunks=values.shape)
                self._store.write(name, 0, values)
        self._store.commit()

    def write(
        self,
        states: WindowStates,
        ledger: Ledger,
        results: Mapping[str, Mapping[str, Array]],
    ) -> None:
        """Write a moment's values; `mark` comes after all of them.

        Parameters
        ----------
        states
            Of its window.
        ledger
            What is in it.
        results
            Field's key to operator to values; empty if they are there.
        """
        window = states.window.name
        at = self._index(states, self._key(states, ledger))
        for item in states.fields if results else ():
            for operator in item.field.operators:
                name = stored_name(f"{item.field.name}_{window}_{operator.name}")
                values = results[item.field.key][operator.name]
                if name not in self._store:
                    self._create(name, item, states, operator, values)
                self._put(name, at, ledger, values)

    def mark(self, states: WindowStates, ledger: Ledger, shown: MomentShown) -> None:
        """Set what a moment is from now on; a new row is seen with the next `commit`.

        Of forecasts a cell is seen at once. So its status comes after its values, and the count after that: with a
        count of 0 there is nothing (`shown`), and with another than the ledger's all is written again.
        """
        window, axis = states.window.name, self._axis(states)
        time, begin, end = ledger.numbers
        at = self._index(states, self._key(states, ledger))
        self._store.write(f"{axis}_bnds", at, np.array([[begin, end]]))
        self._put(f"status_{window}", at, ledger, np.array(shown, "i1"))
        if not states.is_inner:
            self._put(f"fields_{window}", at, ledger, np.array(ledger.fields, "i8"))
        self._put(f"members_{window}", at, ledger, np.array(len(ledger.members), "i4"))
        self._store.write(axis, at, np.array([time]))
        self._marks(states)[self._place(at, ledger)] = shown, ledger.fields
        for name in self._store.names(axis, in_groups=True):
            self._fill(name, at + 1)

    def _put(self, name: str, at: int, ledger: Ledger, values: Array) -> None:
        if ledger.start:
            self._store.write_cell(name, at, self._columns[ledger.start], values)
        else:
            self._store.write(name, at, values[np.newaxis])

    def _make(
        self,
        name: str,
        states: WindowStates,
        dims: tuple[str, ...],
        values: Array,
        attributes: Mapping[str, Any],
    ) -> None:
        """Make a window's array, from one moment's values; for forecasts the starts are its second dimension.

        What is small has one chunk for all starts of a lead time.
        """
        axis = self._axis(states)
        if not self._columns:
            chunks = None if values.ndim else (512,)
            self._store.create(name, (axis, *dims), (0, *values.shape), values.dtype, attributes, chunks)
            return
        starts = len(self._columns)
        columns = starts if values.nbytes * starts <= SMALL_BYTES else 1
        shape, chunks = (0, starts, *values.shape), (1, columns, *values.shape)
        self._store.create(name, (axis, START, *dims), shape, values.dtype, attributes, chunks)

    def _axis(self, states: WindowStates) -> str:
        """Return the name of a window's axis."""
        return f"{'lead_time' if self._columns else 'time'}_{states.window.name}"

    def write_beside(
        self,
        states: WindowStates,
        ledger: Ledger,
        name: str,
        dims: tuple[str, ...],
        values: Array,
        attributes: Mapping[str, Any],
    ) -> None:
        """Write what belongs to a moment's row, such as a score, into an array of its own."""
        at = self._index(states, self._key(states, ledger))
        if name not in self._store:
            self._make(name, states, dims, values, attributes)
        self._fill(name, at)
        self._put(name, at, ledger, values)

    def _fill(self, name: str, end: int) -> None:
        """Lengthen scores by missing values: xarray opens no tree whose groups differ in an axis' length."""
        node = self._store.metadata(name)
        first, *shape = node["shape"]
        if self._has_cells(name):
            self._store.resize(name, end)
        elif first < end:
            self._store.write(name, first, np.full((end - first, *shape), np.nan))

    def values(self, name: str) -> Array | None:
        """Return an array's values; None if there is no such array."""
        return self._store.read(name) if name in self._store else None

    def describe(self, name: str, **attributes: Any) -> None:
        """Set attributes of an array or a group, if it is there."""
        if name in self._store:
            self._store.describe(name, **attributes)

    def grid_of(self, field: GridField) -> Grid:
        """Describe a field's grid by what is in the store."""
        own = {name: self._store.metadata(name)["attributes"] for name in self._grid.coordinates if name in self._store}
        return Grid(field.dims, field.shape, {name: self._store.read(name) for name in own}, own)

    def shown(self, states: WindowStates, ledger: Ledger) -> tuple[MomentShown, int]:
        """Return what readers see of a moment, and how many fields of members that has.

        The store itself says it: there is nothing else that a kill could leave behind or ahead of it.
        """
        starts, nothing = self._known(states), (MomentShown.NOT, 0)
        if self._key(states, ledger) not in starts:
            return nothing
        place = self._place(starts.index(self._key(states, ledger)), ledger)
        return self._marks(states).get(place, nothing)

    def complete(self, states: WindowStates) -> int:
        """Return how many moments of a window all members had passed when they were shown."""
        return sum(shown >= MomentShown.COMPLETE for shown, _ in self._marks(states).values())

    def _place(self, at: int, ledger: Ledger) -> tuple[int, ...]:
        return (at, self._columns[ledger.start]) if ledger.start else (at,)

    def _marks(self, states: WindowStates) -> dict[tuple[int, ...], tuple[MomentShown, int]]:
        """Return what was marked; the store is read once, since others may damage it."""
        window = states.window.name
        if window not in self._shown:
            names = f"status_{window}", f"{'members' if states.is_inner else 'fields'}_{window}"
            status, fields = (self._store.read(name) if name in self._store else np.zeros(0, "i8") for name in names)
            places = [tuple(place) for place in np.argwhere(fields[: len(status)]).tolist()]
            self._shown[window] = {place: (MomentShown(int(status[place])), int(fields[place])) for place in places}
        return self._shown[window]

    @staticmethod
    def _key(states: WindowStates, ledger: Ledger) -> float:
        """Return what tells a moment on its axis: a run's begin moves, but there is one run only."""
        return 0.0 if isinstance(states.window.spans, Run) else ledger.numbers[1]

    def may_show(self, states: WindowStates, ledger: Ledger) -> bool:
        """Whether a moment is in the store, or later than all that are: an axis ascends."""
        starts, begin = self._known(states), self._key(states, ledger)
        return not starts or begin > starts[-1] or begin in starts

    def commit(self, **attributes: Any) -> None:
        """Show readers all that was written."""
        self._store.commit(**attributes)

    def _known(self, states: WindowStates) -> list[float]:
        window = states.window.name
        if window not in self._begins:
            bounds = f"{self._axis(states)}_bnds"
            begins = self._store.read(bounds)[:, 0] if bounds in self._store else np.zeros(0)
            # Those that somebody has removed are before all that comes: else nothing more could be shown.
            begins = np.where(np.isnan(begins), -np.inf, begins).tolist()
            self._begins[window] = [0.0] * len(begins) if isinstance(states.window.spans, Run) else begins
        return self._begins[window]

    def _index(self, states: WindowStates, begin: float) -> int:
        """Return where a moment lies on its axis: one that was shown before a kill has its row."""
        starts = self._known(states)
        if self._axis(states) not in self._store:
            self._create_axis(states)
        if begin in starts:
            return starts.index(begin)
        starts.append(begin)
        return len(starts) - 1

    def _create_axis(self, states: WindowStates) -> None:
        window, axis = states.window.name, self._axis(states)
        cf, meaning = self._clock.attributes, self._clock.meaning
        if self._columns:
            cf, meaning = {"units": "hours"}, {"standard_name": "forecast_period", "long_name": "time since the start"}
        own = {**cf, **meaning, "axis": "T", "bounds": f"{axis}_bnds"}
        self._store.create(axis, (axis,), (0,), "f8", own, (512,))
        self._store.create(f"{axis}_bnds", (axis, "bnds"), (0, 2), "f8", cf, (512, 2))
        told = {"units": "1", "standard_name": "number_of_observations"}
        told |= {"long_name": f"members in each {window}"}
        self._make(f"members_{window}", states, (), np.zeros((), "i4"), told)
        if not states.is_inner:
            told = {"units": "1", "long_name": f"fields of members in each {window}"}
            self._make(f"fields_{window}", states, (), np.zeros((), "i8"), told)
        flags: dict[str, Any] = {
            "long_name": f"whether further members may come in each {window}",
            "flag_values": [int(item) for item in MomentShown if item >= 0],
            "flag_meanings": " ".join(item.name.lower() for item in MomentShown if item >= 0),
        }
        self._make(f"status_{window}", states, (), np.zeros((), "i1"), flags)

    def _create(self, name: str, item: FieldState, states: WindowStates, operator: Operator, values: Array) -> None:
        field = result_field(item, self._grid)
        dims = item.grid.dims
        names = [axis_name(field, operator, axis) for axis in operator.axes]
        for name_of_axis, axis in zip(names, operator.axes, strict=True):
            if name_of_axis not in self._store:
                for own, (own_dims, own_values, told) in axis_variables(name_of_axis, axis, field).items():
                    self._store.create(own, own_dims, own_values.shape, own_values.dtype, told, chunks=own_values.shape)
                    self._store.write(own, 0, own_values)
        dims = (*names, *dims)
        attributes = across_attributes(field, states, operator, self._clock)
        attributes = with_known_references(attributes, self._store)
        self._make(name, states, dims, values, attributes)


def result_field(item: FieldState, grid: CommonGrid) -> ResultField:
    """Describe the field that is folded, as members' results describe it."""
    own = {
        name: value
        for name, value in item.grid.attributes.items()
        if not name.startswith("bbflow_") or name == "bbflow_long_name"
    }
    own["long_name"] = own.pop("bbflow_long_name", item.field.name)
    own["cell_methods"] = str(own.get("cell_methods", "")).removesuffix("time: maximum").strip()
    others = {
        text: str(grid.fields[name].attributes["units"])
        for text, name in item.field.others.items()
        if "units" in grid.fields[name].attributes
    }
    return ResultField(item.field.name, item.grid.dtype, item.grid.shape, item.grid.dims, own, others)


def across_attributes(field: ResultField, states: WindowStates, operator: Operator, clock: Clock) -> dict[str, Any]:
    """Return the CF attributes of a statistic across members."""
    own = dict(field.attributes)
    earlier = str(own.pop("cell_methods", ""))
    method = operator.cell_method
    dims = REALIZATION if states.is_inner else f"{REALIZATION}: time"
    found = reinterpreted(own, operator, field.other_units, clock)
    if operator.name == STANDARD_ERROR:  # CF conventions, appendix C: of the mean, which the cell methods say
        method = "mean"
        found |= {name: f"{text} {STANDARD_ERROR}" for name, text in found.items() if name == "standard_name"}
    return found | {
        "long_name": f"{operator.long_name} of {own['long_name']} across members",
        "cell_methods": f"{earlier} {dims}: {method}".strip(),
        "bbflow_variable": field.name,
        "bbflow_window": states.window.name,
        "bbflow_operator": operator.name,
    }

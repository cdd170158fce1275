"""ensemble.zarr: statistics across members, which grow while members run."""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.ensemble.folding import FieldState, WindowStates
from bbflow.ensemble.following import MemberStore
from bbflow.ensemble.grid import CommonGrid
from bbflow.ensemble.moments import Ledger
from bbflow.operators.operator import Operator
from bbflow.operators.steps import Array
from bbflow.operators.windows.calendars import Clock
from bbflow.operators.windows.spans import Run
from bbflow.stream.cf import CF_VERSION
from bbflow.transit.output.attributes import axis_name, axis_variables, with_known_references
from bbflow.transit.output.fields import ResultField, reinterpreted
from bbflow.zarr_store.growing import GrowingZarr
from bbflow.zarr_store.stored_names import stored_name

REALIZATION = "realization"


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
        The store; one that is there is carried on with.
    name
        The ensemble's.
    members
        Names of all members.
    grid
        What they have in common.
    """

    def __init__(self, path: Path, name: str, members: tuple[str, ...], grid: CommonGrid) -> None:
        self.path = path
        self._grid, self._clock = grid, grid.clock
        self._store = GrowingZarr(path)
        self._starts: dict[str, list[float]] = {}
        self._shown: dict[str, tuple[Array, Array]] = {}
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
        shown: MomentShown,
        results: Mapping[str, Mapping[str, Array]],
    ) -> None:
        """Write a moment's row; readers see it with the next `commit`.

        Parameters
        ----------
        states
            Of its window.
        ledger
            What is in it.
        shown
            What it is from now on.
        results
            Field's key to operator to values; empty if they are there.
        """
        window = states.window.name
        time, begin, end = ledger.numbers
        at = self._index(states, self._key(states, ledger))
        for item in states.fields if results else ():
            for operator in item.field.operators:
                name = stored_name(f"{item.field.name}_{window}_{operator.name}")
                values = results[item.field.key][operator.name]
                if name not in self._store:
                    self._create(name, item, states, operator, values)
                self._store.write(name, at, values[np.newaxis])
        self._store.write(f"time_{window}_bnds", at, np.array([[begin, end]]))
        self._store.write(f"members_{window}", at, np.array([len(ledger.members)], "i4"))
        if not states.is_inner:
            self._store.write(f"fields_{window}", at, np.array([ledger.fields], "i8"))
        self._store.write(f"status_{window}", at, np.array([shown], "i1"))
        self._store.write(f"time_{window}", at, np.array([time]))
        self._shown.pop(window, None)

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
            axes = (f"time_{states.window.name}", *dims)
            chunks = None if values.ndim else (512,)
            self._store.create(name, axes, (0, *values.shape), values.dtype, attributes, chunks)
        self._store.write(name, at, values[np.newaxis])

    def values(self, name: str) -> Array | None:
        """Return an array's values; None if there is no such array."""
        return self._store.read(name) if name in self._store else None

    def describe(self, name: str, **attributes: Any) -> None:
        """Set attributes of an array or a group, if it is there."""
        if name in self._store:
            self._store.describe(name, **attributes)

    def latitudes(self, dim: str) -> Array | None:
        """Return the latitudes along a dimension, in degrees; None if it isn't one of latitudes."""
        for name in self._grid.coordinates:
            own = self._store.metadata(name)["attributes"] if name in self._store else {}
            is_latitude = own.get("standard_name") == "latitude" or str(own.get("units", "")).startswith("degrees_n")
            if self._grid.coordinates[name].dims == (dim,) and is_latitude:
                return np.asarray(self._store.read(name), "f8")
        return None

    def shown(self, states: WindowStates, ledger: Ledger) -> tuple[MomentShown, int]:
        """Return what readers see of a moment, and how many fields of members that has.

        The store itself says it: there is nothing else that a kill could leave behind or ahead of it.
        """
        window = states.window.name
        starts = self._known(states)
        if self._key(states, ledger) not in starts:
            return MomentShown.NOT, 0
        if window not in self._shown:
            count = f"{'members' if states.is_inner else 'fields'}_{window}"
            self._shown[window] = self._store.read(f"status_{window}"), self._store.read(count)
        at = starts.index(self._key(states, ledger))
        status, fields = self._shown[window]
        return (MomentShown(int(status[at])), int(fields[at])) if at < len(status) else (MomentShown.NOT, 0)

    def complete(self, states: WindowStates) -> int:
        """Return how many moments of a window all members had passed when they were shown."""
        window = states.window.name
        name = f"status_{window}"
        return int((self._store.read(name) >= MomentShown.COMPLETE).sum()) if name in self._store else 0

    @staticmethod
    def _key(states: WindowStates, ledger: Ledger) -> float:
        """Return what tells a moment on its axis: a run's begin moves, but there is one run only."""
        return 0.0 if isinstance(states.window.spans, Run) else ledger.numbers[1]

    def may_show(self, states: WindowStates, ledger: Ledger) -> bool:
        """Whether a moment is in the store, or later than all that are: an axis ascends."""
        starts, begin = self._known(states), self._key(states, ledger)
        return not starts or begin > starts[-1] or begin in starts

    def commit(self, **attributes: Any) -> None:
        """Let readers see all that was written."""
        self._store.commit(**attributes)

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute of the store."""
        return self._store.attribute(name, default)

    def _known(self, states: WindowStates) -> list[float]:
        window = states.window.name
        if window not in self._starts:
            bounds = f"time_{window}_bnds"
            begins = self._store.read(bounds)[:, 0].tolist() if bounds in self._store else []
            self._starts[window] = [0.0] * len(begins) if isinstance(states.window.spans, Run) else begins
        return self._starts[window]

    def _index(self, states: WindowStates, begin: float) -> int:
        """Return where a moment lies on its axis: one that was shown before a kill has its row."""
        starts = self._known(states)
        if f"time_{states.window.name}" not in self._store:
            self._create_axis(states)
        if begin in starts:
            return starts.index(begin)
        starts.append(begin)
        return len(starts) - 1

    def _create_axis(self, states: WindowStates) -> None:
        window, cf = states.window.name, self._clock.attributes
        time = f"time_{window}"
        self._store.create(
            time, (time,), (0,), "f8", {**cf, **self._clock.meaning, "axis": "T", "bounds": f"{time}_bnds"}, (512,)
        )
        self._store.create(f"{time}_bnds", (time, "bnds"), (0, 2), "f8", cf, (512, 2))
        told = {"units": "1", "standard_name": "number_of_observations"}
        told |= {"long_name": f"members in each {window}"}
        self._store.create(f"members_{window}", (time,), (0,), "i4", told, (512,))
        if not states.is_inner:
            told = {"units": "1", "long_name": f"fields of members in each {window}"}
            self._store.create(f"fields_{window}", (time,), (0,), "i8", told, (512,))
        flags: dict[str, Any] = {
            "long_name": f"whether further members may come in each {window}",
            "flag_values": [int(item) for item in MomentShown if item >= 0],
            "flag_meanings": " ".join(item.name.lower() for item in MomentShown if item >= 0),
        }
        self._store.create(f"status_{window}", (time,), (0,), "i1", flags, (512,))

    def _create(self, name: str, item: FieldState, states: WindowStates, operator: Operator, values: Array) -> None:
        field = result_field(item, self._grid)
        dims = item.grid.dims
        if operator.axis is not None:
            axis = axis_name(field, operator, operator.axis)
            if axis not in self._store:
                for own, (own_dims, own_values, told) in axis_variables(axis, operator.axis, field).items():
                    self._store.create(own, own_dims, own_values.shape, own_values.dtype, told, chunks=own_values.shape)
                    self._store.write(own, 0, own_values)
            dims = (axis, *dims)
        attributes = across_attributes(field, states, operator, self._clock)
        attributes = with_known_references(attributes, self._store)
        self._store.create(name, (f"time_{states.window.name}", *dims), (0, *values.shape), values.dtype, attributes)


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
    return reinterpreted(own, operator, field.other_units, clock) | {
        "long_name": f"{operator.long_name} of {own['long_name']} across members",
        "cell_methods": f"{earlier} {dims}: {method}".strip(),
        "bbflow_variable": field.name,
        "bbflow_window": states.window.name,
        "bbflow_operator": operator.name,
    }

"""What users' functions publish: a store for each, which grows with each of its answers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.errors import OperatorError
from bbflow.functions import Found, FoundVariable
from bbflow.stream.attributes import PACKING_NUMBERS, in_json
from bbflow.stream.cf import STEP
from bbflow.transit.output.claiming import FUNCTIONS_DIRECTORY
from bbflow.transit.output.lost_files import REMOVED, lost_files, names_of, note_removed, removed_from
from bbflow.zarr_store.chunks import TEXT
from bbflow.zarr_store.growing import GrowingZarr

Array = np.ndarray[Any, Any]
TIME, BOUNDS = "time", "time_bnds"
ROW_SIZE = "row_size"
"""How many rows each field has (CF conventions 1.11, section 9.3.3, "contiguous ragged array representation")."""
THROUGH, KEPT, STOP, ERROR = "bbflow_through", "bbflow_kept", "bbflow_stop", "bbflow_error"
"""Attributes of the store: up to where the function was called, for which steps it asked, why to stop, what failed."""
BEFORE = "bbflow_before"
"""Attribute of the store: how long its arrays were before the run, if an earlier job has begun them; in JSON."""
ANSWERS_LOST = "{} of its store was removed or cut off during the run, so answers are lost"
READ_BY = PACKING_NUMBERS | {"units", "calendar", "dtype", "_Unsigned"}
"""Attributes of variables without which their numbers say something else."""
ROWS_PER_CHUNK, TIMES_PER_CHUNK = 1 << 12, 512


@dataclass(frozen=True, slots=True)
class AxisPlace:
    """Where on the axis of a store an answer lies."""

    time: float
    """Its time."""
    attributes: Mapping[str, Any]
    """CF attributes of the axis."""
    number: int | None = None
    """The step's number, of a step."""
    bounds: tuple[float, float] | None = None
    """Begin and end, of a window's span."""


class Answers:
    """The one writer of a function's store; what counts of its calls stands there too, and comes with the same commit.

    Parameters
    ----------
    output
        The run's output.
    name
        The function's.
    """

    def __init__(self, output: Path, name: str) -> None:
        (output / FUNCTIONS_DIRECTORY).mkdir(parents=True, exist_ok=True)
        self.path = output / FUNCTIONS_DIRECTORY / f"{name}.zarr"
        """The store."""
        self._store = GrowingZarr(self.path, renews=True)

    def begin(self, *, is_continued: bool, is_repeated: bool) -> None:
        """Make the store, or note what somebody has removed of it since an analysis of the same run made it.

        Parameters
        ----------
        is_continued
            Whether one has.
        is_repeated
            Whether the function is called again with all that a store had which isn't there.
        """
        if is_continued:
            gone = self._store.restore() if not self._store.is_new else [] if is_repeated else ["all"]
            note_removed(self._store, gone)
            for _, path in self._lost_files():
                path.unlink(missing_ok=True)  # nobody can open a store of whose axis a part is left
        else:  # also without any answer: that it isn't there later says that it was removed
            lengths = dict(self._store.lengths) if is_repeated else {}
            self._store.commit(**{REMOVED: None, BEFORE: json.dumps(lengths) if lengths else None})

    def lost(self) -> list[str]:
        """Return what is gone or cut off of what this run has written, by paths in the store."""
        return [*removed_from(self._store), *self._store.lost, *names_of(self.path, self._lost_files())]

    def _lost_files(self) -> list[tuple[str, Path]]:
        before = json.loads(self._store.attribute(BEFORE, "{}"))
        return list(lost_files(self._store, self._store.chunks, before, ()))

    @property
    def through(self) -> int:
        """Step, or span, up to which the function was called; -1 if it wasn't yet."""
        return int(self._store.attribute(THROUGH, -1))

    @property
    def kept(self) -> list[int]:
        """Steps for which it has asked, and that may not have been drained."""
        return list(self._store.attribute(KEPT, []))

    @property
    def stop(self) -> str:
        """Why it has asked for the simulation's end; empty if it hasn't."""
        return str(self._store.attribute(STOP, ""))

    @property
    def error(self) -> str:
        """What failed in it; empty if nothing did."""
        return str(self._store.attribute(ERROR, ""))

    def commit(self, **attributes: Any) -> None:
        """Show what was added, and set attributes."""
        self._store.commit(**attributes)

    def add(self, found: Found, place: AxisPlace) -> None:
        """Add what a field has come to, or put it in the place of what is there; shown with the next `commit`.

        Raises
        ------
        OperatorError
            If it isn't like that of the fields before, or these have lost a file.
        """
        if TIME not in self._store:
            self._create(found, place)
        self._check(found)
        for name, item in found.variables.items():
            self._store.describe_late(name, item.attributes)
        index = self._index(place)
        for name, variable in found.variables.items():
            if found.rows is None or found.rows not in variable.dims:
                self._write(name, index, variable.values[np.newaxis])
        if found.rows is not None:
            self._add_rows(found, place, index, found.rows)
        self._write_place(place, index)
        if self._store.lost:
            raise OperatorError(ANSWERS_LOST.format(self._store.lost[0]))

    def _index(self, place: AxisPlace) -> int:
        """Return where on the axis an answer lies: that of a span may be there already."""
        if place.bounds is None:
            return len(self._store.read(TIME))
        starts = self._store.read(BOUNDS)[:, 0]
        (known,) = np.nonzero(np.isclose(starts, place.bounds[0], rtol=0, atol=1e-9))
        return int(known[0]) if len(known) else len(starts)

    def _add_rows(self, found: Found, place: AxisPlace, index: int, rows: str) -> None:
        before = int(self._store.read(ROW_SIZE)[:index].sum())
        own = {name: item for name, item in found.variables.items() if rows in item.dims}
        (size,) = {len(item.values) for item in own.values()}
        for name, item in own.items():
            self._write(name, before, item.values, cuts=True)
        self._write(f"{rows}_time", before, np.full(size, place.time), cuts=True)
        if place.number is not None:
            self._write(f"{rows}_step", before, np.full(size, place.number), cuts=True)
        self._write(ROW_SIZE, index, np.array([size]))

    def _write(self, name: str, start: int, values: Array, *, cuts: bool = False) -> None:
        if cuts and self._store.metadata(name)["shape"][0] > start:  # an answer that takes another one's place
            self._store.shorten(name, start)
        if len(values):
            self._store.write(name, start, values)

    def _write_place(self, place: AxisPlace, index: int) -> None:
        if place.number is not None:
            self._store.write(STEP, index, np.array([place.number]))
        if place.bounds is not None:
            self._store.write(BOUNDS, index, np.array([place.bounds]))
        self._store.write(TIME, index, np.array([place.time]))

    def _create(self, found: Found, place: AxisPlace) -> None:
        along = {TIME, BOUNDS, STEP, ROW_SIZE} | {f"{found.rows}_{name}" for name in ("time", "step")}
        for name, item in {**found.variables, **found.coordinates}.items():
            if name in along:
                raise OperatorError(f"{name!r} can't be the name of a variable in its store: give it another")
            if place.bounds is not None and dict(zip(item.dims, item.values.shape, strict=True)).get("bnds", 2) != 2:
                raise OperatorError(
                    f"{name!r} has a dimension 'bnds', which has the length 2 in its store: give it another name"
                )
        bounds = {} if place.bounds is None else {"bounds": BOUNDS}
        self._axis(TIME, "f8", dict(place.attributes) | bounds | {"axis": "T"})
        if place.bounds is not None:
            own = {key: place.attributes[key] for key in ("units", "calendar") if key in place.attributes}
            self._store.create(BOUNDS, (TIME, "bnds"), (0, 2), "f8", own, (TIMES_PER_CHUNK, 2))
        if place.number is not None:
            self._axis(STEP, "i8", {"long_name": "step of the simulation"})
        for name, item in found.coordinates.items():
            self._store.create(name, item.dims, item.values.shape, _type_of(item), item.attributes, item.values.shape)
            self._store.write(name, 0, item.values)
        for name, item in found.variables.items():
            is_row = found.rows is not None and found.rows in item.dims
            dims = item.dims if is_row else (TIME, *item.dims)
            shape = (0, *item.values.shape[is_row:])
            chunks = (ROWS_PER_CHUNK, *shape[1:]) if is_row else None
            self._store.create(name, dims, shape, _type_of(item), item.attributes, chunks)
        if found.rows is not None:
            self._create_rows(found.rows, place)
        self._store.describe_store(**found.attributes)

    def _create_rows(self, rows: str, place: AxisPlace) -> None:
        self._axis(ROW_SIZE, "i8", {"long_name": f"how many {rows} each has", "sample_dimension": rows})
        named = {f"{rows}_time": ("f8", place.attributes)}
        if place.number is not None:
            named[f"{rows}_step"] = ("i8", {"long_name": "step of the simulation"})
        for name, (dtype, attributes) in named.items():
            self._store.create(name, (rows,), (0,), dtype, attributes, (ROWS_PER_CHUNK,))

    def _axis(self, name: str, dtype: str, attributes: Mapping[str, Any]) -> None:
        self._store.create(name, (TIME,), (0,), dtype, attributes, (TIMES_PER_CHUNK,))

    def _check(self, found: Found) -> None:
        """Check that what is found is like what the store has: one that differs has no place in it."""
        for name, item in {**found.variables, **found.coordinates}.items():
            if name not in self._store:
                raise OperatorError(f"it gave a variable {name!r} that it didn't give at first")
            self._check_shape(found, name, item)
            _check_attributes(name, self._store.metadata(name)["attributes"], in_json(item.attributes))
            if name in found.coordinates and not _is_same(self._store.read(name), item.values):
                raise OperatorError(f"it gave the coordinate {name!r} other values than at first")
        own = {STEP, TIME, BOUNDS, ROW_SIZE, f"{found.rows}_time", f"{found.rows}_step"}
        for name in {*self._store.arrays} - own:
            if name not in found.variables and name not in found.coordinates:
                raise OperatorError(f"it gave no variable {name!r}, as it did at first")

    def _check_shape(self, found: Found, name: str, item: FoundVariable) -> None:
        node, is_row = self._store.metadata(name), found.rows in item.dims
        is_steady = name in found.coordinates
        if (dims := item.dims if is_steady or is_row else (TIME, *item.dims)) != tuple(node["dimension_names"]):
            raise OperatorError(f"it gave {name!r} the dimensions {dims}, at first {tuple(node['dimension_names'])}")
        inner = item.values.shape[1:] if is_row else item.values.shape
        told = (node["data_type"], tuple(node["shape"][not is_steady :]))
        if (now := (_name_of(item), inner)) != told:
            raise OperatorError(f"it gave {name!r} of type and shape {now}, at first {told}")


def _check_attributes(name: str, known: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Check that attributes say the same as at first. Those by which numbers are read can neither come nor go."""
    for key in sorted({*known} | {*now}):
        first, own = known.get(key), now.get(key)
        comes_late = first is None and key not in READ_BY - {"units"}
        if first != own and not comes_late and (own is not None or key in READ_BY):
            raise OperatorError(f"it gave {name!r} the attribute {key}={own!r:.80}, at first {first!r:.80}")


def _type_of(item: FoundVariable) -> Any:
    return TEXT if item.values.dtype.kind == "O" else item.values.dtype


def _name_of(item: FoundVariable) -> str:
    return TEXT if item.values.dtype.kind == "O" else str(np.dtype(item.values.dtype).name)


def _is_same(known: Array, now: Array) -> bool:
    return bool(((known == now) | ((known != known) & (now != now))).all())

"""results.zarr: the published statistics, with CF metadata, growing while the simulation runs."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby, product
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.configuring.settings import ResultsConfig
from bbflow.operators.decoding import marks_of, named_hole
from bbflow.operators.operator import Axis, Operator
from bbflow.operators.own.guard import error_of
from bbflow.operators.space.ugrid import PARTS
from bbflow.operators.windows.calendars import Clock
from bbflow.operators.windows.window import Window
from bbflow.stores.moved import bring, is_moved
from bbflow.stream.cf import StreamAttributes
from bbflow.transit.output.cf_attributes import (
    axis_name,
    axis_variables,
    bounds_of,
    count_variables,
    result_attributes,
    stamp_of,
    store_attributes,
    time_attributes,
    with_known_references,
)
from bbflow.transit.output.fields import ResultField
from bbflow.transit.output.lost_files import REMOVED, lost_files, names_of, note_removed, removed_from
from bbflow.transit.output.moving import WINDOW
from bbflow.transit.output.tiles import SpanFiles, packed_rows, tiled_storage, tiles_of
from bbflow.transit.spans.timeline import Closing, Span
from bbflow.zarr_store.chunks import TEXT, Chunk, Chunks
from bbflow.zarr_store.growing import GrowingZarr
from bbflow.zarr_store.stored_names import stored_name

Array = np.ndarray[Any, Any]
Described = tuple[ResultField, Sequence[Operator]]
"""A field, and the statistics of it."""
Published = tuple[ResultField, Sequence[Operator], Mapping[str, Array]]
"""The same with their results by name."""
ROWS_PER_CHUNK = 1 << 16
SAME_START = 1e-9
"""Spans whose starts are as close are one, in the stream's units."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A window's span that is being written."""

    closing: Closing
    """Which window, and what of it was folded."""
    fields: Mapping[str, Described]
    """Diagnostic to its description and its statistics."""
    index: int
    """Where on the window's axis it lies."""
    names: Mapping[str, Mapping[str, str]]
    """Diagnostic to its statistics' names to those of their results."""
    targets: Mapping[str, Mapping[str, Chunk]]
    """Diagnostic to its statistics' names to the chunks that their results become."""


def result_name(variable: str, window: str, operator: str) -> str:
    """Name of a result, such as ``tas_month_mean``."""
    return stored_name(f"{variable}_{window}_{operator}")


WHOLE = ResultsConfig()
"""A chunk is a whole result."""


class Results:
    """The one writer of ``results.zarr``.

    Parameters
    ----------
    path
        The store; an existing one is continued.
    stream
        Name of the stream.
    attributes
        The stream's attributes.
    clock
        The stream's calendar.
    dividing
        How new results are cut into chunks.
    before
        Array to how many spans of it were there before the run, if an analysis of the same run has written it before.
    """

    def __init__(
        self,
        path: Path,
        stream: str,
        attributes: StreamAttributes,
        clock: Clock,
        dividing: ResultsConfig = WHOLE,
        *,
        before: Mapping[str, int] | None = None,
    ) -> None:
        self.path = path
        self._dividing = dividing
        self._aside: dict[Path, SpanFiles] = {}
        self._roomy: dict[str, int] = {}
        """Result to the last spans for which room was made (`SpanFiles.roomy`)."""
        self._writers: dict[str, tuple[Chunks, Chunks]] = {}
        self._store = GrowingZarr(path, renews=before is not None)
        self._attributes = attributes
        self._clock = clock
        self._starts: dict[str, list[float]] = {}
        self._newest: dict[str, float] = {}
        """Window to the latest of these."""
        self._along: dict[str, list[str]] = {}
        """Window to the arrays along its axis."""
        self.before = dict(self._store.lengths) if before is None else before
        """Array to how many spans of it were there before the run."""
        self.is_continued = before is not None
        """Whether an analysis of the same run has written it before."""
        gone = ([path.name] if self._store.is_new else self._store.restore()) if self.is_continued else []
        if self._store.is_new:
            self._store.commit(**store_attributes(attributes.of_stream_by_now, stream, datetime.now(UTC)))
        if not self.is_continued and self.removed:  # of an earlier job
            self._store.commit(**{REMOVED: None})
        self.note_removed(gone)

    def note_removed(self, names: Iterable[str]) -> None:
        """Note arrays and files that somebody has removed during the run."""
        note_removed(self._store, names)

    def look_for_lost(self, gappy: Collection[str], *, mends: bool = False) -> None:
        """Note which files are gone or cut off that were written during the run.

        Parameters
        ----------
        gappy
            Results that may lack a span.
        mends
            Whether what is left of files goes in which further spans are written.
        """
        lost = list(lost_files(self._store, self._chunks, self.before, gappy))
        self.note_removed([*names_of(self.path, lost), *self._store.lost])
        for _, path in lost if mends else ():
            path.unlink(missing_ok=True)

    def commit_late(self, attributes: StreamAttributes) -> None:
        """Set the attributes of the stream and of coordinates that have come since the first step."""
        for name in attributes.variables or ():
            if self.has(name):
                own = {key: value for key, value in attributes.of(name).items() if key != "bounds"}
                self._store.describe_late(stored_name(name), own)
        self._store.commit_late(attributes.of_stream)

    def describe_field(self, field: ResultField, windows: Iterable[Window], operators: Iterable[Operator]) -> None:
        """Describe the results that are there by what is known of their field now."""
        for window, operator in product(windows, operators):
            name = result_name(field.name, window.name, operator.name)
            if name in self._store:
                own = result_attributes(field, window, operator, self._clock)
                self._store.describe(name, **with_known_references(own, self._store))

    def is_coordinate(self, name: str) -> bool:
        """Whether a coordinate variable of this name is there."""
        return stored_name(name) in self._store.names(stored_name(name))

    def values(self, name: str) -> Array:
        """Return a coordinate's values."""
        return self._store.read(stored_name(name))

    @property
    def removed(self) -> list[str]:
        """Arrays and files that somebody has removed during the run, so that spans are lost; or the store's name."""
        return removed_from(self._store)

    @property
    def names(self) -> set[str]:
        """Names of the results that are there."""
        return {name for name in self._store.arrays if WINDOW in self._store.metadata(name)["attributes"]}

    @property
    def spans(self) -> Mapping[str, int]:
        """Return how many spans of each window are shown."""
        return {window: len(starts) for window, starts in self._starts.items()}

    def shown(self, window: str) -> int:
        """Return how many spans of a window readers see."""
        axis = f"time_{window}"
        return int(self._store.metadata(axis)["shape"][0]) if axis in self._store else 0

    def stamp(self, window: str, index: int) -> tuple[float, tuple[float, float]]:
        """Return the time of a window's span, and its begin and end."""
        start, end = self._store.read(f"time_{window}_bnds")[index].tolist()
        return float(self._store.read(f"time_{window}")[index]), (start, end)

    def describe(self, name: str, **attributes: Any) -> None:
        """Set attributes of a coordinate, which are shown with the next commit."""
        self._store.describe(stored_name(name), **attributes)

    def has(self, name: str) -> bool:
        """Whether there is an array of a variable or coordinate of this name."""
        return stored_name(name) in self._store

    def has_spans(self, name: str) -> bool:
        """Whether a result is there, with one span at least."""
        return name in self._store and bool(self._store.metadata(name)["shape"][0])

    def described(self, name: str) -> tuple[tuple[str, ...], tuple[int, ...], Mapping[str, Any]]:
        """Return a variable's dimensions, its shape now, and its attributes."""
        node = self._store.metadata(stored_name(name))
        return tuple(node["dimension_names"]), tuple(node["shape"]), node["attributes"]

    def result(self, name: str, at: int) -> Array:
        """Return what a span came to, of the shape of the field."""
        chunks = self._chunks(name)
        if is_moved(chunks.path(at)):
            bring(chunks.path(at))
        return np.asarray(chunks.read(at)[0])

    def add_coordinate(
        self,
        name: str,
        values: Array,
        dims: tuple[str, ...] = (),
        attributes: Mapping[str, Any] | None = None,
        *,
        hole: Any = None,
    ) -> None:
        """Write a coordinate variable; by default one of the stream's, along itself.

        What stands in holes is named, unless the stream names such a value.
        """
        own = self._own(name, values) if attributes is None else attributes
        given, stored = named_hole(hole) | dict(own), stored_name(name)
        bounds = stored_name(str(given.pop("bounds", "")))
        given |= {"bounds": bounds} if bounds in self._store else {}
        along = tuple(map(stored_name, dims)) or (stored,)
        kind = TEXT if values.dtype.kind == "U" else values.dtype
        self._store.create(stored, along, values.shape, kind, given, chunks=values.shape)
        self._store.write(stored, 0, values)

    def add_mesh(self, name: str, topology: Mapping[str, Any]) -> None:
        """Write the variable that names those that make up a UGRID mesh."""
        named = {key: " ".join(map(stored_name, str(topology[key]).split())) for key in PARTS if key in topology}
        self.add_coordinate(name, np.zeros(1, "i4"), attributes={**topology, **named})

    def _own(self, name: str, values: Array) -> dict[str, Any]:
        """Return the attributes of one of the stream's variables, with what stands for a missing value."""
        return self._attributes.of(name) | marks_of(self._attributes.encoding(name), values.dtype)

    def refer(self, name: str, bounds: str) -> None:
        """Name the bounds of a coordinate that was written."""
        if self.has(name):
            self._store.describe(stored_name(name), bounds=stored_name(bounds))

    def prepare(self, ended: Sequence[tuple[Closing, Mapping[str, Described]]]) -> list["Prepared"]:
        """Make what windows' spans need that end together, and say where their results go; nothing is shown yet."""
        found = []
        for closing, fields in ended:
            start, _ = bounds_of(closing, self._clock)
            at, names = self._index(closing.window, closing.whole, start), dict[str, dict[str, str]]()
            for key, (field, operators) in fields.items():
                names[key] = {item.name: result_name(field.name, closing.window.name, item.name) for item in operators}
                for operator in operators:
                    if names[key][operator.name] not in self._store:
                        self._create(names[key][operator.name], field, closing.window, operator)
            found.append((closing, fields, at, names))
        # Before any target is chosen: a file has several spans, and where it is copied the new ones go there, too.
        for _, _, at, names in found:
            for own in names.values():
                for name in own.values():
                    self._put_aside(name, at)
        return [
            Prepared(closing, fields, at, names, {key: self._targets(own, at) for key, own in names.items()})
            for closing, fields, at, names in found
        ]

    def _targets(self, names: Mapping[str, str], at: int) -> dict[str, Chunk]:
        targets = {}
        for operator, name in names.items():
            chunks = self._chunks(name)
            if isinstance(chunks, SpanFiles):
                chunks = self._aside.get(chunks.path(at), chunks) if self._aside else chunks
                if self._roomy.get(name) != at // chunks.roomy:
                    chunks.make_room(at)
                    self._roomy[name] = at // chunks.roomy
            targets[operator] = Chunk(chunks, at)
        return targets

    def _put_aside(self, name: str, at: int) -> None:
        """Copy a file that readers see and whose span is rewritten: the copy is written until all is shown."""
        chunks = self._chunks(name)
        if isinstance(chunks, SpanFiles) and at < self._store.metadata(name)["shape"][0]:
            path = chunks.path(at)
            if path not in self._aside and path.exists():
                self._aside[path] = chunks.put_aside(at)

    def _chunks(self, name: str) -> Chunks:
        """Return what writes a result's spans."""
        plain = self._store.chunks(name)
        if (known := self._writers.get(name)) is None or known[0] is not plain:  # a new store has moved to its place
            known = self._writers[name] = plain, tiles_of(self._store.metadata(name), plain)
        return known[1]

    def show(self, spans: Sequence["Prepared"], errors: Mapping[str, str]) -> None:
        """Show readers spans whose results are written: all of them at once.

        Parameters
        ----------
        spans
            In the order in which they were prepared.
        errors
            What failed in users' operators: their results say so.
        """
        for span in spans if errors else ():
            for key, (_, operators) in span.fields.items():
                for operator in operators:
                    if (text := error_of(operator, errors)) is not None:
                        self._store.describe(span.names[key][operator.name], bbflow_error=text)
        by_window: dict[str, list[Prepared]] = {}
        for span in spans:
            by_window.setdefault(span.closing.window.name, []).append(span)
        for window, own in by_window.items():
            for _, following in groupby(enumerate(own), key=lambda item: item[1].index - item[0]):
                self._write_axis([span for _, span in following])
            # Also of what has nothing in these spans: xarray opens no store whose arrays differ in an axis' length.
            end = self.shown(window)
            for name in self._names_along(window):
                self._store.resize(name, end)
        # Copies take the places of what readers see before the commit shows what is new: after a crash between the two
        # each file is whole, and what was written again is there without what is new.
        for path, chunks in self._aside.items():
            assert chunks.aside is not None
            chunks.aside.replace(path)
        self._aside = {}
        self._store.commit()

    def _names_along(self, window: str) -> list[str]:
        """Return what lies along a window's axis."""
        if window not in self._along:
            self._along[window] = self._store.names(f"time_{window}")
        return self._along[window]

    def publish(self, closing: Closing, fields: Mapping[str, Published], errors: Mapping[str, str]) -> None:
        """Write what a window's span came to; readers see all of it at once, or nothing.

        Parameters
        ----------
        closing
            Which window, and what of it was folded.
        fields
            Diagnostic to its description, its statistics, and their results by name.
        errors
            What failed in users' operators: their results say so.
        """
        [span] = self.prepare([(closing, {key: (field, own) for key, (field, own, _) in fields.items()})])
        for key, (_, _, arrays) in fields.items():
            for name, target in span.targets[key].items():
                target.write(arrays[name])
        self.show([span], errors)

    def _write_axis(self, spans: Sequence["Prepared"]) -> None:
        """Write the stamps of spans of one window that follow each other."""
        closings, at = [span.closing for span in spans], spans[0].index
        time = f"time_{closings[0].window.name}"
        self._store.write(f"{time}_bnds", at, np.array([bounds_of(closing, self._clock) for closing in closings]))
        counted = [count_variables(closing.window, closing.whole) for closing in closings]
        for name in counted[0]:
            self._store.write(name, at, np.array([own[name][0] for own in counted]))
        has_before = at and closings[0].window.keeps is None  # no other window's stamps depend on the one before
        before, stamps = float(self._store.read(time)[at - 1]) if has_before else None, list[float]()
        for closing in closings:
            stamps.append(stamp_of(closing, self._clock, before))
            before = stamps[-1] if closing.window.keeps is None else None
        self._store.write(time, at, np.array(stamps))

    def _index(self, window: Window, span: Span, start: float) -> int:
        """Where a span lies on its window's axis: it may have been published before, in part."""
        bounds = f"time_{window.name}_bnds"
        if bounds not in self._store:
            self._create_axis(window, span)
        if window.name not in self._starts:
            self._starts[window.name] = self._store.read(bounds)[:, 0].tolist()
            self._newest[window.name] = max(self._starts[window.name], default=-math.inf)
        starts = self._starts[window.name]
        # Only what isn't later than all can have been there before: to compare it with each takes longer with every
        # span.
        if start <= self._newest[window.name] + SAME_START:
            (known,) = np.nonzero(np.isclose(starts, start, rtol=0, atol=SAME_START))
            if len(known):
                return int(known[0])
        starts.append(start)
        self._newest[window.name] = max(start, self._newest[window.name])
        return len(starts) - 1

    def _create_axis(self, window: Window, span: Span) -> None:
        time = f"time_{window.name}"
        cf = self._clock.attributes
        self._store.create(time, (time,), (0,), "f8", time_attributes(window, self._clock), (512,))
        self._store.create(f"{time}_bnds", (time, "bnds"), (0, 2), "f8", cf, (512, 2))
        for name, (_, told) in count_variables(window, span).items():
            self._store.create(name, (time,), (0,), "i8", told, (512,))

    def _create(self, name: str, field: ResultField, window: Window, operator: Operator) -> None:
        dims, shape = field.dims, field.stored_shape
        axes = (self._create_operator_axis(field, operator, axis) for axis in operator.axes)
        dims, shape = (*axes, *dims), (*operator.lead, *shape)
        attributes = with_known_references(result_attributes(field, window, operator, self._clock), self._store)
        dtype = operator.dtype(np.dtype(field.dtype))
        plain = [dim.removeprefix(f"{stored_name(field.name)}_") for dim in dims]
        storage = tiled_storage(plain, shape, dtype, self._dividing) if 0 not in shape else None
        chunk = packed_rows(window, shape, dtype, self._dividing), *shape
        # Before it is created: else a list that is made just now would have it twice.
        along = self._names_along(window.name)
        self._store.create(name, (f"time_{window.name}", *dims), (0, *shape), dtype, attributes, chunk, storage)
        along.append(name)

    def _create_operator_axis(self, field: ResultField, operator: Operator, axis: Axis) -> str:
        name = axis_name(field, operator, axis)
        if name not in self._store:
            for own, (dims, values, attributes) in axis_variables(name, axis, field).items():
                self.add_coordinate(own, values, dims, attributes)
        return name

    def add_rows(
        self, table: str, description: str, field: ResultField, rows: Array, places: Sequence[Array], through: int
    ) -> int:
        """Lengthen a filter's table.

        Parameters
        ----------
        table
            Of which group, ``<variable>_<filter>``.
        description
            What is in it, such as ``tas above 300``.
        field
            The variable.
        rows
            With fields value, step and time.
        places
            For each dimension the rows' global indices.
        through
            Step up to which the table is complete with these rows; those that it has already are left out.

        Returns
        -------
        int
            Bytes written.
        """
        table = stored_name(table)
        columns = {"value": rows["value"], "step": rows["step"], "time": rows["time"]}
        for dim, indices in zip(field.dims, places, strict=True):
            free = dim if dim not in columns else stored_name(f"{field.name}_{dim}")
            columns[free] = self._store.read(dim)[indices] if dim in self._store else indices
        if f"{table}/value" not in self._store:
            self._create_table(table, field, columns)
            self._store.describe(table, description=description)
        # What was written but not committed before a crash is written over; steps that are folded again add nothing.
        start, done_through = self._store.attribute(f"{table}_committed", (0, -1))
        new = rows["step"] > done_through
        for name, values in columns.items():
            self._store.write(f"{table}/{name}", start, values[new])
        self._store.commit(**{f"{table}_committed": (start + int(new.sum()), max(through, done_through))})
        return sum(values[new].nbytes for values in columns.values())

    def _create_table(self, table: str, field: ResultField, columns: Mapping[str, Array]) -> None:
        cf_time = self._clock.attributes | self._clock.meaning
        described = {"value": field.attributes, "time": cf_time, "step": {"units": "1"}}
        for name, values in columns.items():
            of_dim = self._store.metadata(name)["attributes"] if name in self._store else {}
            attributes = described.get(name, of_dim)
            self._store.create(f"{table}/{name}", ("point",), (0,), values.dtype, attributes, (ROWS_PER_CHUNK,))

    def commit(self, **attributes: Any) -> None:
        """Show what was written, and set attributes of the store."""
        self._store.commit(**attributes)

"""results.zarr: the published statistics, with CF metadata, growing while the simulation runs."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.cf import StreamAttributes
from bbflow.growing import GrowingZarr
from bbflow.operators import Operator
from bbflow.operators.operator import Axis
from bbflow.operators.own.guard import error_of
from bbflow.operators.windows import Window
from bbflow.operators.windows.calendars import Clock
from bbflow.transit.folding.timeline import Closing, Span
from bbflow.transit.output.attributes import (
    axis_name,
    axis_variables,
    result_attributes,
    store_attributes,
    with_known_references,
)
from bbflow.transit.output.fields import Field
from bbflow.transit.output.stamps import bounds_of, count_variables, stamp_of, time_attributes

Array = np.ndarray[Any, Any]
ROWS_PER_CHUNK = 1 << 16


def result_name(variable: str, window: str, operator: str) -> str:
    """Name of a result, such as ``tas_month_mean``."""
    return f"{variable}_{window}_{operator}"


class Results:
    """The one writer of ``results.zarr``.

    Parameters
    ----------
    path
        The store; an existing one is carried on with.
    stream
        Name of the stream.
    attributes
        The stream's attributes.
    clock
        The stream's calendar.
    """

    def __init__(self, path: Path, stream: str, attributes: StreamAttributes, clock: Clock) -> None:
        self.path = path
        self._store = GrowingZarr(path)
        self._attributes = attributes
        self._clock = clock
        if self._store.is_new:
            self._store.commit(**store_attributes(attributes.of_stream, stream, datetime.now(UTC)))

    def is_coordinate(self, name: str) -> bool:
        """Whether a coordinate variable of this name is there."""
        return name in self._store.names(name)

    def has(self, name: str) -> bool:
        """Whether there is an array of this name."""
        return name in self._store

    def add_coordinate(
        self, name: str, values: Array, dims: tuple[str, ...] = (), attributes: Mapping[str, Any] | None = None
    ) -> None:
        """Write a coordinate variable; by default one of the stream's, along itself."""
        given = dict(self._attributes.of(name) if attributes is None else attributes)
        if given.get("bounds") not in self._store:
            given.pop("bounds", None)
        self._store.create(name, dims or (name,), values.shape, values.dtype, given, chunks=values.shape)
        self._store.write(name, 0, values)

    def refer(self, name: str, bounds: str) -> None:
        """Let a coordinate that was written name its bounds."""
        if name in self._store:
            self._store.describe(name, bounds=bounds)

    def publish(
        self,
        closing: Closing,
        fields: Mapping[str, tuple[Field, Sequence[Operator], dict[str, Array]]],
        errors: Mapping[str, str],
    ) -> int:
        """Write what a window's span came to; readers see all of it at once, or nothing.

        Parameters
        ----------
        closing
            Which window, and what of it was folded.
        fields
            Diagnostic to its description, its statistics, and their results by name.
        errors
            What failed in users' operators: their results say so.

        Returns
        -------
        int
            Bytes written.
        """
        window, span = closing.window, closing.whole
        start, end = bounds_of(closing, self._clock)
        at = self._index(window, span, start)
        size = 0
        for field, operators, arrays in fields.values():
            for operator in operators:
                name = result_name(field.name, window.name, operator.name)
                if name not in self._store:
                    self._create(name, field, window, operator)
                self._store.write(name, at, arrays[operator.name][np.newaxis])
                size += arrays[operator.name].nbytes
                if (text := error_of(operator, errors)) is not None:
                    self._store.describe(name, bbflow_error=text)
        time = f"time_{window.name}"
        self._store.write(f"{time}_bnds", at, np.array([[start, end]]))
        for name, (number, _) in count_variables(window, span).items():
            self._store.write(name, at, np.array([number]))
        before = float(self._store.read(time)[at - 1]) if at else None
        self._store.write(time, at, np.array([stamp_of(closing, self._clock, before)]))
        self._store.commit()
        return size

    def _index(self, window: Window, span: Span, start: float) -> int:
        """Where a span lies on its window's axis: it may have been published before, in part."""
        bounds = f"time_{window.name}_bnds"
        if bounds not in self._store:
            self._create_axis(window, span)
        starts = self._store.read(bounds)[:, 0]
        (known,) = np.nonzero(np.isclose(starts, start, rtol=0, atol=1e-9))
        return int(known[0]) if len(known) else len(starts)

    def _create_axis(self, window: Window, span: Span) -> None:
        time = f"time_{window.name}"
        cf = self._clock.attributes
        self._store.create(time, (time,), (0,), "f8", time_attributes(window, self._clock), (512,))
        self._store.create(f"{time}_bnds", (time, "bnds"), (0, 2), "f8", cf, (512, 2))
        for name, (_, told) in count_variables(window, span).items():
            self._store.create(name, (time,), (0,), "i8", told, (512,))

    def _create(self, name: str, field: Field, window: Window, operator: Operator) -> None:
        dims, shape = field.dims, field.shape
        if operator.axis is not None:
            axis = self._create_operator_axis(field, operator, operator.axis)
            dims, shape = (axis, *dims), (len(operator.axis.values), *shape)
        attributes = with_known_references(result_attributes(field, window, operator, self._clock), self._store)
        dtype = operator.dtype(np.dtype(field.dtype))
        self._store.create(name, (f"time_{window.name}", *dims), (0, *shape), dtype, attributes)

    def _create_operator_axis(self, field: Field, operator: Operator, axis: Axis) -> str:
        name = axis_name(field, operator, axis)
        if name not in self._store:
            for own, (dims, values, attributes) in axis_variables(name, axis, field).items():
                self.add_coordinate(own, values, dims, attributes)
        return name

    def add_rows(
        self, table: str, description: str, field: Field, rows: Array, places: Sequence[Array], through: int
    ) -> int:
        """Lengthen a filter's table.

        Parameters
        ----------
        table
            Name of the group, ``<variable>_<filter>``.
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
        columns = {"value": rows["value"], "step": rows["step"], "time": rows["time"]}
        for dim, indices in zip(field.dims, places, strict=True):
            free = dim if dim not in columns else f"{field.name}_{dim}"
            columns[free] = self._store.read(dim)[indices] if dim in self._store else indices
        if f"{table}/value" not in self._store:
            self._create_table(table, field, columns)
            self._store.describe(table, description=description)
        # What was written but not committed before a crash is written over.
        start, done_through = self._store.attribute(f"{table}_committed", (0, -1))
        new = rows["step"] > done_through
        for name, values in columns.items():
            self._store.write(f"{table}/{name}", start, values[new])
        self._store.commit(**{f"{table}_committed": (start + int(new.sum()), through)})
        return sum(values[new].nbytes for values in columns.values())

    def _create_table(self, table: str, field: Field, columns: Mapping[str, Array]) -> None:
        cf_time = self._clock.attributes | self._clock.meaning
        described = {"value": field.attributes, "time": cf_time, "step": {"units": "1"}}
        for name, values in columns.items():
            attributes = described.get(name) or self._attributes.of(name)
            self._store.create(f"{table}/{name}", ("point",), (0,), values.dtype, attributes, (ROWS_PER_CHUNK,))

    def commit(self, **attributes: Any) -> None:
        """Show what was written, and set attributes of the store."""
        self._store.commit(**attributes)

"""Operators: a family's state and the formula that ends it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from bbflow.operators.family import Family
from bbflow.operators.library import Formula
from bbflow.operators.state import StateLayout, part_of, parts_of
from bbflow.operators.statistics.moments import COUNT, Moments
from bbflow.operators.statistics.presence import Presence
from bbflow.operators.steps import Array, DType, Views
from bbflow.reading.sections import Parameter

FINISHED_POINTS = 1 << 15
"""How many points are made into results at a time, so that state and temporaries stay in the cache."""


@runtime_checkable
class UsersFormula(Protocol):
    """A formula, and perhaps a family, that a user wrote."""

    def isolated(self, operator: "Operator") -> "Operator":
        """Return its operator with the user's code in a process of its own."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A dimension that a result has besides the variable's own."""

    name: str
    """Its name; the variable's is put before it."""
    values: tuple[float, ...]
    """Its coordinate."""
    attributes: tuple[tuple[str, str], ...] = ()
    """CF attributes of the coordinate; {units} or another name in braces stands for the input's own."""
    bounds: tuple[float, ...] = ()
    """Edges of its cells, one more than values; empty if it has none."""


@dataclass(frozen=True, slots=True)
class Operator:
    """A statistic over time, for each point."""

    name: str
    """What its results are called."""
    family: Family
    """What must be kept for it."""
    formula: Callable[..., Array]
    """Makes the result, of shape (axes, points), of the family's views and the parameters."""
    cell_method: str
    """The method of CF's cell_methods (CF conventions, appendix E)."""
    long_name: str
    """What stands before 'of air temperature'."""
    result: str | None = "f8"
    """NumPy's name of the result's type; None for the input's own, or float64 for integers."""
    own_units: str = "{units}"
    """Units of the result; {units} stands for the input's, {other} for those of the first further input, {time} for
    the unit of the stream's time and {time_units} for its units with the reference date."""
    parameters: tuple[tuple[str, Any], ...] = ()
    """Names and values of what the formula takes besides the views."""
    axes: tuple[Axis, ...] = ()
    """Further dimensions of the result, the first ones."""
    inputs: tuple[str, ...] = ()
    """Expressions of further inputs, such as the other variable of a covariance."""
    min_count: int | None = None
    """Points with fewer valid values are missing in the result, as with xarray's min_count."""
    skipna: bool = True
    """If not, points with any missing value are missing in the result."""
    takes_means: bool = False
    """Whether the mean of some steps, as often as there are steps, gives the same as these."""

    @property
    def families(self) -> tuple[Family, ...]:
        """All that must be kept, the counts that decide what is missing included."""
        counted = (Moments.of(COUNT),) if self._counts and self.family.counts is None else ()
        return (self.family, *counted, *(() if self.skipna else (Presence(),)))

    @property
    def lead(self) -> tuple[int, ...]:
        """Shape of the result's further dimensions."""
        return tuple(len(axis.values) for axis in self.axes)

    @property
    def _counts(self) -> bool:
        return self.min_count is not None or not self.skipna

    def finalize(self, layout: StateLayout, buffer: Any) -> Array:
        """Return the result of a state.

        Parameters
        ----------
        layout
            Has at least what this operator needs.
        buffer
            A state of that layout.

        Returns
        -------
        numpy.ndarray
            Of shape (axes, points); NaN where there was no valid value (a count is 0 there).
        """
        views, dtype = layout.views(buffer), layout.dtype
        parts = list(parts_of(layout.points, FINISHED_POINTS)) or [slice(0, 0)]
        if len(parts) == 1:
            return self.finish(views, dtype)
        result = np.empty((*self.lead, layout.points), self.dtype(dtype))
        for part in parts:
            tile = {family: part_of(own, part) for family, own in views.items()}
            result[..., part] = self.finish(tile, dtype)
        return result

    def finish(self, views: Mapping[str, Views], dtype: DType, out: Array | None = None) -> Array:
        """Return the result of some points.

        Parameters
        ----------
        views
            A state's, by family.
        dtype
            The input's type.
        out
            Where it may be written to, of as many points; what is returned is something else where it isn't.
        """
        more = {"out": out} if out is not None and isinstance(self.formula, Formula) and not self._counts else {}
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            values = np.asarray(self.formula(views[self.family.name], **dict(self.parameters), **more))
        values = values.astype(self.dtype(dtype), copy=False)
        if not self._counts:
            return values
        own = self.family.counts
        count = views["moments"]["count"] if own is None else views[self.family.name][own]
        missing = count < (self.min_count or 0)
        if not self.skipna:
            missing |= count < views["presence"]["seen"]
        return np.where(missing, np.nan, values).astype(values.dtype, copy=False)

    def dtype(self, dtype: DType) -> DType:
        """Return the result's type for an input's type."""
        own = np.dtype(dtype) if np.dtype(dtype).kind == "f" else np.dtype("f8")
        chosen = own if self.result is None else np.dtype(self.result)
        return np.dtype("f8") if self._counts and chosen.kind != "f" else chosen  # it may be missing

    @property
    def is_users(self) -> bool:
        """Whether a user's code is in it."""
        return isinstance(self.formula, UsersFormula)

    def isolated(self) -> "Operator":
        """Return the operator with a user's code, if it has any, in a process of its own; its state stays the same.

        For a batch whose worker died: then what killed it is that operator's error.
        """
        return self.formula.isolated(self) if isinstance(self.formula, UsersFormula) else self

    @property
    def dated(self) -> bool:
        """Whether the result is a time on the stream's axis, whose calendar then belongs to its attributes."""
        return "{time_units}" in self.own_units

    def units(self, units: str, time: str = "1", *, time_units: str = "1", other: str = "1") -> str:
        """Return the result's units.

        Parameters
        ----------
        units
            The input's.
        time
            The unit of the stream's time, such as 'days'.
        time_units
            The units of the stream's time, such as 'days since 2000-01-01'.
        other
            Those of the first further input.
        """
        return self.own_units.format(units=units, time=time, time_units=time_units, other=other)


@dataclass(frozen=True, slots=True)
class OperatorKind:
    """What the configuration may name."""

    name: str
    """What the configuration calls it."""
    summary: str
    """What it computes, in one line."""
    make: Callable[..., tuple[Operator, ...]]
    """Makes the operators of the parameters."""
    parameters: Mapping[str, Parameter]
    """By name."""
    example: str
    """How the configuration writes it."""


def plain(summary: str, operator: Operator) -> OperatorKind:
    """Return the kind of an operator that takes no parameters of its own."""
    return OperatorKind(operator.name, summary, lambda: (operator,), {}, operator.name)

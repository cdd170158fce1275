"""What an ensemble is scored against: a store or a NetCDF file, or a member that is named as truth."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bbflow.ensemble.common_grid import CommonGrid
from bbflow.ensemble.ensemble_settings import EnsembleAnalysis
from bbflow.ensemble.fitting import fitting
from bbflow.errors import ConfigError, nearest, one_line
from bbflow.operators.space.grid import Grid
from bbflow.operators.steps import Array

if TYPE_CHECKING:
    import xarray as xr

SAME_CALENDARS = ("standard", "gregorian", "proleptic_gregorian")
"""All since 1582 the same."""


def open_reference(path: Path, variable: str) -> "tuple[xr.Dataset, xr.DataArray]":
    """Open a Zarr store or a file, and find a variable in it.

    Raises
    ------
    ConfigError
        If it can't be opened, or has no such variable.
    """
    import xarray as xr  # late: most ensembles have no scores

    if not path.exists():
        raise ConfigError(f"scores: there is no {path}: make it before the ensemble is up")
    try:
        found = xr.open_zarr(path) if path.is_dir() else xr.open_dataset(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"scores: reference {path} can't be opened: {error}") from None
    if variable not in found:
        raise ConfigError(f"scores: {path} has no variable {variable!r}; {nearest(variable, map(str, found))}")
    return found, found[variable]


def check_references(analysis: EnsembleAnalysis) -> None:
    """Check that all that members are scored against is there.

    Raises
    ------
    ConfigError
        If one can't be opened, or hasn't its variable.
    """
    for field in analysis.fields:
        own = field.scores
        for path in (own.reference, own.climatology) if own is not None else ():
            if own is not None and path is not None:
                open_reference(path, own.variable or field.name)


class ScoreReference:
    """A variable of a Zarr store or of files that xarray opens, on the members' grid.

    Parameters
    ----------
    path
        Where it is.
    variable
        Its name there.
    grid
        The ensemble's.
    target
        The grid of the field that is scored.
    units
        The field's; None if they aren't known.
    remap
        The method by which it is remapped if its own grid is another; empty if it mustn't be.
    averages
        Whether the field of a span is a mean, so that a reference's times in it may be averaged.

    Raises
    ------
    ConfigError
        If it can't be opened, has no such variable, or other units, another calendar or grid.
    """

    def __init__(
        self,
        path: Path,
        variable: str,
        grid: CommonGrid,
        target: Grid,
        *,
        units: str | None,
        remap: str,
        averages: bool,
    ) -> None:
        found, self._values = open_reference(path, variable)
        self._name, self._grid, self._averages = f"{variable} of {path}", grid, averages
        own = self._values.attrs.get("units")
        if units is not None and own is not None and units != own:
            raise ConfigError(f"scores: {self._name} is in {own!r}, but the members in {units!r}: convert it")
        self._time = next((str(dim) for dim in self._values.dims if str(dim).startswith("time")), None)
        try:
            self._fit = fitting(self._name, _grid_of(found, self._values, self._time), target, remap)
        except ConfigError as error:
            raise ConfigError(f"scores: {error}") from None
        self._instants = [] if self._time is None else self._read_instants()

    def _read_instants(self) -> Sequence[int]:
        from xarray.coding.times import encode_cf_datetime

        clock = self._grid.clock
        values = self._values[self._time]
        if clock.by_steps or values.dtype.kind in "fi":
            found = [self._grid.instant(float(value), clock) for value in values.values]
        else:
            calendar = str(values.dt.calendar)
            if calendar != clock.calendar and not {calendar, clock.calendar} <= {*SAME_CALENDARS}:
                raise ConfigError(
                    f"scores: {self._name} has the calendar {calendar!r}, but the members {clock.calendar!r}: convert "
                    "it, as with xarray's convert_calendar"
                )
            numbers, _, _ = encode_cf_datetime(values.values, "microseconds since 1970-01-01", clock.calendar)
            found = [int(number) for number in np.asarray(numbers)]
        if twice := len(found) - len({*found}):
            raise ConfigError(f"scores: {self._name} has {twice} times twice: take one of each")
        return found

    def at(self, begin: int, end: int) -> Array | None:
        """Return the field of a time, or its mean over a span; of shape (points,) and float64.

        Parameters
        ----------
        begin, end
            Microseconds (`CommonGrid.instant`); the same for a time.

        Returns
        -------
        numpy.ndarray or None
            None if it has no such time.

        Raises
        ------
        ConfigError
            If it has several times in a span that the field isn't the mean of, lacks some of a span, or can't be read.
        """
        if self._time is None:
            return self._fit(np.asarray(self._values.values, "f8"))
        own = [at for at, instant in enumerate(self._instants) if begin <= instant < max(end, begin + 1)]
        if not own:
            return None
        if len(own) > 1 and not self._averages:
            raise ConfigError(
                f"scores: {self._name} has {len(own)} times in a span that the members' field isn't the mean of: make "
                "the same of it first, one time for each span"
            )
        # The mean of a part of a span would pass for that of all of it.
        wanted = round((end - begin) / self._step_near(begin, end))
        if len(own) < wanted:
            date = self._grid.clock.date(self._grid.number(begin))
            raise ConfigError(
                f"scores: {self._name} has {len(own)} times of the span from {date}, of {wanted}: it goes from "
                f"{self.period}; if its times are unevenly spaced, make one time for each span of it first"
            )
        try:
            values: xr.DataArray = self._values.isel({self._time: own}).mean(self._time, dtype="f8")
            return self._fit(np.asarray(values.values, "f8"))
        except (OSError, RuntimeError, ValueError) as error:  # as readers of Zarr and NetCDF say that bytes are wrong
            raise ConfigError(f"scores: {self._name} can't be read: {one_line(str(error))}") from None

    def _step_near(self, begin: int, end: int) -> float:
        """Return the usual time between those of a span and their neighbours, in microseconds; of one alone, no end."""
        known = np.unique(self._instants)  # of times that are there twice none is apart
        first, last = np.searchsorted(known, (begin, end))
        gaps = np.diff(known[max(first - 1, 0) : last + 1])
        return float(np.median(gaps)) if len(gaps) else float("inf")

    @property
    def period(self) -> str:
        """Return from when to when it goes."""
        if self._time is None or not len(self._instants):
            return "no time"
        times = self._values[self._time].values
        return f"{times[0]} to {times[-1]}"


def _grid_of(found: "xr.Dataset", values: "xr.DataArray", time: str | None) -> Grid:
    """Describe a reference's grid, without its time."""
    dims = [str(dim) for dim in values.dims if dim != time]
    own = {str(name): coord for name, coord in values.coords.items() if {*map(str, coord.dims)} <= {*dims}}
    attributes: Mapping[str, Mapping[str, Any]] = {name: dict(coord.attrs) for name, coord in own.items()}
    bounds = [str(told["bounds"]) for told in attributes.values() if told.get("bounds") in found]
    coordinates = {
        name: np.asarray(item.values) for name, item in (*own.items(), *((name, found[name]) for name in bounds))
    }
    return Grid(tuple(dims), tuple(values.sizes[dim] for dim in dims), coordinates, attributes)

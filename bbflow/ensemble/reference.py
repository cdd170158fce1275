"""What an ensemble is scored against: a store or a NetCDF file, or a member that is named as truth."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bbflow.ensemble.grid import CommonGrid, GridField
from bbflow.errors import ConfigError, nearest
from bbflow.operators.steps import Array

if TYPE_CHECKING:
    import xarray as xr


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
    field
        The field that is scored.

    Raises
    ------
    ConfigError
        If it can't be opened, has no such variable, or another shape.
    """

    def __init__(self, path: Path, variable: str, grid: CommonGrid, field: GridField) -> None:
        import xarray as xr  # late: most ensembles have no scores

        try:
            found = xr.open_zarr(path) if path.is_dir() else xr.open_dataset(path)
        except (OSError, ValueError) as error:
            raise ConfigError(f"scores: reference {path} can't be opened: {error}") from None
        if variable not in found:
            raise ConfigError(f"scores: {path} has no variable {variable!r}; {nearest(variable, map(str, found))}")
        self._path, self._grid, self._values = path, grid, found[variable]
        self._time = next((str(dim) for dim in self._values.dims if str(dim).startswith("time")), None)
        shape = tuple(size for dim, size in self._values.sizes.items() if dim != self._time)
        if shape != field.shape:
            raise ConfigError(
                f"scores: {variable} of {path} has the grid {shape}, but the members {field.shape}: remap it first, as "
                "with cdo remapcon"
            )
        units, own = self._values.attrs.get("units"), field.attributes.get("units")
        if units is not None and own is not None and units != own:
            raise ConfigError(f"scores: {variable} of {path} is in {units!r}, but the members in {own!r}: convert it")
        self._instants = [] if self._time is None else self._read_instants()

    def _read_instants(self) -> Sequence[int]:
        from xarray.coding.times import encode_cf_datetime

        clock = self._grid.clock
        values = self._values[self._time]
        if clock.by_steps or values.dtype.kind in "fi":
            return [self._grid.instant(float(value), clock) for value in values.values]
        numbers, _, _ = encode_cf_datetime(values.values, "microseconds since 1970-01-01", clock.calendar)
        return [int(number) for number in np.asarray(numbers)]

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
        """
        if self._time is None:
            return np.asarray(self._values.values, "f8").reshape(-1)
        own = [at for at, instant in enumerate(self._instants) if begin <= instant < max(end, begin + 1)]
        if not own:
            return None
        values: xr.DataArray = self._values.isel({self._time: own})
        return np.asarray(values.mean(self._time).values, "f8").reshape(-1)

    @property
    def period(self) -> str:
        """Say from when to when it goes."""
        if self._time is None or not len(self._instants):
            return "no time"
        times = self._values[self._time].values
        return f"{times[0]} to {times[-1]}"

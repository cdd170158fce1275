"""What expressions have beside a stream's variables: fields of files, fixed or by day or month, and the date itself."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import cftime  # type: ignore[import-untyped]
import numpy as np

from bbflow.errors import ConfigError, nearest
from bbflow.host.parsing import load_array
from bbflow.operators.own.origin import beside
from bbflow.operators.space.netcdf_files import opened, version_of
from bbflow.operators.steps import Array, DType
from bbflow.operators.windows.calendars import same_calendar
from bbflow.operators.windows.parse_windows import parse_window
from bbflow.operators.windows.spans import Key
from bbflow.operators.windows.window import Window
from bbflow.reading.sections import check_keys, one_of, read_as, text

if TYPE_CHECKING:
    import xarray as xr

WHAT = "a file of fields"
KEYS = ("file", "variable", "by", "calendar")
CALENDAR: Mapping[str, Any] = {
    "month": "clim_month", "hour": "clim_hour", "dayofyear": {"clim_dayofyear": "number"}, "season": "clim_season",
    "year": "year",
}  # fmt: skip
"""Parts of a step's date that are numbers, to the window whose keys they are; a season is its first month, DJF 0."""
AREA_SHARE = "share of the area"
"""What statistics of whole fields find beside their steps: no expression can name it."""
TIME = "time"
"""The step's time itself, as a part of the date."""
GROUPED: Mapping[str, Any] = {
    "dayofyear": {"clim_dayofyear": "number"}, "month": "clim_month", "season": "clim_season", "hour": "clim_hour",
}  # fmt: skip
"""Dimensions as xarray's groupby makes them, to the window whose keys they have."""
SEASONS = {"DJF": 0, "MAM": 3, "JJA": 6, "SON": 9}
BY_DATES = ("clim_month", "clim_dayofyear", "clim_hourofyear")
"""Windows by which the rows of a time axis may differ, the longest first."""
LIMIT = 1e-4
"""Coordinates that differ by more than this part of a grid's spacing are others."""


@dataclass(frozen=True, slots=True)
class DateField:
    """A part of each step's date, as an expression has it beside the variables of a stream."""

    name: str
    """What expressions call it."""
    window: Window | None
    """Whose key begins with the number; None for the step's time itself, in the stream's units."""
    units = ""

    def __str__(self) -> str:
        return TIME if self.window is None else self.window.name

    @property
    def dtype(self) -> DType:
        """The type of its values."""
        return np.dtype("f8" if self.window is None else "f4")

    def steps(
        self, keys: Mapping[str, Key | None], times: Sequence[float], start: tuple[int, ...], count: tuple[int, ...]
    ) -> tuple[Array, ...]:
        """Return what each of some steps of some spans gets of it in a region, of shape (points,)."""
        if self.window is None:
            return tuple(np.full(max(prod(count), 1), time) for time in times)
        return (self.part(keys, start, count),) * len(times)

    def part(self, keys: Mapping[str, Key | None], start: tuple[int, ...], count: tuple[int, ...]) -> Array:
        """Return what steps of some spans get of it in a region, of shape (points,)."""
        assert self.window is not None, "a time is of a step"
        key = keys[self.window.name]
        return np.full(max(prod(count), 1), np.nan if key is None else key[0], self.dtype)


@dataclass(frozen=True, slots=True)
class FileField:
    """A field of a file, as an expression has it beside the variables of a stream."""

    name: str
    """What expressions call it."""
    file: Path
    """A NetCDF file or a Zarr store."""
    variable: str
    """Its name there."""
    type: str
    """NumPy's name of its type: float32 if that is the file's, else float64."""
    units: str
    """As the file says; empty if it doesn't."""
    along: str
    """The dimension that `window` is about; empty for a fixed field."""
    window: Window | None
    """Whose key of a step tells which row is the step's: a climatology, or, of a series, months or days themselves;
    None for a fixed field."""
    keys: tuple[Key, ...] = ()
    """For each row its key."""
    held: str = ""
    """The file where an analysis holds its values, of shape (rows, …); empty before it does."""

    def __str__(self) -> str:
        by = "" if self.window is None else f" by {self.window.name}"
        return f"{self.file}: {self.variable}{by}"

    @property
    def dtype(self) -> DType:
        """The type of its values."""
        return np.dtype(self.type)

    def steps(
        self, keys: Mapping[str, Key | None], times: Sequence[float], start: tuple[int, ...], count: tuple[int, ...]
    ) -> tuple[Array, ...]:
        """Return what each of some steps gets of it: the same."""
        return (self.part(keys, start, count),) * len(times)

    def part(self, keys: Mapping[str, Key | None], start: tuple[int, ...], count: tuple[int, ...]) -> Array:
        """Return what steps of some spans get of it in a region, of shape (points,); it must be held.

        A step in no span of the window, as in no season, gets what is missing. Dimensions that the field lacks come
        before its own.

        Raises
        ------
        ConfigError
            If a series has no row for the steps.
        """
        key = () if self.window is None else keys[self.window.name]
        if key is None:
            return np.full(max(prod(count), 1), np.nan, self.dtype)
        if self.window is not None and key not in self.keys:
            raise ConfigError(f"{self} has no row for the {self.window.name} of a step: it must have all of the run's")
        values = _mapped(*version_of(Path(self.held), WHAT))[self.keys.index(key) if self.keys else 0]
        lacking = len(count) - values.ndim
        region = zip(start[lacking:], count[lacking:], strict=True)
        part = values[tuple(slice(at, at + size) for at, size in region)]
        return np.ascontiguousarray(np.broadcast_to(part, count)).reshape(-1)

    def check_calendar(self, calendar: str) -> None:
        """Check that there is a row for each step that may come.

        Raises
        ------
        ConfigError
            If not, or if days are counted otherwise; a series has what its dates say.
        """
        if self.window is None or not self.window.recurs:
            return
        wanted = set(_keys_of(self.window, same_calendar(calendar)))
        lacking, more = sorted(wanted - set(self.keys)), sorted(set(self.keys) - wanted)
        if lacking:
            raise ConfigError(
                f"{self} has no row for {_told(self.window, lacking)}, which the calendar {calendar!r} has: make the "
                f"file in the stream's calendar, or say what its rows are, as by: clim_month"
            )
        if more and "dayofyr" in self.window.recurs:  # numbers after February mean other dates
            raise ConfigError(
                f"{self} has {len(self.keys)} numbered days, but years of the calendar {calendar!r} have "
                f"{len(wanted)}: make the file in the stream's calendar"
            )

    def read(self, dims: tuple[str, ...], shape: tuple[int, ...], coordinates: Mapping[str, Array]) -> Array:
        """Return all rows, with the dimensions in the order of the field that it goes with.

        Parameters
        ----------
        dims, shape
            Of that field; leading ones may be lacking in the file.
        coordinates
            Those of that field, by name.

        Returns
        -------
        numpy.ndarray
            Of shape (rows, …) and of `dtype`; NaN where values are missing.

        Raises
        ------
        ConfigError
            If it is of another grid.
        """
        with _opened(self.file) as data:
            values = data[self.variable]
            own = [str(dim) for dim in values.dims if str(dim) != self.along]
            sizes = dict(zip(dims, shape, strict=True))
            own = [dim for dim in own if values.sizes[dim] > 1 or sizes.get(dim, 1) == 1]  # a mean's are of length 1
            extra = [dim for dim in own if dim not in dims and values.sizes[dim] == 1]
            own = [dim for dim in own if dim not in extra[: max(len(own) - len(dims), 0)]]
            if set(own) <= set(dims):
                own.sort(key=dims.index)
            fits = tuple(values.sizes[dim] for dim in own) == shape[len(shape) - len(own) :]
            if not fits or (set(own) <= set(dims) and tuple(own) != dims[len(dims) - len(own) :]):
                told = ", ".join(f"{dim}: {values.sizes[dim]}" for dim in own)
                raise ConfigError(
                    f"{self} is on the grid ({told}), but the field that it goes with of "
                    f"({', '.join(f'{dim}: {size}' for dim, size in zip(dims, shape, strict=True))})"
                )
            self._check_places(data, own, dims[len(dims) - len(own) :], coordinates)
            values = values.transpose(*([self.along] if self.along else []), *own, ...)
            rows = len(self.keys) or 1
            return np.asarray(values.values, self.dtype).reshape(rows, *(values.sizes[dim] for dim in own))

    def _check_places(
        self, data: "xr.Dataset", own: list[str], dims: tuple[str, ...], coordinates: Mapping[str, Array]
    ) -> None:
        """Check that points lie where those of the other field do, as far as both tell."""
        for mine, theirs in zip(own, dims, strict=True):
            if mine in data.variables and theirs in coordinates and data[mine].dtype.kind in "iuf":
                left, right = np.asarray(data[mine].values, "f8"), np.asarray(coordinates[theirs], "f8")
                spacing = float(np.min(np.abs(np.diff(right)))) if len(right) > 1 else 1.0
                off = np.abs(left - right) if left.shape == right.shape else np.zeros(0)
                if np.any(off > LIMIT * spacing):
                    at = int(np.argmax(off))
                    raise ConfigError(
                        f"{self}: point {at} along {mine} is at {left[at]:g}, but the stream's at {right[at]:g}: bring "
                        "the file to the stream's grid, in its order"
                    )

    def label(self, dims: tuple[str, ...], shape: tuple[int, ...]) -> str:
        """Return a name for the file with its values, the same for all fields that it is held for alike."""
        told = repr((str(self.file), self.variable, self.along, dims, shape))
        return f"field-{blake2b(told.encode(), digest_size=12).hexdigest()}"

    def held_in(self, path: Path) -> "FileField":
        """Return the same with its values held."""
        return replace(self, held=str(path))


@lru_cache(maxsize=64)
def _mapped(path: Path, _changed: int, _size: int) -> Array:
    """Map held values; each process keeps the mapping."""
    # What a file had when it was looked at is part of the cache's key: written again, it is another one.
    return load_array(path, "r")


@lru_cache(maxsize=64)
def _keys_of(window: Window, calendar: str) -> tuple[Key, ...]:
    """Return the keys that steps of a calendar can have: those of all hours of a leap year and of the one after it."""
    hours = range(24) if "hour" in window.recurs else (12,)
    first = cftime.datetime(2000, 1, 1, calendar=calendar)
    dates = cftime.num2date(range(2 * 366), f"days since {first.strftime('%Y-%m-%d')}", calendar)
    found = (window.key(date.replace(hour=hour)) for date in dates for hour in hours)
    return tuple(dict.fromkeys(key for key in found if key is not None))


def _told(window: Window, keys: list[Key]) -> str:
    return ", ".join(
        f"{part.replace('dayofyr', 'day')} {own}" for part, own in zip(window.recurs, keys[0], strict=True)
    )


@dataclass(frozen=True, slots=True)
class AreaField:
    """Each point's share of a field's area, beside the steps of its statistics."""

    name: str = AREA_SHARE
    """What statistics alone call it."""
    held: str = field(default="", repr=False)
    """The file where an analysis holds it, of the field's shape; empty before it does."""
    window = None
    units = ""
    dtype: ClassVar[DType] = np.dtype("f8")

    def part(self, keys: Mapping[str, Key | None], start: tuple[int, ...], count: tuple[int, ...]) -> Array:
        """Return that of a region, of shape (points,); it must be held."""
        values = _mapped(*version_of(Path(self.held), WHAT))
        region = tuple(slice(at, at + size) for at, size in zip(start, count, strict=True))
        return np.ascontiguousarray(values[region]).reshape(-1)

    def steps(
        self, keys: Mapping[str, Key | None], times: Sequence[float], start: tuple[int, ...], count: tuple[int, ...]
    ) -> tuple[Array, ...]:
        """Return what each of some steps gets of it: the same."""
        return (self.part(keys, start, count),) * len(times)


BesideSteps = FileField | DateField | AreaField
"""What may stand in expressions beside variables."""


def parse_fields(content: Any, closed: str = "left") -> dict[str, BesideSteps]:
    """Read the key `fields` of a diagnostic: names to files, or to parts of the date.

    Parameters
    ----------
    content
        A map of a name to a path, or to a map of `KEYS`.
    closed
        On which side the spans hold their boundary that its steps are of.

    Raises
    ------
    ConfigError
        If a file can't be read, or it isn't clear what its rows are.
    """
    if not isinstance(content, Mapping):
        raise ConfigError("fields must be a map of names to files, such as {clim: climatology.nc}")
    return {
        str(name): read_as(partial(_parse, str(name), closed), value, f"fields: {name}")
        for name, value in content.items()
    }


def _parse(name: str, closed: str, value: Any) -> BesideSteps:
    parts = value if isinstance(value, Mapping) else {"file": value}
    check_keys(parts, KEYS)
    if "calendar" in parts:
        if len(parts) > 1:
            raise ConfigError(f"a part of the date has neither of {', '.join(KEYS[:-1])}")
        part = str(one_of(*CALENDAR, TIME)(parts["calendar"]))
        if part == TIME:
            return DateField(name, None)
        return DateField(name, _closed(parse_window(CALENDAR[part]), closed))
    if "file" not in parts:
        raise ConfigError("say its file")
    by = parse_window(parts["by"]) if "by" in parts else None
    if by is not None and by.keeps not in (None, 1):
        raise ConfigError(
            f"by: {by.name} has steps in several spans: take clim_month, or month for a series, or the like"
        )
    field = _described(*version_of(_path(parts["file"]), WHAT), str(parts.get("variable", "")), name, by)
    return field if field.window is None else replace(field, window=_closed(field.window, closed))


def _path(value: Any) -> Path:
    return Path(beside()) / Path(text(value)).expanduser()


def _closed(window: Window, closed: str) -> Window:
    """Return a window whose steps on a boundary are in the same day as those of an inner span."""
    return (
        window if closed in ("left", window.closed) else replace(window, name=f"{window.name}_{closed}", closed=closed)
    )


def units_of(file: Any, variable: str = "") -> str:
    """Return the units of a file's field; empty if it tells none."""
    return _described(*version_of(_path(file), WHAT), variable, "", None).units


@lru_cache(maxsize=256)
def _described(path: Path, _changed: int, _size: int, variable: str, name: str, by: Window | None) -> FileField:
    with _opened(path) as data:
        found = _variable(data, path, variable, name)
        plain = found.dtype == np.dtype("f4") and not {"scale_factor", "add_offset"} & found.encoding.keys()
        kind, units = "f4" if plain else "f8", str(found.attrs.get("units", ""))
        along, window, keys = _rows(found, path, by)
        return FileField(name, path, str(found.name), kind, units, along, window, keys)


@contextmanager
def _opened(path: Path) -> Iterator["xr.Dataset"]:
    """Open a file without decoding its times: units, not dates, are compared."""
    if not path.is_dir():
        with opened(path, WHAT, decode_times=False) as data:
            yield data
        return
    import xarray as xr

    try:
        # Without Dask's chunks, and without xarray's warning that metadata aren't consolidated.
        data = xr.open_zarr(path, decode_times=False, chunks=None, consolidated=False)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{path} can't be read as a Zarr store: {error}") from None
    with data:
        yield data


def _variable(data: "xr.Dataset", path: Path, variable: str, name: str) -> "xr.DataArray":
    aside = {str(item.attrs.get("bounds", "")) for item in data.variables.values()}
    there = [str(own) for own, item in data.data_vars.items() if str(own) not in aside and item.dtype.kind in "iuf"]
    wanted = variable or (there[0] if len(there) == 1 else name)
    if wanted not in there:
        told = nearest(wanted, there) if variable else f"say which of {', '.join(there)} is meant, as 'variable'"
        raise ConfigError(f"{path} has no field {wanted!r}; {told}")
    return data[wanted]


def _rows(field: "xr.DataArray", path: Path, by: Window | None) -> tuple[str, Window | None, tuple[Key, ...]]:
    """Find the dimension along which rows are chosen, and what each is for."""
    for dim in map(str, field.dims):
        is_time = dim in field.coords and " since " in str(field[dim].attrs.get("units", ""))
        grouped = "dayofyear" if dim.endswith("_dayofyear") and not is_time else dim  # as our own results have it
        if grouped in GROUPED:
            own = field[dim].values.tolist()
            keys = tuple((SEASONS.get(key, -1) if isinstance(key, str) else int(key),) for key in own)
            return dim, _same(path, by, parse_window(GROUPED[grouped])), keys
        if is_time:
            # A single date, as a mean over time has, says nothing about which steps its field is for: all.
            if field.sizes[dim] == 1 and by is None:
                continue
            units, calendar = field[dim].attrs["units"], field[dim].attrs.get("calendar", "standard")
            dates = cftime.num2date(field[dim].values, units, calendar)
            return dim, *_by_dates(dates, path, by)
    if by is not None:
        raise ConfigError(f"by: {path} has no dimension with dates, nor any of {', '.join(GROUPED)}")
    return "", None, ()


def _same(path: Path, by: Window | None, own: Window) -> Window:
    if by is not None and (by.spans, by.recurs) != (own.spans, own.recurs):
        raise ConfigError(f"by: {path} has rows by {own.name}")
    return by or own


def _by_dates(dates: Iterable[Any], path: Path, by: Window | None) -> tuple[Window, tuple[Key, ...]]:
    windows = [by] if by is not None else [parse_window(name) for name in BY_DATES]
    for window in windows:
        cut = replace(window, closed="left")  # the file's dates are within their days
        keys = [cut.key(date) for date in dates]
        if len(set(keys)) == len(keys) and None not in keys:
            return window, tuple(key for key in keys if key is not None)
    told = windows[0].name if by is not None else "month, a day or an hour of the year"
    raise ConfigError(
        f"{path} has several fields for one {told}: it must be a climatology, such as CDO's ydaymean makes, or a "
        "series of which 'by' says what each row is for, such as by: month"
    )

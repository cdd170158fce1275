"""What all members of an ensemble have in common: the calendar, and each field's shape, units and coordinates."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import cftime  # type: ignore[import-untyped]
import msgspec
import numpy as np

from bbflow.ensemble.members import date_parts
from bbflow.errors import ConfigError, nearest
from bbflow.host.atomic import write_whole
from bbflow.net.decoders import json_decoder
from bbflow.operators.steps import Array
from bbflow.operators.windows.calendars import Clock
from bbflow.zarr_store.growing import GrowingZarr

OF_TIME = ("time_", "steps_", "missing_")
"""How the names begin of what a member's store has for each window."""
STEP_US = 1_000_000
"""How far apart steps lie that have no time."""


class GridField(msgspec.Struct, frozen=True, kw_only=True):
    """A field as members' stores have it."""

    dims: tuple[str, ...]
    """Names of its dimensions."""
    shape: tuple[int, ...]
    """Their lengths."""
    dtype: str
    """NumPy's name of its type."""
    attributes: dict[str, Any]
    """CF attributes of the member's result."""

    @property
    def points(self) -> int:
        """How many values it has."""
        return int(np.prod(self.shape, dtype=np.int64))


class GridCoordinate(msgspec.Struct, frozen=True, kw_only=True):
    """A coordinate of the members' stores."""

    dims: tuple[str, ...]
    """Names of its dimensions."""
    digest: str
    """Of its type, shape and values."""


class CommonGrid(msgspec.Struct, frozen=True, kw_only=True):
    """What the first member has shown, and all others must have too."""

    member: str
    """Who has shown it."""
    units: str
    """Of time."""
    calendar: str
    """Of time."""
    fields: dict[str, GridField]
    """By the results' names."""
    coordinates: dict[str, GridCoordinate]
    """By name."""

    @property
    def clock(self) -> Clock:
        """The ensemble's time axis."""
        return Clock(self.units, self.calendar)

    @classmethod
    def of(cls, member: str, store: GrowingZarr, results: Mapping[str, str]) -> "CommonGrid | None":
        """Describe a member's store.

        Parameters
        ----------
        member
            Its name.
        store
            Its results.
        results
            Names of the results that are needed to their window's names.

        Returns
        -------
        CommonGrid or None
            None if a result isn't there yet.

        Raises
        ------
        ConfigError
            If its times can't be read.
        """
        if any(name not in store or f"time_{window}" not in store for name, window in results.items()):
            return None
        told = {window: store.metadata(f"time_{window}")["attributes"] for window in results.values()}
        time = next(iter(told.values()))
        clock = Clock(str(time["units"]), str(time.get("calendar", "none" if time["units"] == "1" else "standard")))
        fields = {name: _field_of(store.metadata(name)) for name in results}
        coordinates = {
            name: GridCoordinate(
                dims=tuple(store.metadata(name)["dimension_names"]), digest=digest_of(store.read(name))
            )
            for name in coordinates_in(store, fields)
        }
        return cls(member=member, units=clock.units, calendar=clock.calendar, fields=fields, coordinates=coordinates)

    def check(self, other: "CommonGrid") -> None:
        """Check that another member's store has the same.

        Raises
        ------
        ConfigError
            If it hasn't; the message says what, and what to do.
        """
        if other.calendar != self.calendar:
            raise self._differs(other, "the calendar", other.calendar, self.calendar)
        for name, known in self.fields.items():
            own = other.fields.get(name)
            if own is None:
                raise ConfigError(
                    f"member {other.member} has no {name}, as member {self.member} has; {nearest(name, other.fields)}"
                )
            for what, got, wanted in (
                ("the dimensions of", own.dims, known.dims),
                ("the shape of", own.shape, known.shape),
                ("the type of", own.dtype, known.dtype),
                ("the units of", own.attributes.get("units"), known.attributes.get("units")),
            ):
                if got != wanted:
                    raise self._differs(other, f"{what} {name}", got, wanted)
        for name, coordinate in self.coordinates.items():
            found = other.coordinates.get(name)
            if found is None or found.digest != coordinate.digest:
                raise ConfigError(
                    f"member {other.member} has another {name} than member {self.member}: its grid is another one; "
                    "remap it (space: remap), or leave the member out"
                )

    def _differs(self, other: "CommonGrid", what: str, got: Any, wanted: Any) -> ConfigError:
        return ConfigError(
            f"member {other.member}: {what} is {_told(got)}, but member {self.member} has {_told(wanted)}: members "
            "must agree; let its program write the same, or leave the member out"
        )

    def instant(self, number: float, clock: Clock) -> int:
        """Return a time as whole microseconds, the same for all members whatever their reference dates are."""
        if clock.by_steps:
            return round(number * STEP_US)
        date = clock.date(number)
        since = date - cftime.datetime(1970, 1, 1, calendar=clock.calendar, has_year_zero=date.has_year_zero)
        return int((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)

    def start(self, start: str) -> int:
        """Return the date at which forecasts start as such a time.

        Raises
        ------
        ConfigError
            If the members' calendar hasn't got it.
        """
        if self.clock.by_steps:
            raise ConfigError("ensemble: starts: the members' steps have no time: let their program write one")
        try:
            date = cftime.datetime(*date_parts(start), calendar=self.calendar)
        except ValueError:
            raise ConfigError(f"ensemble: starts: the members' calendar {self.calendar!r} has no {start}") from None
        return self.instant(self.clock.number(date), self.clock)

    def number(self, instant: int) -> float:
        """Return the number on the ensemble's time axis of a time in microseconds."""
        if self.clock.by_steps:
            return instant / STEP_US
        return self.clock.number(cftime.num2date(instant, "microseconds since 1970-01-01", self.calendar))

    def save(self, path: Path) -> None:
        """Write it."""
        write_whole(path, msgspec.json.encode(self))

    @classmethod
    def load(cls, path: Path) -> "CommonGrid | None":
        """Read what was written; None if nothing was."""
        try:
            found: CommonGrid = json_decoder(cls).decode(path.read_bytes())
            return found
        except FileNotFoundError:
            return None


def digest_of(values: Array) -> str:
    """Return what tells an array from all others."""
    told = f"{values.dtype.str} {values.shape} ".encode()
    # The bytes of objects are only their addresses.
    content = repr(values.tolist()).encode() if values.dtype == object else np.ascontiguousarray(values).tobytes()
    return sha256(told + content).hexdigest()[:32]


def coordinates_in(store: GrowingZarr, fields: Mapping[str, GridField]) -> list[str]:
    """Return the coordinates that a store's fields lie along, or that these name, with their bounds."""
    dims = {dim for field in fields.values() for dim in field.dims}
    named = {name for field in fields.values() for name in str(field.attributes.get("coordinates", "")).split()}
    own = [name for name in store.arrays if not name.startswith(OF_TIME) and name not in fields]
    return [
        name
        for name in own
        if name in named or (dims and {*store.metadata(name)["dimension_names"]} <= {*dims, "bnds"})
    ]


def _field_of(node: Mapping[str, Any]) -> GridField:
    return GridField(
        dims=tuple(node["dimension_names"][1:]),
        shape=tuple(node["shape"][1:]),
        dtype=node["data_type"],
        attributes=dict(node["attributes"]),
    )


def _told(value: Any) -> str:
    return "missing" if value is None else f"{value!r}" if isinstance(value, str) else str(value)

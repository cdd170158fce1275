"""The moves that a space is made of, selections and the reduction, and names for them that people know from CDO."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bbflow.errors import ConfigError, nearest
from bbflow.operators.expressions import Expression
from bbflow.operators.space.grid import LAT, LEVEL, LON
from bbflow.operators.space.levels import Levels, parse_levels
from bbflow.reading.sections import number, positive


@dataclass(frozen=True, slots=True)
class Box:
    """Keeps what lies between two coordinates, limits included."""

    dim: str
    """Name of a dimension; lat, lon and level stand for those of any name."""
    low: float
    """Lower limit; of longitudes the western one."""
    high: float
    """Upper limit; of longitudes the eastern one, which may be less than the western: the box goes around the globe."""


@dataclass(frozen=True, slots=True)
class Points:
    """Keeps the grid points that are nearest to some places on the globe."""

    places: tuple[tuple[float, float], ...]
    """Latitude and longitude of each, in degrees."""


@dataclass(frozen=True, slots=True)
class Select:
    """Keeps some values of a coordinate, in the given order."""

    dim: str
    """Name of a dimension; lat, lon and level stand for those of any name."""
    values: tuple[float, ...]
    """Values of its coordinate."""


@dataclass(frozen=True, slots=True)
class SelectIndex:
    """Keeps some indices of a dimension, in the given order."""

    dim: str
    """Name of a dimension; lat, lon and level stand for those of any name."""
    indices: tuple[int, ...]
    """From 0; negative ones count from the end."""


@dataclass(frozen=True, slots=True)
class Mask:
    """Keeps points where a field of the stream is neither zero nor missing; the others become missing."""

    expression: Expression
    """Of variables on the same grid."""


@dataclass(frozen=True, slots=True)
class Reduce:
    """Makes one value of many."""

    how: str
    """What is made of them, see `HOWS`."""
    dims: tuple[str, ...]
    """Dimensions that it works on."""
    factors: tuple[int, ...] = ()
    """For each dimension how many points make one (the last one of a dimension may have fewer); empty if all do."""
    weights: str | None = None
    """area, thickness, none, or a variable; None for what `AVERAGING` has by default: area where latitude is reduced,
    thickness where levels alone are and have bounds."""
    other: Expression | None = None
    """The second field of a covariance or correlation."""


@dataclass(frozen=True, slots=True)
class Regions:
    """Which regions a file has, and what is made of each."""

    file: str
    """Polygons (GeoJSON, a shapefile, GeoPackage), or a mask or shares of cells in NetCDF; as it is written."""
    names: str = ""
    """The property of polygons, or the variable, that has the names; empty for a common one, else numbers."""
    variable: str = ""
    """Of NetCDF the mask or shares; empty if it is the only field."""
    cells: str = ""
    """What of a cell counts: 'share', that in the polygon, or 'centre', all if that is; empty for share if it's known.
    """
    weights: str = ""
    """'none', or the stream's variable that weighs cells; empty for their areas."""
    how: str = "mean"
    """mean or sum."""


OF_WHOLE_FIELDS = ("bic", "laf", "con2")
"""Methods of remaps that are no sums of weighted values: they need gradients of the field, or compare its values."""


@dataclass(frozen=True, slots=True)
class Remap:
    """Puts the field on another grid, by weights."""

    weights: str = ""
    """A file of weights, as it is written; empty if they are made."""
    method: str = ""
    """con, bil, nn, dis or one of `OF_WHOLE_FIELDS`; empty for whatever the file is of."""
    area_min: float | None = None
    """Share of a point's area that must be valid; None for what the method has."""
    fraction: str | None = None
    """A variable of the stream: what each point's area counts, such as the share of land."""
    grid: str | None = None
    """The target, a grid's name or a file: for which weights are made, or where the file of weights doesn't say it."""
    pyramid: tuple[int, ...] | None = None
    """Levels that are wanted of the results, () for all; None for none."""
    directory: str = field(default="", repr=False)
    """Where relative paths begin."""
    regions: Regions | None = None
    """If the new points are regions, whose weights are made."""

    @property
    def is_sum(self) -> bool:
        """Whether sums over regions are made, and no means."""
        return self.regions is not None and self.regions.how == "sum"

    @property
    def file(self) -> Path | None:
        """Where the weights are; None if they are made."""
        return Path(self.directory) / Path(self.weights).expanduser() if self.weights else None


@dataclass(frozen=True, slots=True)
class SpacePercentile:
    """A percentile or the median over dimensions."""

    dims: tuple[str, ...]
    """Dimensions that it works on."""
    q: float | None = None
    """From 0 to 100; None for the median."""
    key = "percentile"


@dataclass(frozen=True, slots=True)
class Cumulate:
    """Sums along a dimension."""

    dims: tuple[str, ...]
    """The dimension."""
    key = "cumsum"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """What is left of a field without its mean over dimensions."""

    dims: tuple[str, ...]
    """Dimensions that the mean is over, weighted by area where one is latitude."""
    key = "anomaly"


@dataclass(frozen=True, slots=True)
class Wavenumbers:
    """The variance of each wavenumber along a dimension that goes around."""

    dims: tuple[str, ...]
    """The dimension."""
    most: int | None = None
    """The largest one; None for half the points."""
    key = "wavenumbers"


@dataclass(frozen=True, slots=True)
class Gather:
    """Brings all points of a field together as they are: some statistics need them so."""

    weights: str
    """By what points count: area or none."""
    dims: tuple[str, ...] = ()
    key = "gather"


Whole = SpacePercentile | Cumulate | Anomaly | Wavenumbers | Gather
"""Moves that need the whole of a field."""
Move = Levels | Box | Points | Select | SelectIndex | Mask | Reduce | Remap | Whole


DIMS = {"fld": (LAT, LON), "zon": (LON,), "mer": (LAT,), "vert": (LEVEL,)}
FLAT = {over: dims for over, dims in DIMS.items() if over != "vert"}
HOWS = ("mean", "sum", "min", "max", "range", "std", "std1", "var", "var1", "count")
OF_PAIRS = ("covariance", "correlation")
"""What is made of two fields."""
AVERAGING = ("mean", "std", "std1", "var", "var1", *OF_PAIRS)
"""Those that weigh by areas, or by the thickness of levels, where nothing is said."""


@dataclass(frozen=True, slots=True)
class SpaceName:
    """A name, and how many numbers follow it after commas."""

    make: Callable[..., tuple[Move, ...]]
    """Makes the moves of the numbers."""
    example: str
    """How it is written."""
    least: int = 0
    """Fewest numbers."""
    most: int = 0
    """Most numbers."""
    as_map: str = ""
    """The map that says the same of any fields, where there is one."""

    @property
    def hint(self) -> str:
        """How else it can be written, for messages."""
        return f"; or as a map, which may say other fields, or heights: space: {self.as_map}" if self.as_map else ""


def _rank(dims: tuple[str, ...]) -> Callable[[float], tuple[Move, ...]]:
    return lambda q: (SpacePercentile(dims, percentage(q)),)


def percentage(q: float) -> float:
    """Return a number from 0 to 100.

    Raises
    ------
    ConfigError
        If it is another.
    """
    if not 0 <= q <= 100:
        raise ConfigError(f"the percentile {q:g} is not between 0 and 100")
    return q


def _reduce(how: str, dims: tuple[str, ...], weights: str | None = None) -> Callable[..., tuple[Move, ...]]:
    return lambda: (Reduce(how, dims, weights=weights),)


def _box(west: float, east: float, south: float, north: float) -> tuple[Move, ...]:
    return (Box(LAT, south, north), Box(LON, west, east))


HYBRID = {"a": "hyam", "b": "hybm", "surface": "ps"}
ON_LEVELS = {"field": "pfull", "surface": "ps"}


def _levels(name: str, *values: int, **said: Any) -> SpaceName:
    as_map = _as_map({"levels": {"to": values, **said}})
    example = ",".join([name, *map(str, values)])
    return SpaceName(lambda *to: (parse_levels({"to": to, **said}),), example, 1, 1000, as_map)


def _as_map(said: Any) -> str:
    if isinstance(said, Mapping):
        return "{" + ", ".join(f"{key}: {_as_map(value)}" for key, value in said.items()) + "}"
    return f"[{', '.join(map(str, said))}]" if isinstance(said, tuple) else str(said)


def _coarsen(how: str) -> Callable[..., tuple[Move, ...]]:
    return lambda x, y: (Reduce(how, (LAT, LON), (positive(int(y)), positive(int(x)))),)


NAMES: Mapping[str, SpaceName] = {
    **{f"{over}{how}": SpaceName(_reduce(how, dims), f"{over}{how}") for over, dims in DIMS.items() for how in HOWS},
    **{
        f"{over}median": SpaceName(lambda dims=dims: (SpacePercentile(dims),), f"{over}median")
        for over, dims in FLAT.items()
    },
    **{f"{over}pctl": SpaceName(_rank(dims), f"{over}pctl,90", 1, 1) for over, dims in FLAT.items()},
    "vertcum": SpaceName(lambda: (Cumulate((LEVEL,)),), "vertcum"),
    "fldint": SpaceName(_reduce("sum", (LAT, LON), "area"), "fldint"),
    "vertint": SpaceName(_reduce("sum", (LEVEL,), "thickness"), "vertint"),
    "sellonlatbox": SpaceName(_box, "sellonlatbox,350,20,-30,30", 4, 4),
    "ml2pl": _levels("ml2pl", 85000, 50000, pressure=HYBRID, above="linear"),
    "ml2plx": _levels("ml2plx", 85000, 50000, pressure=HYBRID, above="linear", below="lowest"),
    "ap2pl": _levels("ap2pl", 85000, 50000, pressure=ON_LEVELS, above="linear"),
    "ap2plx": _levels("ap2plx", 85000, 50000, pressure=ON_LEVELS, above="linear", below="lowest"),
    "intlevel": _levels("intlevel", 10, 100),
    "sellevel": SpaceName(lambda *values: (Select(LEVEL, values),), "sellevel,85000,50000", 1, 1000),
    **{f"gridbox{how}": SpaceName(_coarsen(how), f"gridbox{how},4,4", 2, 2) for how in HOWS},
}
"""By name."""


def named(written: str, others: Iterable[str]) -> tuple[Move, ...]:
    """Return the moves of a name, such as ``fldmean`` or ``sellevel,85000``.

    Parameters
    ----------
    written
        As the configuration has it.
    others
        What else is valid, for the message.

    Raises
    ------
    ConfigError
        If the name is unknown, or its numbers are wrong.
    """
    word, *rest = (part.strip() for part in written.split(","))
    if word not in NAMES:
        raise ConfigError(f"unknown space {word!r}; {nearest(word, [*NAMES, *others])}")
    name = NAMES[word]
    if not name.least <= len(rest) <= name.most:
        raise ConfigError(f"space {written!r} has {len(rest)} numbers: write it like {name.example}{name.hint}")
    return _made(name, written, rest)


def _made(name: SpaceName, written: str, rest: Sequence[str]) -> tuple[Move, ...]:
    try:
        return name.make(*map(number, rest))
    except ConfigError as error:
        raise ConfigError(f"space {written!r}: {error}") from None

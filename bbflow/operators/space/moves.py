"""The moves that a space is made of: selections, and the reduction."""

from dataclasses import dataclass

from bbflow.operators.expressions import Expression


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
    """mean, sum, min or max."""
    dims: tuple[str, ...]
    """Dimensions that it works on."""
    factors: tuple[int, ...] = ()
    """For each dimension how many points make one (the last one of a dimension may have fewer); empty if all do."""
    weights: str | None = None
    """area, none, or a variable; None for area in means where latitude is reduced, else none."""


Move = Box | Points | Select | SelectIndex | Mask | Reduce

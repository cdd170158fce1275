"""Spaces, and how the configuration writes them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bbflow.errors import ConfigError, nearest
from bbflow.operators.expressions import parse_expression
from bbflow.operators.family import Array
from bbflow.operators.readers import number, positive, text
from bbflow.operators.space.levels import Levels, parse_levels
from bbflow.operators.space.moves import HOWS, NAMES, Box, Mask, Move, Points, Reduce, Select, SelectIndex, named
from bbflow.operators.space.placement import Placement
from bbflow.operators.space.resolve import resolve

OWN_WEIGHTS = ("area", "thickness", "none")
"""Weights that are no variable."""


@dataclass(frozen=True, slots=True)
class Space:
    """Selections of points, and at most one reduction; hashable, equal if they say the same."""

    moves: tuple[Move, ...]
    """In the order in which they apply."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the stream's variables that `resolve` asks for: masks, weights, and coefficients."""
        names: list[str] = []
        for move in self.moves:
            if isinstance(move, Mask):
                names.extend(move.expression.variables)
            elif isinstance(move, Levels) and move.coordinate is not None:
                names.extend(move.coordinate.of_first_step)
            elif isinstance(move, Reduce) and move.weights not in (None, *OWN_WEIGHTS):
                names.append(str(move.weights).strip("`"))
        return tuple(dict.fromkeys(names))

    @property
    def of_each_step(self) -> tuple[str, ...]:
        """Names of the stream's variables that each step must have besides those of the field."""
        first = self.moves[0]
        return first.variables if isinstance(first, Levels) else ()

    @property
    def of_columns(self) -> tuple[str, ...]:
        """Names of the stream's variables that say where the points of columns are."""
        first = self.moves[0]
        return first.coordinate.fields if isinstance(first, Levels) and first.coordinate is not None else ()

    def resolve(
        self,
        dims: tuple[str, ...],
        shape: tuple[int, ...],
        coordinates: Mapping[str, Array],
        variables: Callable[[str], Array],
        attributes: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Placement:
        """Find the points in a variable's grid.

        Parameters
        ----------
        dims, shape
            Names and sizes of the variable's dimensions, one and the same for all steps.
        coordinates
            One-dimensional coordinates by name, and bounds of shape (size, 2) as ``<name>_bnds`` or ``<name>_bounds``.
        variables
            Gives the whole field of one of `variables`, of the shape of the last (or other) dims; raises `ConfigError`
            if there is none.
        attributes
            CF attributes of coordinates by name: units, standard_name and axis tell latitude from longitude; without
            them common names do.

        Raises
        ------
        ConfigError
            If a dimension or coordinate is missing, or nothing is selected.
        """
        return resolve(self.moves, dims, shape, coordinates, variables, attributes or {})


SELECTIONS = ("box", "points", "mask", "levels", "select", "isel")
OPTIONS = ("weights", "how")
KEYS = (*SELECTIONS, *HOWS, "coarsen", *OPTIONS)


def parse_space(item: Any) -> Space:
    """Make a space of a name such as ``fldmean``, a map such as ``{box: {lat: [-30, 30]}, mean: [lon]}``, or a list.

    Parameters
    ----------
    item
        Selections of a map apply in the order in which they stand there, a reduction after them; items of a list
        apply in its order.

    Raises
    ------
    ConfigError
        If a name or key is unknown, a value is wrong, or there are two reductions.
    """
    items = item if isinstance(item, list | tuple) else [item]
    moves = tuple(move for part in items for move in _parse(part))
    if not moves:
        raise ConfigError(f"a space must say something: give it {', '.join(KEYS)}, or a name such as fldmean")
    reductions = [move for move in moves if isinstance(move, Reduce)]
    if len(reductions) > 1:
        raise ConfigError("a space has one reduction at most: name all dimensions in one, such as mean: [lat, lon]")
    if any(isinstance(move, Levels) for move in moves[1:]):
        raise ConfigError("levels that are made of columns come first: write 'levels' before the rest, once")
    return Space(moves)


def _parse(item: Any) -> tuple[Move, ...]:
    if isinstance(item, str):
        return named(item, KEYS)
    if not isinstance(item, Mapping) or not item:
        raise ConfigError(f"{item!r} is not a space: write a name such as fldmean, or a map such as mean: [lat, lon]")
    for key in item:
        if key not in KEYS:
            raise ConfigError(f"unknown space {key!r}; {nearest(str(key), [*KEYS, *NAMES])}")
    selections = (move for key in item if key in READERS for move in _read(key, item[key]))
    return (*selections, *_reduction(item))


def _read(key: str, value: Any) -> tuple[Move, ...]:
    try:
        return READERS[key](value)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from None


def _reduction(item: Mapping[str, Any]) -> tuple[Move, ...]:
    found = [key for key in item if key in (*HOWS, "coarsen")]
    if len(found) > 1:
        raise ConfigError(f"{' and '.join(found)}: a space has one reduction at most")
    if not found or ("how" in item and found != ["coarsen"]):
        lost = [key for key in OPTIONS if key in item]
        if lost:
            raise ConfigError(f"{lost[-1]!r} says nothing here: it belongs to {'coarsen' if found else 'mean or sum'}")
        return ()
    (key,) = found
    how = item.get("how", "mean") if key == "coarsen" else key
    if how not in HOWS:
        raise ConfigError(f"how: {how!r}; {nearest(str(how), HOWS)}")
    weights = None if item.get("weights") is None else text(item["weights"])
    if weights and how in ("min", "max"):
        raise ConfigError(f"weights: the {how} has none")
    if key != "coarsen":
        return (Reduce(how, _names(key, item[key]), weights=weights),)
    factors = {str(dim): positive(value) for dim, value in _map(item[key], "coarsen").items()}
    return (Reduce(how, tuple(factors), tuple(factors.values()), weights),)


def _box(value: Any) -> tuple[Move, ...]:
    return tuple(Box(str(dim), *_pair(limits)) for dim, limits in _map(value, "a box").items())


def _points(value: Any) -> tuple[Move, ...]:
    places = tuple(_pair(place) for place in _list(value))
    for lat, _ in places:
        if abs(lat) > 90:
            raise ConfigError(f"latitude {lat:g} is beyond a pole: write [latitude, longitude]")
    return (Points(places),)


def _mask(value: Any) -> tuple[Move, ...]:
    return (Mask(parse_expression(value)),)


def _levels(value: Any) -> tuple[Move, ...]:
    if isinstance(value, Mapping):
        return (parse_levels(value),)
    return (Select("level", tuple(map(number, _list(value)))),)


def _select(value: Any) -> tuple[Move, ...]:
    return tuple(Select(str(dim), tuple(map(number, _list(own)))) for dim, own in _map(value, "select").items())


def _isel(value: Any) -> tuple[Move, ...]:
    return tuple(SelectIndex(str(dim), tuple(map(_index, _list(own)))) for dim, own in _map(value, "isel").items())


READERS: Mapping[str, Callable[[Any], tuple[Move, ...]]] = {
    "box": _box,
    "points": _points,
    "mask": _mask,
    "levels": _levels,
    "select": _select,
    "isel": _isel,
}
"""What each selection is read with."""


def _map(value: Any, what: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping) or not value:
        raise ConfigError(f"{value!r} must be a map of dimensions, such as {what} of {{lat: …}}")
    return value


def _list(value: Any) -> list[Any]:
    items = list(value) if isinstance(value, list | tuple) else [value]
    if not items or value is None or isinstance(value, Mapping):
        raise ConfigError(f"{value!r} must be a list that isn't empty")
    return items


def _pair(value: Any) -> tuple[float, float]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ConfigError(f"{value!r} must be two numbers")
    return number(value[0]), number(value[1])


def _names(key: str, value: Any) -> tuple[str, ...]:
    try:
        return tuple(text(name) for name in _list(value))
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}; name the dimensions, such as {key}: [lat, lon]") from None


def _index(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{value!r} is not a whole number")
    return value

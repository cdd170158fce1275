"""Spaces as the configuration writes them."""

from collections.abc import Callable, Mapping
from typing import Any

from bbflow.errors import ConfigError, nearest
from bbflow.operators.expressions import parse_expression
from bbflow.operators.own.origin import beside
from bbflow.operators.space.levels import Levels, parse_levels
from bbflow.operators.space.making import MADE, MADE_OF_WHOLE
from bbflow.operators.space.moves import (
    HOWS,
    NAMES,
    OF_PAIRS,
    Anomaly,
    Box,
    Cumulate,
    Mask,
    Move,
    Points,
    Reduce,
    Regions,
    Remap,
    Select,
    SelectIndex,
    SpacePercentile,
    Wavenumbers,
    named,
    percentage,
)
from bbflow.operators.space.space import Space
from bbflow.operators.space.targets import check_named, is_named
from bbflow.reading.sections import check_keys, number, one_of, positive, text, whole_number

SELECTIONS = ("box", "points", "mask", "levels", "select", "isel")
OPTIONS = ("weights", "how", "pyramid")
REMAPS = {
    "remap": "", "remapcon": "con", "remapbil": "bil", "remapnn": "nn", "remapdis": "dis",
    "remapbic": "bic", "remaplaf": "laf", "remapcon2": "con2",
}  # fmt: skip
"""By CDO's names, the method that the weights must be of."""
WITH_TEXT = (*REMAPS, "healpix")
"""What may be a name with a text after a comma, as CDO has it."""
WHOLES = ("percentile", "median", "cumsum", "anomaly", "wavenumbers")
"""What needs the whole of a field."""
KEYS = (*SELECTIONS, *REMAPS, "healpix", "regions", *HOWS, *OF_PAIRS, "coarsen", *WHOLES, *OPTIONS)


def parse_space(item: Any) -> Space:
    """Make a space of a name such as ``fldmean``, a map such as ``{box: {lat: [-30, 30]}, mean: [lon]}``, or a list.

    Parameters
    ----------
    item
        Selections and remaps of a map apply in the order in which they stand there, a reduction after them; items of a
        list apply in its order.

    Raises
    ------
    ConfigError
        If a name or key is unknown, a value is wrong, or there are two reductions.
    """
    items = item if isinstance(item, list | tuple) else [item]
    moves = tuple(move for part in items for move in _parse(part))
    if not moves:
        raise ConfigError(f"a space must say something: give it {', '.join(KEYS)}, or a name such as fldmean")
    if any(isinstance(move, Levels) for move in moves[1:]):
        raise ConfigError("levels that are made of columns come first: write 'levels' before the rest, once")
    if sum(isinstance(move, Remap) for move in moves) > 1:
        raise ConfigError("a space has one remap at most: make weights from the first grid to the last")
    _check_pairs(moves)
    return Space(moves)


def _check_pairs(moves: tuple[Move, ...]) -> None:
    """Check that a covariance or correlation is of the stream's own fields, or of points selected from them."""
    at = [place for place, move in enumerate(moves) if isinstance(move, Reduce) and move.other is not None]
    before = moves[: at[-1]] if at else ()
    if any(not isinstance(move, Box | Points | Select | SelectIndex | Mask) for move in before):
        raise ConfigError("a covariance or correlation takes two fields as they are: only selections come before it")


def _parse(item: Any) -> tuple[Move, ...]:
    if isinstance(item, str):
        word, _, rest = (part.strip() for part in item.partition(","))
        return _read(word, rest) if word in WITH_TEXT else named(item, KEYS)
    if not isinstance(item, Mapping) or not item:
        raise ConfigError(f"{item!r} is not a space: write a name such as fldmean, or a map such as mean: [lat, lon]")
    for key in item:
        if key not in KEYS:
            raise ConfigError(f"unknown space {key!r}; {_hint(str(key))}")
    if "pyramid" in item:
        item = _with_pyramid(item)
    selections = (move for key in item if key in READERS for move in _read(key, item[key]))
    return (*selections, *_reduction(item))


def _hint(key: str) -> str:
    """Suggest what is meant by a key that a space doesn't have."""
    if key in NAMES:
        return f"it is a name: write space: {NAMES[key].example}, or an item of a list"
    if key in REMAP_KEYS:
        return f"it belongs inside a remap, such as remap: {{weights: weights.nc, {key}: …}}"
    return nearest(key, [*KEYS, *NAMES])


def _with_pyramid(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Put a pyramid beside a remap into it."""
    words = [key for key in item if key in REMAPS or key == "healpix"]
    if len(words) != 1:
        raise ConfigError("pyramid has no effect here: it belongs to healpix or a remap in the same map")
    (word,) = words
    short = "zoom" if word == "healpix" else "grid" if is_named(str(item[word])) else "weights"
    own = item[word] if isinstance(item[word], Mapping) else {short: item[word]}
    return {word if key == word else key: value for key, value in item.items() if key != "pyramid"} | {
        word: {**own, "pyramid": item["pyramid"]}
    }


def _read(key: str, value: Any) -> tuple[Move, ...]:
    try:
        return READERS[key](value)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from None


def _reduction(item: Mapping[str, Any]) -> tuple[Move, ...]:
    found = [key for key in item if key in (*HOWS, *OF_PAIRS, "coarsen", *WHOLES)]
    if len(found) > 1:
        raise ConfigError(f"{' and '.join(found)}: a map says one of them: write further ones as items of a list")
    if not found or ("how" in item and found != ["coarsen"]):
        lost = [key for key in OPTIONS if key in item]
        if lost:
            raise ConfigError(f"{lost[-1]!r} has no effect here: it belongs to {'coarsen' if found else 'mean or sum'}")
        return ()
    (key,) = found
    if key in WHOLES:
        return (_whole(key, item),)
    if key in OF_PAIRS:
        return (_of_pair(key, item),)
    how = item.get("how", "mean") if key == "coarsen" else key
    if how not in HOWS:
        raise ConfigError(f"how: {how!r}; {nearest(str(how), HOWS)}")
    weights = None if item.get("weights") is None else text(item["weights"])
    if weights and how in ("min", "max", "range", "count"):
        raise ConfigError(f"weights: the {how} has none")
    if key != "coarsen":
        return (Reduce(how, _names(key, item[key]), weights=weights),)
    factors = {str(dim): positive(value) for dim, value in _map(item[key], "coarsen").items()}
    return (Reduce(how, tuple(factors), tuple(factors.values()), weights),)


def _of_pair(key: str, item: Mapping[str, Any]) -> Reduce:
    """Read what is made of two fields."""
    own = _map(item[key], f"a {key}")
    check_keys(own, ("with", "over"))
    if own.keys() != {"with", "over"} or "how" in item or "pyramid" in item:
        raise ConfigError(f"{key}: write it like {key}: {{with: v, over: [lon]}}, and weights beside it if needed")
    weights = None if item.get("weights") is None else text(item["weights"])
    return Reduce(key, _names(key, own["over"]), weights=weights, other=parse_expression(text(own["with"])))


def _whole(key: str, item: Mapping[str, Any]) -> Move:
    """Read what needs the whole of a field."""
    if lost := [option for option in OPTIONS if option in item]:
        raise ConfigError(f"{lost[0]!r} has no effect here: {key} has no such option")
    if key == "percentile":
        own = _map(item[key], "a percentile")
        check_keys(own, ("q", "over"))
        if own.keys() != {"q", "over"}:
            raise ConfigError("percentile: write it like percentile: {q: 90, over: [lat, lon]}")
        return SpacePercentile(_names(key, own["over"]), percentage(number(own["q"])))
    if key == "wavenumbers":
        own = item[key] if isinstance(item[key], Mapping) else {"over": item[key]}
        check_keys(own, ("over", "most"))
        if "over" not in own or len(over := _names(key, own["over"])) > 1:
            raise ConfigError("wavenumbers: write it like wavenumbers: lon, or wavenumbers: {over: lon, most: 20}")
        return Wavenumbers(over, None if own.get("most") is None else positive(own["most"]))
    dims = _names(key, item[key])
    if key == "cumsum" and len(dims) > 1:
        raise ConfigError(f"cumsum: {', '.join(dims)}: name one dimension, along which sums grow")
    return SpacePercentile(dims) if key == "median" else Cumulate(dims) if key == "cumsum" else Anomaly(dims)


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


REMAP_KEYS = ("weights", "area_min", "fraction", "grid", "pyramid")


def _remap(method: str) -> Callable[[Any], tuple[Move, ...]]:
    def read(value: Any) -> tuple[Move, ...]:
        own = value if isinstance(value, Mapping) else {"grid" if is_named(str(value)) else "weights": value}
        check_keys(own, REMAP_KEYS)
        if "weights" not in own and "grid" not in own:
            raise ConfigError("name a file of weights, or a grid such as r360x180 to make them for")
        if "weights" not in own and method not in (known := [*MADE, *MADE_OF_WHOLE]):
            raise ConfigError(
                f"weights are made here for {', '.join(f'remap{name}' for name in known)}: name a file, such as of "
                f"'cdo gen{method or 'con'},GRID FIELD weights.nc'"
            )
        others: dict[str, Any] = {
            key: text(own[key]) for key in ("weights", "fraction", "grid") if own.get(key) is not None
        }
        if is_named(others.get("grid", "")):
            check_named(others["grid"])
        least = None if own.get("area_min") is None else number(own["area_min"])
        if least is not None and not 0 <= least <= 1:
            raise ConfigError(f"area_min is {least:g}: it is a share of a point's area, from 0 to 1")
        levels = _pyramid(own.get("pyramid"))
        return (Remap(method=method, area_min=least, **others, pyramid=levels, directory=beside()),)

    return read


REGION_KEYS = ("file", "names", "variable", "cells", "weights", "how", "area_min")


def _regions(value: Any) -> tuple[Move, ...]:
    """Read a file of regions, whose means or sums are new points."""
    own = value if isinstance(value, Mapping) else {"file": value}
    check_keys(own, REGION_KEYS)
    if "file" not in own:
        raise ConfigError("name a file, such as basins.geojson, basins.shp or a mask in NetCDF")
    told = {key: text(own[key]) for key in REGION_KEYS[:-1] if own.get(key) is not None}
    for key, known in (("cells", ("share", "centre")), ("how", ("mean", "sum"))):
        if key in told:
            one_of(*known)(told[key])
    weights = "" if told.get("weights") == "area" else told.get("weights", "").strip("`")
    least = None if own.get("area_min") is None else number(own["area_min"])
    regions = Regions(**{**told, "weights": weights})
    field = None if weights in ("", "none") else weights
    return (Remap(method="regions", area_min=least, fraction=field, directory=beside(), regions=regions),)


def _pyramid(value: Any) -> tuple[int, ...] | None:
    """Read true for all levels, or a list of some."""
    if value in (None, False):
        return None
    return () if value is True else tuple(sorted({whole_number(level) for level in _list(value)}))


def _healpix(value: Any) -> tuple[Move, ...]:
    """Read a zoom, with a file of weights or, without one, for nearest neighbours."""
    own = value if isinstance(value, Mapping) else {"zoom": value}
    check_keys(own, ["zoom", *(key for key in REMAP_KEYS if key != "grid")])
    if "zoom" not in own:
        raise ConfigError("name a zoom, such as {zoom: 9}: each of the twelve base cells is divided 4**zoom times")
    zoom = own["zoom"]
    grid = f"hpz{whole_number(int(zoom) if isinstance(zoom, str) and zoom.isdigit() else zoom)}"
    rest = {key: item for key, item in own.items() if key != "zoom"}
    return _remap("" if "weights" in own else "nn")({**rest, "grid": grid})


READERS: Mapping[str, Callable[[Any], tuple[Move, ...]]] = {
    "box": _box,
    "points": _points,
    "mask": _mask,
    "levels": _levels,
    "select": _select,
    "isel": _isel,
    "healpix": _healpix,
    "regions": _regions,
    **{name: _remap(method) for name, method in REMAPS.items()},
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

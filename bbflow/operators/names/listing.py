"""All that the configuration may name, with an example each, for ``bbflow operators``."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bbflow.errors import ConfigError, nearest
from bbflow.operators import parse, transforms
from bbflow.operators.catalogue import KINDS
from bbflow.operators.names import known
from bbflow.operators.names.cdo import COUNTED, STATISTICS, WINDOWS
from bbflow.operators.names.elsewhere import ELSEWHERE, LACKING
from bbflow.operators.names.other_tools import OTHER_TOOLS
from bbflow.operators.own.entry_points import installed
from bbflow.operators.windows import kinds
from bbflow.operators.windows.frequencies import frequency_window
from bbflow.reading.sections import REQUIRED, Parameter

ANOTHER = "CDO, otherwise"
SECTIONS = (
    "statistics",
    "your own",
    "transforms",
    "windows",
    "spaces",
    *(f"names of {origin}" for origin in known.ORIGINS),
    ANOTHER,
    *OTHER_TOOLS,
)
"""What there is, in order."""
FILTER = ("values above a limit, below another, or between both, as rows", "filter: {above: 310.0}")
SPACES: Mapping[str, tuple[str, str]] = {
    "box": ("what lies between coordinates", "box: {lat: [-30, 30], lon: [350, 20]}"),
    "points": ("the grid points nearest to places", "points: [[53.6, 10.0], [48.1, 11.6]]"),
    "mask": ("where a field of the stream is neither 0 nor missing", "mask: sftlf > 50"),
    "levels": (
        "some levels by their coordinate, or what a map makes of columns, such as other levels",
        "levels: {to: [85000, 50000], pressure: {a: hyam, b: hybm, surface: ps}}",
    ),
    "select": ("some values of a coordinate", "select: {lat: [0.5, 10.5]}"),
    "isel": ("some indices of a dimension", "isel: {lev: [0, -1]}"),
    "mean": ("mean over dimensions, weighted by area where latitude is one", "mean: [lat, lon]"),
    "sum": ("sum over dimensions", "{sum: [lat, lon], weights: area}"),
    "min": ("minimum over dimensions", "min: [lon]"),
    "max": ("maximum over dimensions", "max: [lon]"),
    "range": ("largest less smallest over dimensions", "range: [lon]"),
    "std": ("standard deviation over dimensions, weighted as means are; std1 of a sample", "std: [lat, lon]"),
    "var": ("variance over dimensions, weighted as means are; var1 of a sample", "var: [lat, lon]"),
    "count": ("number of valid values over dimensions", "count: [lat, lon]"),
    "percentile": ("a percentile over dimensions, by nearest rank", "percentile: {q: 90, over: [lat, lon]}"),
    "median": ("the middle value over dimensions", "median: [lat, lon]"),
    "cumsum": ("sums that grow along a dimension", "cumsum: lat"),
    "anomaly": ("the field without its mean over dimensions", "anomaly: [lon]"),
    "wavenumbers": ("the variance of each wavenumber along a dimension", "wavenumbers: {over: lon, most: 20}"),
    "remap": ("another grid, by a file of weights", "remap: weights.nc"),
    "remapcon": ("the same, of conservative weights", "remapcon: r360x180"),
    "remapbil": ("the same, of bilinear ones", "remapbil: r360x180"),
    "remapnn": ("the same, of nearest neighbours", "remapnn: r360x180"),
    "remapdis": ("the same, of weights by distance", "remapdis: r360x180"),
    "remapbic": ("the same, bicubic", "remapbic: r360x180"),
    "remaplaf": ("the same, the value that has the largest part of each cell", "remaplaf: r360x180"),
    "remapcon2": ("the same, of conservative weights of the second order, by a file", "remapcon2: weights.nc"),
    "healpix": ("the cells of HEALPix, nested; as pyramid, coarser ones too", "{healpix: {zoom: 7}, pyramid: true}"),
    "regions": ("the mean or sum over each region of a file", "regions: basins.geojson"),
    "covariance": ("covariance with another field over dimensions", "covariance: {with: v, over: [lon]}"),
    "correlation": ("correlation with another field over dimensions", "correlation: {with: v, over: [lat, lon]}"),
    "coarsen": ("boxes of this many points", "{coarsen: {lat: 2, lon: 2}, how: max}"),
}
"""What a space may say, with an example."""


@dataclass(frozen=True, slots=True)
class ListedName:
    """Something that the configuration may name."""

    section: str
    """What it is: a statistic, a window, …"""
    name: str
    """Its name."""
    summary: str
    """What it does, in one line."""
    example: str
    """How the configuration writes it."""
    parameters: tuple[tuple[str, str], ...] = ()
    """What it takes, each with its meaning and default."""
    means: str = ""
    """Of a name that people know, what it stands for."""


def entries() -> Iterator[ListedName]:
    """Yield all of them."""
    for kind in KINDS.values():
        yield _kind("statistics", kind)
    yield ListedName("statistics", parse.FILTER, *FILTER, _parameters(parse.FILTER_PARAMETERS))
    for name, entry_point in installed().items():
        yield ListedName("your own", name, f"of {entry_point.value}", name)
    for transform in transforms.KINDS.values():
        yield _kind("transforms", transform)
    for window in kinds.KINDS.values():
        yield _kind("windows", window)
    for name, (summary, example) in SPACES.items():
        yield ListedName("spaces", name, summary, example)
    for name, means in ELSEWHERE.items():
        yield ListedName(ANOTHER, name, means, "")
    for name, why in LACKING.items():
        yield ListedName(ANOTHER, name, f"not here: {why}", "")
    for tool, theirs in OTHER_TOOLS.items():
        for name, means in theirs.items():
            yield ListedName(tool, name, means, "")
    for origin, names in known.ORIGINS.items():
        for item in names.values():
            yield ListedName(f"names of {origin}", item.name, item.summary, item.example)


def _kind(section: str, kind: Any) -> ListedName:
    return ListedName(section, kind.name, kind.summary, kind.example or kind.name, _parameters(kind.parameters))


def _parameters(parameters: Mapping[str, Parameter]) -> tuple[tuple[str, str], ...]:
    return tuple((name, _told(parameter)) for name, parameter in parameters.items())


def _told(parameter: Parameter) -> str:
    if parameter.default is REQUIRED:
        return f"{parameter.meaning} (required)"
    plain = isinstance(parameter.default, bool | int | float | str)
    return f"{parameter.meaning} (default {parameter.default})" if plain else parameter.meaning


def overview() -> Iterator[ListedName]:
    """Yield all of them, with CDO's statistics over time in one line for each window."""
    suffixes = " ".join([*STATISTICS, "pctl,N"])
    folded = {f"{prefix}{suffix}" for prefix in (*WINDOWS, *COUNTED) for suffix in (*STATISTICS, "pctl")}
    for entry in entries():
        if entry.name not in folded and entry.section not in (ANOTHER, *OTHER_TOOLS):
            yield entry
    for prefix, (over, _) in (*WINDOWS.items(), *COUNTED.items()):
        example = known.NAMES[f"{prefix}mean"].example
        yield ListedName("names of CDO", f"{prefix}…", f"over {over}: {suffixes}", example)


def find(written: str) -> list[ListedName]:
    """Return what is called so.

    Parameters
    ----------
    written
        A name, or a known one with what follows it, such as ``timpctl,90``, or a frequency such as ``QS-DEC``.

    Raises
    ------
    ConfigError
        If nothing is; the message names the nearest.
    """
    word = written.partition(",")[0]
    found = [_with_meaning(entry, written) for entry in entries() if entry.name == word]
    window = frequency_window(written)
    if window is not None:
        found.append(ListedName("names of xarray", written, "a window by its frequency", written, means=_flow(window)))
    if not found:
        raise ConfigError(f"nothing is called {written!r}; {nearest(word, {entry.name for entry in entries()})}")
    return found


def _with_meaning(entry: ListedName, written: str) -> ListedName:
    if not entry.section.startswith("names of"):
        return entry
    try:
        means = known.meaning(written)
    except ConfigError:  # what must follow it isn't there, or doesn't fit in a word
        return entry
    parts = means.parts | ({"operators": [means.operator]} if means.operator is not None else {})
    assumed = f" of a variable in {means.units}" if means.units else ""
    return ListedName(entry.section, entry.name, entry.summary, entry.example, means=_flow(parts) + assumed)


def _flow(value: Any) -> str:
    """Write a value as YAML's flow style."""
    return json.dumps(value).replace('"', "")

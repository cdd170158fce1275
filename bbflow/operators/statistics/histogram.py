"""Histograms: how many values of each point were in which bin."""

from itertools import pairwise
from typing import Any

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.operator import Axis, Operator, OperatorKind
from bbflow.operators.statistics.adaptive_bins import BinGrid
from bbflow.operators.statistics.bins import Bins
from bbflow.operators.steps import Array, Views
from bbflow.reading.sections import Parameter, number, positive

BINS = 50


def counts(views: Views) -> Array:
    """Return the counts in bins with given edges."""
    return np.array(views["counts"][1:-1])


def below(views: Views) -> Array:
    """Return the count below the first edge."""
    return np.array(views["counts"][0])


def above(views: Views) -> Array:
    """Return the count above the last edge."""
    return np.array(views["counts"][-1])


def field(views: Views, *, name: str) -> Array:
    """Return a field as it is kept."""
    return views[name].copy()


def start(views: Views) -> Array:
    """Return where the first bin begins."""
    return np.where(views["last"] < 0, np.nan, np.ldexp(views["origin"].astype("f8"), views["exponent"]))


def width(views: Views) -> Array:
    """Return the width of a bin."""
    return np.where(views["last"] < 0, np.nan, np.ldexp(1.0, views["exponent"]))


def _count(name: str, family: Bins | BinGrid, formula: Any, where: str, **more: Any) -> Operator:
    method = f"sum (of 1 for each valid value {where})"
    return Operator(name, family, formula, method, f"number of values {where}", result="i4", own_units="1", **more)


BIN = (
    ("long_name", "middle of the bin"),
    *((name, f"{{{name}}}") for name in ("units", "standard_name", "units_metadata")),
)


def _given(edges: tuple[float, ...]) -> tuple[Operator, ...]:
    family = Bins(edges)
    middles = tuple((a + b) / 2 for a, b in pairwise(edges))
    axis = Axis("bin", middles, BIN, edges)
    return (
        _count("histogram", family, counts, "in each bin", axes=(axis,)),
        _count("histogram_below", family, below, "below the first edge"),
        _count("histogram_above", family, above, "above the last edge"),
    )


def _automatic(bins: int) -> tuple[Operator, ...]:
    if bins < 2:
        raise ConfigError("automatic edges need at least 2 bins")
    family = BinGrid(bins)
    axis = Axis("bin", tuple(map(float, range(bins))), (("long_name", "number of the bin"), ("units", "1")))
    edge = "point ({} of each point's bins)".format
    return (
        _count("histogram", family, field, "in each bin", parameters=(("name", "counts"),), axes=(axis,)),
        _count("histogram_below", family, field, "that were -infinity", parameters=(("name", "below"),)),
        _count("histogram_above", family, field, "that were infinity", parameters=(("name", "above"),)),
        Operator("histogram_start", family, start, edge("begin"), "lower edge of the first bin"),
        Operator("histogram_width", family, width, edge("width"), "width of the bins"),
    )


def _make(bins: int | None, edges: tuple[float, ...] | None, **given: tuple[float, ...] | None) -> tuple[Operator, ...]:
    limits = given["range"]
    if edges is not None:
        if bins is not None or limits is not None:
            raise ConfigError("edges say everything: leave out 'bins' and 'range'")
        return _given(edges)
    if limits is None:
        return _automatic(bins or BINS)
    return _given(tuple(np.linspace(limits[0], limits[1], (bins or BINS) + 1).tolist()))


def numbers(value: Any) -> tuple[float, ...]:
    """Read a list of numbers."""
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{value!r} isn't a list of numbers")
    return tuple(float(number(item)) for item in value)


def _limits(value: Any) -> tuple[float, ...] | None:
    if value == "auto":
        return None
    read = numbers(value)
    if len(read) != 2 or not read[0] < read[1]:
        raise ConfigError(f"{value!r} isn't a range: give its two ends, the smaller one first, or auto")
    return read


KINDS = (
    OperatorKind(
        "histogram",
        "counts of the values in bins, and outside of them",
        _make,
        {
            "bins": Parameter(positive, f"number of bins, {BINS} if nothing else says it", None),
            "range": Parameter(_limits, "lower and upper end of even bins; auto: each point finds its own", None),
            "edges": Parameter(numbers, "edges of the bins, if they aren't even", None),
        },
        "histogram: {bins: 50, range: [200, 330]}",
    ),
)

"""Joint histograms: how many pairs of two variables' values of each point were in which bins."""

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from bbflow.errors import BbflowError, ConfigError
from bbflow.operators.family import Family, StateField
from bbflow.operators.operator import Axis, Operator, OperatorKind
from bbflow.operators.statistics.bins import checked_edges
from bbflow.operators.statistics.comoments import WITH
from bbflow.operators.statistics.histogram import BIN, numbers
from bbflow.operators.steps import Array, DType, Steps, Views
from bbflow.reading.sections import Parameter, positive

Edges = tuple[tuple[float, ...], tuple[float, ...]]
MOST_CELLS = 10_000
"""A joint histogram of more takes more than 40 kB for each point: that is a mistake."""


@dataclass(frozen=True, slots=True)
class JointBins(Family):
    """Keeps the count of each pair of bins, and that of the pairs of which a value is in none."""

    other: str
    """Expression of the other input."""
    edges: Edges
    """Of the variable's bins and of the other one's; as `Bins.edges`."""
    counts = "valid"

    @property
    def name(self) -> str:
        """Those with the same edges are shared."""
        return f"joint_bins(with {self.other})" + "_x_".join("_".join(map(repr, own)) for own in self.edges)

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of bins."""
        return tuple(len(own) - 1 for own in self.edges)

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return the counts, row by row of the first bins, and that of all valid pairs."""
        return (StateField("cells", "i4", (prod(self.shape),), merge="add"), StateField("valid", "i4", merge="add"))

    def fold(self, views: Views, steps: Steps) -> None:
        """Count pairs; values are compared as float64."""
        if self.other not in steps.others:
            raise BbflowError(f"the steps came without their other input {self.other!r}, which the state needs")
        other, points = steps.others[self.other], np.arange(views["valid"].shape[0])
        for at, values in enumerate(steps.values):
            valid = steps.valid_in(at) & other.valid_in(at)
            first, second = (
                _bin_of(own, edges) for own, edges in zip((values, other.values[at]), self.edges, strict=True)
            )
            inside = valid & (first >= 0) & (second >= 0)
            # Step by step: of an index that comes twice, `+=` would count one, and within a step each point comes once.
            views["cells"][(first * self.shape[1] + second)[inside], points[inside]] += 1
            views["valid"][...] += valid


def _bin_of(values: Array, edges: tuple[float, ...]) -> Array:
    """Return the bin of each value, -1 outside; the last one has its upper edge, too."""
    own = np.asarray(values, "f8")
    found = np.searchsorted(edges, own, side="right") - 1
    found[own == edges[-1]] = len(edges) - 2
    return np.where((found >= 0) & (found < len(edges) - 1), found, -1)


def joint_counts(views: Views, *, shape: tuple[int, ...]) -> Array:
    """Return the counts, of shape (bins, other bins, points)."""
    return np.array(views["cells"]).reshape(*shape, -1)


def outside(views: Views) -> Array:
    """Return how many valid pairs are in no bin."""
    return np.asarray(views["valid"] - views["cells"].sum(axis=0))


def _make(bins: tuple[int, int] | None, edges: Edges | None, **given: Any) -> tuple[Operator, ...]:
    limits, other = given["range"], given["with"]
    if edges is not None and (bins is not None or limits is not None):
        raise ConfigError("edges say everything: leave out 'bins' and 'range'")
    if edges is None:
        if bins is None or limits is None:
            raise ConfigError("say the bins of both, either by 'edges', or by 'bins' and 'range'")
        first, second = (
            np.linspace(own[0], own[1], count + 1).tolist() for own, count in zip(limits, bins, strict=True)
        )
        edges = tuple(first), tuple(second)
    family = JointBins(other, (checked_edges(edges[0]), checked_edges(edges[1])))
    if prod(family.shape) > MOST_CELLS:
        raise ConfigError(
            f"{' x '.join(map(str, family.shape))} bins are more than {MOST_CELLS} for each point: take fewer"
        )
    told = (BIN, (("long_name", f"middle of the bin of {other}"),))
    axes = tuple(
        Axis(name, tuple((a + b) / 2 for a, b in pairwise(own)), about, own)
        for name, own, about in zip(("bin", "other_bin"), edges, told, strict=True)
    )
    counted = "number of pairs of values"
    return (
        Operator("joint_histogram", family, joint_counts, "sum (of 1 for each valid pair in each pair of bins)",
                 f"{counted} with {other} in bins", result="i4", own_units="1", parameters=(("shape", family.shape),),
                 axes=axes, inputs=(other,)),
        Operator("joint_histogram_outside", family, outside, "sum (of 1 for each valid pair in no bins)",
                 f"{counted} with {other} in no bins", result="i4", own_units="1", inputs=(other,)),
    )  # fmt: skip


def _pair(value: Any) -> tuple[Any, Any]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ConfigError(f"{value!r} must be two: of the variable, and of the other one")
    return value[0], value[1]


def _edges(value: Any) -> Edges:
    first, second = map(numbers, _pair(value))
    return first, second


def _ranges(value: Any) -> Edges:
    for own in (pair := _edges(value)):
        if len(own) != 2 or not own[0] < own[1]:
            raise ConfigError(f"{list(own)!r} isn't a range: give its two ends, the smaller one first")
    return pair


def _counts(value: Any) -> tuple[int, int]:
    first, second = map(positive, _pair(value))
    return first, second


KINDS = (
    OperatorKind(
        "joint_histogram",
        "counts of pairs with another variable's values in bins of both",
        _make,
        {
            "with": WITH,
            "bins": Parameter(_counts, "numbers of even bins of both", None),
            "range": Parameter(_ranges, "lower and upper end of both", None),
            "edges": Parameter(_edges, "edges of both, if they aren't even", None),
        },
        "joint_histogram: {with: pr, bins: [40, 20], range: [[200, 330], [0, 0.01]]}",
    ),
)

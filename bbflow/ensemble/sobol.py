"""First-order and total Sobol' indices of a pick-freeze design, updated group by group.

A group has p + 2 members for p parameters: one runs with a row of the sample A, one with a row of B, and one for each
parameter k with A's row in which k is B's (C_k). Martinez' estimators are correlations over the groups: S_k that of
the results of B and C_k, and S_Tk one less that of A and C_k (Martinez, "Analyse de sensibilite globale par
decomposition de la variance", GdR Ondes & MASCOT-NUM 2011; as iterated in Terraz et al., "Melissa: large scale in
transit sensitivity analysis avoiding intermediate files", SC17, section 3.3).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bbflow.operators.family import Family, StateField
from bbflow.operators.operator import Axis, Operator
from bbflow.operators.steps import Array, DType, Steps, Views


@dataclass(frozen=True)
class PickFreeze:
    """Which members make a group: each p + 2 in the members' order, A, B, C_1 … C_p."""

    parameters: tuple[str, ...]
    """Their names."""
    members: tuple[str, ...]
    """All members of the ensemble."""

    @property
    def size(self) -> int:
        """Members of a group."""
        return len(self.parameters) + 2

    @cached_property
    def places(self) -> dict[str, tuple[int, int]]:
        """Member to its group, and its place in that."""
        return {name: divmod(at, self.size) for at, name in enumerate(self.members)}

    def operators(self) -> tuple[Operator, ...]:
        """Return what is computed: both indices, and the number of groups that they stand on."""
        family = GroupCoMoments(len(self.parameters))
        told = ("long_name", "parameter"), ("flag_meanings", " ".join(self.parameters))
        axis = Axis("parameter", tuple(float(at) for at in range(len(self.parameters))), told)
        return (
            Operator("sobol", family, first_order, "variance (first-order Sobol' index)",
                     "first-order Sobol' index", own_units="1", axes=(axis,)),
            Operator("sobol_total", family, total, "variance (total Sobol' index)",
                     "total Sobol' index", own_units="1", axes=(axis,)),
            Operator("sobol_groups", family, groups, "sum", "groups of the Sobol' indices", "i4", own_units="1"),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class GroupCoMoments(Family):
    """Keeps, over groups, means and sums of products of deviations (Pébay, SAND2008-6212, section 3.1).

    Steps are members of whole groups, in their order; at a point, only groups without a missing member count.
    """

    parameters: int
    """p."""
    counts = "count"

    @property
    def name(self) -> str:
        """One for each number of parameters."""
        return f"groups{self.parameters}"

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return groups; of A, B, C_k means and sums of squares; of A and B sums of products with each C_k."""
        p = self.parameters
        return (
            StateField("count", "i4"),
            *(StateField(name, "f8", (p + 2,)) for name in ("mean", "square")),
            *(StateField(name, "f8", (p,)) for name in ("with_a", "with_b")),
        )

    def fold(self, views: Views, steps: Steps) -> None:
        """Take whole groups."""
        size, valid = self.parameters + 2, steps.valid()
        values = np.where(valid, steps.stacked().astype("f8"), 0)
        for first in range(0, len(values), size):
            group, there = values[first : first + size], valid[first : first + size].all(axis=0)
            views["count"][...] += there
            # Of each product one factor is about the mean before this group, the other about the new one (Welford).
            before = np.where(there, group - views["mean"], 0)
            views["mean"][...] += before / np.maximum(views["count"], 1)
            after = np.where(there, group - views["mean"], 0)
            views["square"][...] += before * after
            views["with_a"][...] += before[0] * after[2:]
            views["with_b"][...] += before[1] * after[2:]

    def combine(self, left: Views, right: Views) -> dict[str, Array]:
        """Add both sides' sums about their common means."""
        count = left["count"] + right["count"]
        share = right["count"] / np.maximum(count, 1)
        apart = right["mean"] - left["mean"]
        both = left["count"] * share
        return {
            "count": count,
            "mean": left["mean"] + apart * share,
            "square": left["square"] + right["square"] + apart**2 * both,
            "with_a": left["with_a"] + right["with_a"] + apart[0] * apart[2:] * both,
            "with_b": left["with_b"] + right["with_b"] + apart[1] * apart[2:] * both,
        }


def first_order(views: Views) -> Array:
    """Return S_k, of shape (p, points); missing without spread."""
    return _correlation(views, "with_b", 1)


def total(views: Views) -> Array:
    """Return S_Tk, of shape (p, points); missing without spread."""
    return np.asarray(1 - _correlation(views, "with_a", 0))


def groups(views: Views) -> Array:
    """Return how many groups count."""
    return views["count"]


def _correlation(views: Views, products: str, of: int) -> Array:
    return np.asarray(views[products] / np.sqrt(views["square"][of] * views["square"][2:]))


def whole_groups(design: PickFreeze, members: Sequence[str]) -> list[int]:
    """Return where the members of whole groups are in a list, group by group, each in its order."""
    found: dict[int, dict[int, int]] = {}
    for at, name in enumerate(members):
        group, place = design.places[name]
        found.setdefault(group, {})[place] = at
    whole = (own for _, own in sorted(found.items()) if len(own) == design.size)
    return [own[place] for own in whole for place in range(design.size)]

"""Which values count where several Puts of a step have the same points: the last ones, as in BP5.

BP5 reads blocks in the order of ranks, those of a rank in the order of its Puts, each over what came before. Of single
values it takes those of the first rank.
"""

from collections.abc import Sequence
from math import prod
from typing import Protocol, TypeVar

import numpy as np


class HasRegion(Protocol):
    """A part of an array."""

    @property
    def start(self) -> tuple[int, ...]:
        """Where it begins there."""

    @property
    def count(self) -> tuple[int, ...]:
        """Its shape."""


class HasPlace(HasRegion, Protocol):
    """A block, or its form."""

    @property
    def rank(self) -> int:
        """The writer."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the global array."""


W = TypeVar("W")
F = TypeVar("F", bound=HasPlace)


def seen(placed: Sequence[tuple[W, F]]) -> list[tuple[W, F]]:
    """Return the visible parts of a variable's blocks in one step, in the order in which each covers the others.

    Parameters
    ----------
    placed
        All blocks, each with where it is, a rank's in the order of its Puts; of a global array, or of a single value.

    Returns
    -------
    list
        Without those that one later Put covers wholly. What a Put covers in part is still there.
    """
    ordered = sorted(placed, key=lambda item: item[1].rank)
    if len(ordered) < 2:
        return ordered
    if not ordered[0][1].count:
        first = ordered[0][1].rank
        return [[item for item in ordered if item[1].rank == first][-1]]
    forms = [form for _, form in ordered]
    if len({form.shape for form in forms}) > 1 or are_disjoint(forms):
        return ordered
    starts = np.array([form.start for form in forms], "i8")
    ends = starts + np.array([form.count for form in forms], "i8")
    found = []
    for at, item in enumerate(ordered):
        later = slice(at + 1, None)
        if not ((starts[later] <= starts[at]) & (ends[later] >= ends[at])).all(axis=1).any():
            found.append(item)
    return found


def are_disjoint(forms: Sequence[HasRegion]) -> bool:
    """Whether no two blocks of a global array have points in common."""
    return points_of(forms) == sum(prod(form.count) for form in forms)


def points_of(forms: Sequence[HasRegion]) -> int:
    """Return how many points of a global array blocks have, each counted once."""
    own = [form for form in forms if prod(form.count)]
    if not own or not own[0].count:
        return len(own[:1])
    starts = np.array([form.start for form in own], "i8")
    ends = starts + np.array([form.count for form in own], "i8")
    # Blocks begin and end at few places of each axis: between these all points are alike.
    cuts = [np.unique(np.concatenate([starts[:, axis], ends[:, axis]])) for axis in range(starts.shape[1])]
    taken = np.zeros([len(cut) - 1 for cut in cuts], bool)
    firsts = np.stack([np.searchsorted(cut, starts[:, axis]) for axis, cut in enumerate(cuts)], axis=1).tolist()
    lasts = np.stack([np.searchsorted(cut, ends[:, axis]) for axis, cut in enumerate(cuts)], axis=1).tolist()
    for first, last in zip(firsts, lasts, strict=True):
        taken[tuple(map(slice, first, last))] = True
    for axis, cut in enumerate(cuts):  # the lengths of what is taken, axis by axis
        lengths = np.diff(cut).reshape([-1 if own == axis else 1 for own in range(len(cuts))])
        taken = taken * lengths
    return int(taken.sum())

"""Quantile sketches: of each point a few hundred values in sorted runs, whose ranks are known to a hard bound.

A sketch is an input buffer of `size` values and one sorted run of `size` values for each level. A full buffer is
sorted and becomes a run of level 0. Two runs of a level are merged and every other value is kept, which is a run of
the next level, where each value stands for twice as many: the runs count like the digits of a binary number (Munro and
Paterson, "Selection and sorting with limited storage", Theoretical Computer Science 12 (1980), 315-323; Manku,
Rajagopalan and Lindsay, "Approximate medians and other quantiles in one pass and with limited memory", SIGMOD 1998,
426-435; merging of states: Agarwal et al., "Mergeable summaries", PODS 2012, 23-34). The highest level never carries:
whatever comes is merged into its run, whose weight so grows by steps of one unit.

A missing value takes its place in the buffer, as a padding that sorts behind all values. So the number of steps alone
says where everything is, for all points alike, and the runs of many points are sorted and merged side by side.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from bbflow.operators import library
from bbflow.operators.family import StateField
from bbflow.operators.kernel_family import InKernel, KernelFamily
from bbflow.operators.library import FAMILIES
from bbflow.operators.statistics.moments import MAX
from bbflow.operators.steps import Array, DType, Views

MOST_TOP = 24
"""No sketch needs more levels: runs count to 2**24 before weights grow by single units."""


@dataclass(frozen=True, slots=True)
class Sketch(KernelFamily):
    """Keeps runs of some size, and levels from 0 to some top."""

    size: int
    """Values of a run."""
    top: int
    """The highest level."""

    @property
    def name(self) -> str:
        """Sketches of one size and top are shared."""
        return f"sketch{self.size}_{self.top}"

    @property
    def in_kernel(self) -> InKernel:
        """Its size and levels."""
        return InKernel(FAMILIES.index("sketches"), self.size, self.top)

    @property
    def rows(self) -> int:
        """Values that are kept for each point."""
        return self.size * (self.top + 2)

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return steps seen, valid values, the largest one, and the buffer followed by the runs."""
        values = StateField("values", None, (self.rows,))
        return StateField("seen", "i4"), StateField("count", "i4"), MAX, values

    def clear(self, views: Views) -> None:
        """Nothing seen, so whatever the rows are, they hold nothing."""
        views["seen"][...] = 0
        views["count"][...] = 0
        MAX.clear(views["max"])

    def merge(self, target: Views, left: Views, right: Views) -> None:
        """Merge two states, whose points may have seen different numbers of steps; rows that hold nothing are 0."""
        if not any(np.may_share_memory(target["values"], side["values"]) for side in (left, right)):
            target["values"][...] = 0
            KernelFamily.merge(self, target, left, right)
            return
        merged = {name: np.zeros(values.shape, values.dtype) for name, values in target.items()}
        KernelFamily.merge(self, merged, left, right)  # apart from both, as the kernel wants it
        for name, values in merged.items():
            target[name][...] = values

    def find(self, views: Views, weights: Array) -> Array:
        """Return the smallest value up to which what is kept weighs at least so much.

        Parameters
        ----------
        views
            Fields of (inner..., points).
        weights
            At least 1, of shape (points,).

        Returns
        -------
        numpy.ndarray
            Of shape (points,) and the input's type; the largest valid value where all weigh less.
        """
        return library.find(views["max"].dtype, self.task(views), weights)

    def excess(self, seen: Array) -> Array:
        """Return by how much the weight up to a value may exceed its rank at most; it is never less than the rank.

        With c values of the merged runs up to x, the first, third, fifth, … of them are ceil(c / 2), which weigh twice
        as much: the error of one merge is 0 or 1 in units of its weight 2**h. With R = seen // size runs there were
        R // 2**(h + 1) merges at a level h, whatever the order of all merges was. At the top, runs of a and b units
        become one by keeping the first of every a + b, which errs by at most a + b - 1 units; for t units in all
        this is most if they come one by one: t (t - 1) / 2.

        Parameters
        ----------
        seen
            Steps of each point.

        Returns
        -------
        numpy.ndarray
            int64, of the shape of `seen`; 0 while there was no merge, that is below 2 `size` steps.
        """
        return excess(np.asarray(seen, "i8") // self.size, self.top)


def excess(runs: Array, top: int) -> Array:
    """Return `Sketch.excess` for numbers of runs."""
    merges = sum((((runs >> (level + 1)) << level) for level in range(top)), np.zeros_like(runs))
    units = runs >> top
    return np.asarray(merges + ((units * (units - 1) // 2) << top))


@cache
def choose(error: float, steps: int) -> Sketch:
    """Return the smallest sketch that keeps a bound.

    Parameters
    ----------
    error
        Bound on the error of a rank, as a share of the steps.
    steps
        The bound holds for any number of steps up to this one.
    """
    best = Sketch(steps // 2 + 1, 0)  # holds all of them
    # Two runs make an error of one rank: smaller sizes break the bound there.
    sizes = np.arange(max(int(0.5 / error), 1), steps // 2 + 1)
    most_runs = steps // sizes
    runs = np.arange(1, most_runs.max(initial=0) + 1)
    for top in range(min(MOST_TOP, len(runs).bit_length())):
        worst = np.maximum.accumulate((excess(runs, top) + 1) // 2 / runs)
        fits = sizes[(worst[most_runs - 1] <= error * sizes) & (1 << top <= most_runs)]
        best = min([best, *(Sketch(size, top) for size in fits[:1].tolist())], key=lambda sketch: sketch.rows)
    return best

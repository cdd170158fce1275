"""What one writer rank's block has of a result."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bbflow.operators.family import Array, Steps
from bbflow.operators.space.lane import Lane, take, tiles
from bbflow.operators.space.ways import WAYS


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """Takes the points of one block, and reduces them; small when pickled."""

    start: tuple[int, ...]
    """First index of the result's region to which the block contributes."""
    count: tuple[int, ...]
    """Shape of that region; () if the result is one number. Parts that the block lacks are missing in the partials."""
    complete: bool
    """Whether every result of the region depends on this block alone."""
    block: tuple[int, ...]
    """Shape of the block."""
    how: str
    """What is done with the places, see `WAYS`."""
    lanes: tuple[Lane, ...]
    """The block's places."""
    factor: Array | None = None
    """Weights that are not those of one dimension, masks too; they broadcast against the places."""

    def values(self, steps: Steps) -> list[Array]:
        """Give the results of a complete region.

        Parameters
        ----------
        steps
            The block's values, each of shape (points of the block,).

        Returns
        -------
        list
            For each step an array of shape (prod(count),) and type `Placement.dtype`; NaN where nothing is valid.
        """
        if not self.complete:
            raise ValueError(f"the region at {self.start} of shape {self.count} needs other blocks too: use `partial`")
        if self.how == "select":
            return [self._selected(values, steps.fill) for values in steps.values]
        way = WAYS[self.how]
        finished = way.finish(self.partial(steps))
        return [row.astype(way.dtype(block.dtype)) for row, block in zip(finished, steps.values, strict=True)]

    def partial(self, steps: Steps) -> Array:
        """Give mergeable components, float64 of shape (steps, k, prod(count)); see `Placement.merge`."""
        way = WAYS[self.how]
        region = tuple(lane.size for lane in self.lanes)
        result = np.stack([way.empty(region) for _ in steps.values])
        for cuts, part in tiles(self.lanes):
            factor, place = _cut(self.factor, cuts), _place(part)
            for target, values in zip(result, steps.values, strict=True):
                taken = take(values.reshape(self.block), part)
                found = way.reduce(taken, _used(steps.fill, taken), factor, part)
                target[place] = way.merge(target[place], found)
        return result.reshape(len(steps.values), way.components, -1)

    def _selected(self, values: Array, fill: Array | None) -> Array:
        chosen = take(values.reshape(self.block), self.lanes)
        dtype = WAYS[self.how].dtype(chosen.dtype)
        result = chosen.astype(dtype, order="C")  # a copy: what it is taken from is freed before long
        if fill is not None:
            result[chosen == fill] = np.nan
        if self.factor is not None:
            np.copyto(result, np.nan, where=self.factor == 0)
        return result.reshape(-1)


def _used(fill: Array | None, values: Array) -> Array | None:
    """Give the fill value if it is there: most tiles of most variables that have one are faster without it."""
    return fill if fill is not None and (values == fill).any() else None


def _cut(factor: Array | None, cuts: tuple[slice, ...]) -> Array | None:
    """Give a tile's factors; axes of length 1 stand for any length."""
    if factor is None:
        return None
    return factor[tuple(cut if length > 1 else slice(None) for cut, length in zip(cuts, factor.shape, strict=True))]


def _place(part: list[Lane]) -> tuple[Any, ...]:
    """Give the index of a tile's targets in the components of the region."""
    targets = [lane.groups()[1] for lane in part]
    if all(isinstance(item, slice) for item in targets):
        return (slice(None), *targets)
    arrays = [np.arange(item.start, item.stop) if isinstance(item, slice) else item for item in targets]
    return (slice(None), *np.ix_(*arrays))

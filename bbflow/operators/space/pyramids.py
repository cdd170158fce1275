"""Pyramids: coarser levels of a result, each of whose cells is the mean of four cells of the finer one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from bbflow.operators.space.meshes import Described
from bbflow.operators.steps import Array


@dataclass(frozen=True, slots=True, eq=False)
class PyramidLevel:
    """One grid of a pyramid."""

    name: str
    """Its number: HEALPix' zoom, else how often the coarsest grid is halved."""
    shape: tuple[int, ...]
    """Of its dimensions."""
    described: Described
    """Its dimensions and coordinates."""


@dataclass(frozen=True, slots=True, eq=False)
class Pyramid:
    """The levels of a result on one grid."""

    label: str
    """Name of the grid, for files: hp7, or r360x180."""
    at: int
    """How many dimensions of the result come before the grid's."""
    weights: Array
    """What each cell of the finest grid weighs, float64 of its shape."""
    levels: tuple[PyramidLevel, ...]
    """From the finest to the coarsest; the first one is the result's own grid."""
    wanted: tuple[str, ...]
    """The names of those that are written."""

    def made(self, values: Array) -> Iterator[tuple[PyramidLevel, Array]]:
        """Yield the levels that are wanted, the finest first.

        Parameters
        ----------
        values
            Of the shape of a result: `at` dimensions, those of the grid, and others. Missing ones are NaN: a cell of a
            coarser level is the mean of what is valid in the finest one, weighted by area.
        """
        grid = tuple(range(self.at, self.at + self.weights.ndim))
        after = values.ndim - self.at - self.weights.ndim
        weights = self.weights.reshape([1] * self.at + list(self.weights.shape) + [1] * after)
        sums = values * weights
        if not np.isfinite(sums).all():
            weights = np.isfinite(values) * weights
            sums = np.where(weights > 0, sums, 0)
        for number, level in enumerate(self.levels):
            if number:
                sums, weights = halved(sums, grid), halved(weights, grid)
            if level.name in self.wanted:
                with np.errstate(invalid="ignore", divide="ignore"):
                    yield level, values if not number else np.where(weights > 0, sums / weights, np.nan)


def halved(values: Array, grid: Sequence[int]) -> Array:
    """Add what lies in one coarser cell: four that follow each other, or two by two."""
    members = 4 if len(grid) == 1 else 2
    for axis in grid:
        before = (slice(None),) * axis
        first, *others = (values[(*before, slice(at, None, members))] for at in range(members))
        values = first + others[0]
        for other in others[1:]:
            values += other
    return values


CONVENTION = {
    "uuid": "d35379db-88df-4056-af3a-620245f8e347",
    "schema_url": "https://raw.githubusercontent.com/zarr-conventions/multiscales/refs/tags/v0.1/schema.json",
    "spec_url": "https://github.com/zarr-conventions/multiscales/blob/v0.1/README.md",
    "name": "multiscales",
    "description": "Multiscale layout of zarr datasets",
}
"""As the multiscales convention of zarr-conventions wants to be named, of which GeoZarr's stores are."""


def multiscales(pyramids: Sequence[Pyramid]) -> dict[str, Any]:
    """Return what the root of a store says of its levels.

    It is an object with the `layout` of zarr-conventions, the finest level first. What ndpyramid writes is a list of
    one under the same name: it is the object's member "0", which is where readers in JavaScript find it.

    Parameters
    ----------
    pyramids
        Those of the store's fields, which are on one grid; each may have other levels.
    """
    wanted = {name for pyramid in pyramids for name in pyramid.wanted}
    levels = [(at, level) for at, level in enumerate(pyramids[0].levels) if level.name in wanted]
    layout: list[dict[str, Any]] = [{"asset": levels[0][1].name}]
    for (before, finer), (at, level) in pairwise(levels):
        members = 4 if len(level.shape) == 1 else 2
        scale = [float(members ** (at - before))] * len(level.shape)
        layout.append({"asset": level.name, "derived_from": finer.name, "transform": {"scale": scale}})
    paths = [{"path": level.name} for _, level in reversed(levels)]
    list_of_one = {"datasets": paths, "type": "reduce", "metadata": {"method": "mean of four cells, weighted by area"}}
    own = {"layout": layout, "resampling_method": "average", "0": list_of_one}
    return {"zarr_conventions": [CONVENTION], "multiscales": own}

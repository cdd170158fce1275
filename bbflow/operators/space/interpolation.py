"""Remaps that need the whole of a field: those by its gradients, and the value that has the largest part of a cell."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bbflow.operators.space.chaining import Made
from bbflow.operators.space.grid import Grid
from bbflow.operators.space.meshes import Described, Mesh, on_sphere
from bbflow.operators.space.weights import Weights
from bbflow.operators.steps import Array

NEIGHBOURLY = 1.5
"""A grid's last column is beside its first one if they are as near as so many times the usual neighbours."""


@dataclass(frozen=True, eq=False)
class Interpolated(Made):
    """Whole fields on another grid; the axes are the horizontal ones, in the order of the weights' grid."""

    weights: Weights
    """The sparse matrix, of both grids."""
    target: Described
    """Dimensions and coordinates of the target."""
    result: Grid
    """The results'."""

    @property
    def dims(self) -> tuple[str, ...]:
        """Return the result's dimensions."""
        return self.result.dims

    @property
    def shape(self) -> tuple[int, ...]:
        """Return their sizes."""
        return self.result.shape

    @property
    def coordinates(self) -> Mapping[str, Array]:
        """Return the target's."""
        return self.target.coordinates

    @property
    def coordinate_dims(self) -> Mapping[str, tuple[str, ...]]:
        """Return the target's."""
        return self.target.coordinate_dims

    @property
    def coordinate_attributes(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the target's."""
        return self.target.attributes

    @property
    def attributes(self) -> Mapping[str, str]:
        """Return what names the target's coordinates."""
        return self.target.own

    @property
    def own_dims(self) -> frozenset[str]:
        """Return the target's."""
        return frozenset(dim for dims in self.target.coordinate_dims.values() for dim in dims) - {"bnds"}

    @property
    def remapping_weights(self) -> Weights:
        """Return them."""
        return self.weights

    @property
    def meshes(self) -> tuple[Mesh, Mesh]:
        """Return both grids."""
        assert self.weights.source is not None
        assert self.weights.target is not None
        return self.weights.source, self.weights.target

    def make(self, fields: Array) -> Array:
        """Make the results; see `Made.make`."""
        source, target = self.meshes
        planes = [axis for axis in range(len(self.grid.dims)) if axis not in self.axes]
        moved = fields.transpose(0, *(axis + 1 for axis in (*planes, *self.axes)))
        flat = moved.reshape(-1, *source.shape)
        with np.errstate(invalid="ignore", divide="ignore"):
            found = self._of_largest(flat) if self.weights.method == "laf" else self._of_gradients(flat)
        own, at = range(len(target.shape)), sum(axis < min(self.axes) for axis in planes)
        rows = found.reshape(*moved.shape[: 1 + len(planes)], *target.shape)
        return np.moveaxis(rows, [1 + len(planes) + axis for axis in own], [1 + at + axis for axis in own])

    @cached_property
    def _columns(self) -> Array:
        """Return the source's point of each link."""
        return np.repeat(np.arange(len(self.weights.starts) - 1), np.diff(self.weights.starts))

    def _added(self, weights: Array, planes: Array) -> Array:
        """Return the sums of links by rows, of shape (planes, rows)."""
        rows, size = self.weights.rows, len(self.weights.cover)
        flat = planes.reshape(len(planes), -1)
        return np.stack([np.bincount(rows, weights * plane[self._columns], size) for plane in flat])

    @cached_property
    def _is_round(self) -> bool:
        """Whether the first column comes after the last one."""
        mesh, _ = self.meshes
        if len(mesh.shape) != 2 or mesh.shape[1] < 3 or mesh.lat is None or mesh.lon is None:
            return False
        places = on_sphere(mesh.lat, mesh.lon).reshape(*mesh.shape, 3)
        apart = np.linalg.norm(np.roll(places, -1, axis=1) - places, axis=-1)
        return bool(np.nanmedian(apart[:, -1]) <= NEIGHBOURLY * np.nanmedian(apart[:, :-1]))

    def _of_gradients(self, planes: Array) -> Array:
        """Add values and gradients; a bicubic point needs all its corners, the mean over a cell any of its parts."""
        own, valid = self.weights, ~np.isnan(planes)
        assert own.gradients is not None
        sums, weight = (self._added(own.values, each) for each in (np.where(valid, planes, 0.0), valid.astype("f8")))
        for weights, each in zip(own.gradients.T, gradients(planes, valid, is_round=self._is_round), strict=False):
            sums += self._added(weights, each)
        enough = weight > 0
        if own.method == "bic":
            enough &= (self._added(np.ones(len(own.values)), ~valid) == 0) | (own.needs == 0)
        return np.where(enough, sums * own.cover / weight, np.nan)

    def _of_largest(self, planes: Array) -> Array:
        """Return for each point the value of which the cells have the largest part of it; of equal ones the first."""
        own, found = self.weights, np.full((len(planes), len(self.weights.cover)), np.nan)
        for plane, out in zip(planes.reshape(len(planes), -1), found, strict=True):
            values = plane[self._columns]
            kept = np.flatnonzero(~np.isnan(values))
            if not len(kept):
                continue
            order = kept[np.lexsort((kept, values[kept], own.rows[kept]))]
            rows, ordered = own.rows[order], values[order]
            begins = np.flatnonzero(np.append(True, (rows[1:] != rows[:-1]) | (ordered[1:] != ordered[:-1])))
            parts = np.add.reduceat(own.values[order], begins)
            best = np.lexsort((-order[begins], parts, rows[begins]))  # the last one of each row is put there last
            out[rows[begins][best]] = ordered[begins][best]
        return found


def gradients(planes: Array, valid: Array, *, is_round: bool) -> list[Array]:
    """Return differences between neighbours from column to column, from row to row, and of the one along the other.

    They are SCRIP's, as CDO has them (Jones, 1999, Mon. Wea. Rev. 127, 2204): half of that between both neighbours, and
    between one and the point itself where the other is missing.

    Parameters
    ----------
    planes, valid
        Of shape (planes, rows, columns).
    is_round
        Whether the first column comes after the last one.

    Returns
    -------
    list
        Three of that shape; 0 where the point itself is missing.
    """
    values = np.where(valid, planes, 0.0)

    def beside(down: int, right: int) -> tuple[Array, Array]:
        """Return the values of neighbours, and whether they are there."""
        moved, there = (np.roll(own, (-down, -right), (1, 2)) for own in (values, valid))
        if down:
            there[:, -1 if down > 0 else 0] = False
        if right and not is_round:
            there[:, :, -1 if right > 0 else 0] = False
        return moved, there

    def along(down: int, right: int) -> Array:
        after, before = beside(down, right), beside(-down, -right)
        share = np.where(after[1] & before[1], 0.5, 1.0)
        return np.asarray(share * (np.where(after[1], after[0], values) - np.where(before[1], before[0], values)))

    of_both = _of_both(values, {(down, right): beside(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)})
    return [np.where(valid, own, 0.0) for own in (along(0, 1), along(1, 0), of_both)]


def _of_both(values: Array, beside: Mapping[tuple[int, int], tuple[Array, Array]]) -> Array:
    """Return the difference of differences: the place of a missing neighbour is taken by one of its row or column.

    The order in which they are looked at, and what halves then, is SCRIP's.
    """
    (east, has_east), (west, has_west) = beside[0, 1], beside[0, -1]
    own_east, own_west = np.where(has_east, east, values), np.where(has_west, west, values)
    across, down = np.full(values.shape, 0.5), np.full(values.shape, 0.5)
    down[:, [0, -1]] = 1.0
    found = []
    for step, edge in ((1, -1), (-1, 0)):
        (right, has_right), (left, has_left), (middle, has_middle) = (
            (own.copy(), there.copy()) for own, there in (beside[step, 1], beside[step, -1], beside[step, 0])
        )
        # Beyond the last row it is that row itself.
        right[:, edge], has_right[:, edge], left[:, edge], has_left[:, edge] = (
            own[:, edge] for own in (east, has_east, west, has_west)
        )
        in_row = ~has_right & ~has_middle
        right = np.where(has_right, right, np.where(has_middle, middle, own_east))
        left = np.where(in_row, own_west, left)
        across[(~has_right & has_middle) | (in_row & ~(has_east & has_west))] = 1.0
        also_in_row = ~has_left & ~has_middle & ~in_row
        left = np.where(has_left | in_row, left, np.where(has_middle, middle, own_west))
        right = np.where(also_in_row, own_east, right)
        across[(~has_left & has_middle & ~in_row) | (also_in_row & ~(has_east & has_west))] = 1.0
        down[in_row | also_in_row] = 1.0
        found.append(across * (right - left))
    return np.asarray(down * (found[0] - found[1]))

"""Remapping: a field on another grid, as the product with a sparse matrix of which each block has a part."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.frozen import Frozen
from bbflow.operators.space.columns import Column, ColumnPart
from bbflow.operators.space.links import Links, links_of
from bbflow.operators.space.meshes import Described
from bbflow.operators.space.placement import POINT, Local, Placement
from bbflow.operators.space.pyramids import Pyramid
from bbflow.operators.space.weights import Weights
from bbflow.operators.steps import Array, Steps

AT_ONCE_BYTES = 1 << 26
"""About how much is made of steps, or of their sums, at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Ending(Frozen):
    """How sums of a target's rows end."""

    cover: Array
    """Of each row the sum of all its weights; float64 of shape (rows,)."""
    share: Array
    """Of each row the share of its area that all of them stand for; float64, the same."""
    least: Array | float
    """Rows of which less than this share is valid are missing; of shape (rows,), or the same for all. If all must be,
    it is as much below 1 as sums are off by rounding."""
    is_sum: bool = False
    """Whether sums stay as they are: what is missing adds nothing."""

    def some(self, rows: Array) -> "Ending":
        """Return the same for some rows."""
        least = self.least[rows] if isinstance(self.least, np.ndarray) else self.least
        return Ending(self.cover[rows], self.share[rows], least, self.is_sum)

    def end(self, parts: Array, out: Array) -> Array:
        """Return the values of sums and weights, of shape (steps, 2, planes, rows): NaN where too little is valid.

        They are written to `out`, of shape (steps, planes, rows), which may be the sums themselves.

        What is valid stands for what is missing: the sum is scaled to the weights that the row would have. With weights
        that add up to 1 this is the mean of the valid values; where the grid covers a part of a cell and the weights
        are shares of the cell's area ('destarea'), it leaves the field's integral as it is.
        """
        # Plane by plane, so that what is made on the way stays in the cache.
        for step, plane in np.ndindex(out.shape[:-1]):
            self._end_plane(parts[step, 0, plane], parts[step, 1, plane], out[step, plane])
        return out

    def _end_plane(self, sums: Array, valid: Array, out: Array) -> None:
        scale: Array | float = 1.0
        with np.errstate(invalid="ignore", divide="ignore"):
            if not np.array_equal(valid, self.cover):
                scale = self.cover / valid
            np.multiply(sums, 1.0 if self.is_sum else scale, out=out)
            enough = (valid > 0) & (self.share >= scale * self.least)
        if not enough.all():
            out[~enough] = np.nan


@dataclass(frozen=True, slots=True, eq=False)
class RemapLocal(Local):
    """Takes the part of a sparse matrix that a block has."""

    before: Local | None
    """What is done with the block first; None for nothing."""
    made: ColumnPart | None
    """What is made of its columns before that."""
    box: tuple[int, ...]
    """Shape of what it gives, or of the block."""
    planes: tuple[int, ...]
    """Its axes that are kept."""
    plane_start: tuple[int, ...]
    """First index of each of them in the whole."""
    links: Links
    """Its places' weights."""
    ending: Ending | None
    """How the rows of `links` end; None if other blocks have parts of them."""
    shape: tuple[int, ...]
    """Of the target's grid."""
    at: int
    """How many of the planes come before the target's dimensions."""
    after: Local | None
    """What is done with the result; None for nothing."""

    @property
    def column(self) -> ColumnPart | None:
        """Return what is made of the block's columns first."""
        return self.made

    def partial(self, steps: Steps) -> Array:
        """Return the sums of the rows that the block touches, float64 of shape (steps, 2, planes * rows)."""
        given = self._given(steps)
        return self._parts(given, self._offsets()).reshape(len(given.values), 2, -1)

    def values(self, steps: Steps) -> list[Array]:
        """Return the results of a complete region; see `Local.values`."""
        found: list[Array] = []
        for some in self._at_once(steps, 16 * prod(self._kept) * prod(self.shape)):
            found += self._ended(self._parts(self._given(some), self._offsets()))
        return found

    def averaged_partial(self, steps: Steps) -> Array:
        """Return the sums of the steps' mean where none comes and goes; see `Local.averaged_partial`."""
        given, offsets = self._given(steps), self._offsets()
        parts, steady = self.links.apply_to_mean(given.values, offsets, given.fill)
        if steady.all():
            return parts.reshape(1, 2, -1)
        return self._parts(given, offsets).reshape(len(given.values), 2, -1)

    def averaged(self, steps: Steps) -> list[Array]:
        """Return the results of the steps' mean, plane by plane where none comes and goes; see `Local.averaged`."""
        if self.before is None:
            return self._averaged(steps)
        found: list[Array] = []
        for some in self._at_once(steps, 8 * prod(self.box)):
            found += self._averaged(self._given(some))
        return found

    def _averaged(self, given: Steps) -> list[Array]:
        count, offsets = len(given.values), self._offsets()
        if count == 1:
            return self._ended(self._parts(given, offsets))
        parts, steady = self.links.apply_to_mean(given.values, offsets, given.fill)
        if steady.all():
            return self._ended(parts[np.newaxis]) * count
        # What is missing in some planes may count in all that is made of them then.
        single = ~steady if self.after is None else np.full(len(steady), fill_value=True)
        found: list[Array] = []
        for some in self._at_once(given, 16 * prod(self._kept) * prod(self.shape)):
            whole = np.repeat(parts[np.newaxis], len(some.values), axis=0)
            whole[:, :, single] = self._parts(some, offsets[single])
            found += self._ended(whole)
        return found

    def _parts(self, given: Steps, offsets: Array) -> Array:
        """Return the sums of rows and of their weights, of shape (steps, 2, planes, rows)."""
        return self.links.apply(given.values, offsets, given.fill)

    def _ended(self, parts: Array) -> list[Array]:
        """Return for each step the results of a complete region; the sums are used up."""
        if not self.complete or self.ending is None:
            raise ValueError(f"the region at {self.start} of shape {self.count} needs other blocks too: use `partial`")
        whole = scattered(self.ending.end(parts, out=parts[:, 0]), self.links.rows, prod(self.shape))
        ordered = in_order(whole, self._kept, self.shape, self.at)
        rows = [np.ascontiguousarray(row).reshape(-1) for row in ordered]
        return rows if self.after is None else self.after.values(Steps(rows))

    @property
    def _kept(self) -> list[int]:
        """Return the shape of the planes."""
        return [self.box[axis] for axis in self.planes]

    def _at_once(self, steps: Steps, bytes_of_step: int) -> Iterator[Steps]:
        """Yield as many steps at a time as may be in memory together."""
        most = max(AT_ONCE_BYTES // max(bytes_of_step, 1), 1)
        return (steps.some(slice(first, first + most)) for first in range(0, len(steps.values), most))

    def _given(self, steps: Steps) -> Steps:
        if self.before is None:
            return steps
        if self.before.complete:
            return Steps([np.ascontiguousarray(values).reshape(-1) for values in self.before.values(steps)])
        return Steps(list(self.before.partial(steps)[:, 0]))  # a selection with gaps, which are missing

    def _offsets(self) -> Array:
        """Return where each plane begins."""
        offsets: Array = np.zeros(1, np.int64)
        for axis in self.planes:
            step = prod(self.box[axis + 1 :])
            offsets = (offsets[:, np.newaxis] + step * np.arange(self.box[axis])).reshape(-1)
        return np.ascontiguousarray(offsets, np.int64)


def scattered(values: Array, rows: Array, size: int) -> Array:
    """Put values of some rows, the last axis, among all; the others are missing."""
    if len(rows) == size:
        return values
    whole = np.full((*values.shape[:-1], size), np.nan)
    whole[..., rows] = values
    return whole


def in_order(values: Array, kept: Sequence[int], shape: tuple[int, ...], at: int) -> Array:
    """Return values of shape (steps, planes, rows) in the result's order: the target's dimensions after `at` others."""
    steps, split = len(values), values.reshape(len(values), prod(kept[:at]), prod(kept[at:]), -1)
    return split.swapaxes(2, 3).reshape(steps, *kept[:at], *shape, *kept[at:])


@dataclass(frozen=True, slots=True, eq=False)
class Remapped(Placement):
    """A field on another grid: what is done before, the product, and what is done after."""

    before: Placement | None
    """What is made of columns, and selections on the variable's grid; None for none."""
    weights: Weights
    """The sparse matrix."""
    box: tuple[int, ...]
    """Shape of what it is applied to."""
    axes: tuple[int, ...]
    """The horizontal axes of that, in the order of the weights' grid."""
    factor: Array | None
    """What each point counts besides, float64 of shape (points,); None for 1."""
    ending: Ending
    """How sums become values."""
    target: Described
    """Dimensions and coordinates of the target."""
    after: Placement | None
    """Selections and reductions on it; None for none."""
    levels: Pyramid | None = None
    """Coarser levels that are wanted of the results."""

    @property
    def remapping_weights(self) -> Weights:
        """Return them."""
        return self.weights

    @property
    def column(self) -> Column | None:
        """Return what is made of the variable's columns first."""
        return self.before.column if self.before else None

    @property
    def coordinate_attributes(self) -> Mapping[str, Mapping[str, Any]]:
        """Return CF attributes of the target's coordinates, and of those that were made before."""
        own = self.before.coordinate_attributes if self.before else {}
        return {**own, **self.target.attributes}

    @property
    def attributes(self) -> Mapping[str, str]:
        """Return what names the target's coordinates that are still there."""
        return {key: text for key, text in self.target.own.items() if text.split()[-1] in self.coordinates}

    @property
    def pyramid(self) -> Pyramid | None:
        """Return the coarser levels that are wanted of the results."""
        return self.levels

    @property
    def own_dims(self) -> frozenset[str]:
        """Return the target's dimensions, and those of its coordinates."""
        return frozenset((POINT, *(dim for dims in self.target.coordinate_dims.values() for dim in dims))) - {
            "bnds"
        } | (frozenset(self.target.dims))

    @property
    def mesh_shape(self) -> tuple[int, ...]:
        """Return the shape of the target's grid."""
        assert self.weights.target is not None
        return self.weights.target.shape

    @property
    def planes(self) -> tuple[int, ...]:
        """Return the axes that are kept."""
        return tuple(axis for axis in range(len(self.box)) if axis not in self.axes)

    @property
    def at(self) -> int:
        """Return how many of them come before the target's dimensions."""
        return sum(axis < min(self.axes) for axis in self.planes)

    def local(self, start: tuple[int, ...], count: tuple[int, ...]) -> Local | None:
        """Return what a block has of the result; None if nothing. See `Placement.local`.

        Raises
        ------
        ConfigError
            If something is reduced first of which the block has only a part.
        """
        inner = self.before.local(start, count) if self.before else None
        if self.before and inner is None:
            return None
        if inner is not None:
            self._check_whole(inner, start, count)
            start, count = inner.start, inner.count
        links = self._links(start, count)
        if not len(links.rows):
            return None
        is_whole = all((start[axis], count[axis]) == (0, self.box[axis]) for axis in self.axes)
        is_whole = is_whole and (inner is None or inner.complete)
        planes, at = self.planes, self.at
        first, size = [start[axis] for axis in planes], [count[axis] for axis in planes]
        region = (
            (*first[:at], *(0 for _ in self.mesh_shape), *first[at:]),
            (*size[:at], *self.mesh_shape, *size[at:]),
        )
        after = self.after.local(*region) if self.after else None
        if self.after and after is None:
            return None
        return RemapLocal(
            start=after.start if after else region[0],
            count=after.count if after else region[1],
            complete=is_whole and (after is None or after.complete),
            before=None if self.before is None or self.before.is_bare else inner,
            made=inner.column if inner else None,
            box=count,
            planes=planes,
            plane_start=tuple(first),
            links=links,
            ending=self.ending.some(links.rows) if is_whole else None,
            shape=self.mesh_shape,
            at=at,
            after=after,
        )

    def _check_whole(self, inner: Local, start: tuple[int, ...], count: tuple[int, ...]) -> None:
        """Check that a block has all that is reduced before it is remapped; selections may have gaps."""
        if not inner.complete and self.before is not None and not self.before.is_selection:
            raise ConfigError(
                f"the block at {start} of shape {count} has only a part of what is reduced before 'remap': let each "
                "block have all of that dimension, or reduce after 'remap'"
            )

    def _links(self, start: tuple[int, ...], count: tuple[int, ...]) -> Links:
        """Return the links of a region; the same object for all variables whose blocks lie alike."""
        own = tuple((self.box[axis], start[axis], count[axis], prod(count[axis + 1 :])) for axis in self.axes)
        known = KNOWN.setdefault(self.weights, {})
        if self.factor is None and own in known:
            return known[own]
        axes = [np.arange(first, first + size) for _, first, size, _ in own]
        whole, strides = tuple(item[0] for item in own), [item[-1] for item in own]
        links = links_of(self.weights, whole, axes, strides, self.factor)
        if self.factor is None:
            known[own] = links
        return links

    def assemble(self, steps: int, parts: Iterable[tuple[Local, Array]]) -> Array:
        """Add the sums of blocks; see `Placement.assemble`."""
        shape = [self.box[axis] for axis in self.planes]
        whole = np.zeros((steps, 2, *shape, prod(self.mesh_shape)))
        for local, part in parts:
            assert isinstance(local, RemapLocal)
            size = [local.box[axis] for axis in local.planes]
            ends = (slice(first, first + many) for first, many in zip(local.plane_start, size, strict=True))
            place: tuple[Any, ...] = (..., *ends, local.links.rows)
            # A block's rows are different ones: of one that came twice, this would add the last only.
            whole[place] += part.reshape(steps, 2, *size, -1)
        return whole.reshape(steps, 2, -1)

    def finish(self, partial: Array) -> Array:
        """Return the results of the whole; see `Placement.finish`."""
        kept = [self.box[axis] for axis in self.planes]
        parts = partial.reshape(len(partial), 2, prod(kept), -1)
        ended = self.ending.end(parts, out=np.empty_like(parts[:, 0]))
        rows = in_order(ended, kept, self.mesh_shape, self.at).reshape(len(partial), -1)
        if self.after is None:
            return rows
        region = (*kept[: self.at], *self.mesh_shape, *kept[self.at :])
        after = self.after.local((0,) * len(region), region)
        assert after is not None
        return np.stack(after.values(Steps(list(np.ascontiguousarray(rows)))))


KNOWN: WeakKeyDictionary[Weights, dict[tuple[tuple[int, ...], ...], Links]] = WeakKeyDictionary()
"""Links by the regions that they are of, as long as someone needs the weights."""

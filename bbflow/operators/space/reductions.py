"""Reductions of many values to one: their mergeable components, and how these end."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bbflow.operators.space.tracks import Strip
from bbflow.operators.steps import Array, DType

quietly = np.errstate(invalid="ignore", divide="ignore")
"""Decorates what calls a reduction."""
ROUNDING = 100 * np.finfo("f8").eps
"""A standard deviation that is a smaller part of the mean than this comes of the mean's own rounding."""
SMALL_GROUP = 16
"""Groups of up to this many places are reduced faster member by member than one by one."""


class Reduction(ABC):
    """How values are reduced: components for each point that merge in any order, and the end.

    Infinities that cancel and divisions by no weight are NaN: callers let NumPy say nothing of either, see `quietly`.
    """

    components: int
    """How many numbers are kept for each point."""

    nothing = 0.0
    """What each component of no values is."""

    def empty(self, shape: tuple[int, ...]) -> Array:
        """Return components of nothing; float64 of shape (k, *shape)."""
        return np.full((self.components, *shape), self.nothing)

    @abstractmethod
    def reduce(self, values: Array, fill: Array | None, factor: Array | None, strips: Sequence[Strip]) -> Array:
        """Return the components of some values; what a step's are doesn't depend on the other steps.

        Parameters
        ----------
        values
            One axis for each strip, of which the first one is the steps'.
        fill
            What stands for 'missing', besides NaN.
        factor
            Weight of each value, that broadcasts against them; 0 leaves it out. None for 1.
        strips
            Say which places go together, and their weights.

        Returns
        -------
        numpy.ndarray
            float64, k arrays with one axis for each strip: of the targets that it has.
        """

    def merge(self, left: Array, right: Array) -> Array:
        """Merge components of different values, each of shape (k, …): add them, if nothing else is said."""
        return np.asarray(left + right)

    def finish(self, parts: Array) -> Array:
        """Return the values of components along axis -2, NaN where nothing was valid: the first, if nothing is said."""
        return np.asarray(parts[..., 0, :])

    def dtype(self, dtype: DType) -> DType:
        """Return the type that holds the results of an input's type exactly, as far as they are float64's."""
        return np.dtype("f8")


@dataclass(frozen=True, slots=True)
class Weighted(Reduction):
    """Means and sums: the weighted sum of valid values, and the sum of their weights."""

    mean: bool
    """Whether the one is divided by the other."""
    components = 2

    def reduce(self, values: Array, fill: Array | None, factor: Array | None, strips: Sequence[Strip]) -> Array:
        """Return the sums; see `Reduction.reduce`. If nothing is missing, the weights' sum is the places'."""
        wide = values.astype("f8", order="C")
        sums = _contract(wide if factor is None else wide * factor, strips)
        parts = np.stack([sums, _all_weights(factor, strips, sums.shape)])
        lacking: Array = np.logical_or(_any_in_step(~np.isfinite(sums)), _has(fill, values))
        if lacking.any():
            valid = _valid(values[lacking], fill, factor)
            some = np.where(valid, wide[lacking], 0.0)
            weights = valid.astype("f8") if factor is None else np.where(valid, factor, 0.0)
            parts[0, lacking] = _contract(some if factor is None else some * weights, strips)
            parts[1, lacking] = _contract(weights, strips)
        return parts

    def finish(self, parts: Array) -> Array:
        """Divide them, or give the first where there is any weight."""
        sums, weights = parts[..., 0, :], parts[..., 1, :]
        return np.where(weights > 0, sums / weights if self.mean else sums, np.nan)


@dataclass(frozen=True, slots=True)
class Extreme(Reduction):
    """The smallest or the largest valid value; of places that are only selected each is its own largest."""

    largest: bool
    """Which of them."""
    components = 1
    nothing = np.nan

    def reduce(self, values: Array, fill: Array | None, factor: Array | None, strips: Sequence[Strip]) -> Array:
        """Return the extremes; see `Reduction.reduce`."""
        if factor is None:
            found = self._reduce(values, strips, np.maximum if self.largest else np.minimum).astype("f8")
            lacking: Array = np.logical_or(_any_in_step(np.isnan(found)), _has(fill, values))
            if not lacking.any():  # the slower fmin and fmax aren't needed
                return found[np.newaxis]
        valid = _valid(values, fill, factor)
        floats = values if values.dtype.kind == "f" else values.astype("f8")
        kept = np.where(valid, floats, np.asarray(np.nan, floats.dtype))
        return self._reduce(kept, strips, np.fmax if self.largest else np.fmin).astype("f8")[np.newaxis]

    def _reduce(self, values: Array, strips: Sequence[Strip], ufunc: Any) -> Array:
        for axis, strip in reversed(list(enumerate(strips))):
            if not strip.factor:
                values = ufunc.reduce(values, axis=axis, keepdims=True)
            elif strip.factor > 1:
                values = _group(ufunc, values, strip, axis)
        return values

    def merge(self, left: Array, right: Array) -> Array:
        """Return the more extreme ones."""
        return np.asarray(np.fmax(left, right) if self.largest else np.fmin(left, right))

    def dtype(self, dtype: DType) -> DType:
        """Return the float types themselves, float64 for integers."""
        return np.dtype(dtype) if np.dtype(dtype).kind == "f" else np.dtype("f8")


@dataclass(frozen=True, slots=True)
class Spread(Reduction):
    """Variance and standard deviation: weights, the mean, weighted squares about it, and the weights' squares.

    Merged as in Chan, Golub and LeVeque (1983), with weights for counts (West, doi:10.1145/359146.359153); of a sample
    they are divided by W - sum(w**2) / W, which is n - 1 for equal weights, as by CDO's fldvar1.
    """

    root: bool
    """Whether the root is drawn."""
    of_sample: bool
    """Whether the values are a sample; the whole population if not."""
    components = 4

    def reduce(self, values: Array, fill: Array | None, factor: Array | None, strips: Sequence[Strip]) -> Array:
        """Return the components; see `Reduction.reduce`. Squares are about each result's own mean, in a second pass."""
        valid = _valid(values, fill, factor)
        kept = np.where(valid, values, 0).astype("f8", order="C")
        weights = np.where(valid, 1.0 if factor is None else factor, 0.0)
        squared = [strip if strip.weights is None else replace(strip, weights=strip.weights**2) for strip in strips]
        whole, squares = _contract(weights, strips), _contract(weights**2, squared)
        mean = np.where(whole > 0, _contract(kept * weights, strips) / whole, 0.0)
        apart = np.where(valid, kept - _spread_out(mean, strips), 0.0)
        return np.stack([whole, mean, _contract(apart**2 * weights, strips), squares])

    def merge(self, left: Array, right: Array) -> Array:
        """Add weights and squares, the latter about the common mean."""
        whole, apart = left[0] + right[0], right[1] - left[1]
        share = np.where(whole > 0, right[0] / whole, 0.0)
        return np.stack(
            [whole, left[1] + apart * share, left[2] + right[2] + apart**2 * left[0] * share, left[3] + right[3]]
        )

    def finish(self, parts: Array) -> Array:
        """Divide the squares."""
        whole, squares, own = parts[..., 0, :], parts[..., 2, :], parts[..., 3, :]
        divisor = whole - own / whole if self.of_sample else whole
        found = np.where(divisor > 0, squares / divisor, np.nan)
        return np.sqrt(found) if self.root else found


@dataclass(frozen=True, slots=True)
class Covariance(Reduction):
    """Covariance or correlation of the real and the imaginary parts: weights, both means, squares and products.

    Merged as those of `Spread`; the weights divide, as in CDO's fldcovar and fldcor.
    """

    scaled: bool
    """Whether it is divided by both standard deviations."""
    components = 6

    def reduce(self, values: Array, fill: Array | None, factor: Array | None, strips: Sequence[Strip]) -> Array:
        """Return the components; see `Reduction.reduce`. Products are about each result's means, in a second pass."""
        valid = _valid(values, fill, factor)
        weights = np.where(valid, 1.0 if factor is None else factor, 0.0)
        whole = _contract(weights, strips)
        means, apart = [], []
        for own in (values.real, values.imag):
            kept = np.where(valid, own, 0.0)
            means.append(np.where(whole > 0, _contract(kept * weights, strips) / whole, 0.0))
            apart.append(np.where(valid, kept - _spread_out(means[-1], strips), 0.0))
        products = [_contract(apart[one] * apart[other] * weights, strips) for one, other in ((0, 0), (1, 1), (0, 1))]
        return np.stack([whole, *means, *products])

    def merge(self, left: Array, right: Array) -> Array:
        """Add weights and products, the latter about the common means."""
        whole, apart = left[0] + right[0], right[1:3] - left[1:3]
        share = np.where(whole > 0, right[0] / whole, 0.0)
        products = np.stack([apart[0] ** 2, apart[1] ** 2, apart[0] * apart[1]])
        return np.concatenate(
            [whole[np.newaxis], left[1:3] + apart * share, left[3:] + right[3:] + products * (left[0] * share)]
        )

    def finish(self, parts: Array) -> Array:
        """Divide the products; a field that is the same everywhere, but for its mean's rounding, has no correlation."""
        whole, *means, first, second, both = (parts[..., at, :] for at in range(6))
        if not self.scaled:
            return np.where(whole > 0, both / whole, np.nan)
        least = [whole * (ROUNDING * mean) ** 2 for mean in means]
        divisor = np.where((first > least[0]) & (second > least[1]), np.sqrt(first * second), 0.0)
        return np.where(divisor > 0, both / divisor, np.nan)


@dataclass(frozen=True, slots=True)
class Extent(Reduction):
    """The largest valid value less the smallest."""

    components = 2
    nothing = np.nan

    def reduce(self, values: Array, fill: Array | None, factor: Array | None, strips: Sequence[Strip]) -> Array:
        """Return both extremes; see `Reduction.reduce`."""
        return np.concatenate(
            [LOWEST.reduce(values, fill, factor, strips), HIGHEST.reduce(values, fill, factor, strips)]
        )

    def merge(self, left: Array, right: Array) -> Array:
        """Return the more extreme ones."""
        return np.stack([np.fmin(left[0], right[0]), np.fmax(left[1], right[1])])

    def finish(self, parts: Array) -> Array:
        """Return the difference."""
        return np.asarray(parts[..., 1, :] - parts[..., 0, :])


@dataclass(frozen=True, slots=True)
class ValidCount(Reduction):
    """The number of valid values; 0, and not missing, where there are none."""

    components = 1

    def reduce(self, values: Array, fill: Array | None, factor: Array | None, strips: Sequence[Strip]) -> Array:
        """Return the numbers; see `Reduction.reduce`."""
        bare = [replace(strip, weights=None) for strip in strips]
        return _contract(_valid(values, fill, factor).astype("f8"), bare)[np.newaxis]


LOWEST, HIGHEST = Extreme(largest=False), Extreme(largest=True)
REDUCTIONS: Mapping[str, Reduction] = {
    "mean": Weighted(mean=True),
    "sum": Weighted(mean=False),
    "min": LOWEST,
    "max": HIGHEST,
    "range": Extent(),
    "std": Spread(root=True, of_sample=False),
    "std1": Spread(root=True, of_sample=True),
    "var": Spread(root=False, of_sample=False),
    "var1": Spread(root=False, of_sample=True),
    "count": ValidCount(),
    "covariance": Covariance(scaled=False),
    "correlation": Covariance(scaled=True),
    "select": HIGHEST,
}
"""By name; 'select' keeps places that are not reduced: at most one block has each."""


def _any_in_step(found: Array) -> Array:
    """Return of each step whether anything in it is true."""
    return np.asarray(found.reshape(len(found), -1).any(axis=1))


def _has(fill: Array | None, values: Array) -> Array:
    """Return of each step whether the fill value is there: most steps of most variables that have one lack it."""
    return np.zeros(len(values), bool) if fill is None else _any_in_step(np.equal(values, fill))


def _valid(values: Array, fill: Array | None, factor: Array | None) -> Array:
    valid: Array = values == values
    if fill is not None:
        valid &= values != fill
    return valid if factor is None else valid & (factor != 0)


def _contract(values: Array, strips: Sequence[Strip]) -> Array:
    """Sum over the strips that are reduced, with their weights; float64, one axis for each strip."""
    for axis, strip in reversed(list(enumerate(strips))):
        if strip.factor == 1:
            continue
        if strip.factor:
            weighted = values if strip.weights is None else values * _along(strip.weights, axis, values.ndim)
            values = _group(np.add, weighted, strip, axis)
        else:  # not by BLAS, whose sums depend on the processor, and on how many there are
            weighted = values if strip.weights is None else values * _along(strip.weights, axis, values.ndim)
            values = weighted.sum(axis=axis, keepdims=True)
    return values


def _group(ufunc: Any, values: Array, strip: Strip, axis: int) -> Array:
    """Reduce the places of each target; whole small groups by their first places, then their second, and so on."""
    if not strip.whole_groups or strip.factor > SMALL_GROUP:
        return np.asarray(ufunc.reduceat(values, strip.groups()[0], axis=axis))
    before = (slice(None),) * axis
    members = [values[(*before, slice(first, None, strip.factor))] for first in range(strip.factor)]
    result = ufunc(members[0], members[1])
    for member in members[2:]:
        ufunc(result, member, out=result)
    return np.asarray(result)


def _spread_out(values: Array, strips: Sequence[Strip]) -> Array:
    """Spread to each place what its target has, the reverse of `_contract`; axes reduced to nothing broadcast."""
    for axis, strip in enumerate(strips):
        if strip.factor > 1:
            starts = strip.groups()[0]
            values = np.repeat(values, np.diff([*starts, strip.length]), axis=axis)
    return values


def _all_weights(factor: Array | None, strips: Sequence[Strip], shape: tuple[int, ...]) -> Array:
    """Return the sums of the weights if every value is valid."""
    if factor is not None:
        full = np.broadcast_to(factor, [strip.length for strip in strips]).astype("f8")
        return _contract(full, strips)
    weights = np.ones((1,) * len(strips))
    for axis, strip in enumerate(strips):
        if strip.factor != 1:
            own = np.ones(strip.length) if strip.weights is None else strip.weights
            weights = weights * _along(np.add.reduceat(own, strip.groups()[0]), axis, len(strips))
    return np.broadcast_to(weights, shape)


def _along(weights: Array, axis: int, rank: int) -> Array:
    return weights.reshape([-1 if place == axis else 1 for place in range(rank)])

"""Scores of an ensemble against a reference: formulas as scores, xskillscore and properscoring have them.

All take arrays of points, and NaN stands for what is missing; n is the number of members at a point.
"""

from dataclasses import dataclass

import numpy as np

from bbflow.operators.family import Family, StateField
from bbflow.operators.space.reductions import ROUNDING
from bbflow.operators.steps import Array, DType, Steps, Views


@dataclass(frozen=True, slots=True)
class KeptMembers(Family):
    """Keeps every member's value: of N members N fields, which ranks and the exact CRPS need."""

    most: int
    """N."""

    @property
    def name(self) -> str:
        """One for each number of members."""
        return f"members{self.most}"

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return how many there are, and their values."""
        return StateField("kept", "i4"), StateField("values", None, (self.most,))

    def clear(self, views: Views) -> None:
        """Nothing is kept, whatever the rows are."""
        views["kept"][...] = 0

    def fold(self, views: Views, steps: Steps) -> None:
        """Put members' values behind those that are there; missing ones take no place."""
        at = np.arange(views["kept"].size)
        for position, block in enumerate(steps.values):
            valid = steps.valid_in(position)
            views["values"][views["kept"][valid], at[valid]] = block[valid]
            views["kept"][...] += valid

    def combine(self, left: Views, right: Views) -> dict[str, Array]:
        """Put the right side's values behind the left one's."""
        merged = {name: values.copy() for name, values in left.items()}
        at = np.arange(merged["kept"].size)
        for row in range(int(right["kept"].max(initial=0))):
            valid = right["kept"] > row
            merged["values"][merged["kept"][valid], at[valid]] = right["values"][row][valid]
            merged["kept"] += valid
        return merged


def sorted_members(views: Views) -> tuple[Array, Array]:
    """Return the members' values in order, of shape (N, points), NaN behind the last one; and n, of shape (points,)."""
    count = views["kept"]
    values = np.array(views["values"], "f8")
    values[np.arange(len(values))[:, np.newaxis] >= count] = np.nan
    return np.sort(values, axis=0), count


def crps(ordered: Array, count: Array, reference: Array, *, fair: bool) -> Array:
    """Return the continuous ranked probability score.

    It is mean |x_i - y| - sum_ij |x_i - x_j| / (2 m), with m = n**2 for the empirical distribution (Gneiting and
    Raftery, "Strictly proper scoring rules, prediction, and estimation", JASA 102 (2007), eq. 21), and m = n (n - 1)
    for the fair score (Ferro, "Fair scores for ensemble forecasts", QJRMS 140 (2014), eq. 8). Of members in order
    sum_ij |x_i - x_j| = 2 sum_i (2 i - n - 1) x_i, i from 1.

    Parameters
    ----------
    ordered, count
        As `sorted_members` gives them.
    reference
        y, of shape (points,).
    fair
        Which of the two; the fair one is missing below two members.
    """
    ranks = np.arange(1, len(ordered) + 1)[:, np.newaxis]
    with np.errstate(invalid="ignore", divide="ignore"):
        distance = np.nansum(np.abs(ordered - reference), axis=0) / count
        # About the lowest member, so that large values keep their digits.
        pairs = 2 * np.nansum((2 * ranks - count - 1) * (ordered - ordered[0]), axis=0)
        score = distance - pairs / (2.0 * count * (count - 1 if fair else count))
    return np.where((count > int(fair)) & np.isfinite(reference), score, np.nan)


def crps_of_quantiles(quantiles: Array, reference: Array) -> tuple[Array, Array]:
    """Return the CRPS of M quantiles of levels (k - 1/2) / M, and half the mean distance of two of them.

    The CRPS of members in order is 2 sum_i (x_i - y) (1{y < x_i} - (i - 1/2) / n) / n (Bröcker, "Evaluating raw
    ensembles with the continuous ranked probability score", QJRMS 138 (2012), eq. 4), which is that of n such
    quantiles: it is `crps` of M members.
    """
    count = np.where(np.isfinite(quantiles[0]), len(quantiles), 0)
    score = crps(quantiles, count, reference, fair=False)
    with np.errstate(invalid="ignore"):
        return score, np.abs(quantiles - reference).mean(axis=0) - score


def crps_bound(distance: Array, extent: Array, count: Array, rank_error: Array, quantiles: int) -> Array:
    """Return how far the CRPS of quantiles, and the fair one, may be from that of all members.

    The CRPS is the integral of (F - H)**2, with H the step at the reference (Gneiting and Raftery 2007, eq. 20). The
    quantiles' F differs by d at most, d = 1 / (2 M) and the share by which ranks may be off, and only between the
    lowest and the highest member. So the integral differs by that of d (2 |F - H| + d) at most, where the integral of
    |F - H| is the mean distance to the reference. The fair score is less by the integral of F (1 - F) / (n - 1).

    Parameters
    ----------
    distance
        Mean distance of the quantiles to the reference, of shape (points,) as all.
    extent
        From the lowest to the highest member.
    count
        n.
    rank_error
        By how much ranks may be off, in percent of n.
    quantiles
        M.
    """
    d = 0.5 / quantiles + rank_error / 100
    return np.asarray(d * (2 * distance + d * extent) + d * extent / np.maximum(count - 1, 1))


def places(ordered: Array, count: Array, reference: Array) -> tuple[Array, Array]:
    """Return how many members are below the reference, and how many are equal to it; -1 where there is none of them."""
    valid = (count > 0) & np.isfinite(reference)
    with np.errstate(invalid="ignore"):
        found = (ordered < reference).sum(axis=0), (ordered == reference).sum(axis=0)
    return np.where(valid, found[0], -1), found[1]


def rank_histogram(below: Array, equal: Array, members: int, weights: Array) -> Array:
    """Return the weight of the points whose reference is above k members, k from 0 to N.

    A reference that some members equal counts in equal shares for all ranks that it may have (as scores has it). The
    sum is 1; NaN if there is no point.
    """
    valid = below >= 0
    first, last = below[valid], (below + equal)[valid]
    share = weights[valid] / (last - first + 1)
    found = np.zeros(members + 2)
    np.add.at(found, first, share)
    np.add.at(found, last + 1, -share)
    total = weights[valid].sum()
    return np.asarray(np.cumsum(found)[:-1] / total if total else np.full(members + 1, np.nan))


def brier(probability: Array, count: Array, happened: Array, *, fair: bool) -> Array:
    """Return (p - o)**2, for the fair score less p (1 - p) / (n - 1) (Ferro 2014, eq. 4)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        score = (probability - happened) ** 2
        return np.asarray(score - probability * (1 - probability) / (count - 1) if fair else score)


def by_probability(probability: Array, happened: Array, weights: Array, bins: int) -> Array:
    """Return the weight of points in bins of probability, and of it the sums of probabilities and events.

    Returns
    -------
    numpy.ndarray
        Of shape (3, bins); bins begin at k / bins, and the last one has 1 too.
    """
    valid = np.isfinite(probability) & np.isfinite(happened)
    p, o, w = probability[valid], happened[valid], weights[valid]
    # A probability is a share of the members: rounded, k / n times the bins may be just below the bin that it begins.
    at = np.minimum((p * bins + 1e-9).astype("i8"), bins - 1)
    return np.stack([np.bincount(at, own, bins) for own in (w, w * p, w * o)])


def decomposition(sums: Array) -> dict[str, float]:
    """Return reliability, resolution and uncertainty of the Brier score, of the sums of `by_probability`.

    Murphy, "A new vector partition of the probability score", J. Appl. Meteor. 12 (1973), 595-600: the score is
    reliability - resolution + uncertainty where all probabilities of a bin are the same.
    """
    weight, p, o = sums[:, sums[0] > 0]
    total = weight.sum()
    if not total:
        return dict.fromkeys(("reliability", "resolution", "uncertainty"), float("nan"))
    rate = o.sum() / total
    return {
        "reliability": float((weight * (p / weight - o / weight) ** 2).sum() / total),
        "resolution": float((weight * (o / weight - rate) ** 2).sum() / total),
        "uncertainty": float(rate * (1 - rate)),
    }


def mean(values: Array, weights: Array) -> float:
    """Return the weighted mean of what isn't missing."""
    valid = np.isfinite(values)
    total = weights[valid].sum()
    return float((values[valid] * weights[valid]).sum() / total) if total else float("nan")


def anomaly_correlation(forecast: Array, reference: Array, climatology: Array, weights: Array) -> float:
    """Return the centred anomaly correlation (Wilks, "Statistical methods in the atmospheric sciences", eq. 9.94)."""
    x, y = forecast - climatology, reference - climatology
    valid = np.isfinite(x) & np.isfinite(y)
    x, y, w = x[valid], y[valid], weights[valid]
    if not w.sum():
        return float("nan")
    x, y = x - (w * x).sum() / w.sum(), y - (w * y).sum() / w.sum()
    spreads = [np.sqrt((w * own * own).sum()) for own in (x, y)]
    # Anomalies that are the same everywhere have no correlation, however their differences are rounded.
    least = [ROUNDING * np.abs(own[valid]).max() * np.sqrt(w.sum()) for own in (forecast, reference)]
    varies = all(spread > bound for spread, bound in zip(spreads, least, strict=True))
    return float((w * x * y).sum() / (spreads[0] * spreads[1])) if varies else float("nan")


def spread_skill(variance: float, mse: float, members: int) -> float:
    """Return the spread-skill ratio sqrt((n + 1) / n variance / mse), 1 for a reliable ensemble.

    Fortin et al., "Why should ensemble spread match the RMSE of the ensemble mean?", J. Hydrometeor. 15 (2014), eq. 15.
    """
    return float(np.sqrt((members + 1) / members * variance / mse)) if mse > 0 and members else float("nan")

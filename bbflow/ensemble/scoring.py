"""Scores of an ensemble against a reference: formulas as scores, xskillscore and properscoring have them.

All take arrays of points, and NaN stands for what is missing; n is the number of members at a point.
"""

from dataclasses import dataclass

import numpy as np

from bbflow.operators.family import Family, StateField
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


def ranks(ordered: Array, count: Array, reference: Array, weights: Array) -> Array:
    """Return the rank histogram: the weight of the points whose reference is above k members, k from 0 to N.

    A reference that some members equal counts in equal shares for all ranks that it may have (as scores has it). The
    sum is 1; NaN if there is no point.
    """
    valid = (count > 0) & np.isfinite(reference)
    with np.errstate(invalid="ignore"):
        below, equal = (ordered < reference).sum(0)[valid], (ordered == reference).sum(0)[valid]
    share = weights[valid] / (equal + 1)
    found = np.zeros(len(ordered) + 2)
    np.add.at(found, below, share)
    np.add.at(found, below + equal + 1, -share)
    total = weights[valid].sum()
    return np.asarray(np.cumsum(found)[:-1] / total if total else np.full(len(ordered) + 1, np.nan))


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
    spread = np.sqrt((w * x * x).sum() * (w * y * y).sum())
    return float((w * x * y).sum() / spread) if spread else float("nan")


def spread_skill(variance: float, mse: float, members: int) -> float:
    """Return the spread-skill ratio sqrt((n + 1) / n variance / mse), 1 for a reliable ensemble.

    Fortin et al., "Why should ensemble spread match the RMSE of the ensemble mean?", J. Hydrometeor. 15 (2014), eq. 15.
    """
    return float(np.sqrt((members + 1) / members * variance / mse)) if mse > 0 and members else float("nan")

"""The scores of a moment at each point, before they are averaged over regions."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bbflow.ensemble import scoring
from bbflow.ensemble.ensemble_settings import ScoresConfig
from bbflow.operators.operator import FINISHED_POINTS
from bbflow.operators.state import StateLayout, part_of, parts_of
from bbflow.operators.steps import Array, Views


@dataclass(frozen=True, slots=True)
class PointScores:
    """Arrays of shape (points,) and float64; NaN is missing."""

    fields: Mapping[str, Array]
    """What is averaged as it is, by the scores' names: bias, mse, variance, crps, brier_280 and so on."""
    mean: Array
    """Of the members."""
    reference: Array
    """What it is scored against."""
    members: int
    """Most members of a point."""
    ranks: tuple[Array, Array] | None
    """How many members are below the reference, and equal to it (`scoring.places`)."""
    events: Mapping[float, tuple[Array, Array]]
    """Limit to the probability that it is exceeded, and whether it was."""


def scored_points(
    config: ScoresConfig, layout: StateLayout, views: Mapping[str, Views], reference: Array
) -> PointScores:
    """Score a moment at each point.

    Parameters
    ----------
    config
        Which scores.
    layout
        Of the state; has what they need.
    views
        The state's, by family.
    reference
        Of shape (points,) and float64.
    """
    points = layout.points
    parts = [
        _part(config, layout, {family: part_of(own, part) for family, own in views.items()}, reference[part])
        for part in parts_of(points, FINISHED_POINTS)
    ]
    joined = {name: np.concatenate([own[name] for own in parts]) for name in parts[0]}
    ranks = (joined.pop("below"), joined.pop("equal")) if config.keeps_members else None
    events = {limit: (joined.pop(f"p{limit:g}"), joined.pop(f"o{limit:g}")) for limit in config.above}
    members = int(views["moments"]["count"].max(initial=0))
    return PointScores(joined, joined.pop("mean"), reference, members, ranks, events)


def _part(config: ScoresConfig, layout: StateLayout, views: Mapping[str, Views], reference: Array) -> dict[str, Array]:
    made = {name: operator.finish(views, layout.dtype) for name, operator in config.operators.items()}
    count = views["moments"]["count"]
    error = made["mean"] - reference
    found = {
        "mean": made["mean"],
        "bias": error,
        "mse": error**2,
        "variance": np.where(np.isfinite(error), made["var"], np.nan),
    }
    if config.quantiles:
        found |= _of_quantiles(config, made, count, reference)
    elif config.crps:
        ordered, kept = scoring.sorted_members(views[f"members{config.members}"])
        for name, fair in (("crps", False), ("fair_crps", True)):
            found[name] = scoring.crps(ordered, kept, reference, fair=fair)
        found["below"], found["equal"] = scoring.places(ordered, kept, reference)
    for limit in config.above:
        within = views[config.events[limit].family.name]["within"]
        with np.errstate(invalid="ignore", divide="ignore"):
            probability = np.where(count > 0, within / count, np.nan)
        happened = np.where(np.isfinite(reference), reference > limit, np.nan)
        for name, fair in ((f"brier_{limit:g}", False), (f"fair_brier_{limit:g}", True)):
            found[name] = scoring.brier(probability, count, happened, fair=fair)
        found[f"p{limit:g}"], found[f"o{limit:g}"] = probability, happened
    return found


def _of_quantiles(config: ScoresConfig, made: Mapping[str, Array], count: Array, reference: Array) -> dict[str, Array]:
    names = [name for name in made if name not in ("mean", "var", "min", "max", "rank_error")]
    quantiles = np.stack([made[name] for name in names]).astype("f8")
    score, half = scoring.crps_of_quantiles(quantiles, reference)
    extent = made["max"].astype("f8") - made["min"]
    with np.errstate(divide="ignore", invalid="ignore"):
        fair = np.where(count > 1, score - half / (count - 1), np.nan)
    bound = scoring.crps_bound(score + half, extent, count, made["rank_error"], config.quantiles)
    return {"crps": score, "fair_crps": fair, "crps_bound": bound}

"""The scores of moments, in the group ``scores`` of ``ensemble.zarr``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.ensemble import scoring
from bbflow.ensemble.folding import FieldState, WindowStates
from bbflow.ensemble.grid import CommonGrid
from bbflow.ensemble.moments import Ledger, Moment
from bbflow.ensemble.reference import ScoreReference
from bbflow.ensemble.settings import ScoresConfig
from bbflow.ensemble.store import EnsembleStore
from bbflow.operators.steps import Array

GROUP = "scores"
Truth = Callable[[str, Ledger], Array | None]
"""Gives the field of the member that is the truth: of a result, in a moment."""


@dataclass(frozen=True, slots=True)
class Score:
    """One array of the scores."""

    dims: tuple[str, ...]
    """Besides time."""
    values: Array
    """Of one moment."""
    attributes: Mapping[str, Any]
    """CF attributes."""


class Verifying:
    """Scores moments as they are shown.

    Parameters
    ----------
    grid
        The ensemble's.
    store
        Gets the scores.
    truth
        Gives the truth's fields.
    say
        Gets what the user should read.
    """

    def __init__(self, grid: CommonGrid, store: EnsembleStore, truth: Truth, say: Callable[[str], None]) -> None:
        self._grid, self._store, self._truth, self._say = grid, store, truth, say
        self._references: dict[tuple[Path, str], ScoreReference] = {}
        self._weights: dict[str, tuple[Array, str]] = {}
        self._told: set[str] = set()

    def score(self, states: WindowStates, ledger: Ledger, moment: Moment) -> None:
        """Write the scores of a moment beside its row."""
        for item in states.fields:
            config = item.field.scores
            if config is None:
                continue
            reference = self._reference(config, item, ledger)
            if reference is None:
                continue
            for name, score in self._scores(config, item, moment, reference).items():
                path = f"{GROUP}/{item.field.name}_{states.window.name}_{name}"
                self._store.write_beside(states, ledger, path, score.dims, score.values, score.attributes)

    def summarise(self, states: Mapping[str, WindowStates]) -> list[str]:
        """Put what the scores come to over all times into the group's attributes; return what has no score at all."""
        told: dict[str, Any] = {}
        without = []
        for window in states.values():
            for item in window.fields:
                if item.field.scores is not None:
                    name = f"{item.field.name}_{window.window.name}"
                    told |= self._summary(name, item.field.scores)
                    if self._store.values(f"{GROUP}/{name}_mse") is None:
                        without.append(name)
        if told:
            self._store.describe(GROUP, **told)
        return without

    def _summary(self, name: str, config: ScoresConfig) -> dict[str, Any]:
        found = {}
        for score in ("crps", "fair_crps", "bias", "mse", "variance", *(f"brier_{own:g}" for own in config.above)):
            values = self._store.values(f"{GROUP}/{name}_{score}")
            if values is not None and np.isfinite(values).any():
                found[f"{name}_{score}"] = float(np.nanmean(values))
        if f"{name}_mse" in found:
            found[f"{name}_rmse"] = float(np.sqrt(found[f"{name}_mse"]))
        for limit in config.above:
            sums = self._store.values(f"{GROUP}/{name}_reliability_{limit:g}")
            if sums is not None:
                parts = scoring.decomposition(np.nansum(sums.reshape(-1, *sums.shape[-2:]), axis=0))
                found |= {f"{name}_brier_{limit:g}_{part}": value for part, value in parts.items()}
        return found

    def _reference(self, config: ScoresConfig, item: FieldState, ledger: Ledger) -> Array | None:
        if config.reference is None:
            return self._truth(item.field.result, ledger)
        reference = self._open(config.reference, config.variable or item.field.name, item)
        found = reference.at(ledger.begin, ledger.end)
        if found is None and item.field.key not in self._told:
            self._told.add(item.field.key)
            date = self._grid.clock.date(self._grid.number(ledger.begin))
            self._say(
                f"scores of {item.field.name}: {config.reference} has no {date}, "
                f"it goes from {reference.period}: there are none where it has no time"
            )
        return found

    def _open(self, path: Path, variable: str, item: FieldState) -> ScoreReference:
        if (path, variable) not in self._references:
            self._references[path, variable] = ScoreReference(path, variable, self._grid, item.grid)
        return self._references[path, variable]

    def _scores(self, config: ScoresConfig, item: FieldState, moment: Moment, reference: Array) -> dict[str, Score]:
        views = item.layout.views(item.of(moment.states))
        weights, told = self._weights_of(item)
        moments = {name: operator.finish(views, item.layout.dtype) for name, operator in config.operators.items()}
        count, units = views["moments"]["count"], {"units": item.grid.attributes.get("units", "1")}
        squared = {"units": f"({units['units']})2"}
        average, variance = moments["mean"], moments["var"]
        error = average - reference
        there = np.isfinite(error)
        mse, spread2 = scoring.mean(error**2, weights), scoring.mean(np.where(there, variance, np.nan), weights)
        single = {
            "bias": (scoring.mean(error, weights), units, "bias of the ensemble mean"),
            "mse": (mse, squared, "mean squared error of the ensemble mean"),
            "variance": (spread2, squared, "mean variance of members"),
            "spread_skill": (
                scoring.spread_skill(spread2, mse, int(count.max(initial=0))),
                {"units": "1"},
                "spread of members over error of their mean",
            ),
        }
        found: dict[str, Score] = {}
        if config.crps:
            ordered, kept = scoring.sorted_members(views[f"members{config.members}"])
            for name, fair in (("crps", False), ("fair_crps", True)):
                values = scoring.crps(ordered, kept, reference, fair=fair)
                single[name] = (
                    scoring.mean(values, weights),
                    units,
                    f"{'fair ' * fair}continuous ranked probability score",
                )
                if config.maps:
                    shaped = values.reshape(item.grid.shape)
                    found[f"{name}_map"] = Score(item.grid.dims, shaped, {**units, "long_name": single[name][2]})
            histogram = scoring.ranks(ordered, kept, reference, weights)
            found["rank_histogram"] = Score(
                ("rank",),
                histogram,
                {"units": "1", "long_name": "share of points by the reference's rank", "weights": told},
            )
        if config.climatology is not None:
            normal = self._open(config.climatology, config.variable or item.field.name, item)
            normals = normal.at(moment.ledger.begin, moment.ledger.end)
            if normals is not None:
                acc = scoring.anomaly_correlation(average, reference, normals, weights)
                single["acc"] = acc, {"units": "1"}, "anomaly correlation of the ensemble mean"
        for limit in config.above:
            self._score_event(config, limit, views, count, reference, weights, single, found)
        for name, (value, own, long_name) in single.items():
            found[name] = Score((), np.array(value), {**own, "long_name": long_name, "weights": told})
        return found

    @staticmethod
    def _score_event(
        config: ScoresConfig,
        limit: float,
        views: Mapping[str, Mapping[str, Array]],
        count: Array,
        reference: Array,
        weights: Array,
        single: dict[str, tuple[float, dict[str, str], str]],
        found: dict[str, Score],
    ) -> None:
        within = views[config.events[limit].family.name]["within"]
        with np.errstate(invalid="ignore", divide="ignore"):
            probability = np.where(count > 0, within / count, np.nan)
        happened = np.where(np.isfinite(reference), reference > limit, np.nan)
        for name, fair in ((f"brier_{limit:g}", False), (f"fair_brier_{limit:g}", True)):
            value = scoring.mean(scoring.brier(probability, count, happened, fair=fair), weights)
            single[name] = value, {"units": "1"}, f"{'fair ' * fair}Brier score of values above {limit:g}"
        sums = scoring.by_probability(probability, happened, weights, config.bins)
        found[f"reliability_{limit:g}"] = Score(
            ("sum", f"probability{config.bins}"),
            sums,
            {
                "units": "1",
                "long_name": "weight of points, sum of probabilities, sum of events, in bins of probability",
            },
        )

    def _weights_of(self, item: FieldState) -> tuple[Array, str]:
        """Return the points' weights: cos(latitude) where a dimension is one, as the oracles have it."""
        if item.field.key not in self._weights:
            found, told = np.ones(item.grid.shape), "equal"
            for axis, dim in enumerate(item.grid.dims):
                latitudes = self._store.latitudes(dim)
                if latitudes is not None:
                    shape = [-1 if at == axis else 1 for at in range(len(item.grid.shape))]
                    found, told = found * np.cos(np.deg2rad(latitudes)).reshape(shape), "cos(latitude)"
            self._weights[item.field.key] = found.reshape(-1), told
        return self._weights[item.field.key]

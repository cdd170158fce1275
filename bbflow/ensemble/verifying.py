"""The scores of moments, in the group ``scores`` of ``ensemble.zarr``."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.ensemble import scoring
from bbflow.ensemble.common_grid import CommonGrid
from bbflow.ensemble.ensemble_settings import ScoresConfig
from bbflow.ensemble.folding import FieldState, WindowStates
from bbflow.ensemble.moment_files import Ledger, Moment
from bbflow.ensemble.point_scores import PointScores, scored_points
from bbflow.ensemble.reference import ScoreReference
from bbflow.ensemble.store import LAST_SCORE, SCORES, EnsembleStore
from bbflow.errors import ConfigError
from bbflow.operators.space.grid import LAT, Grid
from bbflow.operators.space.regridding import place_space
from bbflow.operators.space.space import Space
from bbflow.operators.steps import Array, Steps

SUMMARISED = ("crps", "fair_crps", "crps_bound", "bias", "mse", "variance")
MAPS = ("crps", "fair_crps", "mse", "variance")
"""Scores that also come as maps, if they are wanted."""
LONG_NAMES = {
    "bias": "bias of the ensemble mean",
    "mse": "squared error of the ensemble mean",
    "variance": "variance of members",
    "crps": "continuous ranked probability score",
    "fair_crps": "fair continuous ranked probability score",
    "crps_bound": "bound on the error of the continuous ranked probability score of quantiles",
    "spread_skill": "spread of members over error of their mean",
    "acc": "anomaly correlation of the ensemble mean",
    "rank_histogram": "share of points by the reference's rank",
}
Truth = Callable[[str, Ledger], Array | None]
"""Returns the field of the member that is the truth: of a result, in a moment."""


@dataclass(frozen=True, slots=True)
class Score:
    """One array of the scores."""

    dims: tuple[str, ...]
    """Besides time."""
    values: Array
    """Of one moment."""
    attributes: Mapping[str, Any]
    """CF attributes."""


@dataclass(frozen=True, slots=True)
class Region:
    """Points that are averaged."""

    group: str
    """Where their scores are."""
    weights: Array
    """Of shape (points,); 0 outside."""
    told: str
    """What the weights are."""


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
        self._regions: dict[str, list[Region]] = {}
        self._told: dict[str, str] = {}
        self._failed: dict[str, str] = {}

    def score(self, states: WindowStates, ledger: Ledger, moment: Moment) -> None:
        """Write the scores of a moment beside its row; those that can't be had are said, and cost nothing else."""
        for item in states.fields:
            if item.field.scores is not None:
                try:
                    self._score(item.field.scores, item, states, ledger, moment)
                except ConfigError as error:
                    self._failed.setdefault(item.field.key, str(error))
                    self._tell(item, str(error))

    def _score(
        self, config: ScoresConfig, item: FieldState, states: WindowStates, ledger: Ledger, moment: Moment
    ) -> None:
        reference = self._reference(config, item, ledger)
        if reference is None:
            return
        views = item.layout.views(item.of(moment.states))
        points = scored_points(config, item.layout, views, reference)
        normals = None
        if config.climatology is not None:
            normals = self._field(config.climatology, config, item, ledger)
        for region in self._regions_of(config, item):
            scores = dict(_averaged(config, item, points, normals, region))
            if config.maps and region.group == SCORES:
                scores |= _maps(item, points)
            for name, score in sorted(scores.items(), key=lambda own: own[0] == LAST_SCORE):
                path = f"{region.group}/{item.field.name}_{states.window.name}_{name}"
                self._store.write_beside(states, ledger, path, score.dims, score.values, score.attributes)

    def _tell(self, item: FieldState, text: str) -> None:
        if item.field.key not in self._told:
            self._told[item.field.key] = text
            self._say(text)

    def summarise(self, states: Mapping[str, WindowStates]) -> dict[str, str]:
        """Put what the scores come to over all times into the groups' attributes; return what lacks some, and why."""
        without = {}
        for window in states.values():
            for item in window.fields:
                config, name = item.field.scores, f"{item.field.name}_{window.window.name}"
                if config is None:
                    continue
                for group in (SCORES, *(f"{SCORES}/{region}" for region in config.regions)):
                    self._store.describe(group, **self._summary(f"{group}/{name}", name, config))
                wanted = ("mse", "acc") if config.climatology else ("mse",)
                if any(self._store.values(f"{SCORES}/{name}_{score}") is None for score in wanted):
                    without[name] = self._told.get(item.field.key, "there is no time of the reference")
                elif item.field.key in self._failed:
                    without[name] = self._failed[item.field.key]
        return without

    def _summary(self, path: str, name: str, config: ScoresConfig) -> dict[str, Any]:
        found = {}
        for score in (*SUMMARISED, *(f"brier_{own:g}" for own in config.above)):
            values = self._store.values(f"{path}_{score}")
            if values is not None and np.isfinite(values).any():
                found[f"{name}_{score}"] = float(np.nanmean(values))
        if f"{name}_mse" in found:
            # The root of the mean over all times: the mean of the times' roots would be less.
            found[f"{name}_rmse"] = float(np.sqrt(found[f"{name}_mse"]))
        for limit in config.above:
            sums = self._store.values(f"{path}_reliability_{limit:g}")
            if sums is not None:
                parts = scoring.decomposition(np.nansum(sums.reshape(-1, *sums.shape[-2:]), axis=0))
                found |= {f"{name}_brier_{limit:g}_{part}": value for part, value in parts.items()}
        return found

    def _reference(self, config: ScoresConfig, item: FieldState, ledger: Ledger) -> Array | None:
        if config.reference is None:
            return self._truth(item.field.result, ledger)
        return self._field(config.reference, config, item, ledger)

    def _field(self, path: Path, config: ScoresConfig, item: FieldState, ledger: Ledger) -> Array | None:
        """Return a reference's field of a moment; None, which is said, if it has none."""
        reference = self._open(path, config, item)
        found = reference.at(ledger.begin, ledger.end)
        if found is None:
            date = self._grid.clock.date(self._grid.number(ledger.begin))
            self._tell(
                item,
                f"scores of {item.field.name}: {path} has no {date}, "
                f"it goes from {reference.period}: there are none where it has no time",
            )
        return found

    def _open(self, path: Path, config: ScoresConfig, item: FieldState) -> ScoreReference:
        variable = config.variable or item.field.name
        key = path, f"{item.field.key} {variable}"
        if key not in self._references:
            self._references[key] = ScoreReference(
                path,
                variable,
                self._grid,
                self._store.grid_of(item.grid),
                units=item.grid.attributes.get("units"),
                remap=config.remap,
                averages=item.field.is_mean,
            )
        return self._references[key]

    def _regions_of(self, config: ScoresConfig, item: FieldState) -> list[Region]:
        if item.field.key not in self._regions:
            grid = self._store.grid_of(item.grid)
            weights, told = _area_weights(grid)
            found = [Region(SCORES, weights, told)]
            for name, space in config.regions.items():
                found.append(Region(f"{SCORES}/{name}", np.where(_selected(space, grid, name), weights, 0.0), told))
            self._regions[item.field.key] = found
        return self._regions[item.field.key]


def _averaged(
    config: ScoresConfig, item: FieldState, points: PointScores, normals: Array | None, region: Region
) -> Iterator[tuple[str, Score]]:
    """Average over a region what was scored at each point."""
    weights, told = region.weights, {"weights": region.told}
    means = {name: scoring.mean(values, weights) for name, values in points.fields.items()}
    means["spread_skill"] = scoring.spread_skill(means["variance"], means["mse"], points.members)
    if normals is not None:
        means["acc"] = scoring.anomaly_correlation(points.mean, points.reference, normals, weights)
    for name, value in means.items():
        yield name, Score((), np.array(value), _attributes(item, name) | told)
    if points.ranks is not None:
        histogram = scoring.rank_histogram(*points.ranks, config.members, weights)
        yield "rank_histogram", Score(("rank",), histogram, _attributes(item, "rank_histogram") | told)
    for limit, (probability, happened) in points.events.items():
        sums = scoring.by_probability(probability, happened, weights, config.bins)
        long_name = "weight of points, sum of probabilities, sum of events, in bins of probability"
        dims = "sum", f"probability{config.bins}"
        yield f"reliability_{limit:g}", Score(dims, sums, {"units": "1", "long_name": long_name})


def _maps(item: FieldState, points: PointScores) -> dict[str, Score]:
    shaped = {name: points.fields[name].reshape(item.grid.shape) for name in MAPS if name in points.fields}
    return {f"{name}_map": Score(item.grid.dims, own, _attributes(item, name)) for name, own in shaped.items()}


def _attributes(item: FieldState, name: str) -> dict[str, Any]:
    """Return the CF attributes of a score."""
    units = str(item.grid.attributes.get("units", "1"))
    kind, _, limit = name.rpartition("_")
    if kind in ("brier", "fair_brier"):
        return {"units": "1", "long_name": f"{'fair ' * (kind != 'brier')}Brier score of values above {limit}"}
    if name in ("mse", "variance"):
        units = f"({units})2"
    elif name in ("spread_skill", "acc", "rank_histogram"):
        units = "1"
    return {"units": units, "long_name": LONG_NAMES[name]}


def _area_weights(grid: Grid) -> tuple[Array, str]:
    """Return the points' weights: cos(latitude) where a dimension is one, as the oracles have it."""
    found, told = np.ones(grid.shape), "equal"
    for axis in range(len(grid.dims)):
        if grid.kind(axis) == LAT and grid.dims[axis] in grid.coordinates:
            shape = [-1 if at == axis else 1 for at in range(len(grid.shape))]
            found, told = found * np.cos(np.deg2rad(grid.coordinate(axis))).reshape(shape), "cos(latitude)"
    return found.reshape(-1), told


def _selected(space: Space, grid: Grid, name: str) -> Array:
    """Return which points a region has; bool of shape (points,).

    Raises
    ------
    ConfigError
        If it has none, or the members' grid hasn't the dimension.
    """

    def no_variable(variable: str) -> Array:
        raise ConfigError(f"a region has no variable such as {variable}")

    try:
        placed = place_space(space, grid.dims, grid.shape, grid.coordinates, no_variable, grid.attributes)
    except ConfigError as error:
        raise ConfigError(f"scores: regions: {name}: {error}") from None
    local = placed.local((0,) * len(grid.shape), grid.shape)
    # Selected as values would be, points' own numbers tell which of them the region has.
    numbers = np.arange(float(np.prod(grid.shape)))
    found = np.zeros(len(numbers), bool)
    if local is not None:
        (kept,) = local.values(Steps([numbers]))
        found[kept[np.isfinite(kept)].astype("i8")] = True
    return found

"""Scores against scores, xskillscore and properscoring, and of an ensemble whose members run."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from members import MemberStreams, field, gathered
from test_gathering import analysis_in

from bbflow.ensemble import scoring
from bbflow.ensemble.gathering import EnsembleFold
from bbflow.operators.fold import fold_steps
from bbflow.operators.operator import Operator
from bbflow.operators.state import StateLayout

N, POINTS = 7, 60


def made(seed, missing=0.1, tied=False):
    """Members of shape (N, points), some missing, and a reference."""
    random = np.random.default_rng(seed)
    values, reference = random.normal(size=(N, POINTS)), random.normal(size=POINTS)
    if tied:
        values, reference = np.round(values), np.round(reference)
    values[random.random(values.shape) < missing] = np.nan
    reference[random.random(POINTS) < missing] = np.nan
    return values, reference


def layout_of(points):
    operator = Operator("kept", scoring.KeptMembers(N), lambda views: views["values"], "point", "values")
    return StateLayout.of([operator], dtype=np.dtype("f8"), points=points)


def kept(values):
    """Members folded one by one, and merged from two states."""
    layout = layout_of(values.shape[1])
    states = []
    for part in (values[:3], values[3:]):
        state = bytearray(layout.nbytes)
        fold_steps(layout, None, state, list(part))
        states.append(state)
    layout.merge(states, states[0])
    return scoring.sorted_members(layout.views(states[0])[f"members{N}"])


@given(st.integers(0, 1000))
def test_members_that_are_kept_are_those_that_were_folded_in_order(seed):
    values, _ = made(seed)
    ordered, count = kept(values)
    np.testing.assert_array_equal(ordered, np.sort(values, axis=0))
    np.testing.assert_array_equal(count, np.isfinite(values).sum(0))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("method", "fair"), [("ecdf", False), ("fair", True)])
def test_the_crps_is_that_of_scores(method, fair, tied):
    probability = pytest.importorskip("scores.probability")
    values, reference = made(1, tied=tied)
    wanted = probability.crps_for_ensemble(
        xr.DataArray(values, dims=("m", "x")), xr.DataArray(reference, dims="x"), "m", method=method, preserve_dims="x"
    )
    got = scoring.crps(*kept(values), reference, fair=fair)
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-14)


def test_the_crps_is_that_of_properscoring_and_keeps_digits_of_large_values():
    properscoring = pytest.importorskip("properscoring")
    values, reference = made(2, missing=0)
    for offset in (0, 1e5):
        wanted = properscoring.crps_ensemble(reference + offset, values.T + offset)
        np.testing.assert_allclose(
            scoring.crps(*kept(values + offset), reference + offset, fair=False), wanted, rtol=1e-9
        )


@pytest.mark.parametrize("tied", [False, True])
def test_the_rank_histogram_is_that_of_scores(tied):
    probability = pytest.importorskip("scores.probability")
    values, reference = made(3, missing=0, tied=tied)
    weights = np.random.default_rng(0).random(POINTS)
    wanted = probability.rank_histogram(
        xr.DataArray(values, dims=("m", "x")),
        xr.DataArray(reference, dims="x"),
        "m",
        weights=xr.DataArray(weights, dims="x"),
    )
    np.testing.assert_allclose(scoring.ranks(*kept(values), reference, weights), wanted, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("fair", [False, True])
def test_the_brier_score_is_that_of_xskillscore(fair):
    xskillscore = pytest.importorskip("xskillscore")
    values, reference = made(4, missing=0)
    wanted = xskillscore.brier_score(
        xr.DataArray(reference > 0.3, dims="x"),
        xr.DataArray(values > 0.3, dims=("member", "x")) if fair else xr.DataArray((values > 0.3).mean(0), dims="x"),
        fair=fair,
        dim=[],
    )
    got = scoring.brier((values > 0.3).mean(0), np.full(POINTS, N), (reference > 0.3) * 1.0, fair=fair)
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-15)


def test_reliability_is_that_of_xskillscore():
    xskillscore = pytest.importorskip("xskillscore")
    values, reference = made(5, missing=0)
    p, o = (values > 0.3).mean(0), (reference > 0.3) * 1.0
    edges = np.linspace(0, 1, 6)
    wanted = xskillscore.reliability(
        xr.DataArray(o > 0, dims="x"), xr.DataArray(p, dims="x"), probability_bin_edges=edges
    )
    sums = scoring.by_probability(p, o, np.ones(POINTS), 5)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(sums[2] / sums[0], wanted)
    np.testing.assert_array_equal(sums[0], wanted.samples)


@given(st.integers(0, 1000))
def test_the_brier_score_is_reliability_less_resolution_plus_uncertainty(seed):
    random = np.random.default_rng(seed)
    p, o = random.integers(0, 11, POINTS) / 10, random.integers(0, 2, POINTS) * 1.0
    weights = random.random(POINTS)
    parts = scoring.decomposition(scoring.by_probability(p, o, weights, 10 * 10))
    score = np.average((p - o) ** 2, weights=weights)
    np.testing.assert_allclose(parts["reliability"] - parts["resolution"] + parts["uncertainty"], score, atol=1e-12)


def test_the_anomaly_correlation_is_pearsons_of_anomalies():
    xskillscore = pytest.importorskip("xskillscore")
    random = np.random.default_rng(6)
    x, y, normal = random.normal(size=(3, POINTS))
    weights = random.random(POINTS)
    wanted = xskillscore.pearson_r(
        xr.DataArray(x - normal, dims="x"), xr.DataArray(y - normal, dims="x"), weights=xr.DataArray(weights, dims="x")
    )
    np.testing.assert_allclose(scoring.anomaly_correlation(x, y, normal, weights), wanted, rtol=1e-12)


LATITUDES = np.array([-60.0, 0.0, 45.0])


def scored(tmp_path, members=5, steps=3, **scores):
    """An ensemble that is scored, and its members' values of shape (members, steps, 3, 4)."""
    chosen = {"operators": ["mean"], "scores": {"above": [280.0], "maps": True} | scores}
    more = {} if scores else {"truth": "truth"}
    analysis = analysis_in(tmp_path, members, {"tas": chosen}, **more)
    streams = MemberStreams(analysis, coordinates={"dim0": (LATITUDES, {"units": "degrees_north"})})
    names = [*map(str, range(1, members + 1)), *more.values()]
    for at, name in enumerate(names):
        for step in range(steps):
            streams.write(name, {"tas": field(at + 1, step)})
        streams.end(name)
    complete, said = gathered(analysis)
    values = np.stack([[field(at + 1, step) for step in range(steps)] for at in range(members + 1)])
    return complete, said, analysis.output / "ensemble.zarr", values


def assert_scored(store, values, reference):
    probability = pytest.importorskip("scores.probability")
    members = xr.DataArray(values, dims=("m", "t", "y", "x"))
    truth = xr.DataArray(reference, dims=("t", "y", "x"))
    weights = xr.DataArray(np.cos(np.deg2rad(LATITUDES)), dims="y")
    with xr.open_datatree(store, engine="zarr") as tree:
        found = tree["scores"].to_dataset().load()
    for name, method in (("crps", "ecdf"), ("fair_crps", "fair")):
        wanted = probability.crps_for_ensemble(members, truth, "m", method=method, preserve_dims=("t", "y", "x"))
        np.testing.assert_allclose(found[f"tas_step_{name}_map"], wanted, rtol=1e-9)
        np.testing.assert_allclose(found[f"tas_step_{name}"], wanted.weighted(weights).mean(("y", "x")), rtol=1e-9)
        np.testing.assert_allclose(
            found.attrs[f"tas_step_{name}"], wanted.weighted(weights).mean(("y", "x")).mean(), rtol=1e-9
        )
    error = members.mean("m") - truth
    np.testing.assert_allclose(found.tas_step_bias, error.weighted(weights).mean(("y", "x")), rtol=1e-9)
    mse = (error**2).weighted(weights).mean(("y", "x"))
    np.testing.assert_allclose(found.tas_step_mse, mse, rtol=1e-9)
    np.testing.assert_allclose(found.attrs["tas_step_rmse"], np.sqrt(mse.mean()), rtol=1e-9)
    spread = members.var("m", ddof=1).weighted(weights).mean(("y", "x"))
    n = len(values)
    np.testing.assert_allclose(found.tas_step_spread_skill, np.sqrt((n + 1) / n * spread / mse), rtol=1e-9)
    ranked = probability.rank_histogram(
        members, truth, "m", preserve_dims=["t"], weights=weights.broadcast_like(truth[0])
    )
    np.testing.assert_allclose(found.tas_step_rank_histogram, ranked, atol=1e-12)
    brier = ((members > 280).mean("m") - (truth > 280)) ** 2
    np.testing.assert_allclose(found.tas_step_brier_280, brier.weighted(weights).mean(("y", "x")), rtol=1e-9)


def test_members_are_scored_against_the_one_that_is_the_truth(tmp_path):
    complete, said, store, values = scored(tmp_path)
    assert complete
    assert not said
    assert_scored(store, values[:-1], values[-1])


def test_times_that_are_shown_before_the_truth_has_begun_are_scored_when_it_comes(tmp_path):
    analysis = analysis_in(tmp_path, 3, {"tas": {"operators": ["mean"], "scores": {}}}, truth="truth", show=1)
    streams = MemberStreams(analysis)
    gathering = EnsembleFold(analysis, None, lambda _: None)
    for name in ("1", "2", "3"):
        streams.write(name, {"tas": field(name, 0)})
        streams.end(name)
    while gathering.turn():
        pass
    assert not gathering.is_over
    streams.write("truth", {"tas": field(4, 0)})
    streams.end("truth")
    complete, said = gathered(analysis)
    assert (complete, said) == (True, [])
    with xr.open_zarr(analysis.output / "ensemble.zarr", group="scores") as found:
        error = np.mean([field(at, 0) for at in (1, 2, 3)], axis=0) - field(4, 0)
        np.testing.assert_allclose(found.tas_step_bias, [error.mean()], rtol=1e-9)


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize("kind", ["zarr", "nc"])
def test_members_are_scored_against_a_file(tmp_path, kind):
    if kind == "nc":
        pytest.importorskip("netCDF4")
    values = np.stack([field(6, step) for step in range(3)])
    times = np.array([0, 6, 12], "timedelta64[h]") + np.datetime64("2001-01-01T00", "h")
    data = xr.Dataset({"t2m": (("time", "y", "x"), values, {"units": "K"})}, {"time": times.astype("datetime64[ns]")})
    path = tmp_path / f"truth.{kind}"
    data.to_zarr(path) if kind == "zarr" else data.to_netcdf(path)
    complete, said, store, own = scored(tmp_path, reference=str(path), variable="t2m")
    assert complete
    assert not said
    assert_scored(store, own[:-1], values)


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_a_reference_without_overlap_is_said_once(tmp_path):
    values = np.stack([field(6, step) for step in range(3)])
    times = (np.array([0, 6, 12], "timedelta64[h]") + np.datetime64("1990-01-01T00", "h")).astype("datetime64[ns]")
    path = tmp_path / "truth.zarr"
    xr.Dataset({"tas": (("time", "y", "x"), values)}, {"time": times}).to_zarr(path)
    _, said, _, _ = scored(tmp_path, reference=str(path))
    assert len(said) == 2
    assert "it goes from 1990-01-01" in said[0]
    assert "tas_step has no score" in said[1]

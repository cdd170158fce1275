"""Scores against scores, xskillscore and properscoring, and of an ensemble whose members run."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from members import MemberStreams, field, gathered
from test_gathering import analysis_in

from bbflow.ensemble import scoring
from bbflow.ensemble.common_grid import CommonGrid
from bbflow.ensemble.gathering import EnsembleFold
from bbflow.ensemble.reference import ScoreReference
from bbflow.ensemble.state_sizes import states_for
from bbflow.errors import ConfigError
from bbflow.operators.fold import fold_steps
from bbflow.operators.operator import Operator
from bbflow.operators.parse import parse_operators
from bbflow.operators.space.grid import Grid
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
    np.testing.assert_allclose(
        scoring.rank_histogram(*scoring.places(*kept(values), reference), N, weights), wanted, rtol=1e-12, atol=1e-15
    )


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


def test_anomalies_that_are_the_same_everywhere_have_no_correlation():
    random = np.random.default_rng(4)
    normal, other, weights = random.normal(280, 30, 500), random.normal(280, 30, 500), random.random(500)
    for warmer in random.normal(0, 2, 20):
        assert np.isnan(scoring.anomaly_correlation(normal + warmer, other, normal, weights))


LATITUDES, LONGITUDES = np.array([-60.0, 0.0, 60.0]), np.array([0.0, 90.0, 180.0, 270.0])
COORDINATES = {
    "dim0": (LATITUDES, {"units": "degrees_north"}),
    "dim1": (LONGITUDES, {"units": "degrees_east"}),
}


def scored(tmp_path, members=5, steps=3, **scores):
    """An ensemble that is scored, and its members' values of shape (members, steps, 3, 4)."""
    chosen = {"operators": ["mean"], "scores": {"above": [280.0], "maps": True} | scores}
    more = {} if scores else {"truth": "truth"}
    analysis = analysis_in(tmp_path, members, {"tas": chosen}, **more)
    streams = MemberStreams(analysis, coordinates=COORDINATES)
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
    assert "tas_step lacks scores" in said[1]


def stored(path, values, lat=LATITUDES, lon=LONGITUDES, hours=(0, 6, 12), units="K", calendar=None):
    """Write a reference of shape (times, lat, lon)."""
    times = (np.array(hours, "timedelta64[h]") + np.datetime64("2001-01-01T00", "h")).astype("datetime64[ns]")
    own = {"lat": ("lat", lat, {"units": "degrees_north"}), "lon": ("lon", lon, {"units": "degrees_east"})}
    data = xr.Dataset({"tas": (("time", "lat", "lon"), values, {"units": units})}, {"time": times, **own})
    (data.convert_calendar(calendar) if calendar else data).to_zarr(path)
    return str(path)


def scores_of(store, group="scores"):
    with xr.open_zarr(store, group=group) as found:
        return found.load()


@given(st.integers(0, 1000), st.integers(2, 30))
def test_the_crps_of_quantiles_is_within_its_bound(seed, quantiles):
    random = np.random.default_rng(seed)
    values, reference = random.gamma(1, size=(200, 20)), random.gamma(1, size=20)
    values[random.random(values.shape) < 0.1] = np.nan
    q = [100 * (at + 0.5) / quantiles for at in range(quantiles)]
    operators = parse_operators([{"percentiles": {"q": q, "error": 50 / quantiles, "steps": 200, "bound": True}}])
    layout = StateLayout.of(operators, dtype=np.dtype("f8"), points=20)
    state = bytearray(layout.nbytes)
    fold_steps(layout, None, state, list(values))
    *made, off = (operator.finalize(layout, state) for operator in operators)
    score, half = scoring.crps_of_quantiles(np.stack(made), reference)
    extent, count = np.nanmax(values, 0) - np.nanmin(values, 0), np.isfinite(values).sum(0)
    bound = scoring.crps_bound(score + half, extent, count, off, quantiles)
    ordered = np.sort(values, axis=0)
    assert (np.abs(score - scoring.crps(ordered, count, reference, fair=False)) <= bound + 1e-12).all()
    fair = scoring.crps(ordered, count, reference, fair=True)
    assert (np.abs(score - half / (count - 1) - fair) <= bound + 1e-12).all()


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_with_quantiles_no_member_is_kept_and_the_store_has_the_bound_of_the_crps(tmp_path):
    values = np.stack([field(0, step) for step in range(3)])
    reference = stored(tmp_path / "truth.zarr", values)
    exact, found = (
        scores_of(scored(tmp_path / name, 60, reference=reference, **more)[2])
        for name, more in (("members", {}), ("quantiles", {"quantiles": 50}))
    )
    for name in ("crps", "fair_crps"):
        off = np.abs(found[f"tas_step_{name}"] - exact[f"tas_step_{name}"])
        assert (off <= found.tas_step_crps_bound).all()
    assert (found.tas_step_crps_bound < exact.tas_step_crps).all()
    assert "tas_step_rank_histogram" not in found
    chosen = {"tas": {"operators": ["mean"], "scores": {"reference": reference, "quantiles": 50}}}
    for members, share in ((1000, 3), (10_000, 10)):
        states = states_for(analysis_in(tmp_path, members, chosen), {"tas": (100, "f4")})
        assert states["step"].nbytes < members * 100 * 4 / share


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_a_region_has_scores_of_its_points_alone(tmp_path):
    values = np.stack([field(6, step) for step in range(3)])
    regions = {"north": {"lat": [0, 90]}, "pacific": {"lat": [-70, 10], "lon": [170, -80]}}
    reference = stored(tmp_path / "truth.zarr", values)
    complete, said, store, own = scored(tmp_path, reference=reference, regions=regions, above=[280])
    assert (complete, said) == (True, [])
    members = xr.DataArray(own[:-1], dims=("m", "t", "y", "x"))
    for name, rows, columns in (("north", [1, 2], [0, 1, 2, 3]), ("pacific", [0, 1], [2, 3])):
        found = scores_of(store, f"scores/{name}")
        weights = xr.DataArray(np.cos(np.deg2rad(LATITUDES[rows])), dims="y")
        inside, truth = members[..., rows, columns], values[..., rows, :][..., columns]
        error = inside.mean("m") - truth
        np.testing.assert_allclose(found.tas_step_bias, error.weighted(weights).mean(("y", "x")), rtol=1e-9)
        brier = ((inside > 280).mean("m") - (truth > 280)) ** 2
        np.testing.assert_allclose(found.tas_step_brier_280, brier.weighted(weights).mean(("y", "x")), rtol=1e-9)
        weight = found.attrs["tas_step_brier_280_uncertainty"]
        assert 0 <= weight <= 0.25
        np.testing.assert_allclose(found.tas_step_rank_histogram.sum("rank"), 1)
    assert "tas_step_bias" in scores_of(store)


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_a_reference_whose_latitudes_run_the_other_way_is_refused_or_remapped(tmp_path):
    values = np.stack([field(6, step) for step in range(3)])
    reference = stored(tmp_path / "truth.zarr", values[:, ::-1], lat=LATITUDES[::-1])
    complete, said, _, _ = scored(tmp_path / "as it is", reference=reference)
    assert not complete
    assert "has the same size, but 8 of 12 points lie elsewhere: remap" in said[0]
    complete, said, store, own = scored(tmp_path / "remapped", reference=reference, remap="nn")
    assert (complete, said) == (True, [])
    assert_scored(store, own[:-1], values)


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_a_reference_of_a_finer_grid_is_remapped_by_areas(tmp_path):
    fine = np.random.default_rng(0).normal(280, 5, (3, 6, 8))
    lat, lon = np.arange(-75.0, 90, 30), np.arange(-22.5, 337, 45)
    reference = stored(tmp_path / "truth.zarr", fine, lat=lat, lon=lon)
    _, said, _, _ = scored(tmp_path / "as it is", reference=reference)
    assert "has 6 x 8 points, the members' has 3 x 4: remap" in said[0]
    complete, said, store, own = scored(tmp_path / "remapped", reference=reference, remap="con")
    assert (complete, said) == (True, [])
    weights = np.diff(np.sin(np.deg2rad(np.arange(-90, 91, 30))))
    rows = (fine * weights[:, np.newaxis]).reshape(3, 3, 2, 8).sum(2) / weights.reshape(3, 2).sum(1)[:, np.newaxis]
    assert_scored(store, own[:-1], rows.reshape(3, 3, 4, 2).mean(-1))


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"units": "degC"}, "is in 'degC', but the members in 'K': convert it"),
        ({"calendar": "noleap"}, "has the calendar 'noleap', but the members 'standard': convert it"),
        ({"hours": (0, 6, 6)}, "has 1 times twice: take one of each"),
        ({"hours": (1, 2, 3)}, "has no 2001-01-01 00:00:00"),
    ],
)
def test_a_reference_that_does_not_fit_is_said_in_one_line_and_costs_the_scores_alone(tmp_path, change, message):
    reference = stored(tmp_path / "truth.zarr", np.zeros((3, 3, 4)), **change)
    complete, said, store, values = scored(tmp_path, reference=reference)
    assert not complete
    assert message in said[0]
    with xr.open_zarr(store) as found:
        np.testing.assert_allclose(found.tas_step_mean, values[:-1].mean(0), rtol=1e-12)
        assert message in found.attrs["bbflow_without_scores"]["tas_step"]


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_a_climatology_without_the_members_times_is_said_and_the_other_scores_are_there(tmp_path):
    reference = stored(tmp_path / "truth.zarr", np.stack([field(6, step) for step in range(3)]))
    normals = stored(tmp_path / "normals.zarr", np.zeros((3, 3, 4)), hours=(1, 2, 3))
    complete, said, store, values = scored(tmp_path, reference=reference, climatology=normals)
    assert not complete
    assert "normals.zarr has no 2001-01-01 00:00:00" in said[0]
    assert_scored(store, values[:-1], values[-1])


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_a_time_of_the_reference_that_cannot_be_read_is_missing_and_said(tmp_path):
    path = Path(stored(tmp_path / "truth.zarr", np.stack([field(6, step) for step in range(3)])))
    with xr.open_zarr(path) as found:
        found.load().drop_encoding().to_zarr(path, mode="w", encoding={"tas": {"chunks": (1, 3, 4)}})
    chunks = sorted(
        own for own in (path / "tas").rglob("*") if own.is_file() and not own.name.startswith((".z", "zarr"))
    )
    assert len(chunks) == 3
    chunks[1].write_bytes(b"no chunk")
    complete, said, store, _ = scored(tmp_path, reference=str(path))
    assert not complete
    assert "can't be read" in said[0]
    with xr.open_zarr(store, group="scores") as found:
        assert np.isfinite(found.tas_step_mse).values.tolist() == [True, False, True]


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_reference_s_times_in_a_span_are_averaged_for_means_alone(tmp_path, dtype):
    values = np.stack([field(6, step) for step in range(7)]).astype(dtype)
    path = Path(stored(tmp_path / "truth.zarr", values, hours=range(0, 42, 6)))
    grid = CommonGrid(member="1", units="days since 2001-01-01", calendar="standard", fields={}, coordinates={})
    target = Grid(("lat", "lon"), (3, 4), {"lat": LATITUDES, "lon": LONGITUDES}, {})
    of_means, of_others = (
        ScoreReference(path, "tas", grid, target, units="K", remap="", averages=averages) for averages in (True, False)
    )
    begin, end, last = (grid.instant(number, grid.clock) for number in (0.0, 1.0, 2.0))
    np.testing.assert_allclose(of_means.at(begin, end), values[:4].mean(0, dtype="f8").reshape(-1), rtol=1e-12)
    np.testing.assert_array_equal(of_others.at(begin, begin), values[0].reshape(-1))
    with pytest.raises(ConfigError, match="has 4 times in a span that the members' field isn't the mean of"):
        of_others.at(begin, end)
    with pytest.raises(ConfigError, match="has 3 times of the span from 2001-01-02 00:00:00, of 4: it goes from"):
        of_means.at(end, last)


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_a_reference_of_uneven_times_counts_when_each_span_has_one(tmp_path):
    grid = CommonGrid(member="1", units="days since 2001-01-01", calendar="standard", fields={}, coordinates={})
    target = Grid(("lat", "lon"), (3, 4), {"lat": LATITUDES, "lon": LONGITUDES}, {})
    begin, end = (grid.instant(number, grid.clock) for number in (1.0, 2.0))
    for name, hours in (("uneven", [0, 6, 18, 24, 30, 42, 48, 54, 66]), ("daily", [7, 32, 59])):
        path = Path(stored(tmp_path / f"{name}.zarr", np.ones((len(hours), 3, 4)), hours=hours))
        reference = ScoreReference(path, "tas", grid, target, units="K", remap="", averages=True)
        if name == "daily":
            np.testing.assert_array_equal(reference.at(begin, end), 1)
        else:
            with pytest.raises(ConfigError, match=r"3 times of the span .*, of 4: .* make one time for each span"):
                reference.at(begin, end)


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_a_reference_of_months_covers_months_and_years_and_a_gap_covers_none(tmp_path):
    dates = np.arange("2001-01", "2003-07", dtype="datetime64[M]").astype("datetime64[h]")
    hours = (dates + np.timedelta64(15 * 24, "h") - np.datetime64("2001-01-01T00", "h")).astype(int)
    kept = np.delete(hours, 18)
    path = Path(stored(tmp_path / "truth.zarr", np.ones((len(kept), 3, 4)), hours=kept))
    grid = CommonGrid(member="1", units="days since 2001-01-01", calendar="standard", fields={}, coordinates={})
    target = Grid(("lat", "lon"), (3, 4), {"lat": LATITUDES, "lon": LONGITUDES}, {})
    reference = ScoreReference(path, "tas", grid, target, units="K", remap="", averages=True)
    starts = [grid.instant(float(day), grid.clock) for day in (0, 31, 59, 365, 730, 1095)]
    for begin, end in ((0, 1), (1, 2), (0, 3)):
        assert reference.at(starts[begin], starts[end]) is not None
    for year, there in ((3, 11), (4, 6)):
        with pytest.raises(ConfigError, match=f"has {there} times of the span .*, of 12"):
            reference.at(starts[year], starts[year + 1])


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({"quantiles": 9, "crps": False}, "quantiles are for the CRPS"),
        ({"remap": "con"}, "remap is for a 'reference'"),
        ({"remap": "bicubic"}, "bicubic"),
        ({"regions": {"a/b": {"lat": [0, 1]}}}, "must be a word"),
        ({"regions": {"north": {"lat": 3}}}, "north: box"),
    ],
)
def test_scores_that_cannot_be_are_refused(tmp_path, scores, message):
    with pytest.raises(ConfigError, match=message):
        analysis_in(tmp_path, 2, {"tas": {"operators": ["mean"], "scores": scores}}, truth="truth")


@pytest.mark.parametrize("item", ["detrended_std", "detrended_var", {"harmonics": {"periods": [24]}}])
def test_what_goes_by_the_times_of_steps_is_refused_across_members(tmp_path, item):
    with pytest.raises(ConfigError, match="means nothing across members"):
        analysis_in(tmp_path, 2, {"tas": {"operators": [item]}})


def test_modes_of_fields_are_refused_across_members_and_it_is_said_where_they_are(tmp_path):
    with pytest.raises(ConfigError, match="'eof' takes one member's whole fields: give it to that member's own"):
        analysis_in(tmp_path, 2, {"tas": {"operators": [{"eof": {"modes": 2}}]}})


@pytest.mark.parametrize("name", ["beyond_base", "wet_beyond_base", "base_percentile"])
def test_what_needs_each_day_of_years_is_refused_across_members(tmp_path, name):
    with pytest.raises(ConfigError, match=f"{name}.* means nothing across members"):
        analysis_in(tmp_path, 2, {"tas": {"operators": [{name: {"base": [2001, 2002]}}]}})

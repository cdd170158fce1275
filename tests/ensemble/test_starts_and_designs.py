"""Forecasts from several starts, members with weights, and designs for Sobol' indices."""

import numpy as np
import pytest
import xarray as xr
from members import MemberStreams, field, gathered
from test_gathering import analysis_in, shown

from bbflow.ensemble import sobol
from bbflow.ensemble.ensemble_config import parse_ensemble
from bbflow.ensemble.gathering import EnsembleFold
from bbflow.ensemble.members import read_members, read_starts
from bbflow.ensemble.roster import Standing
from bbflow.errors import ConfigError
from bbflow.operators.fold import fold_steps
from bbflow.operators.own.origin import reading
from bbflow.operators.state import StateLayout
from bbflow.operators.windows.calendars import Clock

STARTS = ["2001-01-01", "2001-01-01T12"]
LEADS = 3


def seed(start, member, lead):
    return int(member), 10 * STARTS.index(start) + lead


def run_starts(streams, starts, members, *, leads=LEADS, skip=()):
    """Run each member from each start, those of a lead time one after the other."""
    for lead in range(leads):
        for start in starts:
            for member in members:
                if (start, member, lead) not in skip:
                    step = 2 * STARTS.index(start) + lead  # each step is six hours
                    streams.write(f"{start}.{member}", {"tas": field(*seed(start, member, lead))}, step=step)


def test_forecasts_are_shown_by_lead_time_and_start_whatever_is_lost_and_killed(tmp_path):
    analysis = analysis_in(tmp_path, 2, {"tas": ["mean", "max"]}, starts=STARTS)
    streams = MemberStreams(analysis)
    run_starts(streams, STARTS[::-1], ("1", "2"), leads=2)
    gathering = EnsembleFold(analysis, None, lambda _: None)
    gathering.turn()
    assert shown(analysis).status_step.values.tolist() == [[1, 1], [1, 1]]
    del gathering  # killed
    for member in ("1", "2"):
        streams.write(f"{STARTS[0]}.{member}", {"tas": field(*seed(STARTS[0], member, 2))}, step=2)
    streams.write(f"{STARTS[1]}.1", {"tas": field(*seed(STARTS[1], "1", 2))}, step=4)
    for name in ("1", "2"):
        streams.end(f"{STARTS[0]}.{name}")
    streams.end(f"{STARTS[1]}.1")
    streams.fail(f"{STARTS[1]}.2")
    streams.roster.mark(f"{STARTS[1]}.2", Standing.LOST, "gone")
    complete, _ = gathered(analysis)
    assert not complete
    found = shown(analysis)
    assert found.tas_step_mean.dims[:2] == ("lead_time_step", "start")
    assert found.lead_time_step.attrs["standard_name"] == "forecast_period"
    np.testing.assert_array_equal(found.lead_time_step, [0, 6, 12])  # hours
    np.testing.assert_array_equal(found.start, np.array(STARTS, "M8[us]"))
    assert found.members_step.values.tolist() == [[2, 2], [2, 2], [2, 1]]
    values = np.stack([[[field(*seed(s, m, lead)) for s in STARTS] for lead in range(LEADS)] for m in ("1", "2")])
    values[1, 2, 1] = np.nan
    np.testing.assert_allclose(found.tas_step_mean, np.nanmean(values, 0), rtol=1e-12)
    np.testing.assert_array_equal(found.tas_step_max, np.nanmax(values, 0))
    assert found.attrs["bbflow_lost_members"] == {f"{STARTS[1]}.2": "lost, gave 2 times: gone"}


def test_scores_are_by_lead_time_against_the_truth_of_the_same_start(tmp_path):
    analysis = analysis_in(
        tmp_path, 2, {"tas": {"operators": ["mean"], "scores": {"above": 280}}}, starts=STARTS, truth="truth"
    )
    streams = MemberStreams(analysis)
    run_starts(streams, STARTS, ("1", "2"))
    for start in STARTS:
        for lead in range(LEADS):
            step = 2 * STARTS.index(start) + lead
            streams.write(f"{start}.truth", {"tas": field(*seed(start, "9", lead))}, step=step)
        for name in ("1", "2", "truth"):
            streams.end(f"{start}.{name}")
    assert gathered(analysis)[0]
    with xr.open_datatree(analysis.output / "ensemble.zarr", engine="zarr", decode_timedelta=True) as tree:
        scores = tree["scores"].to_dataset().load()
    assert scores.tas_step_bias.dims == ("lead_time_step", "start")
    for lead in range(LEADS):
        for at, start in enumerate(STARTS):
            mean = np.mean([field(*seed(start, m, lead)) for m in ("1", "2")], axis=0)
            error = (mean - field(*seed(start, "9", lead))).mean()
            assert scores.tas_step_bias.values[lead, at] == pytest.approx(error)
    assert scores.attrs["tas_step_bias"] == pytest.approx(float(scores.tas_step_bias.mean()))
    assert np.isfinite(scores.attrs["tas_step_brier_280_reliability"])


def test_starts_that_members_cannot_have_are_refused_in_one_line(tmp_path):
    with pytest.raises(ConfigError, match="month isn't the same span of all starts"):
        analysis_in(tmp_path, 2, {"tas": {"operators": ["mean"], "windows": ["month"]}}, starts=STARTS)
    analysis = analysis_in(tmp_path, 1, starts=["2020-02-29"])
    streams = MemberStreams(analysis, clock=Clock("days since 2001-01-01", "noleap"))
    streams.write("2020-02-29.1", {"tas": field(1, 0)})
    with pytest.raises(ConfigError, match="calendar 'noleap' has no 2020-02-29"):
        EnsembleFold(analysis, None, print).turn()


def test_starts_are_read_as_dates_in_their_order():
    assert read_starts({"from": "2020-01-01", "to": "2020-01-03", "every": "12h"}) == (
        "2020-01-01", "2020-01-01T12", "2020-01-02", "2020-01-02T12", "2020-01-03",
    )  # fmt: skip
    assert read_starts(["2020-01-01 10:00", "2020-01-01T10:00:30"]) == ("2020-01-01T10", "2020-01-01T100030")
    for wrong, message in (
        (["2020-01-02", "2020-01-01"], "later than the one before"),
        (["2020-13-01"], "is not a date"),
        (["2020-01-01T00:00Z"], "names a time zone"),
        ({"from": "2020-01-01", "to": "2020-01-03"}, "'every' is missing"),
        ({"from": "2020-01-01", "to": "2020-01-03", "every": "a while"}, "is not a duration"),
    ):
        with pytest.raises(ConfigError, match=message):
            read_starts(wrong)


def test_members_are_a_number_names_a_range_or_directories(tmp_path):
    for name in ("m02", "m01", "other"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    (tmp_path / "runs" / "m03").touch()
    assert read_members(2) == (("1", "2"), ())
    assert read_members("m{08..10}x") == (("m08x", "m09x", "m10x"), ())
    assert read_members({"a": 1, "b": 0.5}) == (("a", "b"), (1.0, 0.5))
    with reading(str(tmp_path)):
        assert read_members("runs/m*") == (("m01", "m02"), ())
        with pytest.raises(ConfigError, match="no directory is like 'runs/x"):
            read_members("runs/x*")
    for wrong, message in ((["a", "a"], "given twice"), ({"a": 0}, "weight 0"), (["a.b"], "must be a word")):
        with pytest.raises(ConfigError, match=message):
            read_members(wrong)


def test_members_count_by_their_weights(tmp_path):
    weights = {"1": 1.0, "2": 2.5, "3": 0.5}
    analysis = analysis_in(tmp_path, weights, {"tas": ["mean", "std", "max"]})
    streams = MemberStreams(analysis)
    for name in weights:
        for step in range(2):
            streams.write(name, {"tas": field(name, step)})
        streams.end(name)
    assert gathered(analysis)[0]
    found = shown(analysis)
    values = np.stack([[field(name, step) for step in range(2)] for name in weights])
    wanted = np.average(values, axis=0, weights=list(weights.values()))
    spread = np.sqrt(np.average((values - wanted) ** 2, axis=0, weights=list(weights.values())))
    np.testing.assert_allclose(found.tas_step_mean, wanted, rtol=1e-12)
    np.testing.assert_allclose(found.tas_step_std, spread, rtol=1e-9)
    np.testing.assert_array_equal(found.tas_step_max, values.max(0))
    assert "weighted by members' weights" in found.tas_step_mean.attrs["cell_methods"]
    with pytest.raises(ConfigError, match=r"operator 'p50' has no weighted form: leave it out, or the weights"):
        analysis_in(tmp_path, weights, {"tas": [{"percentiles": {"q": [50]}}]})


def ishigami(x):
    return np.sin(x[..., 0]) + 7 * np.sin(x[..., 1]) ** 2 + 0.1 * x[..., 2] ** 4 * np.sin(x[..., 0])


def design_of(groups):
    """Values of a pick-freeze design, of shape (groups, 5, points)."""
    random = np.random.default_rng(1)
    a, b = random.uniform(-np.pi, np.pi, (2, groups, 12, 3))
    mixed = [np.where(np.arange(3) == k, b, a) for k in range(3)]
    return ishigami(np.stack([a, b, *mixed], axis=1))


def test_sobol_indices_are_those_of_iterative_stats_and_near_ishigamis(tmp_path):
    sensitivity = pytest.importorskip("iterative_stats.sensitivity.sensitivity_martinez")
    values = design_of(400)
    design = sobol.PickFreeze(("x", "y", "z"), tuple(map(str, range(2000))))
    layout = StateLayout.of(design.operators(), dtype=np.dtype("f8"), points=12)
    states = []
    for part in (values[:150], values[150:]):
        state = bytearray(layout.nbytes)
        fold_steps(layout, None, state, list(part.reshape(-1, 12)))
        states.append(state)
    layout.merge(states, states[0])
    first, total, groups = (item.finalize(layout, states[0]) for item in design.operators())
    oracle = sensitivity.IterativeSensitivityMartinez(nb_parms=3, dim=12)
    with np.errstate(invalid="ignore"):  # after the first group it has no spread yet
        for group in values:
            oracle.increment(group)
    np.testing.assert_allclose(first.T, np.asarray(oracle.getFirstOrderIndices()), rtol=1e-9)
    np.testing.assert_allclose(total.T, np.asarray(oracle.getTotalOrderIndices()), rtol=1e-9)
    np.testing.assert_array_equal(groups, 400)
    np.testing.assert_allclose(first.mean(1), [0.314, 0.442, 0], atol=0.03)
    np.testing.assert_allclose(total.mean(1), [0.558, 0.442, 0.244], atol=0.03)


def correlations(values):
    """First-order indices by NumPy, of values of shape (groups, 5, points)."""
    return np.array(
        [
            [np.corrcoef(values[:, 1, at], values[:, 2 + k, at])[0, 1] for at in range(values.shape[2])]
            for k in range(values.shape[1] - 2)
        ]
    )


def test_groups_of_a_design_are_taken_whole_in_any_order_and_one_with_a_lost_member_not(tmp_path):
    operators = {"tas": ["mean", "sobol"]}
    analysis = analysis_in(tmp_path, 20, operators, sobol=["x", "y", "z"])
    streams = MemberStreams(analysis)
    values = design_of(4)
    gathering = EnsembleFold(analysis, None, lambda _: None)
    order = np.random.default_rng(0).permutation(20)
    for turn, at in enumerate(order):
        name = str(at + 1)
        if at == 7:
            streams.begin(name)
            streams.fail(name)
            streams.roster.mark(name, Standing.LOST, "gone")
            continue
        streams.write(name, {"tas": values[at // 5, at % 5].reshape(3, 4)})
        if turn % 3 == 0:
            gathering.turn()
        if turn % 7 == 0:  # killed
            gathering = EnsembleFold(analysis, None, lambda _: None)
    for at in set(range(20)) - {7}:
        streams.end(str(at + 1))
    assert not gathered(analysis)[0]
    found = shown(analysis)
    assert (found.tas_step_sobol_groups == 3).all()
    whole = values[[0, 2, 3]]
    np.testing.assert_allclose(found.tas_step_sobol.values[0].reshape(3, 12), correlations(whole), rtol=1e-9)
    np.testing.assert_allclose(
        found.tas_step_mean.values.reshape(12), np.delete(values.reshape(20, 12), 7, 0).mean(0), rtol=1e-12
    )
    assert found[found.tas_step_sobol.dims[1]].attrs["flag_meanings"] == "x y z"


def test_a_design_that_has_no_whole_groups_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="need groups of 4 members"):
        analysis_in(tmp_path, 10, {"tas": ["sobol"]}, sobol=["x", "y"])
    with pytest.raises(ConfigError, match="say in 'ensemble' which parameters"):
        parse_ensemble({"stream": "m", "output": "o", "ensemble": {"members": 4}, "operators": {"tas": ["sobol"]}})

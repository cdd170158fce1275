"""Steps of several lengths, times that are rounded or written again, and units that change, through whole analyses."""

import shutil
import subprocess

import numpy as np
import pytest
import xarray as xr

from bbflow import start_nodes
from bbflow.errors import BbflowError, ConfigError
from testsupport.writers import write, write_config, writing

WRITER = """
when = io.define_variable("time", np.zeros(1))
ends = io.define_variable("time_bnds", np.zeros(2), [2], [0], [2], True) if BOUNDS else None
x = io.define_variable("x", np.zeros(POINTS), [POINTS], [0], [POINTS], True)
engine = io.open("out", Mode.Write)
for step, time in enumerate(TIMES):
    engine.begin_step()
    for name, value in AXES.get(step, {}).items():
        if step:
            io.remove_attribute(name)
        io.define_attribute(name, value)
    engine.put(when, np.array([time]), Mode.Sync)
    if BOUNDS:
        engine.put(ends, np.array(BOUNDS[step], "f8"), Mode.Sync)
    engine.put(x, np.full(POINTS, float(step + FIRST)), Mode.Sync)
    engine.end_step()
engine.close()
"""
DAYS = {"time/units": "days since 2001-01-01", "time/calendar": "noleap"}
UNEVEN = [*np.arange(0, 1, 0.25).tolist(), *np.arange(1, 2, 0.0625).tolist(), *np.arange(2, 4, 0.5).tolist()]


def program(times, *, axes=None, bounds=(), points=3, first=0):
    """Return a program that writes one step for each time; `axes` has the attributes that come with a step."""
    words = {"TIMES": list(times), "AXES": axes or {0: DAYS}, "BOUNDS": list(bounds), "POINTS": points, "FIRST": first}
    code = WRITER
    for word, value in words.items():
        code = code.replace(word, repr(value))
    return code


def run(folder, code, operators, *, window="run", capacity="8MiB", **config):
    """Analyse what a program writes; return the outcome and the results."""
    config = {
        "stream": "model", "output": str(folder / "out"), "operators": operators, "windows": [window],
        "workers": {"processes": 0, "threads": 1, "batch_steps": 3}, **config,
    }  # fmt: skip
    with start_nodes(1, capacity) as nodes, nodes.analyse(config) as analysis:
        write(nodes.contact, code, write_config(folder))
        outcome = analysis.wait(100)
    with xr.open_zarr(folder / "out" / "results.zarr", decode_times=False) as results:
        return outcome, results.load()


def test_steps_weigh_as_long_as_it_is_to_the_next_one(tmp_path):
    operators = {
        "x": {"operators": ["mean", "sum"], "weights": "time"},
        "alike": {"of": "x", "operators": ["mean"], "weights": "steps"},
    }
    outcome, results = run(tmp_path, program(UNEVEN), operators)
    lengths, values = np.diff([*UNEVEN, 4.0]), np.arange(len(UNEVEN))
    assert float(results.x_run_mean[0, 0]) == pytest.approx(np.average(values, weights=lengths), rel=1e-12)
    assert float(results.x_run_sum[0, 0]) == pytest.approx((values * lengths).sum(), rel=1e-12)
    assert float(results.alike_run_mean[0, 0]) == values.mean()
    assert results.x_run_mean.cell_methods == "time: mean (weighted by the steps' lengths)"
    assert (outcome.complete, outcome.errors, results.missing_run.item()) == (True, (), 0)


def test_a_step_is_as_long_as_to_the_next_one_that_counts(tmp_path):
    rounded = [float(np.float32(time)) for time in (0.3, 0.4)]  # as a restart file has them
    times = [0.0, 0.1, 0.2, 0.3, 0.4, *rounded, 0.5, 1e30, 0.6]
    operators = {"x": {"operators": ["mean"], "weights": "time"}}
    outcome, results = run(tmp_path, program(times), operators, time={"late": "skip"})
    assert float(results.x_run_mean[0, 0]) == pytest.approx(np.mean([0, 1, 2, 3, 4, 7, 9]), rel=1e-5)
    assert (outcome.complete, outcome.steps, outcome.late) == (True, 7, 3)


def test_months_weigh_as_their_bounds_say_or_by_their_days(tmp_path):
    ends = np.cumsum([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
    times, bounds = ((ends[1:] + ends[:-1]) / 2).tolist(), np.stack([ends[:-1], ends[1:]], axis=1).tolist()
    operators = {"x": {"operators": ["mean"], "weights": "time"}, "y": {"of": "x", "operators": ["yearmonmean"]}}
    code = program(times, bounds=bounds, axes={0: DAYS | {"time/bounds": "time_bnds"}})
    outcome, results = run(tmp_path, code, operators, window="year")
    right = np.average(np.arange(12), weights=np.diff(ends))
    assert float(results.x_year_mean[0, 0]) == pytest.approx(right, rel=1e-12)
    assert float(results.y_year_mean[0, 0]) == pytest.approx(right, rel=1e-12)
    assert outcome.errors == ()


@pytest.mark.skipif(not shutil.which("cdo"), reason="CDO isn't installed: 'apt install cdo'")
def test_yearmonmean_is_that_of_cdo(tmp_path):
    times = (
        np.cumsum([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] * 2)[[*range(12), *range(13, 25)]] + 14.0
    ).tolist()
    _, results = run(tmp_path, program(times), {"x": ["yearmonmean"]}, window="year")
    values = np.broadcast_to(np.arange(24.0)[:, None, None], (24, 3, 1))
    axes = {"lat": ("lat", [-10.0, 0.0, 10.0], {"units": "degrees_north"})}
    axes |= {"lon": ("lon", [0.0], {"units": "degrees_east"})}
    told = {name.removeprefix("time/"): text for name, text in DAYS.items()}
    dataset = xr.Dataset({"x": (("time", "lat", "lon"), values)}, {"time": ("time", times, told), **axes})
    dataset.to_netcdf(tmp_path / "in.nc", engine="scipy")
    command = ["cdo", "-s", "-b", "F64", "yearmonmean", "in.nc", "out.nc"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    with xr.open_dataset(tmp_path / "out.nc", engine="scipy", decode_times=False) as theirs:
        np.testing.assert_allclose(results.x_year_mean, theirs.x.values[:, :, 0], rtol=1e-12)


def test_that_steps_of_several_lengths_count_alike_is_said(tmp_path):
    outcome, results = run(tmp_path, program(UNEVEN), {"x": ["mean", "max"]})
    (line,) = outcome.errors
    assert "from 0.0625 to 0.5 long" in line
    assert "x (mean): set weights: time" in line
    assert (outcome.complete, results.missing_run.item()) == (True, 0)


def test_a_length_that_the_next_job_tells_otherwise_is_refused_at_its_first_step(tmp_path):
    operators, state = {"x": {"operators": ["mean"], "weights": "time"}}, tmp_path / "out" / "state.bbflow"
    run(tmp_path, program([0.0, 1.0, 2.0]), operators)
    regular, results = run(tmp_path, program([3.0, 4.0, 5.0], first=3), operators, **{"continue": str(state)})
    assert (regular.errors, regular.complete, float(results.x_run_mean[0, 0])) == ((), True, np.arange(6).mean())
    told = "the last step of the run before counts 1, but this run's first one comes 4 after it"
    with pytest.raises(ConfigError, match=told):
        run(tmp_path, program([9.0, 10.0], first=6), operators, **{"continue": str(state)})


@pytest.mark.parametrize("bounded", [False, True])
def test_steps_of_several_lengths_are_continued_only_where_bounds_tell_the_last_one(tmp_path, bounded):
    ends = [0.0, 31.0, 59.0, 90.0, 120.0]
    bounds = np.stack([ends[:-1], ends[1:]], 1).tolist()
    axes = {0: DAYS | ({"time/bounds": "time_bnds"} if bounded else {})}
    parts = []
    for job in (slice(0, 3), slice(3, 4)):
        own = bounds[job] if bounded else ()
        parts.append(program(ends[:-1][job], axes=axes, bounds=own, first=job.start))
    operators = {"x": {"operators": ["mean"], "weights": "time"}}
    run(tmp_path, parts[0], operators)
    continued = {"continue": str(tmp_path / "out")}
    if bounded:
        outcome, results = run(tmp_path, parts[1], operators, **continued)
        assert outcome.complete
        np.testing.assert_allclose(results.x_run_mean, np.average(np.arange(4.0), weights=[31, 28, 31, 30]))
        return
    with pytest.raises(ConfigError, match=r"state.bbflow can't be continued: its steps are from 28 to 31 long"):
        run(tmp_path, parts[1], operators, **continued)


def test_a_pool_with_room_for_one_step_only_is_refused_where_the_next_one_tells_its_length(tmp_path):
    config = {"stream": "model", "output": str(tmp_path / "out"), "workers": {"processes": 0}, "windows": ["run"]}
    config |= {"operators": {"x": {"operators": ["mean"], "weights": "time"}}}
    code = program(range(6), points=400_000)
    with (
        start_nodes(1, "4MiB") as nodes,
        nodes.analyse(config) as analysis,
        writing(nodes.contact, code, write_config(tmp_path)),
        pytest.raises(BbflowError, match="room for one step only"),
    ):
        analysis.wait(100)


def test_units_that_change_are_converted_as_a_reader_of_each_file_has_it(tmp_path):
    axes = {
        0: {"time/units": "days since 2001-01-01", "time/calendar": "noleap"},
        4: {"time/units": "hours since 2001-01-01"},
        8: {"time/units": "days since 2001-01", "time/calendar": "365_day"},
    }
    times = [0.0, 1.0, 2.0, 3.0, 96.0, 120.0, 144.0, 168.0, 8.0, 9.0]
    outcome, results = run(tmp_path, program(times, axes=axes), {"x": ["mean"]}, window="day", raw="all")
    assert results.steps_day.values.tolist() == [1] * 10
    assert (results.time_day.values - 0.5).tolist() == list(range(10))
    assert outcome.complete
    with xr.open_zarr(tmp_path / "out" / "raw.zarr", decode_times=False) as raw:
        assert raw.time.values.tolist() == list(range(10))
        assert raw.time.units == "days since 2001-01-01"


@pytest.mark.parametrize(
    ("changed", "time", "message"),
    [
        ({"time/calendar": "360_day"}, {}, "has other days"),
        ({"time/units": "hours since 2001-01-01"}, {"units": "days since 2001-01-01"}, "of all steps: take it out"),
    ],
)
def test_what_cannot_be_converted_is_refused(tmp_path, changed, time, message):
    code = program([0.0, 1.0, 2.0, 72.0], axes={0: DAYS, 3: changed})
    with pytest.raises(BbflowError, match=message):
        run(tmp_path, code, {"x": ["mean"]}, time=time)


def test_a_job_that_writes_its_last_steps_again_with_rounded_times_counts_each_once(tmp_path):
    axes = {0: {"time/units": "days since 2000-01-01"}}
    run(tmp_path / "one", program(np.arange(30) / 10, axes=axes), {"x": ["mean"]})
    again = np.cumsum([float(np.float32(2.0)), *[0.1] * 19])
    code = program(again, axes=axes, first=20)
    outcome, results = run(tmp_path / "two", code, {"x": ["mean"]}, **{"continue": str(tmp_path / "one" / "out")})
    assert (results.steps_run.item(), results.missing_run.item(), float(results.x_run_mean[0, 0])) == (40, 0, 19.5)
    assert (outcome.complete, "bbflow_left_out" in results.attrs) == (True, False)


def test_what_an_earlier_job_left_out_is_not_said_of_a_later_one(tmp_path):
    axes = {0: {"time/units": "days since 2000-01-01"}}
    first = program([0.0, 1.0, 0.5, 2.0], axes=axes)
    outcome, results = run(tmp_path / "one", first, {"x": ["mean"]}, time={"late": "skip"})
    assert outcome.late == 1
    assert results.attrs["bbflow_left_out"]
    second = program([3.0, 4.0], axes=axes, first=4)
    out = str(tmp_path / "one" / "out")
    outcome, results = run(tmp_path / "one", second, {"x": ["mean"]}, **{"continue": out})
    assert (outcome.complete, "bbflow_left_out" in results.attrs) == (True, False)


@pytest.mark.parametrize("late", ["skip", "incomplete"])
def test_a_job_that_only_repeats_steps_of_the_one_before_has_all_where_they_are_skipped(tmp_path, late):
    axes = {0: {"time/units": "days since 2000-01-01"}}
    run(tmp_path / "one", program([0.0, 1.0, 2.0], axes=axes), {"x": ["mean"]})
    again, out = program([1.0, 2.0], axes=axes, first=1), str(tmp_path / "one" / "out")
    outcome, results = run(tmp_path / "one", again, {"x": ["mean"]}, **{"continue": out, "time": {"late": late}})
    assert (outcome.complete, outcome.late, results.steps_run.item()) == (late == "skip", 2, 3)


def test_a_view_of_steps_whose_units_change_is_refused_in_one_line(tmp_path):
    code = program([0.0, 1.0, 48.0], axes={0: DAYS, 2: {"time/units": "hours since 2001-01-01"}})
    with start_nodes(1, "8MiB") as nodes:
        write(nodes.contact, code, write_config(tmp_path))
        with pytest.raises(BbflowError, match="open those of each by themselves"):
            xr.open_dataset(nodes.contact, engine="bbflow")

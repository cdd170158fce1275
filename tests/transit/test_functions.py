"""Users' functions that are called with whole fields, over real streams."""

import re
import sys

import bbflow_adios2
import mainjob
import numpy as np
import pytest
import streams
import xarray as xr

from bbflow.configuring.config import parse_config
from bbflow.errors import ConfigError
from bbflow.run.course import STOPPED

UNITS = "hours since 2001-01-01"
STEPS, LATS, LONS = 96, 6, 8
OWN = '''
"""Functions that a user may write."""

import numpy as np
import xarray as xr

from bbflow.functions import Answer


def zonal(dataset):
    return dataset.mean("lon")


def hot_points(dataset, above=285.0):
    """A row for each hot point."""
    stacked = dataset["tas"].stack(point=("lat", "lon"))
    hot = stacked[(stacked > above).values].reset_index("point").drop_vars(["time", "bbflow_step"])
    found = hot.rename("tas").to_dataset()
    found.encoding["unlimited_dims"] = {"point"}
    return found


def keeps_hot(dataset, above):
    return Answer(keep=bool(dataset["tas"].max() > above))


def warm_days(dataset):
    return xr.Dataset({"share": (dataset["tas_day_mean"] > 283).mean(), "name": "warm"})


def fails(dataset):
    if dataset["bbflow_step"] == 40:
        raise ValueError("no more of this")
    return dataset.max()


def dies(dataset):
    import os
    os.abort()


def interrupts(dataset):
    raise KeyboardInterrupt("one\\ntwo")


def turns(dataset):
    return dataset if dataset["bbflow_step"] < 3 else dataset.transpose()


def holds_bytes(dataset):
    return xr.Dataset({"name": ("x", np.array([b"a"]))}, attrs={"numbers": np.arange(2)})


def changes(dataset):
    return dataset.isel(lat=slice(0, 1 + int(dataset["bbflow_step"]) // 40))


def harms(dataset, path):
    if dataset["bbflow_step"] == 60:
        __import__("os").unlink(path)
    return dataset.max()
'''


@pytest.fixture
def tas(tmp_path):
    random = np.random.default_rng(5)
    values = random.normal(280, 4, (STEPS, LATS, LONS)).astype("f4")
    lat, lon = np.linspace(-75, 75, LATS), np.arange(LONS) * 45.0
    attributes = {
        "time/units": UNITS,
        "tas/_ARRAY_DIMENSIONS": ["lat", "lon"],
        "tas/units": "K",
        "lat/units": "degrees_north",
        "lon/units": "degrees_east",
    }
    given = {"tas": values, "lat": lat, "lon": lon}
    streams.store(tmp_path, given, np.arange(STEPS), attributes, steady=("lat", "lon"))
    (tmp_path / "called.py").write_text(OWN)
    times = np.datetime64("2001-01-01T00:00") + np.arange(STEPS) * np.timedelta64(1, "h")
    return xr.DataArray(values, dims=("time", "lat", "lon"), coords={"time": times, "lat": lat, "lon": lon}, name="tas")


def run(folder, functions, **more):
    streams.look_in(str(folder))
    operators = {"tas": {"operators": ["mean"], "windows": ["day"]}}
    return streams.analysed(folder, {"operators": operators, "functions": functions} | more, ranks=2, nodes=2)


def opened(folder, name):
    return xr.open_zarr(folder / "out" / "functions" / f"{name}.zarr", consolidated=True).load()


def test_functions_are_called_with_chosen_steps_and_with_results_and_what_they_return_is_published(tas, tmp_path):
    functions = {
        "zonal": {"call": "called:zonal", "of": "tas", "every": 6},
        "hot": {"call": "called:hot_points", "of": ["tas"], "when": "max(tas) > 290", "arguments": {"above": 288}},
        "keeps": {"call": "called:keeps_hot", "of": "tas", "arguments": {"above": 292.5}},
        "warm": {"call": "called:warm_days", "results": "tas_day_mean"},
    }
    outcome, results = run(tmp_path, functions, raw={"asked_by": "keeps", "before": 1})
    assert outcome.complete
    assert not outcome.errors

    zonal = opened(tmp_path, "zonal")
    np.testing.assert_array_equal(zonal["bbflow_step"], np.arange(0, STEPS, 6))
    xr.testing.assert_equal(zonal["tas"].drop_vars("bbflow_step", errors="ignore"), tas[::6].mean("lon"))

    hottest, hot = tas.max(("lat", "lon")).values, opened(tmp_path, "hot")
    called = np.flatnonzero(hottest > 290)
    np.testing.assert_array_equal(hot["bbflow_step"], called)
    rows = np.argwhere((tas[called] > 288).values)
    assert 0 < len(called) < STEPS
    np.testing.assert_array_equal(hot["row_size"], np.bincount(rows[:, 0], minlength=len(called)))
    np.testing.assert_array_equal(hot["point_step"], called[rows[:, 0]])
    np.testing.assert_array_equal(hot["point_time"], tas["time"].values[called[rows[:, 0]]])
    np.testing.assert_array_equal(hot["tas"], tas.values[called][tuple(rows.T)])
    np.testing.assert_array_equal(hot["lat"], tas["lat"].values[rows[:, 1]])

    hits = np.flatnonzero(hottest > 292.5)
    with xr.open_zarr(tmp_path / "out" / "raw.zarr") as raw:
        np.testing.assert_array_equal(raw["bbflow_step"], sorted({*hits, *(hits[hits > 0] - 1)}))
    assert 0 < len(hits) < STEPS // 2

    warm = opened(tmp_path, "warm")
    np.testing.assert_allclose(warm["share"], (results["tas_day_mean"] > 283).mean(("lat", "lon")))
    np.testing.assert_array_equal(warm["time"], results["time_day"])
    np.testing.assert_array_equal(warm["time_bnds"], results["time_day_bnds"])
    assert list(warm["name"].values) == ["warm"] * 4


def test_answers_that_somebody_has_removed_are_told(tas, tmp_path):
    path = tmp_path / "out/functions/harms.zarr/tas/c.1"
    functions = {"harms": {"call": "called:harms", "of": "tas", "every": 20, "arguments": {"path": str(path)}}}
    outcome, _ = run(tmp_path, functions)
    told = "function harms: tas/c.1 of its store was removed or cut off during the run, so answers are lost"
    assert (outcome.complete, outcome.errors) == (False, (told,))


def test_a_function_that_fails_is_named_and_everything_else_is_whole(tas, tmp_path):
    names = ["zonal", "fails", "dies", "changes", "interrupts", "turns", "holds_bytes"]
    functions = {name: {"call": f"called:{name}", "of": "tas"} for name in names} | {
        "asks": {"call": "called:keeps_hot", "of": "tas", "arguments": {"above": 0}}
    }
    outcome, results = run(tmp_path, functions)
    assert not outcome.complete
    assert sorted(outcome.errors) == [
        "function asks (called:keeps_hot) failed in step 0: it asks for a step to be kept, but isn't the function that "
        "raw: asked_by names",
        "function changes (called:changes) failed in step 40: it gave 'tas' of type and shape ('float32', (2, 8)), at "
        "first ('float32', (1, 8))",
        "function dies (called:dies) failed in step 0: its process was killed by SIGABRT",
        "function fails (called:fails) failed in step 40: ValueError: no more of this (called.py, line 33)",
        "function holds_bytes (called:holds_bytes) failed in step 0: name has b'a' among its values, which isn't text: "
        "give texts, or numbers",
        "function interrupts (called:interrupts) failed in step 0: KeyboardInterrupt: one two (called.py, line 43)",
        "function turns (called:turns) failed in step 3: it gave 'tas' the dimensions ('time', 'lon', 'lat'), at first "
        "('time', 'lat', 'lon')",
    ]
    assert results.attrs["bbflow_status"] == "complete"
    assert results.sizes["time_day"] == 4
    assert opened(tmp_path, "zonal").sizes["time"] == STEPS
    failed = opened(tmp_path, "fails")
    assert failed.sizes["time"] == 40
    assert "no more of this" in failed.attrs["bbflow_error"]
    np.testing.assert_array_equal(failed["tas"], tas[:40].max(("lat", "lon")))


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"call": "called:zonal"}, "say either 'of', variables of each step, or 'results'"),
        ({"call": "called:zonal", "of": "tas", "results": "tas_day_mean"}, "say either 'of'"),
        ({"call": "called:zonal", "results": "tas_day_men"}, "no result 'tas_day_men'; did you mean 'tas_day_mean'?"),
        (
            {"call": "called:zonal", "results": ["tas_day_mean", "tas_run_mean"]},
            "of day and run end at different",
        ),
        ({"call": "called:zonal", "results": "tas_day_mean", "every": 2}, "'every' and 'when' choose steps"),
        ({"call": "called:none", "of": "tas"}, "can't load called:none"),
        ({"call": "called:zonal", "of": "tas", "arguments": {"height": 1}}, "can't be called with a Dataset and"),
        ({"call": "called:zonal", "of": "tas", "arguments": 3}, "arguments must be a map from names to values, not 3"),
        ({"call": "called:zonal", "of": "tas", "arguments": ["a"]}, "arguments must be a map from names to values"),
        ({"call": "called:zonal", "of": "tas", "arguments": "a"}, "arguments must be a map from names to values"),
        ({"call": "called:zonal", "of": "tas", "arguments": {1: 2}}, "arguments must be a map from names to values"),
        ({"call": "called:zonal", "of": "tas", "every": 0}, "every: 0 is not a whole number from 1"),
        ({"call": "called:zonal", "of": "tas", "every": False}, "every: False is not a whole number from 1"),
        ({"call": "called:zonal", "of": "tas", "each": 2}, "unknown key 'each'"),
    ],
)
def test_what_is_wrong_with_a_function_is_said_before_anything_starts(entry, said, tmp_path):
    (tmp_path / "called.py").write_text(OWN)
    streams.look_in(str(tmp_path))
    operators = {"tas": {"operators": ["mean"], "windows": ["day", "run"]}}
    with pytest.raises(ConfigError, match=f"^functions: own:? .*{re.escape(said)}"):
        parse_config({"stream": "fields", "operators": operators, "functions": {"own": entry}})


def test_steps_are_asked_for_by_a_function_of_steps(tmp_path):
    (tmp_path / "called.py").write_text(OWN)
    streams.look_in(str(tmp_path))
    functions = {"warm": {"call": "called:warm_days", "results": "tas_run_mean"}}
    content = {"stream": "fields", "operators": {"tas": ["mean"]}, "functions": functions, "raw": {"asked_by": "warm"}}
    with pytest.raises(ConfigError, match="raw: asked_by: 'warm' isn't a function of steps"):
        parse_config(content)


STOPS = """
from bbflow.functions import Answer


def settled(dataset):
    if dataset["bbflow_step"] == 30:
        return Answer(dataset["psl"].mean(), stop="the pressure has settled")


def settles_late(dataset):
    import pathlib, time
    told, end_s = pathlib.Path(__file__).with_name("keeper"), time.monotonic() + 100
    # Until the run has taken leave of the process that keeps its simulation.
    while dataset["bbflow_step"] == 30 and not (told.exists() and not pathlib.Path("/proc", told.read_text()).exists()):
        assert time.monotonic() < end_s
        time.sleep(0.05)
    return settled(dataset)
"""


def test_a_function_ends_the_simulation_and_the_run_says_so(program, tmp_path):
    (tmp_path / "stops.py").write_text(STOPS)
    functions = {"settled": {"call": "stops:settled", "of": "psl"}}
    config = mainjob.write_config(tmp_path, functions=functions, nodes={"capacity": "512KiB"})
    code, said = mainjob.run(config, mainjob.simulation(program, 2, 100_000))
    assert code == STOPPED, said
    why = "settled asked in step 30 for the simulation's end: the pressure has settled"
    assert f"{why}; the simulation gets SIGTERM" in said
    assert f"the simulation was ended, since {why}" in said
    with xr.open_zarr(tmp_path / "out" / "results.zarr") as results:
        assert (results.attrs["bbflow_status"], results.attrs["bbflow_stopped"]) == ("complete", why)
        assert 30 < results.attrs["bbflow_last_step"] < 99_999
    assert opened(tmp_path, "settled")["bbflow_step"].values == [30]


READS = """
import sys
import adios2
import numpy as np
from adios2.bindings import Mode, StepMode, StepStatus

adios = adios2.Adios(sys.argv[1])
asked = adios.declare_io("fields_stop").open("fields_stop", Mode.Read)
io = adios.declare_io("fields")
time = io.define_variable("time", np.zeros(1))
psl = io.define_variable("psl", np.zeros(0), [4, 6], [0, 0], [4, 6], True)
io.define_attribute("time/units", "hours since 2001-01-01")
engine = io.open("fields", Mode.Write)
for step in range(100_000):
    engine.begin_step()
    engine.put(time, np.array([float(step)]), Mode.Sync)
    engine.put(psl, np.full((4, 6), 1e5 + step), Mode.Sync)
    engine.end_step()
    if asked.begin_step(StepMode.Read, 0.01) == StepStatus.OK:
        break
engine.close()
asked.close()
print("asked after step", step, flush=True)
"""


def test_a_simulation_that_reads_what_it_is_asked_ends_by_itself(tmp_path):
    (tmp_path / "stops.py").write_text(STOPS)
    (tmp_path / "model.py").write_text(READS)
    engines = bbflow_adios2.engine_xml("fields"), bbflow_adios2.engine_xml("fields_stop")
    both = engines[0].replace("</adios-config>", engines[1].partition("<adios-config>")[2])
    (tmp_path / "model.xml").write_text(both)
    functions = {"settled": {"call": "stops:settled", "of": "psl"}}
    changes = {"stream": "fields", "operators": {"psl": ["mean"]}, "windows": ["day"], "raw": "none"}
    config = mainjob.write_config(tmp_path, functions=functions, nodes={"capacity": "256KiB"}, **changes)
    code, said = mainjob.run(config, [sys.executable, str(tmp_path / "model.py"), str(tmp_path / "model.xml")])
    assert code == STOPPED, said
    assert "the pressure has settled; the simulation, which reads that, is asked to end" in said
    assert "asked after step" in said
    assert "NOTHING FOLDED" not in said
    with xr.open_zarr(tmp_path / "out" / "results.zarr") as results:
        assert results.attrs["bbflow_status"] == "complete"


IGNORES = """
import os
import pathlib
import signal
import sys
import time
import adios2
import numpy as np
from adios2.bindings import Mode

asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
io = adios2.Adios(sys.argv[1]).declare_io("fields")
time_of = io.define_variable("time", np.zeros(1))
psl = io.define_variable("psl", np.zeros(0), [4, 6], [0, 0], [4, 6], True)
io.define_attribute("time/units", "hours since 2001-01-01")
engine = io.open("fields", Mode.Write)
steps, is_asked = int(sys.argv[2]), sys.argv[3] == "settled"
end_s = time.monotonic() + 100
for step in range(steps):
    while is_asked and step == steps - 1 and not asked and time.monotonic() < end_s:
        time.sleep(0.01)
    engine.begin_step()
    engine.put(time_of, np.array([float(step)]), Mode.Sync)
    engine.put(psl, np.full((4, 6), 1e5 + step), Mode.Sync)
    engine.end_step()
engine.close()
pathlib.Path(__file__).with_name("keeper").write_text(str(os.getppid()))
"""


@pytest.mark.parametrize(("steps", "call"), [(40, "settled"), (31, "settles_late")])
def test_a_simulation_that_comes_to_its_own_end_is_not_said_to_be_ended(steps, call, tmp_path):
    (tmp_path / "stops.py").write_text(STOPS)
    (tmp_path / "model.py").write_text(IGNORES)
    (tmp_path / "model.xml").write_text(bbflow_adios2.engine_xml("fields"))
    functions = {"settled": {"call": f"stops:{call}", "of": "psl"}}
    changes = {"stream": "fields", "operators": {"psl": ["mean"]}, "windows": ["day"], "raw": "none"}
    config = mainjob.write_config(tmp_path, functions=functions, nodes={"capacity": "512KiB"}, **changes)
    model = [sys.executable, *map(str, (tmp_path / "model.py", tmp_path / "model.xml", steps, call))]
    code, said = mainjob.run(config, model)
    is_asked = call == "settled"
    assert code == (STOPPED if is_asked else 0), said
    assert "the simulation was ended" not in said
    assert (f"the simulation came to its own end with step {steps - 1}; it was asked to end, since" in said) == is_asked
    with xr.open_zarr(tmp_path / "out" / "results.zarr") as results:
        assert results.attrs["bbflow_status"] == "complete"
        assert results.attrs["bbflow_last_step"] == steps - 1
        assert ("bbflow_stopped" in results.attrs) == is_asked

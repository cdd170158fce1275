"""Steps that aren't as the first one was: what becomes of it in the stores, and what is said."""

import numpy as np
import pytest
import xarray as xr

from bbflow import start_nodes
from bbflow.drain.replaying import replay
from bbflow.landing.client import status_of
from bbflow.run.progress import plain_line, summarise
from testsupport.waiting import until
from testsupport.writers import clean_environment, write, write_config, writing

WRITER = """
io.define_attribute("time/units", "days since 2000-01-01")
io.define_attribute("time/calendar", "CALENDAR")
io.define_attribute("a/_ARRAY_DIMENSIONS", ["lat"])
io.define_attribute("lat/_FillValue", np.array([-1], "i4"))
io.define_attribute("x/missing_value", np.array([np.inf]))
io.define_attribute("sure/scale_factor", SCALE)
when = io.define_variable("time", np.zeros(1))
names = {"a": "f4", "lat": "i4", "mask": "i1", "sure": "i1", "x": "f8", "y": "f4"}
variables = {name: io.define_variable(name, np.empty(0, dtype), [3], [0], [3], False) for name, dtype in names.items()}
engine = io.open("out", Mode.Write)
for step, time in enumerate(TIMES):
    engine.begin_step()
    engine.put(when, np.array([time]), Mode.Sync)
    engine.put(variables["a"], np.full(3, step, "f4"), Mode.Sync)
    engine.put(variables["lat"], np.array([-1, 0, 10 * (step >= MOVES)], "i4"), Mode.Sync)
    if step != 1:
        engine.put(variables["mask"], np.array([-127, 0, 1], "i1"), Mode.Sync)
        engine.put(variables["sure"], np.array([-12, 0, 1], "i1"), Mode.Sync)
    count = 3 + (step >= GROWS)
    variables["x"].set_shape([count])
    variables["x"].set_selection([[0], [count]])
    values = np.arange(count) + 10.0 * step
    engine.put(variables["x"], np.where(values == LOST, np.inf, values), Mode.Sync)
    engine.end_step()
engine.close()
"""
NEVER = 99


def code_of(times, calendar="standard", moves=NEVER, grows=NEVER, scale=1.0, lost=-1):
    """Return the program that writes the steps."""
    words = {"TIMES": str(times).replace("nan", "float('nan')"), "CALENDAR": calendar, "MOVES": moves, "GROWS": grows}
    words |= {"SCALE": f"float('{scale}')", "LOST": lost}
    code = WRITER
    for word, value in words.items():
        code = code.replace(word, str(value))
    return code


def run(folder, times, *, late="incomplete", raw="none", operators=None, workers=None, **told):
    """Fold and drain the steps; return the outcome, and the raw store."""
    config = {
        "stream": "model", "output": str(folder / "out"), "operators": operators or {"a": ["mean"]},
        "windows": ["run"], "raw": raw, "time": {"late": late}, "workers": workers or {"processes": 0, "threads": 1},
    }  # fmt: skip
    with start_nodes(1, "8MiB") as nodes, nodes.analyse(config) as analysis:
        write(nodes.contact, code_of(times, **told), write_config(folder))
        outcome = analysis.wait(100)
    return outcome, folder / "out" / "raw.zarr"


def test_a_coordinate_that_changes_is_in_a_table_from_there_on_and_the_results_say_so(tmp_path):
    outcome, store = run(
        tmp_path, [0.0, 1.0, 2.0, 3.0], moves=2, raw={"variables": ["a"]}, workers={"batch_steps": 1, "processes": 0}
    )
    assert outcome.complete
    assert "lat changes with time: from step 2 on it is in the group lat_blocks of raw.zarr" in outcome.errors
    assert any(line.startswith("coordinate lat changes with time, as seen in step ") for line in outcome.errors)
    with xr.open_zarr(store) as raw:
        np.testing.assert_array_equal(raw.lat, [np.nan, 0, 0])
    with xr.open_zarr(store, group="lat_blocks") as table:
        assert table.step.values.tolist() == [2, 3]
        np.testing.assert_array_equal(table.value, [np.nan, 0, 10] * 2)
    with xr.open_zarr(tmp_path / "out" / "results.zarr") as results:
        np.testing.assert_array_equal(results.lat, [np.nan, 0, 0])
        assert results.lat.bbflow_changed_in_step in (2, 3)


def test_a_coordinate_that_is_written_again_as_it_was_is_one(tmp_path):
    outcome, store = run(tmp_path, [0.0, 1.0, 2.0], raw={"variables": ["a"]})
    assert (outcome.complete, outcome.errors) == (True, ())
    assert not (store / "lat_blocks").exists()


def test_infinity_that_stands_for_missing_values_is_masked(tmp_path, monkeypatch):
    outcome, store = run(tmp_path, [0.0, 1.0], raw={"variables": ["x"]}, operators={"x": ["count"]}, lost=1)
    assert outcome.complete
    with xr.open_zarr(store) as raw:
        np.testing.assert_array_equal(raw.x[1], [10, 11, 12])
        assert np.isnan(raw.x[0, 1])
        assert raw.x.encoding["_FillValue"] == np.inf
    with start_nodes(1, "8MiB") as nodes:
        for name, value in clean_environment(nodes.contact).items():
            monkeypatch.setenv(name, value)
        replay(store, "again")
        with xr.open_dataset(nodes.contact, engine="bbflow", decode_cf=False) as back:
            assert np.isinf(back.x.attrs.get("_FillValue", back.x.attrs.get("missing_value")))


def test_values_that_are_packed_by_no_number_are_left_out_of_raw_steps_and_said(tmp_path):
    outcome, store = run(tmp_path, [0.0, 1.0], raw={"variables": "all"}, scale="nan")
    assert not outcome.complete
    assert any("raw.zarr hasn't all: sure: scale_factor nan and" in line for line in outcome.errors)
    with xr.open_zarr(store) as raw:
        assert "sure" not in raw
        assert "x" in raw


def test_an_array_that_grows_goes_on_in_a_table_and_is_replayed(tmp_path, monkeypatch):
    outcome, store = run(tmp_path, [0.0, 1.0, 2.0, 3.0], grows=2, raw={"variables": ["x"]})
    assert outcome.complete
    assert "x changes its shape: from step 2 on it is in the group x_blocks of raw.zarr" in outcome.errors
    with xr.open_zarr(store) as raw:
        np.testing.assert_array_equal(raw.x, [[0.0, 1, 2], [10, 11, 12], [np.nan] * 3, [np.nan] * 3])
    with xr.open_zarr(store, group="x_blocks") as table:
        np.testing.assert_array_equal(table.value, [20, 21, 22, 23, 30, 31, 32, 33])
    with start_nodes(1, "8MiB") as nodes:
        for name, value in clean_environment(nodes.contact).items():
            monkeypatch.setenv(name, value)
        assert replay(store, "again") == 4
        with xr.open_dataset(nodes.contact, engine="bbflow", decode_times=False) as back:
            np.testing.assert_array_equal(back.x[3], [30, 31, 32, 33])


def test_a_value_of_integers_that_stands_for_what_lacks_too_is_said(tmp_path):
    outcome, store = run(tmp_path, [0.0, 1.0, 2.0], raw={"variables": ["mask", "sure"]})
    assert not outcome.complete
    (line,) = (line for line in outcome.errors if "raw.zarr" in line)
    assert line.startswith(
        "raw.zarr hasn't all: mask: -127 is one of its values, and stands where steps or points lack it"
    )
    with xr.open_zarr(store) as raw:
        np.testing.assert_array_equal(raw.sure, [[-12, 0, 1], [np.nan] * 3, [-12, 0, 1]])


@pytest.mark.parametrize(("calendar", "is_dated"), [("standard", True), ("noleap", False)])
def test_a_step_without_a_date_has_none_in_any_reader(tmp_path, calendar, is_dated):
    outcome, store = run(tmp_path, [float("nan"), 1.0, 2.0], calendar=calendar, raw={"variables": ["a"]})
    assert (outcome.late, outcome.complete) == (1, False)
    with xr.open_zarr(store) as raw:
        assert np.isnat(raw.time.values[0]) if is_dated else np.isnan(raw.time.values[0])
        assert is_dated == np.issubdtype(raw.time.dtype, np.datetime64)
        assert raw.time.attrs.get("bbflow_units") == (None if is_dated else "days since 2000-01-01")
    with xr.open_zarr(store, decode_times=False) as raw:
        np.testing.assert_array_equal(raw.time, [np.nan, 1, 2])
    assert is_dated == (not any("the times are numbers" in line for line in outcome.errors))


def test_a_run_of_which_all_steps_are_late_is_not_complete(tmp_path):
    outcome, _ = run(tmp_path, [float("nan")] * 3, late="skip")
    assert (outcome.complete, outcome.late, outcome.steps) == (False, 3, 0)
    assert outcome.errors[0].startswith("3 of 3 steps were left out")
    outcome, _ = run(tmp_path / "some", [0.0, float("nan"), 1.0], late="skip")
    assert (outcome.complete, outcome.late, outcome.steps) == (True, 1, 2)


def folded_on(node):
    streams = status_of(node).streams
    return streams["model"].consumers.get("fold") if "model" in streams else None


def test_status_shows_steps_that_are_left_out_as_late(tmp_path):
    held = code_of([0.0, float("nan"), 1.0]).replace("engine.close()", 'wait_for("looked")\nengine.close()')
    config = {
        "stream": "model", "output": str(tmp_path / "out"), "operators": {"a": ["mean"]}, "windows": ["run"],
        "workers": {"processes": 0, "threads": 1},
    }  # fmt: skip
    with start_nodes(1, "8MiB") as nodes, nodes.analyse(config) as analysis:
        node = nodes.nodes[0]
        with writing(nodes.contact, held, write_config(tmp_path)) as process:
            until(lambda: folded_on(node) == 2, "it was never folded")
            summary = summarise([status_of(node)], None, 0.0)
            (tmp_path / "looked").touch()
            process.wait(60)
        analysis.wait(60)
    assert ", 1 left out as late," in plain_line(summary)

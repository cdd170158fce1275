"""Streams whose names are those that bbflow would give, and streams without time."""

import os
import subprocess
import sys

import bbflow_adios2
import numpy as np
import pytest
import xarray as xr

from bbflow import start_nodes
from bbflow.errors import ConfigError
from bbflow.report.writing import write_report
from bbflow.stream.records import BlockForm
from bbflow.transit.folding.regions import check_foldable
from bbflow.transit.output.decoding import open_results

STEPS = 10
WRITER = """
import sys
import adios2
import numpy as np
io = adios2.Adios(sys.argv[1]).declare_io("model")
clock, first = sys.argv[2], int(sys.argv[3])
with adios2.Stream(io, "model", "w") as stream:
    for n in range(10):
        stream.begin_step()
        if clock:
            stream.write(clock, 0.5 * n)
        stream.write("time", 1000.0 + n)
        stream.write("step", 100 * n)
        if n == 0:
            if clock:
                stream.write_attribute(f"{clock}/calendar", "360_day")
            stream.write_attribute("u/_ARRAY_DIMENSIONS", ["t", "x"])
            stream.write_attribute("x/units", "m")
            stream.write("x", np.arange(4.0), [4], [0], [4])
        stream.write("u", np.full((3, 4), 1.0 * (first + n)), [3, 4], [0, 0], [3, 4])
        stream.end_step()
"""
FIELD = np.broadcast_to(np.arange(10.0)[:, None, None], (STEPS, 3, 4))


def write(folder, buffer, clock="", first=0):
    """Run a program with variables `time` and `step` of its own to its end."""
    (folder / "model.xml").write_text(bbflow_adios2.engine_xml("model"))
    (folder / "writer.py").write_text(WRITER)
    words = [sys.executable, folder / "writer.py", folder / "model.xml", clock, str(first)]
    subprocess.run(words, check=True, timeout=300, env=os.environ | bbflow_adios2.environment(buffer.contact))


def analyse(folder, buffer, **changes):
    content = {"stream": "model", "output": str(folder / "out"), "operators": {"u": ["mean", "min"]}, "raw": "all"}
    workers = {"processes": 0, "threads": 1}
    with buffer.analyse(content | {"windows": ["run"], "workers": workers} | changes) as analysis:
        outcome = analysis.wait(300)
    assert outcome is not None
    assert outcome.complete
    with open_results(folder / "out" / "results.zarr") as results:
        return results.load()


def refused(folder, buffer, says, **changes):
    """See that an analysis says why it can't be, and forget the stream."""
    try:
        with pytest.raises(ConfigError, match=says):
            analyse(folder, buffer, **changes)
    finally:
        words = [sys.executable, "-m", "bbflow", "drop", "model", "--contact", buffer.contact]
        subprocess.run(words, check=True, timeout=300)


@pytest.fixture(scope="module")
def buffer():
    with start_nodes(1, "4MiB") as buffer:
        yield buffer


def test_variables_named_time_and_step_are_kept_beside_bbflows_own(buffer, tmp_path):
    write(tmp_path, buffer, "t")
    with xr.open_dataset(buffer.contact, engine="bbflow", stream="model", time="t", decode_times=False) as view:
        seen = view.load()
    results = analyse(tmp_path, buffer, time={"variable": "t", "units": "days since 2000-01-01"})
    with xr.open_zarr(tmp_path / "out" / "raw.zarr", decode_times=False) as raw:
        kept = raw.load()
    for dataset in (seen, kept):
        np.testing.assert_array_equal(dataset.t, 0.5 * np.arange(STEPS))
        np.testing.assert_array_equal(dataset.time, 1000.0 + np.arange(STEPS))
        np.testing.assert_array_equal(dataset.step, 100 * np.arange(STEPS))
        np.testing.assert_array_equal(dataset.bbflow_step, np.arange(STEPS))
        assert dataset.u.dims == ("t", "u_t", "x")  # the program calls another dimension t
        np.testing.assert_array_equal(dataset.u, FIELD)
        assert dataset.x.attrs == {"units": "m"}
    assert kept.t.attrs == {"units": "days since 2000-01-01", "calendar": "360_day"}
    assert results.u_run_mean.dims == ("time_run", "u_t", "x")


def test_a_stream_without_time_is_counted_by_its_steps(buffer, tmp_path):
    write(tmp_path, buffer)
    with xr.open_dataset(buffer.contact, engine="bbflow", stream="model", time="t") as view:
        assert view.u.dims == ("bbflow_step", "t", "x")
    results = analyse(tmp_path, buffer, windows=["run", {"steps": 4}], netcdf=True)
    assert results.u_run_mean.values[0, 0, 0] == 4.5
    assert results.u_steps4_min.values[:, 0, 0].tolist() == [0, 4, 8]
    assert results.time_steps4_bnds.values.tolist() == [[0, 3], [4, 7], [8, 9]]
    assert results.time_run.attrs["units"] == "1"
    with xr.open_zarr(tmp_path / "out" / "raw.zarr") as raw:
        assert raw.u.dims == ("bbflow_step", "t", "x")
        np.testing.assert_array_equal(raw.u, FIELD)
        np.testing.assert_array_equal(raw.time, 1000.0 + np.arange(STEPS))
    with xr.open_dataset(tmp_path / "out" / "results_run.nc") as copied:
        np.testing.assert_array_equal(copied.u_run_mean, results.u_run_mean)
    assert "4.5" in write_report(tmp_path / "out").read_text()


def test_the_next_job_goes_on_counting_steps(buffer, tmp_path):
    write(tmp_path, buffer)
    analyse(tmp_path, buffer, raw="none", windows=["run", {"steps": 4}])
    write(tmp_path, buffer, first=STEPS)
    following = {"output": str(tmp_path / "next"), "continue": str(tmp_path / "out"), "raw": "none"}
    analyse(tmp_path, buffer, windows=["run", {"steps": 4}], **following)
    with open_results(tmp_path / "next" / "results.zarr") as results:
        assert results.u_run_mean.values[0, 0, 0] == 9.5
        assert results.u_steps4_min.values[:, 0, 0].tolist() == [8, 12, 16]
        assert results.time_steps4_bnds.values.tolist() == [[8, 11], [12, 15], [16, 19]]


PATHS = """
import sys
import adios2
import numpy as np
io = adios2.Adios(sys.argv[1]).declare_io("model")
with adios2.Stream(io, "model", "w") as stream:
    stream.write_attribute("time/units", "days since 2000-01-01")
    stream.write_attribute("a/units", "m")
    stream.write_attribute("a/b/units", "K")
    stream.write_attribute("/data/E/_ARRAY_DIMENSIONS", ["/data/x"])
    stream.write_attribute("/data/height/_ARRAY_DIMENSIONS", ["/data/x"])
    stream.write_attribute("/data/E/coordinates", "/data/height")
    stream.write_attribute("longer/_ARRAY_DIMENSIONS", ["/data/x", "y"])
    stream.write_attribute("other/_ARRAY_DIMENSIONS", ["y"])
    for n in range(4):
        stream.begin_step()
        stream.write("time", 1.0 * n)
        stream.write("told", f"step {n}")
        stream.write("longer", np.full((5, 2), 1.0 * n), [5, 2], [0, 0], [5, 2])
        stream.write("other", np.full(4, 1.0 * n), [4], [0], [4])
        if n == 0:
            stream.write("/data/x", np.arange(3.0), [3], [0], [3])
            stream.write("/data/height", np.arange(3.0), [3], [0], [3])
        for name in sys.argv[2:]:
            stream.write(name, np.full(3, 1.0 * n), [3], [0], [3])
        stream.end_step()
"""


def write_paths(folder, buffer, *names):
    (folder / "model.xml").write_text(bbflow_adios2.engine_xml("model"))
    (folder / "writer.py").write_text(PATHS)
    words = [sys.executable, folder / "writer.py", folder / "model.xml", *names]
    subprocess.run(words, check=True, timeout=300, env=os.environ | bbflow_adios2.environment(buffer.contact))


def test_names_that_are_paths_stay_in_their_store(buffer, tmp_path):
    outside = tmp_path / "outside"
    names = ["/data/E", "a", "a/b", "a//b", "out/../../evil", str(outside / "x"), "zarr.json", ".hidden"]
    write_paths(tmp_path, buffer, *names)
    before = {path.name for path in tmp_path.iterdir()}
    operators = {name: ["mean", {"filter": {"above": 2}}] for name in names}
    results = analyse(tmp_path, buffer, operators=operators, netcdf=True)
    assert {path.name for path in tmp_path.iterdir()} == before | {"out"}
    with xr.open_zarr(tmp_path / "out" / "raw.zarr") as raw:
        kept = raw.load()
    for name, stored in {"/data/E": "_x2F_data_x2F_E", "a/b": "a_x2F_b"}.items():
        assert results[f"{stored}_run_mean"].attrs["bbflow_variable"] == name
        assert results[f"{stored}_run_mean"].values.tolist() == [[1.5] * 3]
        assert kept[stored].values[:, 0].tolist() == [0, 1, 2, 3]
        with xr.open_zarr(tmp_path / "out" / "results.zarr", group=f"{stored}_above") as rows:
            assert rows.value.values.tolist() == [3, 3, 3]
    assert kept["_x2F_data_x2F_E"].dims == ("time", "_x2F_data_x2F_x")
    assert results["_x2F_data_x2F_E_run_mean"]["_x2F_data_x2F_height"].values.tolist() == [0, 1, 2]
    assert kept.a.attrs == {"units": "m"}
    assert kept.zarr_x2E_json.values[:, 0].tolist() == [0, 1, 2, 3]
    with xr.open_dataset(tmp_path / "out" / "results_run.nc") as copied:
        assert {"_x2F_data_x2F_E_run_mean", "a_x2F__x2F_b_run_mean", "_x2E_hidden_run_mean"} <= set(copied.variables)
    assert "1.5" in write_report(tmp_path / "out").read_text()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"windows": ["run", "month"]}, "no attribute time/units, but the window month needs dates"),
        ({"windows": ["month"], "time": "steps"}, "time is steps, but the window month needs dates"),
        ({"time": "time"}, "no attribute time/units: set time: units"),
        ({"time": {"variable": "tiem"}}, "no attribute tiem/units: set time: units"),
    ],
)
def test_what_needs_dates_says_so(buffer, tmp_path, changes, says):
    write(tmp_path, buffer)
    refused(tmp_path, buffer, says, **changes)


def test_a_dimension_of_two_lengths_is_two(buffer, tmp_path):
    write_paths(tmp_path, buffer, "/data/E")
    with xr.open_dataset(buffer.contact, engine="bbflow", stream="model") as view:
        assert (view["/data/E"].dims, view.longer.dims) == (("time", "/data/x"), ("time", "longer_dim0", "y"))
        assert view.other.dims == ("time", "other_dim0")
    results = analyse(tmp_path, buffer, operators={name: ["mean"] for name in ("/data/E", "longer", "other")})
    with xr.open_zarr(tmp_path / "out" / "raw.zarr") as raw:
        kept = raw.load()
    for dataset, name in ((results, "{}_run_mean"), (kept, "{}")):
        assert dataset[name.format("_x2F_data_x2F_E")].dims[1:] == ("_x2F_data_x2F_x",)
        assert dataset[name.format("longer")].dims[1:] == ("longer_dim0", "y")
        assert dataset[name.format("other")].dims[1:] == ("other_dim0",)


def test_a_time_that_is_no_single_number_is_refused(buffer, tmp_path):
    write_paths(tmp_path, buffer, "a")
    refused(
        tmp_path, buffer, r"other is to tell its time, but is a GlobalArray of type double and shape \(4,\)",
        operators={"a": ["mean"]}, time={"variable": "other", "units": "days since 2000-01-01"},
    )  # fmt: skip


def test_a_variable_of_any_name_can_be_analysed(buffer, tmp_path):
    names = ["tas 2m°C", "a#b", "it's", "100%"]
    write_paths(tmp_path, buffer, *names)
    quoted = {"of": "`tas 2m°C` * 2", "operators": ["mean"]}
    results = analyse(tmp_path, buffer, operators={name: ["mean"] for name in names} | {"twice": quoted})
    assert [results[f"{name}_run_mean"].values[0, 0] for name in (*names, "twice")] == [1.5] * 4 + [3.0]


def test_an_operator_on_a_string_is_refused(buffer, tmp_path):
    write_paths(tmp_path, buffer, "a")
    refused(
        tmp_path, buffer, "told is a GlobalValue of type string: operators need numbers", operators={"told": ["mean"]}
    )


@pytest.mark.parametrize("type_", ["double complex", "long double"])
def test_an_operator_on_numbers_that_can_not_be_folded_is_refused_by_their_name(type_):
    with pytest.raises(ConfigError, match=f"q has type {type_}: operators need real numbers"):
        check_foldable(BlockForm("q", type_, "GlobalArray", (3,), (0,), (3,), 48))


def test_two_names_that_would_be_one_are_refused(buffer, tmp_path):
    write_paths(tmp_path, buffer, "a/b", "a_x2F_b")
    refused(
        tmp_path, buffer, "variables 'a/b' and 'a_x2F_b', which are one name in stores", operators={"a/b": ["mean"]}
    )


AUXILIARY = """
import sys
import adios2
import numpy as np
io = adios2.Adios(sys.argv[1]).declare_io("model")
with adios2.Stream(io, "model", "w") as stream:
    for n in range(4):
        stream.begin_step()
        if n == 0:
            stream.write_attribute("u/_ARRAY_DIMENSIONS", ["steps_run", "x"])
            stream.write_attribute("u/coordinates", "time_run steps_run")
        for name in ("time_run", "steps_run"):
            stream.write(name, np.full(3, 7.0 + n), [3], [0], [3])
        stream.write("u", np.full((3, 4), 1.0 * n), [3, 4], [0, 0], [3, 4])
        stream.end_step()
"""


def test_coordinates_with_the_names_of_the_results_axes_leave_these_as_they_are(buffer, tmp_path):
    (tmp_path / "writer.py").write_text(AUXILIARY)
    (tmp_path / "model.xml").write_text(bbflow_adios2.engine_xml("model"))
    words = [sys.executable, tmp_path / "writer.py", tmp_path / "model.xml"]
    subprocess.run(words, check=True, timeout=300, env=os.environ | bbflow_adios2.environment(buffer.contact))
    results = analyse(tmp_path, buffer, raw="none", operators={"u": ["mean"], "time_run": ["max"]})
    assert results.u_run_mean.dims == ("time_run", "u_steps_run", "x")
    assert results.sizes["time_run"] == 1
    assert results.steps_run.values.tolist() == [4]
    assert results.time_run_run_max.values.tolist() == [[10.0] * 3]
    assert (results.u_run_mean == 1.5).all()

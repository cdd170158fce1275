import shutil
import subprocess
import sys
import time
from pathlib import Path

import bbflow_adios2
import mainjob
import numpy as np
import pytest
import xarray as xr

STEPS = 260  # January, February and a few days of March, at four a day


@pytest.fixture(scope="module")
def truth(program, tmp_path_factory):
    return mainjob.oracle(program, tmp_path_factory.mktemp("oracle"), STEPS)


@pytest.fixture(scope="module")
def finished(program, tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    told = directory / "contact"  # how long a run lasts is not known, so it tells itself where its nodes were
    command = ["sh", "-c", 'echo "$BBFLOW_CONTACT" > "$0" && exec "$@"', str(told)]
    command += mainjob.simulation(program, 2, STEPS)
    config = mainjob.write_config(directory, workers={"processes": 1, "batch_steps": 8})
    code, said, seen = mainjob.watched_run(config, command, draws_report=True)
    assert code == 0, said
    nodes = Path(told.read_text()).parent
    assert nodes.parent == Path("/dev/shm")
    assert not mainjob.left_behind(seen | {nodes.name})
    return directory / "out"


def test_results_equal_xarray_on_the_oracle(finished, truth):
    results = mainjob.assert_equals_oracle(finished, truth)
    assert results.attrs["bbflow_status"] == "complete"


def test_threads_of_the_analysis_give_the_same(program, tmp_path, finished, truth):
    config = mainjob.write_config(tmp_path, workers={"threads": 2, "batch_steps": 8})
    code, said = mainjob.run(config, mainjob.simulation(program, 2, STEPS))
    assert code == 0, said
    assert "fold: 2 threads of the analysis" in said
    results = mainjob.assert_equals_oracle(tmp_path / "out", truth)
    assert results.attrs["bbflow_status"] == "complete"
    assert xr.open_zarr(tmp_path / "out" / "raw.zarr").equals(xr.open_zarr(finished / "raw.zarr"))


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        ("timmean", "run_mean"),
        ("timmin", "run_min"),
        ("timmax", "run_max"),
        ("timstd", "run_std"),
        ("monmean", "month_mean"),
    ],
)
def test_results_equal_cdo_on_the_oracle(finished, truth, tmp_path, operator, name):
    if shutil.which("cdo") is None:
        pytest.skip("cdo is not installed (apt install cdo)")
    fields = truth[["tas", "ta"]].assign_coords(plev=np.arange(3.0), lat=np.arange(24.0), lon=np.arange(48.0))
    fields.to_netcdf(tmp_path / "in.nc", engine="scipy", encoding={"time": {"units": "hours since 2000-01-01"}})
    subprocess.run(["cdo", "-s", operator, "in.nc", "out.nc"], cwd=tmp_path, check=True)
    with xr.open_dataset(tmp_path / "out.nc", engine="scipy") as reduced:
        results = xr.open_zarr(finished / "results.zarr")
        for variable in ("tas", "ta"):
            ours, theirs = results[f"{variable}_{name}"].values, reduced[variable].values
            if operator in ("timmin", "timmax"):
                np.testing.assert_array_equal(ours, theirs.astype("f4"))
            else:
                np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9 * np.nanmax(np.abs(theirs)))


def test_results_carry_cf_metadata(finished):
    results = xr.open_zarr(finished / "results.zarr", decode_cf=False)
    assert results.tas_month_std.cell_methods == "time: standard_deviation"
    assert results.tas_month_mean.units == "K"
    assert results.time_month.attrs["bounds"] == "time_month_bnds"
    assert results.time_month.attrs["calendar"] == "noleap"
    np.testing.assert_array_equal(results.time_month_bnds.values, [[0, 31], [31, 59], [59, 90]])


def test_filter_keeps_value_step_and_place_of_the_points_that_pass(finished, truth):
    table = xr.open_zarr(finished / "results.zarr", group="tas_hot").load()
    step, row, column = np.nonzero(truth.tas.values > 300.0)
    results = xr.open_zarr(finished / "results.zarr")
    found = sorted(zip(table.step.values, table.lat.values, table.lon.values, table.value.values, strict=True))
    there = zip(
        step,
        results.lat.values[row],
        results.lon.values[column],
        truth.tas.values[step, row, column],
        strict=True,
    )
    assert len(found) > 100
    assert found == sorted(there)


def test_raw_steps_drain_to_zarr(finished, truth):
    mainjob.assert_raw_equals_oracle(finished, truth)


def test_report_is_one_page_without_a_network(finished):
    page = (finished / "report.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert (finished / "figures").is_dir()


@pytest.mark.slow
def test_months_follow_the_calendar(program, tmp_path):
    config = mainjob.write_config(tmp_path, raw="none")
    code, said = mainjob.run(config, mainjob.simulation(program, 1, 250, calendar="360_day"))
    assert code == 0, said
    mainjob.assert_equals_oracle(tmp_path / "out", mainjob.oracle(program, tmp_path, 250, "360_day"))


def test_two_nodes_share_the_ranks(program, tmp_path, truth):
    config = mainjob.write_config(tmp_path, nodes={"count": 2, "capacity": "2MiB"})
    code, said = mainjob.run(config, mainjob.simulation(program, 3, STEPS))
    assert code == 0, said
    mainjob.assert_equals_oracle(tmp_path / "out", truth)


PAUSING = """
import sys, time
from pathlib import Path
import adios2
import numpy as np
io = adios2.Adios(sys.argv[1]).declare_io("climate")
with adios2.Stream(io, "climate", "w") as stream:
    for day in range(90):
        while day % 30 == 15 and not Path(sys.argv[2], f"go{day // 30}").exists():
            time.sleep(0.01)
        stream.begin_step()
        stream.write("time", float(day))
        if day == 0:
            stream.write_attribute("time/units", "days since 2001-01-01")
            stream.write_attribute("time/calendar", "360_day")
        stream.write("tas", np.full((4, 6), day, "f4"), [4, 6], [0, 0], [4, 6])
        stream.end_step()
"""


def test_results_open_untorn_while_the_simulation_runs(tmp_path):
    (tmp_path / "model.py").write_text(PAUSING)
    (tmp_path / "model.xml").write_text(bbflow_adios2.engine_xml("climate"))
    command = [sys.executable, tmp_path / "model.py", tmp_path / "model.xml", tmp_path]
    config = mainjob.write_config(tmp_path, operators={"tas": ["mean"]}, raw="none")
    process, seen = mainjob.start_run(config, map(str, command)), []
    store = tmp_path / "out" / "results.zarr"
    try:
        (tmp_path / "go0").touch()
        while process.poll() is None:
            time.sleep(0.01)  # leave the core to the run
            if store.exists():
                seen.append(look(store))
                (tmp_path / f"go{seen[-1]}").touch()
    finally:
        process.kill()
        said, _ = process.communicate()
    assert process.returncode == 0, said
    assert look(store) == 3
    assert seen == sorted(seen)
    assert set(seen) >= {1, 2}


def look(store):
    """Return how many months are there; each must be whole."""
    months = xr.open_zarr(store).load()
    count = months.sizes.get("time_month", 0)
    means = [14.5, 44.5, 74.5][:count]
    for row, mean in zip(months.get("tas_month_mean", np.empty((0, 4, 6))), means, strict=True):
        np.testing.assert_array_equal(row, np.full((4, 6), mean))
    return count

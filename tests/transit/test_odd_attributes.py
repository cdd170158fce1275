"""Attributes of every type and name, through a whole analysis into all that it writes."""

import json

import numpy as np
import pytest
import xarray as xr

from bbflow import start_nodes
from bbflow.report.writing import write_report
from testsupport.writers import write, write_config

WRITER = """
io.define_attribute("time/units", ["days since 2000-01-01"])
for name, value in {
    "x/units": ["K"], "x/coordinates": ["lat", "lon"], "x/scale_factor": "0.5", "x/dtype": "bool", "x/CLASS": "y",
    "x/DIMENSION_LIST": "y", "x/note ": 1, "x/": "e", "x/limits": np.array([-np.inf, 5.0]), "x/many": [],
    "x/_NCProperties": "y", "x/missing_value": ["-999"], "y/_ARRAY_DIMENSIONS": ["n" * 300, "m"],
    "z/_ARRAY_DIMENSIONS": np.array([4, 5]), "z/coordinates": "label own none", "z/bounds": "label",
    "corners/_ARRAY_DIMENSIONS": ["c", "bnds"], "x/big": np.uint64(2**64 - 1), "x/table": np.ones((2, 2)),
    "/basePath": "/data/%T/", "openPMD": ["1.1.0"], "threshold": np.nan, "complex": np.array([1 + 2j]),
    "bbflow_status": "mine",
}.items():
    io.define_attribute(name, value)
shapes = {"x": [2], "y": [2, 3], "z": [4, 5], "corners": [3, 4]}
when = io.define_variable("time", np.zeros(1))
variables = {name: io.define_variable(name, np.empty(0), s, [0] * len(s), s) for name, s in shapes.items()}
label = io.define_variable("label", "")
own = io.define_variable("own", np.empty(0), [], [], [2])
engine = io.open("out", Mode.Write)
for step in range(3):
    engine.begin_step()
    engine.put(label, "of no number")
    engine.put(own, np.zeros(2), Mode.Sync)
    engine.put(when, np.array([float(step)]), Mode.Sync)
    for name, shape in shapes.items():
        engine.put(variables[name], np.arange(np.prod(shape), dtype="f8").reshape(shape) + 2.0 * step, Mode.Sync)
    engine.end_step()
engine.close()
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("odd")
    config = {
        "stream": "model", "output": str(folder / "out"), "raw": "all", "netcdf": True, "windows": ["run"],
        "workers": {"processes": 0, "threads": 1},
        "operators": {
            "x": ["mean", "var"], "y": ["mean"], "z": ["mean"], "corners": ["mean"],
            "part": {"of": "z", "space": {"isel": {"z_dim1": [2]}}, "operators": ["mean"]},
            "told": {
                "of": "x", "operators": ["mean"],
                "attributes": {"checked": True, "by": {"a": 1}, "each": [True, False]},
            },
        },
    }  # fmt: skip
    with start_nodes(1, "8MiB") as nodes, nodes.analyse(config) as analysis:
        write(nodes.contact, WRITER, write_config(folder))
        assert analysis.wait(300).complete
    write_report(folder / "out")
    return folder / "out"


def test_statistics_are_of_what_the_attributes_mean(output):
    with xr.open_zarr(output / "results.zarr") as results:
        np.testing.assert_array_equal(results.x_run_mean, [[1.0, 1.5]])
        assert (results.x_run_mean.units, results.x_run_var.units) == ("K", "(K)2")
        assert (
            results.x_run_mean.note_ if "note_" in results.x_run_mean.attrs else results.x_run_mean.attrs["note "]
        ) == 1
        assert results.x_run_mean.limits == ["-Infinity", 5.0]
        assert results.x_run_mean.big == 2**64 - 1
        assert (results.attrs["/basePath"], results.openPMD, results.threshold) == ("/data/%T/", "1.1.0", "NaN")
        assert (results.attrs["complex"], results.bbflow_status) == ("1+2j", "complete")
        assert results.z_run_mean.dims == ("time_run", "z_dim0", "z_dim1")
        assert results.part_run_mean.dims == ("time_run", "z_dim0", "part_z_dim1")
        assert results.corners_run_mean.dims == ("time_run", "c", "corners_dim1")


def test_the_raw_steps_are_what_they_mean(output):
    with xr.open_zarr(output / "raw.zarr") as raw:
        np.testing.assert_array_equal(raw.x, 0.5 * (np.arange(2) + 2.0 * np.arange(3)[:, None]))
        assert raw.attrs["/basePath"] == "/data/%T/"
        assert raw.x.attrs["CLASS"] == "y"


def test_netcdf_has_all_of_it(output):
    with xr.open_dataset(output / "results_run.nc") as found, xr.open_zarr(output / "results.zarr") as results:
        for name in ("x", "y", "z", "corners", "part"):
            np.testing.assert_array_equal(found[f"{name}_run_mean"], results[f"{name}_run_mean"])
        assert found.x_run_mean.attrs["_x43_LASS"] == "y"
        assert found.x_run_mean.attrs["note_x20_"] == 1
        assert found.x_run_mean.attrs["_x_"] == "e"
        assert found.x_run_mean.big == 2**64 - 1
        assert found.attrs["_x2F_basePath"] == "/data/%T/"
        assert (found.told_run_mean.checked, json.loads(found.told_run_mean.by)) == (1, {"a": 1})
        assert found.told_run_mean.each.tolist() == [1, 0]
        assert max(len(dim) for dim in found.dims) <= 200

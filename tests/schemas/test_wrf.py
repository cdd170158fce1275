"""WRF's ADIOS2 output as it is: dates from `Times`, names of dimensions from `Dims`, longitudes and latitudes."""

import os
import subprocess
import sys

import adios2
import bbflow_adios2
import numpy as np
import pytest
import xarray as xr

from bbflow import start_nodes
from bbflow.schemas.testing import SchemaTests
from bbflow.schemas.wrf import Wrf
from bbflow.stream.layouts import BlockForm, Layout
from bbflow.stream.records import Step
from bbflow.transit.output.decoding import open_results

PROGRAM = """
import sys
from datetime import datetime, timedelta
import adios2
import numpy as np

io = adios2.Adios(sys.argv[1]).declare_io("wrfout_d01_2018-06-20_00:00:00")
with adios2.Stream(io, sys.argv[2], "w") as stream:
    stream.write_attribute("TITLE", " OUTPUT FROM WRF V4.7 MODEL")
    stream.write_attribute("_DIM_DateStrLen", np.array([19], "i4"))
    stream.write_attribute("Times/Dims", ["DateStrLen", "Time"])
    for name, dims, units in (
        ("T2", ["west_east", "south_north"], "K"), ("U", ["west_east_stag", "south_north"], "m s-1"),
        ("XLONG", ["west_east", "south_north"], "degree_east"), ("XLAT", ["west_east", "south_north"], "degree_north"),
    ):
        stream.write_attribute(f"{name}/Dims", [*dims, "Time"])
        stream.write_attribute(f"{name}/FieldType", np.array([104], "i4"))
        stream.write_attribute(f"{name}/MemoryOrder", "XY ")
        stream.write_attribute(f"{name}/description", f"{name} of WRF")
        stream.write_attribute(f"{name}/units", units)
        stream.write_attribute(f"{name}/stagger", "X" if name == "U" else "")
        stream.write_attribute(f"{name}/coordinates", "XLONG XLAT")
    for n in range(60):
        stream.begin_step()
        stream.write("Times", (datetime(2018, 6, 20) + n * timedelta(hours=6)).strftime("%Y-%m-%d_%H:%M:%S"))
        for number, (name, width) in enumerate({"T2": 6, "U": 7, "XLONG": 6, "XLAT": 6}.items()):
            values = 100.0 * number + np.arange(4.0 * width).reshape(4, width) + (n if number < 2 else 0)
            stream.write(name, values.astype("f4"), [4, width], [0, 0], [4, width])
        stream.end_step()
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The statistics of the program, which says nothing of bbflow, and what its BP5 file has."""
    folder = tmp_path_factory.mktemp("wrf")
    (folder / "program.py").write_text(PROGRAM)
    (folder / "bp5.xml").write_text("<adios-config/>")
    words = [sys.executable, folder / "program.py"]
    subprocess.run([*words, folder / "bp5.xml", folder / "wrfout.bp"], check=True, timeout=300)
    name = "wrfout_d01_2018-06-20_00:00:00"
    (folder / "engine.xml").write_text(bbflow_adios2.engine_xml(name))
    config = {"stream": name, "operators": {"T2": ["mean"], "U": ["max"]}, "windows": ["month"], "raw": "all",
              "output": str(folder / "out"), "workers": {"processes": 0, "threads": 1}}  # fmt: skip
    with start_nodes(1, "64MiB") as buffer, buffer.analyse(config) as analysis:
        environment = os.environ | bbflow_adios2.environment(buffer.contact)
        subprocess.run([*words, folder / "engine.xml", name], check=True, timeout=300, env=environment)
        outcome = analysis.wait(300)
    assert outcome is not None
    assert outcome.complete
    with open_results(folder / "out" / "results.zarr") as found, xr.open_zarr(folder / "out" / "raw.zarr") as raw:
        yield found.load(), raw.load(), whole(folder / "wrfout.bp")


def whole(path):
    """A BP5 file as a dataset, with dates."""
    with adios2.FileReader(str(path)) as file:
        times = [np.datetime64(str(file.read("Times", step_selection=[n, 1])).replace("_", "T")) for n in range(60)]
        fields = {
            name: (("time", "south_north", f"x_{name}"), np.stack(
                [file.read(name, step_selection=[n, 1]) for n in range(60)]).reshape(60, 4, -1))
            for name in ("T2", "U", "XLAT")
        }  # fmt: skip
    return xr.Dataset(fields, {"time": np.array(times, "datetime64[ns]")})


def test_months_are_those_of_times(results):
    found, _, file = results
    months = file.resample(time="MS")
    np.testing.assert_allclose(found.T2_month_mean, months.mean().T2)
    np.testing.assert_array_equal(found.U_month_max, months.max().U)


def test_dimensions_units_and_coordinates_are_wrfs(results):
    found, _, file = results
    assert found.T2_month_mean.dims == ("time_month", "south_north", "west_east")
    assert found.U_month_max.dims == ("time_month", "south_north", "west_east_stag")
    assert found.T2_month_mean.attrs["units"] == "K"
    assert found.U_month_max.attrs["units"] == "m s-1"
    np.testing.assert_array_equal(found.XLAT, file.XLAT[0])
    assert {"XLAT", "XLONG"} <= set(found.T2_month_mean.coords)


def test_raw_steps_have_their_dates(results):
    _, raw, file = results
    np.testing.assert_array_equal(raw.time, file.time)
    np.testing.assert_array_equal(raw.T2, file.T2)


class TestWrf(SchemaTests):
    """What holds for all schemas."""

    def make(self):
        return Wrf()

    def landed(self):
        times = BlockForm("Times", "string", "GlobalValue", (), (), (), 0)
        field = BlockForm("T2", "float", "GlobalArray", (2, 3), (0, 0), (2, 3), 0, 0, 0, 24)
        layout = Layout.of((times, field))
        source = (4096).to_bytes(8, "little")
        return [{"a": Step(n, layout, source, values=(f"2018-06-1{n}_00:00:00",))} for n in range(3)]

    def read(self, node, number, block):
        raise AssertionError("nothing is read")

    def attributes(self):
        return {"T2/MemoryOrder": "XY", "T2/Dims": ["west_east", "south_north", "Time"], "T2/units": "K"}

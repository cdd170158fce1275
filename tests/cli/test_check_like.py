"""`bbflow check --like` says of a file's first step what a stream like it would end with."""

import re

import adios2
import netCDF4
import numpy as np
import pytest

from bbflow.configuring.config import parse_config
from bbflow.run.checks.finding import WRONG
from bbflow.run.checks.like import check_like

LAT, LON, LEV = np.linspace(-75, 75, 6), np.arange(0, 360, 30.0), 4
HYBRID = {"a": "hyam", "b": "hybm", "surface": "ps"}


@pytest.fixture
def grid(tmp_path):
    """A NetCDF file as a model's output."""
    with netCDF4.Dataset(tmp_path / "in.nc", "w") as file:
        for name, size in (("time", None), ("lat", len(LAT)), ("lon", len(LON)), ("lev", LEV)):
            file.createDimension(name, size)

        def put(name, dims, values, **attributes):
            variable = file.createVariable(name, "f8", dims)
            variable.setncatts(attributes)
            variable[:] = values

        put("time", ("time",), [0, 1, 2], units="hours since 2001-01-01")
        put("lat", ("lat",), LAT, units="degrees_north")
        put("lon", ("lon",), LON, units="degrees_east")
        put("hyam", ("lev",), np.linspace(0.1, 0, LEV))
        put("hybm", ("lev",), np.linspace(0.1, 1, LEV))
        put("ps", ("time", "lat", "lon"), 1e5, units="Pa")
        put("T", ("time", "lev", "lat", "lon"), 280.0, units="K")
        put("pr", ("time", "lat", "lon"), 0.0, units="mm")
    return tmp_path / "in.nc"


@pytest.fixture
def run(tmp_path):
    """A BP file in which two ranks' blocks divide t along its latitudes, cut along its levels, and overlap in twice."""
    io = adios2.Adios().declare_io("run")
    for name, dims in {"t": ["lev", "lat"], "cut": ["lev", "lat"], "ps": ["lat"], "twice": ["lat"]}.items():
        io.define_attribute(f"{name}/_ARRAY_DIMENSIONS", dims)
    with adios2.Stream(io, str(tmp_path / "run.bp"), "w") as stream:
        for step in range(2):
            stream.begin_step()
            stream.write("time", np.float64(step))
            for at in range(2):
                stream.write("t", np.ones((4, 3)), [4, 6], [0, 3 * at], [4, 3])
                stream.write("cut", np.ones((2, 6)), [4, 6], [2 * at, 0], [2, 6])
                stream.write("ps", np.full(3, 1e5), [6], [3 * at], [3])
                stream.write("twice", np.ones(4), [6], [2 * at], [4])
            stream.end_step()
    return tmp_path / "run.bp"


def told(tmp_path, file, operators, **keys):
    content = {"stream": "s", "output": str(tmp_path / "out"), "windows": ["run"], "operators": operators} | keys
    found, _ = check_like(parse_config(content), file)
    return [item.text for item in found if item.kind == WRONG], "\n".join(str(item) for item in found)


def test_what_fits_has_its_memory_and_its_windows_told(tmp_path, grid):
    space = {"levels": {"to": [50000], "pressure": {**HYBRID, "reference": 100000}}}
    operators = {"T": ["mean"], "y": {"of": "T", "space": [space, "fldmean"], "operators": ["max"]}}
    wrong, text = told(tmp_path, grid, operators, windows=["hour", "run"])
    assert wrong == []
    assert "states take up to" in text
    assert "the window hour ends with each step" in text


@pytest.mark.parametrize(
    ("operators", "message"),
    [
        ({"T": ["mean"], "q": ["mean"]}, "no variable 'q'"),
        (
            {"y": {"of": "T", "space": {"levels": {"to": [5e4], "pressure": HYBRID}}, "operators": ["mean"]}},
            "plain number",
        ),
        ({"y": {"of": "T", "space": {"isel": {"member": 0}}, "operators": ["mean"]}}, "member"),
        ({"y": {"of": "T * ps", "operators": ["mean"]}}, "decomposed in the same way"),
        ({"pr": ["eca_cdd"]}, "pr is in 'mm'.*eca_cdd: {units: mm}"),
    ],
)
def test_what_a_grid_does_not_fit_is_wrong(tmp_path, grid, operators, message):
    wrong, _ = told(tmp_path, grid, operators)
    assert len(wrong) == 1
    assert re.search(message, wrong[0])


@pytest.mark.parametrize(
    ("operators", "message"),
    [
        ({"t": ["mean"]}, None),
        ({"y": {"of": "cut", "space": {"levels": {"make": "derivative"}}, "operators": ["mean"]}}, "lev"),
        ({"twice": ["mean"]}, "overlap"),
    ],
)
def test_blocks_of_a_bp_file_are_looked_at_as_they_lie(tmp_path, run, operators, message):
    wrong, _ = told(tmp_path, run, operators, time="steps")
    assert (message in wrong[0]) if message else (wrong == [])


def test_a_file_that_can_not_be_read_is_wrong(tmp_path):
    for name in ("none.nc", "bad.nc", "bad.bp"):
        if name.startswith("bad"):
            (tmp_path / name).write_text("nothing")
        wrong, _ = told(tmp_path, tmp_path / name, {"x": ["mean"]})
        assert len(wrong) == 1

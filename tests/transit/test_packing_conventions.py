"""All of CF's and netCDF's ways to write numbers otherwise than they are meant, against netCDF4 and xarray."""

from contextlib import ExitStack

import netCDF4
import numpy as np
import pytest
import streams
import xarray as xr

from bbflow import open_results, start_nodes

STEPS, POINTS = 24, 40
CASES = {
    "unsigned": ("i1", {"_Unsigned": "true", "_FillValue": -1}),
    "unsigned_fill_as_meant": ("i1", {"_Unsigned": "true", "_FillValue": 255}),
    "unsigned_in_capitals": ("i2", {"_Unsigned": "True", "_FillValue": -2}),
    "unsigned_packed": ("i1", {"_Unsigned": "true", "_FillValue": -1, "scale_factor": 0.5, "add_offset": -3.0}),
    "unsigned_several": ("i2", {"_Unsigned": "true", "missing_value": [65534, 7], "scale_factor": 0.1}),
    "unsigned_valid": ("i1", {"_Unsigned": "true", "valid_range": [5, 250], "_FillValue": -1}),
    "unsigned_valid_as_written": ("i1", {"_Unsigned": "true", "valid_min": 3, "valid_max": -6, "_FillValue": 9}),
    "not_unsigned": ("i2", {"_Unsigned": "false", "missing_value": 17}),
    "signed": ("u2", {"_Unsigned": "false", "_FillValue": 7}),
    "of_32_bits": ("i4", {"_Unsigned": "true", "_FillValue": -5}),
    "of_64_bits": ("i8", {"_Unsigned": "true", "valid_max": 2**62}),
    "valid_range": ("i2", {"valid_range": [-20000, 20000]}),
    "valid_min": ("i4", {"valid_min": -(2**30), "_FillValue": 7}),
    "valid_max": ("u1", {"valid_max": 200}),
    "valid_beyond_the_type": ("u1", {"valid_range": [0, 300], "_FillValue": 3}),
    "valid_fraction": ("i2", {"valid_range": [-0.5, 100.5], "scale_factor": 0.01}),
    "valid_floats": ("f4", {"valid_range": [-1.0, 1.0], "_FillValue": 1e20}),
    "valid_doubles": ("f8", {"valid_min": -0.5, "missing_value": [1e20, -9e33]}),
    "packed": ("i2", {"scale_factor": 0.01, "add_offset": 273.15, "_FillValue": 7, "valid_range": [-30000, 30000]}),
    "scale_alone": ("u2", {"scale_factor": -2.0}),
    "offset_alone": ("i4", {"add_offset": 1.5, "missing_value": 7}),
    "packed_floats": ("f4", {"scale_factor": 0.25, "missing_value": 1e20}),
    "fill_and_missing": ("i2", {"_FillValue": 7, "missing_value": 11}),
    "as_it_is": ("u8", {}),
}
"""Name of a variable to its type and its attributes."""
LIKE_XARRAY = ("signed", "scale_alone", "as_it_is")
"""netCDF4 knows no `_Unsigned: false`, and takes its own fill values for missing where no attribute names any."""


def fields():
    random = np.random.default_rng(11)
    return {name: written(random, np.dtype(dtype)) for name, (dtype, _) in CASES.items()}


def written(random, dtype):
    """Values of all of a type's range, and those that some attributes name."""
    if dtype.kind == "f":
        values = random.normal(size=(STEPS, POINTS)).astype(dtype)
        values[0, :9], values[1, 4:12], values[:, 0] = 1e20, -9e33, 1e20
        return values
    bytes_ = random.integers(0, 256, (STEPS, POINTS * dtype.itemsize)).astype("u1")
    values = bytes_.view(dtype)
    for at, value in enumerate((-1, -2, -5, -6, 3, 5, 7, 9, 11, 17)):
        values[at, at : at + 8] = np.array(value).astype(dtype)
    values[:, 0] = values[0, 0]
    return values


def netcdf_of(path, written_fields):
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", STEPS)
        file.createDimension("x", POINTS)
        for name, (dtype, attributes) in CASES.items():
            told = {key: in_file(key, value, np.dtype(dtype)) for key, value in attributes.items()}
            variable = file.createVariable(name, dtype, ("time", "x"), fill_value=told.pop("_FillValue", False))
            variable.set_auto_maskandscale(False)
            variable.setncatts(told)
            variable[:] = written_fields[name]


def in_file(key, value, dtype):
    """A file has what is compared with values in their own type, where that can be."""
    if key in ("scale_factor", "add_offset"):
        return float(value)
    if key == "_Unsigned":
        return value.lower()  # xarray knows no other spelling; netCDF4 does
    whole = np.array(value)
    own = whole.astype(dtype)
    as_meant = whole.astype(f"u{dtype.itemsize}") if dtype.kind == "i" and whole.dtype.kind == "i" else own
    return own if dtype.kind == "f" or (own == whole).all() or (as_meant == whole).all() else whole


def with_nan(values):
    return np.ma.filled(np.ma.asarray(values).astype("f8"), np.nan)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What the view shows of a stream, and what an analysis leaves of it."""
    folder = tmp_path_factory.mktemp("packing")
    own = fields()
    told = {f"{name}/{key}": value for name, (_, attributes) in CASES.items() for key, value in attributes.items()}
    dims = {f"{name}/_ARRAY_DIMENSIONS": ["x"] for name in CASES}
    streams.store(folder, own, np.arange(STEPS), told | dims | {"time/units": "days since 2001-01-01"})
    netcdf_of(folder / "as.nc", own)
    operators = {name: ["mean", "min", "max", "count"] for name in CASES}
    operators |= {f"{name}_twice": {"of": f"{name} * 2", "operators": ["max"]} for name in CASES}
    operators |= {f"{name}_of": {"of": name, "space": {"max": ["x"]}, "operators": ["max"]} for name in CASES}
    config = {"operators": operators, "windows": ["run"], "raw": {"variables": list(CASES)}, "stream": "fields"}
    config |= {"output": str(folder / "out"), "workers": {"processes": 0, "threads": 1}}
    with ExitStack() as stack:
        burst_buffer = stack.enter_context(start_nodes(1, "8MiB"))
        with streams.writing(folder, burst_buffer.contact, 1):
            with xr.open_dataset(burst_buffer.contact, engine="bbflow", stream="fields", wait=True) as view:
                view.load()
            outcome = stack.enter_context(burst_buffer.analyse(config)).wait(300)
    assert outcome is not None
    assert outcome.complete
    with open_results(folder / "out" / "results.zarr") as results:
        return folder, results.load(), view


@pytest.mark.filterwarnings("ignore:.*multiple fill values", "ignore:.*valid_", "ignore:.*cannot be safely cast")
@pytest.mark.parametrize("name", CASES)
def test_numbers_mean_what_netcdf4_and_xarray_take_them_for(made, name):
    """Statistics follow netCDF4, which heeds valid ranges, and the steps themselves xarray, which doesn't."""
    folder, results, view = made
    with netCDF4.Dataset(folder / "as.nc") as file:
        values = with_nan(file[name][:])
    with xr.open_dataset(folder / "as.nc") as theirs, xr.open_zarr(folder / "out" / "raw.zarr") as raw:
        by_xarray = theirs[name].values.astype("f8")
        if name == "unsigned_several":  # xarray takes a missing_value of -2 for no 65534, netCDF4 does
            by_xarray = values
        np.testing.assert_array_equal(raw[name].values.astype("f8"), by_xarray)
        np.testing.assert_array_equal(view[name].values.astype("f8"), by_xarray)
    values = by_xarray if name in LIKE_XARRAY else values
    count = np.isfinite(values).sum(axis=0)
    np.testing.assert_array_equal(results[f"{name}_run_count"][0], count)
    assert count.min() < STEPS or not {"_FillValue", "missing_value"} & {*CASES[name][1]}
    gone = np.where(count == 0, np.nan, 0)
    filled = np.where(count == 0, 0, values)
    np.testing.assert_allclose(results[f"{name}_run_mean"][0], np.nanmean(filled, axis=0) + gone, rtol=1e-6)
    np.testing.assert_allclose(results[f"{name}_run_min"][0], np.nanmin(filled, axis=0) + gone, rtol=1e-6)
    np.testing.assert_allclose(results[f"{name}_run_max"][0], np.nanmax(filled, axis=0) + gone, rtol=1e-6)
    np.testing.assert_allclose(results[f"{name}_twice_run_max"][0], 2 * results[f"{name}_run_max"][0], rtol=1e-6)
    np.testing.assert_allclose(results[f"{name}_of_run_max"][0], np.nanmax(values), rtol=1e-6)

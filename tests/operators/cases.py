"""What the tests of one-family operators share: batches to fold, results by any way, and CDO as an oracle."""

import shutil
import subprocess

import numpy as np
import pytest
import xarray as xr
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from laws import cuts, folded, layout_of, merged

from bbflow.operators import parse_operators

DTYPES = [np.dtype(name) for name in ("f4", "f8", "i1", "i4", "i8", "u1", "u8")]


def elements(dtype, size=9):
    """A few small numbers, so that there are ties, runs and missing values."""
    if dtype.kind == "f":
        return st.integers(-size, size).map(float) | st.sampled_from([np.nan, 0.1, 99.0])
    return st.integers(0 if dtype.kind == "u" else -size, size) | st.just(99)


@st.composite
def batches(draw, dtypes=DTYPES, size=9):
    """Values of shape (steps, points), a fill value that some of them may have, and ascending times."""
    dtype = draw(st.sampled_from(dtypes))
    shape = draw(st.integers(0, 12)), draw(st.integers(0, 12))
    values = draw(arrays(dtype, shape, elements=elements(dtype, size)))
    gaps = draw(arrays("i4", shape[0], elements=st.integers(1, 5)))
    return values, draw(st.sampled_from([None, 99])), np.cumsum(gaps) / 4 - 2


def valid_of(values, fill):
    """Which values are neither NaN nor the fill value."""
    valid = values == values
    return valid if fill is None else valid & (values != fill)


def masked(values, fill):
    """The valid values as float64, the others NaN."""
    return np.where(valid_of(values, fill), values.astype("f8"), np.nan)


def result_of(item, values, fill=None, times=None, others=None):
    """Results of one operator, folded at once."""
    (operator,) = parse_operators([item])
    layout = layout_of([operator], values)
    return operator.finalize(layout, folded(layout, values, fill=fill, times=times, others=others))


def merged_results(data, operators, values, fill=None, times=None, others_of=None):
    """Results of operators whose steps were cut, folded apart and merged as hypothesis draws it."""
    times = np.arange(len(values)) if times is None else times
    layout = layout_of(operators, values)
    states = []
    for part in data.draw(cuts(len(values))):
        others = None if others_of is None else others_of(part)
        states.append(folded(layout, values[part], fill=fill, times=times[part], others=others))
    state = merged(data, layout, states)
    return {operator.name: operator.finalize(layout, state) for operator in operators}


def cdo(tmp_path, command, *inputs, outputs=1, missing=-999.0):
    """Run CDO on arrays of shape (days, points); gives the arrays that it makes, NaN where missing."""
    if shutil.which("cdo") is None:
        pytest.skip("CDO isn't installed: 'apt install cdo'")
    names = [str(tmp_path / f"in{number}.nc") for number in range(len(inputs))]
    results = [str(tmp_path / f"out{number}.nc") for number in range(outputs)]
    for name, values in zip(names, inputs, strict=True):
        write_netcdf(name, values, missing)
    subprocess.run(["cdo", "-s", "-O", "-b", "F64", *command.split(), *names, *results], check=True, timeout=60)
    return [read_netcdf(name) for name in results]


def write_netcdf(name, values, missing):
    """Write daily values; a bar of latitudes, which CDO takes for a grid."""
    time = xr.Variable("time", np.arange(len(values), dtype="f8"), {"units": "days since 2001-01-01"})
    lat = xr.Variable("lat", np.linspace(-80, 80, values.shape[1]), {"units": "degrees_north"})
    lon = xr.Variable("lon", [0.0], {"units": "degrees_east"})
    data = xr.Variable(("time", "lat", "lon"), values[:, :, None], {"units": "mm"}, {"_FillValue": missing})
    coords = {"time": time, "lat": lat, "lon": lon}
    xr.Dataset({"pr": data}, coords).to_netcdf(name, engine="scipy", encoding={"time": {"_FillValue": None}})


def read_netcdf(name):
    """Return a file's variables of the grid by name, each of shape (steps, points)."""
    with xr.open_dataset(name, engine="scipy", decode_times=False) as data:
        return {key: item.values.reshape(len(data["time"]), -1) for key, item in data.items() if "lat" in item.dims}

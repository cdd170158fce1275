import shutil
import subprocess
from itertools import pairwise

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from laws import cuts, folded, layout_of, merged

from bbflow.errors import ConfigError
from bbflow.operators import parse_operators
from bbflow.operators.statistics.bins import cell_table

DTYPES = ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
EDGES = [
    [0.0, 1.0],
    [-1.0, 0.0, 1.0, 2.0, 3.0],
    [0.1, 0.2, 0.30000000000000004, 0.4],
    [-1e30, -5.0, 0.0, 1e-30, 7.0, 1e30],
    [1e9, 1e9 + 1e-6, 1e9 + 1],
    list(np.linspace(-20, 20, 51)),
    list(np.geomspace(1, 1000, 30)),
]


def histogram(**parameters):
    return parse_operators([{"histogram": parameters}])


def numbers(dtype, *special):
    if dtype.kind == "f":
        special = [float(dtype.type(item)) for item in special]
        return st.floats(width=32) | st.floats(-25, 25, width=16) | st.sampled_from([np.nan, 99.0, *special])
    limits = np.iinfo(dtype)
    return st.integers(max(limits.min, -30), 30) | st.integers(max(limits.min, -(2**53)), min(limits.max, 2**53))


@st.composite
def fields(draw, *special):
    """Values of shape (steps, points), and a fill value."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(st.integers(1, 30)), draw(st.integers(1, 12))
    return draw(arrays(dtype, shape, elements=numbers(dtype, *special))), draw(st.sampled_from([None, 99]))


def valid_of(column, fill):
    valid = column == column
    return column[valid if fill is None else valid & (column != fill)].astype("f8")


def results(operators, layout, state):
    return {item.name: item.finalize(layout, state) for item in operators}


@given(st.data(), st.sampled_from(EDGES))
@settings(deadline=None, max_examples=100)
def test_given_edges_count_as_numpy_for_any_cuts_and_merges(data, edges):
    values, fill = data.draw(fields(*edges))
    operators = histogram(edges=edges)
    layout = layout_of(operators, values)
    parts = [folded(layout, values[part], fill=fill) for part in data.draw(cuts(len(values)))]
    found = results(operators, layout, merged(data, layout, parts))
    assert operators[0].axes[0].bounds == tuple(edges)
    for point in range(values.shape[1]):
        valid = valid_of(values[:, point], fill)
        counts = [((valid >= a) & (valid < b)).sum() for a, b in pairwise(edges)]
        counts[-1] += (valid == edges[-1]).sum()
        assert found["histogram"][:, point].tolist() == counts
        assert found["histogram_below"][point] == (valid < edges[0]).sum()
        assert found["histogram_above"][point] == (valid > edges[-1]).sum()


@given(st.data(), st.integers(2, 40))
@settings(deadline=None, max_examples=150)
def test_automatic_edges_count_as_numpy_and_are_the_same_for_any_cuts_and_merges(data, bins):
    values, fill = data.draw(fields())
    operators = histogram(bins=bins)
    layout = layout_of(operators, values)
    parts = [folded(layout, values[part], fill=fill) for part in data.draw(cuts(len(values)))]
    state = merged(data, layout, parts)
    assert state == folded(layout, values, fill=fill)
    found = results(operators, layout, state)
    for point in range(values.shape[1]):
        valid = valid_of(values[:, point], fill)
        finite = valid[np.isfinite(valid)]
        start, width = found["histogram_start"][point], found["histogram_width"][point]
        assert found["histogram_below"][point] == (valid == -np.inf).sum()
        assert found["histogram_above"][point] == (valid == np.inf).sum()
        if not finite.size:
            assert np.isnan(start)
            assert np.isnan(width)
            assert not found["histogram"][:, point].any()
            continue
        cells = np.floor(finite / width) - np.floor(start / width)
        assert cells.min() == 0
        assert cells.max() < bins
        assert found["histogram"][:, point].tolist() == np.bincount(cells.astype(int), minlength=bins).tolist()


def test_automatic_bins_are_as_narrow_as_they_can_be():
    values = np.array([[3.0, 0.1, -1.0, 7.0], [4.9, 0.1, 1.0, 7.0 + 2**-30]])
    operators = histogram(bins=8)
    layout = layout_of(operators, values)
    found = results(operators, layout, folded(layout, values))
    assert found["histogram_width"].tolist()[:1] == [0.25]
    assert found["histogram_width"][1] < 1e-13
    assert found["histogram_width"].tolist()[2:] == [0.5, 2.0**-32]
    assert found["histogram_start"].tolist()[2:] == [-1.0, 7.0]


@pytest.mark.parametrize("steps", [1, 16, 300])
@pytest.mark.parametrize("points", [1, 127, 129, 513, 3000])
def test_points_beyond_a_tile_and_steps_beyond_a_byte_are_counted(steps, points):
    values = np.random.default_rng(points).normal(280, 10, (steps, points)).astype("f4")
    values[:, ::9] = values[0, ::9]
    given = histogram(range=[250, 300])
    automatic = histogram(name="auto")
    layout = layout_of([*given, *automatic], values)
    state = folded(layout, values)
    found = results([*given, *automatic], layout, state)
    assert sum(found[f"histogram{part}"].sum() for part in ("_below", "_above", "")) == steps * points
    for point in (0, points // 2, points - 1):
        column = values[:, point].astype("f8")
        expected, _ = np.histogram(column, np.linspace(250, 300, 51))
        assert found["histogram"][:, point].tolist() == expected.tolist()
        edges = found["auto_histogram_start"][point] + np.arange(51) * found["auto_histogram_width"][point]
        assert found["auto_histogram"][:, point].tolist() == np.histogram(column, edges)[0].tolist()


def test_even_edges_take_one_comparison_and_all_edges_are_found():
    for edges in EDGES:
        table = cell_table(tuple(edges))
        for position, edge in enumerate(edges[:-1]):
            for value, row in ((edge, position + 1), (np.nextafter(edge, -np.inf), position)):
                cell = int(min(max((value - table.start) * table.cells_per_unit + 1, 0), len(table.cells) - 1))
                begun = int(table.cells[cell])
                assert begun <= row
                assert not table.one_step or row - begun <= 1
    assert cell_table(tuple(np.linspace(200, 330, 51))).one_step


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"edges": [1]}, "at least two"),
        ({"edges": [1, 1]}, "greater than the one before"),
        ({"edges": [1, 2], "bins": 3}, "leave out"),
        ({"range": [2, 1]}, "smaller one first"),
        ({"range": 5}, "isn't a list"),
        ({"bins": 1}, "at least 2 bins"),
    ],
)
def test_wrong_parameters_are_refused(parameters, message):
    with pytest.raises(ConfigError, match=message):
        histogram(**parameters)


@pytest.mark.skipif(not shutil.which("cdo"), reason="cdo is not installed (apt install cdo)")
def test_cdo_counts_the_same(tmp_path):
    values = np.random.default_rng(2).normal(280, 10, (60, 6, 8)).astype("f4")
    axis = ("time", np.arange(60.0), {"units": "days since 2000-01-01"})
    source, target = tmp_path / "in.nc", tmp_path / "out.nc"
    xr.Dataset({"tas": (("time", "lat", "lon"), values)}, {"time": axis}).to_netcdf(source, engine="scipy")
    edges = [255.0, 270.0, 276.5, 280.0, 300.0]
    names = ",".join(map(str, edges))
    subprocess.run(["cdo", "-s", f"histcount,{names}", source, target], check=True, timeout=60)
    with xr.open_dataset(target, engine="scipy") as data:
        # CDO gives a missing value where nothing was counted.
        cdo = data["tas"].fillna(0).values.reshape(4, -1)
    operators = histogram(edges=edges)
    flat = values.reshape(60, -1)
    layout = layout_of(operators, flat)
    np.testing.assert_array_equal(operators[0].finalize(layout, folded(layout, flat)), cdo)

"""Statistics of packed variables, and of those in which several values stand for 'missing'."""

import numpy as np
import pytest
import streams
import xarray as xr

from bbflow.stream.cf import Encoding, StreamAttributes

STEPS, SHAPE = 12, (4, 3)
SCALE, OFFSET = -0.25, 280.0
ATTRIBUTES = {
    "time/units": "days since 2001-01-01",
    "packed/scale_factor": SCALE,
    "packed/add_offset": OFFSET,
    "packed/_FillValue": -99,
    "packed/units": "K",
    "lat/scale_factor": 10.0,
    "several/missing_value": [-1, -2, 1000],
    "floats/missing_value": [1e20, -9e33],
    "floats/_FillValue": "-5",
    "one/missing_value": 1e20,
    **{f"{name}/_ARRAY_DIMENSIONS": ["lat", "lon"] for name in ("packed", "several", "floats", "land")},
    "land/scale_factor": 0.5,
}
CONFIG = {
    "raw": {"variables": ["several", "floats", "one", "packed"]},
    "windows": ["run"],
    "operators": {
        "packed": [
            *("mean", "std", "var", "sum", "min", "max", "range", "count", "first", "argmax", "trend", "median"),
            *({"exceedance": {"above": 279}}, {"histogram": {"bins": 2, "range": [270, 290]}}),
            *({"filter": {"above": 281.5}}, {"covariance": {"with": "floats"}}),
        ],
        "plain": {"of": "packed", "operators": ["mean", "min"]},
        "twice": {"of": "packed * 2", "operators": ["mean"]},
        "wet": {"of": "packed", "space": [{"mask": "land > 0.4"}, {"mean": ["lat", "lon"], "weights": "none"}],
                "operators": ["mean"]},
        "north": {"of": "packed", "space": {"box": {"lat": [15, 35]}}, "operators": ["mean"]},
        "daily": {"of": "packed", "each": {"week": "max"}, "operators": ["mean"]},
        "several": ["mean", "count", "max"],
        "floats": ["mean", "count", "median"],
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def random():
    return np.random.default_rng(5)


@pytest.fixture(scope="module")
def fields(random):
    packed = random.integers(-20, 20, (STEPS, *SHAPE)).astype("i2")
    packed[3, 1, 1] = packed[:, 0, 0] = -99
    several = random.integers(0, 9, (STEPS, *SHAPE)).astype("i4")
    several[0, 0, 0], several[1, 0, 0], several[2:4, 0, 1] = -1, -2, 1000
    floats = random.random((STEPS, *SHAPE)).astype("f4")
    floats[0, 0, 0], floats[1, 0, 0], floats[2:4, 0, 1] = 1e20, -9e33, -5
    one = np.full((STEPS, 2), 1e20, "f4")
    one[:, 1] = np.arange(STEPS)
    land = np.array([[0, 1, 0]] * 4, "i1")
    lat = np.arange(1, 5, dtype="i1")
    return {"packed": packed, "several": several, "floats": floats, "one": one, "land": land, "lat": lat}


@pytest.fixture(scope="module")
def results(fields, tmp_path_factory):
    folder = tmp_path_factory.mktemp("encodings")
    streams.store(folder, fields, np.arange(STEPS), ATTRIBUTES, steady=["land", "lat"])
    found = streams.analyse(folder, CONFIG, ranks=2)
    with xr.open_zarr(folder / "out" / "results.zarr", group="packed_above") as rows:
        return found, rows.load(), folder / "out" / "raw.zarr"


@pytest.fixture(scope="module")
def meant(fields):
    return np.where(fields["packed"] == -99, np.nan, fields["packed"] * SCALE + OFFSET)


def test_results_of_packed_values_are_of_what_is_meant(results, meant):
    found, there = results[0], meant[:, 1:]
    wanted = {
        **{name: getattr(np, f"nan{name}")(there, axis=0) for name in ("mean", "std", "var", "min", "max", "sum")},
        "range": np.nanmax(there, axis=0) - np.nanmin(there, axis=0),
        "first": there[0],
        "count": (~np.isnan(there)).sum(axis=0),
        "exceedance": (there > 279).sum(axis=0),
        "histogram": np.stack([(there < 280).sum(axis=0), (there >= 280).sum(axis=0)]),
        "median": np.nanpercentile(there, 50, axis=0, method="inverted_cdf"),
        "argmax": np.nanargmax(there, axis=0),
    }
    for name, values in wanted.items():
        own = found[f"packed_run_{name}"][0, ..., 1:, :].values
        if name == "argmax":
            own = (own - np.datetime64("2001-01-01")) / np.timedelta64(1, "D")
        np.testing.assert_allclose(own, values, rtol=1e-12)
    np.testing.assert_array_equal(found.plain_run_min[0, 1:], wanted["min"])
    np.testing.assert_allclose(found.twice_run_mean[0, 1:], 2 * wanted["mean"], rtol=1e-6)
    assert np.isnan(found.packed_run_mean[0, 0, 0])


def test_limits_expressions_and_spaces_see_what_is_meant(results, fields, meant):
    found, rows, _ = results
    np.testing.assert_array_equal(np.sort(rows.value), np.sort(meant[meant > 281.5]))
    np.testing.assert_allclose(found.wet_run_mean[0], np.nanmean(meant[:, :, 1], axis=1).mean(), rtol=1e-12)
    np.testing.assert_allclose(found.north_run_mean[0], np.nanmean(meant[:, 1:3], axis=0), rtol=1e-12)
    assert found.north_lat.values.tolist() == [20, 30]
    assert found.lat.values.tolist() == [10, 20, 30, 40]
    pairs = np.array([[np.cov(meant[:, 3, x], fields["floats"][:, 3, x], ddof=0)[0, 1] for x in range(3)]])
    np.testing.assert_allclose(found.packed_run_covariance[0, 3:], pairs, rtol=1e-6)


def test_results_do_not_say_that_they_are_packed(results):
    own = results[0].packed_run_mean
    assert not {"scale_factor", "add_offset"} & {*own.attrs, *own.encoding}
    assert own.dtype == "f8"
    assert own.attrs["units"] == "K"


def test_each_of_several_missing_values_is_missing(results, fields):
    found = results[0]
    gone = np.isin(fields["several"], [-1, -2, 1000]), np.isin(fields["floats"], np.array([1e20, -9e33, -5], "f4"))
    for name, missing in zip(("several", "floats"), gone, strict=True):
        values = np.where(missing, np.nan, fields[name])
        np.testing.assert_array_equal(found[f"{name}_run_count"][0], (~missing).sum(axis=0))
        np.testing.assert_allclose(found[f"{name}_run_mean"][0], np.nanmean(values, axis=0), rtol=1e-6)
    np.testing.assert_array_equal(found.several_run_max[0], np.nanmax(np.where(gone[0], -1, fields["several"]), axis=0))


def test_raw_steps_name_missing_values_in_their_own_type(results, fields, meant):
    with xr.open_zarr(results[2], drop_variables=["several", "floats"]) as raw:
        np.testing.assert_array_equal(np.isnan(raw.one), [[True, False]] * STEPS)
        np.testing.assert_array_equal(raw.packed, meant)
    with xr.open_zarr(results[2], decode_cf=False) as raw:
        assert raw.packed.dtype == "i2"
        assert raw.several.attrs["missing_value"] == [-1, -2, 1000]
        assert np.isin(raw.floats.attrs["missing_value"], fields["floats"]).all()


@pytest.mark.parametrize(
    ("attributes", "encoding"),
    [
        ({}, Encoding()),
        ({"v/missing_value": [1, 2], "v/_FillValue": 2}, Encoding((2, 1))),
        ({"v/_FillValue": "-999"}, Encoding((-999.0,))),
        ({"v/_FillValue": "none"}, Encoding()),
        ({"v/_FillValue": np.nan, "v/missing_value": [np.nan, 5], "v/valid_min": np.nan}, Encoding((5,))),
        ({"v/scale_factor": [0.1], "v/add_offset": 2}, Encoding((), 0.1, 2.0)),
        ({"w/scale_factor": 0.1}, Encoding()),
    ],
)
def test_an_encoding_is_what_the_attributes_say(attributes, encoding):
    assert StreamAttributes(attributes).encoding("v") == encoding

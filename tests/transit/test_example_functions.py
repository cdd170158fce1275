"""The examples of functions that are called with whole fields: lows with their tracks, and a network on each day."""

import numpy as np
import streams
import xarray as xr
from bbflow_workflows.functions import fronts, lows

LAT, LON = np.arange(-88.0, 90, 4), np.arange(0.0, 360, 4)
STEPS = 24


def pressure(step):
    """Two lows that move, one over the grid's seam, a shallow one, and low pressure at a pole."""
    lon, lat = np.meshgrid(LON, LAT)
    centres = {"north": (40 + step, 340 + 3 * step, 3000), "south": (-36, 100 - 2 * step, 2000), "weak": (0, 180, 150)}
    field = np.full(lon.shape, 101_000.0) - 4000 * np.exp(-(((lat + 90) / 8) ** 2))
    for at, along, depth in centres.values():
        away = (lon - along + 180) % 360 - 180
        field -= depth * np.exp(-(((lat - at) / 8) ** 2) - (away / 10) ** 2)
    return field.astype("f4"), [(at, along % 360) for at, along, _ in list(centres.values())[:2]]


def test_lows_are_found_where_they_were_put_and_joined_to_tracks(tmp_path):
    made = [pressure(step) for step in range(STEPS)]
    attributes = {"time/units": "hours since 2001-01-01", "psl/_ARRAY_DIMENSIONS": ["lat", "lon"], "psl/units": "Pa"}
    fields = {"psl": np.stack([field for field, _ in made]), "lat": LAT, "lon": LON}
    streams.store(tmp_path, fields, np.arange(STEPS), attributes, steady=("lat", "lon"))
    functions = {"lows": {"call": "bbflow_workflows.functions.lows:find", "of": "psl", "arguments": {"depth": 200}}}
    outcome, _ = streams.analysed(
        tmp_path, {"operators": {"psl": ["mean"]}, "windows": ["run"], "functions": functions}
    )
    assert outcome.complete
    found = lows.tracks(tmp_path / "out" / "functions" / "lows.zarr")
    assert found["row_size"].values.tolist() == [2] * STEPS
    assert set(found["track"].values) == {0, 1}
    for track in (0, 1):
        own = found.isel(low=found["track"].values == track)
        np.testing.assert_array_equal(own["low_step"], np.arange(STEPS))
        north = own["lat"].values[0] > 0
        for step, (lat, lon) in enumerate(zip(own["lat"].values, own["lon"].values, strict=True)):
            at, along = made[step][1][0 if north else 1]
            assert abs(lat - at) <= 2
            assert abs((lon - along + 180) % 360 - 180) <= 2


def test_a_low_needs_a_closed_contour():
    field, _ = pressure(0)
    dataset = xr.Dataset({"psl": (("lat", "lon"), field)}, {"lat": LAT, "lon": LON})
    assert lows.find(dataset).sizes["low"] == 2
    assert lows.find(dataset, depth=10.0).sizes["low"] == 3  # the weak one has such a contour, but the pole's none


def test_a_network_marks_each_days_field(tmp_path):
    random = np.random.default_rng(8)
    tas = random.normal(280, 6, (48, 7, 9)).astype("f4")
    attributes = {"time/units": "hours since 2001-01-01", "tas/_ARRAY_DIMENSIONS": ["lat", "lon"], "tas/units": "K"}
    fields = {"tas": tas, "lat": np.linspace(-60, 60, 7), "lon": np.arange(9) * 40.0}
    streams.store(tmp_path, fields, np.arange(48), attributes, steady=("lat", "lon"))
    fronts.write_model(str(tmp_path / "fronts.onnx"))
    entry = {
        "call": "bbflow_workflows.functions.fronts:mark",
        "results": "tas_day_mean",
        "arguments": {"model": str(tmp_path / "fronts.onnx"), "variable": "tas_day_mean"},
    }
    config = {"operators": {"tas": ["mean"]}, "windows": ["day"], "functions": {"fronts": entry}}
    outcome, results = streams.analysed(tmp_path, config)
    assert outcome.complete, outcome.errors
    marked = xr.open_zarr(tmp_path / "out" / "functions" / "fronts.zarr").load()
    for day in range(2):
        np.testing.assert_allclose(marked["front"][day], likelihood(results["tas_day_mean"].values[day]), rtol=1e-4)
    np.testing.assert_array_equal(marked["lat"], fields["lat"])


def likelihood(field):
    """The network's formula by numpy."""
    padded = np.pad(field.astype("f8"), 1, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3))
    slopes = [np.einsum("ijkl,kl->ij", windows, kernel) for kernel in (fronts.SOBEL, fronts.SOBEL.T)]
    return 1 / (1 + np.exp(-fronts.SHARPNESS * (np.hypot(*slopes) - fronts.LIMIT)))

"""Raw steps in chunks of the user's, over real streams."""

import numpy as np
import pytest
import streams
import xarray as xr

from bbflow.errors import BbflowError

STEPS, LATS, LONS = 30, 6, 10
ATTRIBUTES = {
    "time/units": "hours since 2001-01-01",
    **{f"{name}/_ARRAY_DIMENSIONS": [name] for name in ("lat", "lon")},
    "tas/_ARRAY_DIMENSIONS": ["lat", "lon"],
}


def stored(folder):
    fields = {
        "tas": np.random.default_rng(3).normal(270, 20, (STEPS, LATS, LONS)),
        "lat": np.linspace(-60, 60, LATS),
        "lon": np.arange(LONS) * 36.0,
    }
    streams.store(folder, fields, 6.0 * np.arange(STEPS), ATTRIBUTES, steady=("lat", "lon"), axis=1)
    return fields


def config(chunks):
    return {"windows": ["month"], "operators": {"tas": ["mean"]}, "raw": {"variables": ["tas"], "chunks": chunks}}


@pytest.mark.parametrize("nodes", [1, 2])
def test_the_steps_of_several_ranks_are_put_into_chunks_of_several_steps(tmp_path, nodes):
    fields = stored(tmp_path)
    streams.analyse(tmp_path, config({"time": 8, "lat": 4, "lon": 3}), ranks=3, nodes=nodes)
    raw = xr.open_zarr(tmp_path / "out" / "raw.zarr")
    assert raw["tas"].encoding["chunks"] == (8, 4, 3)
    np.testing.assert_array_equal(raw["tas"].values, fields["tas"])
    np.testing.assert_array_equal(raw["tas"][:, 5, 9].values, fields["tas"][:, 5, 9])


def test_a_dimension_that_nothing_has_is_told(tmp_path):
    stored(tmp_path)
    with pytest.raises(BbflowError, match=r"no variable that is kept has a dimension 'latt'.*'lat'"):
        streams.analyse(tmp_path, config({"latt": 4}))

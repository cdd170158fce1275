"""What is written to Zarr, as others read it: TensorStore, and zarrita, the Zarr of JavaScript."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import streams
import xarray as xr
import zarr

pytestmark = pytest.mark.readers
LAT, LON = np.linspace(-75, 75, 6), np.arange(8) * 45.0
ATTRIBUTES = {
    "time/units": "hours since 2001-01-01",
    "tas/units": "K",
    "lat/units": "degrees_north",
    "lon/units": "degrees_east",
    "tas/_ARRAY_DIMENSIONS": ["lat", "lon"],
    **{f"{name}/_ARRAY_DIMENSIONS": [name] for name in ("lat", "lon")},
}
SUMS = """
import * as zarr from "zarrita";
import FileSystemStore from "@zarrita/storage/fs";
const found = {}, root = zarr.root(new FileSystemStore(process.argv[2]));
for (const name of process.argv.slice(3)) {
  const { data } = await zarr.get(await zarr.open(root.resolve(name), { kind: "array" }));
  found[name] = Array.from(data, Number).reduce((sum, value) => (Number.isNaN(value) ? sum : sum + value), 0);
}
console.log(JSON.stringify(found));
"""


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Results and pyramids of a run, and its raw steps."""
    folder, random = tmp_path_factory.mktemp("readers"), np.random.default_rng(3)
    tas = random.normal(290, 10, (24, 6, 8)).astype("f4")
    tas[:, 2:4, 3:6] = np.nan
    numbers = np.repeat([1, 2], 24).reshape(6, 8).astype("i4")
    places = {"lat": ("lat", LAT, {"units": "degrees_north"}), "lon": ("lon", LON, {"units": "degrees_east"})}
    xr.Dataset({"basin": (("lat", "lon"), numbers)}, places).to_netcdf(folder / "basins.nc")
    operators = {
        "tas": {"operators": ["mean", "std"]},
        "pixels": {"of": "tas", "space": {"healpix": {"zoom": 2}, "pyramid": True}, "operators": ["max"]},
        "coarse": {"of": "tas", "space": {"remapnn": "r8x4", "pyramid": True}, "operators": ["mean"]},
        "basins": {"of": "tas", "space": {"regions": str(folder / "basins.nc")}, "operators": ["mean"]},
    }
    values = {"tas": tas, "lat": LAT, "lon": LON}
    streams.store(folder, values, 6.0 * np.arange(24), ATTRIBUTES, steady=("lat", "lon"))
    raw = {"compression": "zstd", "shard": "1KiB"}
    streams.analyse(folder, {"windows": ["day"], "operators": operators, "raw": raw})
    return sorted(path.parent for path in folder.rglob("zarr.json") if path.parent.suffix == ".zarr")


def arrays(store):
    """The arrays of numbers in a store, by their paths."""
    members = zarr.open_group(store, mode="r", use_consolidated=False).members(max_depth=None)
    return {path: item for path, item in members if isinstance(item, zarr.Array) and item.dtype.kind in "iuf"}


def test_stores_are_of_each_kind(stores):
    assert [path.name for path in stores] == ["day_hp2.zarr", "day_r8x4.zarr", "raw.zarr", "results.zarr"]


def test_tensorstore_has_the_same_values(stores):
    tensorstore = pytest.importorskip("tensorstore", reason="'make readers-suite' installs it")
    for store in stores:
        for path, ours in arrays(store).items():
            spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{store / path}/"}}
            theirs = tensorstore.open(spec, read=True).result()
            assert theirs.domain.labels == ours.metadata.dimension_names
            np.testing.assert_array_equal(theirs.read().result(), ours[...])


def test_zarrita_has_the_same_values(stores):
    """BBFLOW_NODE_MODULES is the folder where npm has put zarrita: 'make readers-suite' does so."""
    folder = os.environ.get("BBFLOW_NODE_MODULES", "")
    if not shutil.which("node") or not folder:
        pytest.skip("Node.js and zarrita aren't there: 'make readers-suite' installs it")
    script = Path(folder).with_name("sums.mjs")
    script.write_text(SUMS)
    for store in stores:
        if store.name == "raw.zarr":  # whose indices are where it doesn't look
            continue
        ours = {path: float(np.nansum(item[...].astype("f8"))) for path, item in arrays(store).items()}
        done = subprocess.run(["node", script, store, *ours], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        theirs = json.loads(done.stdout)
        assert theirs.keys() == ours.keys()
        for path, value in ours.items():
            np.testing.assert_allclose(theirs[path], value, rtol=1e-9, err_msg=path)

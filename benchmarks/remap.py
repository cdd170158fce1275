"""Remapping: fields of a grid of cells put on HEALPix, against scipy's product, CDO and one read of the memory."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import healpix
import numpy as np
import xarray as xr
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from bbflow.operators.space import parse_space
from bbflow.operators.space.coarsening import pyramid_of
from bbflow.operators.space.meshes import Mesh, on_sphere
from bbflow.operators.space.regridding import place_space
from bbflow.operators.space.targets import target_of
from bbflow.operators.space.weights import Weights, sparse, write_weights
from bbflow.operators.steps import Array, Steps
from benchmarks.rates import in_turn, median_s
from benchmarks.rows import Row

CELLS, LEVELS, ZOOM = 1_050_000, 16, 6
"""About a fifth of ICON's R2B8, with its 20 cells or so for each of the target."""
BATCH = 8
"""Steps that are folded together."""


def measure(*, quick: bool = False) -> list[Row]:
    """Remap one step of float32 on all levels, as one thread does; the ways take turns."""
    repeat = 3 if quick else 7
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="bbflow-bench-") as name:
        weights, field = _weights(), np.random.default_rng(1).normal(280, 10, (LEVELS, CELLS)).astype("f4")
        path = Path(name) / "weights.nc"
        write_weights(weights, path)
        return _rows(weights, field, path, repeat)


def _weights() -> Weights:
    """Return means over the cells that are nearest to each of the target's, of points that lie evenly on the sphere."""
    number = np.arange(CELLS) + 0.5
    lat = np.rad2deg(np.arcsin(1 - 2 * number / CELLS))
    lon = (number * 180 * (3 - 5**0.5)) % 360
    order = np.argsort(healpix.ang2pix(1 << 10, lon, lat, nest=True, lonlat=True))  # neighbours lie near, as in ICON
    lat, lon = lat[order], lon[order]
    source, target = Mesh((CELLS,), lat, lon), target_of(f"hpz{ZOOM}")
    rows = cKDTree(on_sphere(*target.centres)).query(on_sphere(lat, lon))[1].astype("i8")
    shares = 1 / np.bincount(rows, minlength=target.size)[rows]
    return sparse("benchmark", "con", (source, target), (CELLS, target.size), (np.arange(CELLS), rows, shares))


def _rows(weights: Weights, field: Array, path: Path, repeat: int) -> list[Row]:
    space = parse_space({"remap": str(path)})
    assert weights.source is not None
    known = {"clat": weights.source.centres[0], "clon": weights.source.centres[1]}
    told = {"clat": {"standard_name": "latitude"}, "clon": {"standard_name": "longitude"}}
    placement = place_space(space, ("lev", "cell"), field.shape, known, {}.__getitem__, told)
    local = placement.local((0, 0), field.shape)
    assert local is not None
    matrix = csr_array(
        (weights.values, weights.rows, weights.starts), shape=(CELLS, len(weights.cover))
    ).T.tocsr()  # by columns there, by rows here
    flat, columns = field.reshape(-1), np.ascontiguousarray(field.T)
    batch, averaged = Steps([flat, *(flat + k for k in range(1, BATCH))]), f"bbflow, {BATCH} steps, of whose mean it is"
    ways: dict[str, Callable[[], object]] = {
        "bbflow": lambda: local.values(Steps([flat])),
        averaged: lambda: local.averaged(batch),
        "scipy, a level after the other": lambda: [matrix @ level for level in field],
        "scipy, all levels at once, which lie side by side": lambda: matrix @ columns,
        "the memory is read once": lambda: field.sum(dtype="f4"),
    }
    if shutil.which("cdo"):
        ways["CDO's remap, with its files in memory"] = _cdo(weights, field, path)
    else:
        print("remap: cdo is not installed (apt install cdo): its row is left out")
    seconds = in_turn(ways, repeat)
    ours = seconds["bbflow"]
    seconds[averaged] /= BATCH
    rows = [
        Row(f"{name}: {LEVELS} levels of 1.05 million cells to HEALPix zoom {ZOOM}", field.size / own / 1e6,
            "million points/s", ours / own) for name, own in seconds.items()
    ]  # fmt: skip
    moved = field.nbytes + 12 * len(weights.values)
    rows.append(Row("bbflow: field and weights read once", moved / ours / 1e9, "GB/s"))
    return [*rows, _pyramid(local.values(Steps([flat]))[0].reshape(LEVELS, -1), ours, repeat)]


def _pyramid(values: Array, remap_s: float, repeat: int) -> Row:
    pyramid = pyramid_of(target_of(f"hpz{ZOOM}"), 1, (), frozenset())
    seconds = median_s(lambda: list(pyramid.made(values)), repeat)
    return Row("all coarser zooms, of the time that the finest takes", seconds / remap_s, "")


def _cdo(weights: Weights, field: Array, path: Path) -> Callable[[], object]:
    source, result = path.with_name("field.nc"), path.with_name("result.nc")
    assert weights.source is not None
    lat, lon = (np.deg2rad(own) for own in weights.source.centres)
    places = {"lat": ("cell", lat, {"units": "radian", "standard_name": "latitude"}),
              "lon": ("cell", lon, {"units": "radian", "standard_name": "longitude"})}  # fmt: skip
    tas = ("lev", "cell"), field, {"coordinates": "lat lon", "CDI_grid_type": "unstructured"}
    xr.Dataset({"tas": tas, **places}).to_netcdf(source)
    grid = path.with_name("target.txt")
    assert weights.target is not None
    values = "\n".join(f"{axis}vals = {' '.join(map(repr, own.tolist()))}" for axis, own in
                       zip("yx", weights.target.centres, strict=True))  # fmt: skip
    grid.write_text(f"gridtype = unstructured\ngridsize = {weights.target.size}\n{values}\n")
    command: Sequence[object] = ["cdo", "-s", "-O", "-P", "1", f"remap,{grid},{path}", source, result]
    return lambda: subprocess.run(list(map(str, command)), check=True, capture_output=True)

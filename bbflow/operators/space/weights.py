"""Files of weights: what SCRIP, CDO, ESMF, TempestRemap, E3SM and xESMF write, as one sparse matrix."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bbflow.errors import ConfigError
from bbflow.host.atomic import replacing
from bbflow.operators.space.installed import check_installed
from bbflow.operators.space.meshes import Mesh
from bbflow.operators.space.netcdf_files import header_of, load, version_of
from bbflow.operators.steps import Array

if TYPE_CHECKING:
    import xarray as xr

METHODS = {
    "bic": ("bicubic",),
    "laf": ("largest area",),
    "con2": ("second order",),
    "con": ("conserv",),
    "bil": ("bilinear", "patch"),
    "dis": ("distance",),  # CDO's 'Distance weighted avg of nearest neighbors' is no nearest one
    "nn": ("nearest",),
}
"""By the names that CDO has for them: words that files have for the method, in small letters; the first counts."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Weights:
    """A sparse matrix, by its columns: the points of the source. Small copies of it, `Links`, go to the blocks."""

    name: str
    """What messages call it."""
    method: str
    """One of `METHODS`, or empty if the file says none that is known."""
    source: Mesh | None
    """The grid that it is for; None if the file doesn't say."""
    target: Mesh | None
    """The grid of the result, the same."""
    starts: Array
    """Where each column's links begin; int64 of shape (columns + 1,)."""
    rows: Array
    """The point of the target that each link goes to; int32 of shape (links,)."""
    values: Array
    """The links' weights; float64 of that shape."""
    cover: Array
    """Of each row the sum of its weights; float64 of shape (rows,)."""
    share: Array
    """Of each row the share of its area that the source covers; float64, the same."""
    needs: Array | None = None
    """Of each row the share of its weights that must be valid; None for what the method has."""
    gradients: Array | None = None
    """Weights of the field's gradients, float64 of shape (links, 2 or 3); None of other methods."""

    @property
    def digest(self) -> str:
        """Return what tells them from others."""
        found = blake2b(digest_size=16)
        for item in self._arrays:
            found.update(np.ascontiguousarray(item).view("u1").data)
        return found.hexdigest()

    @property
    def nbytes(self) -> int:
        """Return the bytes of its arrays."""
        return sum(item.nbytes for item in self._arrays)

    @property
    def _arrays(self) -> list[Array]:
        arrays = [self.starts, self.rows, self.values, self.cover, self.share]
        return arrays if self.gradients is None else [*arrays, self.gradients]


def sparse(
    name: str,
    method: str,
    meshes: tuple[Mesh | None, Mesh | None],
    sizes: tuple[int, int],
    links: tuple[Array, Array, Array],
    share: Array | None = None,
    gradients: Array | None = None,
) -> Weights:
    """Put links into the order of their columns.

    Parameters
    ----------
    name, method
        See `Weights`.
    meshes, sizes
        Of source and target.
    links
        Columns and rows from 0, and weights; each of shape (links,).
    share
        How much of each row's area is covered; None for all where there is any weight.
    gradients
        Weights of the field's gradients, of shape (links, 2 or 3); None of methods without.

    Raises
    ------
    ConfigError
        If a link leads out of a grid, or a weight isn't finite.
    """
    columns, rows, values = links
    for what, places, size in (("source", columns, sizes[0]), ("target", rows, sizes[1])):
        wrong = int(((places < 0) | (places >= size)).sum())
        if wrong:
            raise ConfigError(f"{name}: {wrong} of {len(places)} links lead out of its {what} grid of {size} points")
    of_links = values if gradients is None else np.column_stack([values, gradients])
    if broken := int((~np.isfinite(of_links)).sum()):
        raise ConfigError(f"{name}: {broken} of {of_links.size} weights are no finite numbers")
    order = np.argsort(columns, kind="stable")
    starts = np.zeros(sizes[0] + 1, np.int64)
    np.cumsum(np.bincount(columns, minlength=sizes[0]), out=starts[1:])
    cover = np.bincount(rows, values, sizes[1])
    whole = (cover != 0).astype("f8") if share is None else share
    more = None if gradients is None else gradients[order]
    return Weights(name, method, *meshes, starts, rows[order].astype("i4"), values[order], cover, whole, gradients=more)


WHAT = "the weights"


def read_weights(path: Path) -> Weights:
    """Read a file of weights.

    Raises
    ------
    ConfigError
        If it can't be read, isn't such a file, or is damaged.
    """
    return _read(*version_of(path, WHAT))


@lru_cache(maxsize=4)
def _read(path: Path, _changed: int, _size: int) -> Weights:
    data = load(path, "a file of weights", decode_cf=False)
    name = _name(path)
    if any(own in data and not data[own].size for own in ("remap_matrix", "S")):
        raise ConfigError(f"{name} has no links: the two grids have nothing in common")
    if "remap_matrix" in data:
        return _scrip(name, data)
    if {"S", "row", "col"} <= set(data.variables):
        return _esmf(name, data)
    raise ConfigError(
        f"{path} has no weights: neither remap_matrix with src_address and dst_address (SCRIP, CDO) nor S, row and "
        f"col (ESMF, TempestRemap, E3SM, xESMF), but {', '.join(map(str, data.variables)) or 'nothing'}"
    )


BYTES_OF_LINK, BYTES_OF_POINT = 12, 8
"""In `Weights`."""
BYTES_OF_PART = 18
"""Most of a link where the block's part of it is folded, of which up to 6 are for the mean of some steps."""


def check_method(name: str, method: str, wanted: str) -> None:
    """Check that weights are of the method that a remap wants, if it wants one and they tell theirs.

    Raises
    ------
    ConfigError
        If they are of another.
    """
    if wanted and method and method != wanted:
        raise ConfigError(
            f"{name} is of the method {method!r}, not {wanted!r}: write remap{method}, or remap, which takes any"
        )


def weights_bytes(path: Path, method: str = "") -> tuple[int, int]:
    """Return the bytes that a file's weights take in the analysis, and all their parts where they are folded.

    Raises
    ------
    ConfigError
        If it can't be read, isn't such a file, or is of another method, as far as its header tells.
    """
    lengths, attributes = header_of(*version_of(path, WHAT))
    check_method(_name(path), (_method if "num_links" in lengths else _method_of_esmf)(attributes), method)
    links = next((lengths[name] for name in ("num_links", "n_s") if name in lengths), None)
    if links is None:
        raise ConfigError(f"{path} has no weights: neither num_links (SCRIP, CDO) nor n_s (ESMF and others) in it")
    columns = next((lengths[name] for name in ("src_grid_size", "n_a") if name in lengths), 0)
    rows = next((lengths[name] for name in ("dst_grid_size", "n_b") if name in lengths), 0)
    return BYTES_OF_LINK * links + BYTES_OF_POINT * (columns + 2 * rows), BYTES_OF_PART * links


def _name(path: Path) -> str:
    """Return what messages call weights."""
    return f"weights {path.name}"


def _scrip(name: str, data: "xr.Dataset") -> Weights:
    """Read what CDO and SCRIP write."""
    matrix = _numbers(name, data, "remap_matrix")
    method = _method(data.attrs)
    matrix = matrix.reshape(len(matrix), -1)
    if matrix.shape[1] != (own := {"bic": 4, "con2": 3}.get(method, 1)):
        raise ConfigError(f"{name} has {matrix.shape[1]} weights for each link, {own} are what its method has")
    source, target = (
        Mesh(
            _dims(name, data, f"{side}_grid_dims", len(data[f"{side}_grid_center_lat"])),
            _degrees(name, data, f"{side}_grid_center_lat"),
            _degrees(name, data, f"{side}_grid_center_lon"),
            _degrees(name, data, f"{side}_grid_corner_lat"),
            _degrees(name, data, f"{side}_grid_corner_lon"),
            _optional(name, data, f"{side}_grid_area"),
        )
        for side in ("src", "dst")
        if _has(name, data, f"{side}_grid_center_lat", f"{side}_grid_dims")
    )
    links = _links(name, data, "src_address", "dst_address", matrix[:, 0])
    share = _optional(name, data, "dst_grid_frac") if method in ("con", "con2", "laf") else None
    more = matrix[:, 1:] if matrix.shape[1] > 1 else None
    made = sparse(name, method, (source, target), (source.size, target.size), links, share, more)
    return replace(made, needs=_needs(made)) if method == "bic" else made


def _needs(weights: Weights) -> Array:
    """Return 1 for points that need all their corners, 0 for those beyond the last parallel: by distance, no gradients.

    A point that is a corner has no gradients either, but the whole weight.
    """
    plain, largest = np.ones(len(weights.cover), bool), np.zeros(len(weights.cover))
    assert weights.gradients is not None
    plain[weights.rows[weights.gradients.any(axis=1)]] = False
    np.maximum.at(largest, weights.rows, weights.values)
    return np.where(plain & (largest < 1 - 1e-9), 0.0, 1.0)


def _esmf(name: str, data: "xr.Dataset") -> Weights:
    """Read what ESMF_RegridWeightGen, TempestRemap and E3SM's tools write, or xESMF, which leaves the grids out."""
    links = _links(name, data, "col", "row", _numbers(name, data, "S"))
    method = _method_of_esmf(data.attrs)
    if not {"n_a", "n_b"} <= set(data.sizes):
        sizes = tuple(int(places.max(initial=-1)) + 1 for places in links[:2])
        return sparse(name, method, (None, None), (sizes[0], sizes[1]), links)
    source, target = (
        Mesh(
            _dims(name, data, f"{side}_grid_dims", data.sizes[f"n_{end}"]),
            _degrees(name, data, f"yc_{end}"),
            _degrees(name, data, f"xc_{end}"),
            _degrees(name, data, f"yv_{end}"),
            _degrees(name, data, f"xv_{end}"),
            _optional(name, data, f"area_{end}"),
        )
        for side, end in (("src", "a"), ("dst", "b"))
    )
    # TempestRemap names no method; others leave zeros where a method has no areas.
    share = _optional(name, data, "frac_b") if method in ("con", "") else None
    share = share if share is not None and share.any() else None
    return sparse(name, method, (source, target), (source.size, target.size), links, share)


def _method(attributes: Mapping[str, Any]) -> str:
    """Return the method; ESMF says 'Bilinear remapping' as `map_method` of nearest neighbours too."""
    words = str(attributes.get("ESMF_regrid_method") or attributes.get("map_method", "")).lower()
    method = next((method for method, known in METHODS.items() if any(word in words for word in known)), "")
    return "con2" if method == "con" and attributes.get("remap_order") == 2 else method


def _method_of_esmf(attributes: Mapping[str, Any]) -> str:
    """Return it of files with one weight for each link, which has gradients in it, as ESMF's of the second order."""
    return {"con2": "con", "bic": ""}.get(own := _method(attributes), own)


def _has(name: str, data: "xr.Dataset", *wanted: str) -> bool:
    for one in wanted:
        if one not in data:
            raise ConfigError(f"{name} has no {one}: it is damaged, or of an unknown kind")
    return True


def _numbers(name: str, data: "xr.Dataset", wanted: str) -> Array:
    _has(name, data, wanted)
    return np.asarray(data[wanted].values, "f8")


def _optional(name: str, data: "xr.Dataset", wanted: str) -> Array | None:
    return _numbers(name, data, wanted).reshape(-1) if wanted in data else None


def _links(name: str, data: "xr.Dataset", source: str, target: str, values: Array) -> tuple[Array, Array, Array]:
    _has(name, data, source, target)
    columns, rows = (np.asarray(data[which].values, np.int64).reshape(-1) - 1 for which in (source, target))
    if not len(columns) == len(rows) == len(values):
        raise ConfigError(
            f"{name} is damaged: it has {len(columns)} of {source}, {len(rows)} of {target} and {len(values)} weights"
        )
    return columns, rows, values


def _dims(name: str, data: "xr.Dataset", wanted: str, size: int) -> tuple[int, ...]:
    """Return a grid's shape, the slowest dimension first; files have the fastest first."""
    if wanted not in data:
        return (size,)
    shape: Sequence[int] = tuple(int(length) for length in data[wanted].values.reshape(-1)[::-1])
    if prod(shape) != size:
        raise ConfigError(f"{name} is damaged: {wanted} says {' x '.join(map(str, shape))} points, but has {size}")
    return tuple(shape)


def _degrees(name: str, data: "xr.Dataset", wanted: str) -> Array | None:
    """Return coordinates in degrees; None if there are none, or all are zero, which some tools write for 'unknown'."""
    if wanted not in data:
        return None
    values = _numbers(name, data, wanted)
    radians = str(data[wanted].attrs.get("units", "degrees")).lower().startswith("rad")
    return np.rad2deg(values) if radians else values


MAP_METHODS = {
    "nn": "Nearest neighbor",
    "dis": "Distance weighted avg of nearest neighbors",
    "bil": "Bilinear remapping",
    "con": "Conservative remapping using clipping on sphere",
    "bic": "Bicubic remapping",
    "laf": "Largest area fraction",
}
"""What CDO calls the methods in its files."""


def write_weights(weights: Weights, path: Path) -> None:
    """Write weights in SCRIP's form, as CDO reads it; the file appears whole.

    Parameters
    ----------
    weights
        With both grids, whose centres are known.
    path
        The file.

    Raises
    ------
    ConfigError
        If NetCDF can't be written.
    """
    check_installed("netCDF4", "a file of weights")
    import xarray as xr

    rows, columns = weights.rows + 1, np.repeat(np.arange(1, len(weights.starts), dtype="i4"), np.diff(weights.starts))
    order = np.lexsort((columns, rows))
    links = {"src_address": columns[order], "dst_address": rows[order].astype("i4")}
    matrix = weights.values if weights.gradients is None else np.column_stack([weights.values, weights.gradients])
    data = {
        **{name: ("num_links", values) for name, values in links.items()},
        "remap_matrix": (("num_links", "num_wgts"), matrix[order].reshape(len(order), -1)),
    }
    kinds = {}
    for side, mesh, share in (("src", weights.source, None), ("dst", weights.target, weights.share)):
        assert mesh is not None
        data |= _side(side, mesh, share)
        kinds[side] = "unstructured" if len(mesh.shape) == 1 else "curvilinear" if mesh.axes() is None else "lonlat"
    attributes = {
        "title": "weights made by bbflow",
        "normalization": "fracarea" if weights.method in ("con", "laf") else "none",
        "map_method": MAP_METHODS[weights.method],
        "conventions": "SCRIP",
        "source_grid": kinds["src"],
        "dest_grid": kinds["dst"],
    }
    with replacing(path) as temporary:
        xr.Dataset(data, attrs=attributes).to_netcdf(temporary, engine="netcdf4", format="NETCDF3_64BIT")


def _side(side: str, mesh: Mesh, share: Array | None) -> dict[str, tuple[Any, ...]]:
    """Return what a file has of one of the grids."""
    size, (lat, lon) = f"{side}_grid_size", mesh.centres
    ones, radians = np.ones(mesh.size), {"units": "radians"}
    area = np.zeros(mesh.size) if mesh.area is None else mesh.area
    return {
        f"{side}_grid_dims": (f"{side}_grid_rank", np.array(mesh.shape[::-1], "i4")),
        f"{side}_grid_center_lat": (size, np.deg2rad(lat), radians),
        f"{side}_grid_center_lon": (size, np.deg2rad(lon), radians),
        f"{side}_grid_imask": (size, ones.astype("i4"), {"units": "unitless"}),
        f"{side}_grid_area": (size, area, {"units": "square radians"}),
        f"{side}_grid_frac": (size, ones if share is None else share, {"units": "unitless"}),
    }

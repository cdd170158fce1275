"""Lists of cells as maps: each degree shows the cell that is nearest, as HEALPix and other cells have no rows."""

from collections.abc import Callable

import numpy as np
import xarray as xr

from bbflow.errors import ConfigError
from bbflow.operators.space.making import make_weights
from bbflow.operators.space.meshes import Mesh, on_sphere
from bbflow.operators.space.targets import healpix_centres, regular
from bbflow.report.canvas import Array
from bbflow.report.drawn_fields import DrawnAxis, axis_kind

ROWS, COLUMNS = 180, 360
MOST_CELLS = 1 << 20
"""Of more cells every so many-th is shown."""
Raster = Callable[[Array], Array]
"""Returns a field of cells, of shape (cells,), as one of shape (ROWS, COLUMNS); NaN where there are none."""


def raster_axes() -> tuple[DrawnAxis, DrawnAxis]:
    """Return the rows and columns of rasters."""
    lat, lon = -90 + (np.arange(ROWS) + 0.5) * 180 / ROWS, np.arange(COLUMNS) * 360 / COLUMNS
    return DrawnAxis("lat", "lat", lat, "°N"), DrawnAxis("lon", "lon", lon, "°E")


def raster_of(dataset: xr.Dataset, array: xr.DataArray) -> Raster | None:
    """Return what makes a map of the last dimension of a result; None if its points aren't cells with places."""
    try:
        centres = _centres(dataset, array)
        return None if centres is None else _raster(*centres)
    except ConfigError:  # what makes weights isn't installed, or no cell has a place
        return None


def _centres(dataset: xr.Dataset, array: xr.DataArray) -> tuple[Array, Array] | None:
    """Return latitudes and longitudes of the points along the last dimension, in degrees."""
    dim, size = array.dims[-1], array.sizes[array.dims[-1]]
    crs = str(array.attrs.get("grid_mapping", ""))
    if crs in dataset.variables and dataset[crs].attrs.get("grid_mapping_name") == "healpix":
        zoom = int(dataset[crs].attrs["refinement_level"])
        return healpix_centres(zoom) if size == 12 * 4**zoom else None
    found = {
        axis_kind(str(name), item.attrs): item.values for name, item in array.coords.items() if item.dims == (dim,)
    }
    told = found.get("lat"), found.get("lon")
    return None if dim in dataset.coords or told[0] is None or told[1] is None else (told[0], told[1])


def _raster(lat: Array, lon: Array) -> Raster:
    target = regular(ROWS, COLUMNS)
    step = -(-len(lat) // MOST_CELLS)
    weights = make_weights("nn", Mesh((len(lat[::step]),), lat[::step], lon[::step]), target)
    cells = np.empty(target.size, np.int64)
    cells[weights.rows] = np.repeat(np.arange(len(weights.starts) - 1), np.diff(weights.starts)) * step
    there, here = on_sphere(lat[cells], lon[cells]), on_sphere(*target.centres)
    apart = np.rad2deg(np.sqrt(((there - here) ** 2).sum(axis=1)))
    # How wide cells are is told by the degrees that show one; those on the edge of a region show for all beyond.
    shown = np.bincount(cells, np.cos(np.deg2rad(target.centres[0])))
    wide = float(np.sqrt(np.median(shown[shown > 0])))
    # A corner of a square cell is 0.71 of its width from the centre.
    is_near = apart <= 0.8 * wide + 0.5

    def draw(values: Array) -> Array:
        return np.where(is_near, values[cells], np.nan).reshape(ROWS, COLUMNS)

    return draw

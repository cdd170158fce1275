"""Maps of cells that have no rows: each degree shows the cell that is nearest, and none beyond a region."""

import numpy as np
import xarray as xr

from bbflow.operators.space.targets import healpix_centres
from bbflow.report.rasters import COLUMNS, ROWS, raster_axes, raster_of

NORTH, EAST = {"units": "degrees_north"}, {"units": "degrees_east"}


def test_healpix_is_drawn_by_its_zoom():
    lat, _ = healpix_centres(4)
    told = {"grid_mapping_name": "healpix", "refinement_level": 4}
    dataset = xr.Dataset({"t": ("cell", lat, {"grid_mapping": "crs"}), "crs": ("crs", [0], told)})
    found = raster_of(dataset, dataset["t"])(lat)
    rows, _ = raster_axes()
    assert found.shape == (ROWS, COLUMNS)
    assert np.abs(found - rows.values[:, np.newaxis]).max() < 4
    assert raster_of(dataset, dataset["t"][:5]) is None


def test_cells_of_a_region_are_drawn_where_they_are_also_where_some_have_no_place():
    lat, lon = (item.ravel() for item in np.meshgrid(np.arange(30, 50, 2.0), np.arange(-20, 20, 2.0), indexing="ij"))
    lat[7] = np.nan
    cells = {"lat": ("ncol", lat, NORTH), "lon": ("ncol", lon, EAST)}
    array = xr.DataArray(np.arange(len(lat)), dims="ncol", coords=cells)
    found = raster_of(xr.Dataset(), array)(np.where(np.isnan(lat), np.nan, lat))
    rows, columns = raster_axes()
    east = (columns.values + 180) % 360 - 180
    inside = np.ix_((rows.values > 32) & (rows.values < 47), np.abs(east) < 17)
    assert np.isfinite(found[inside]).mean() > 0.98
    assert np.isnan(found[(rows.values < 24) | (rows.values > 56)]).all()
    assert np.isnan(found[:, np.abs(east) > 30]).all()
    assert raster_of(xr.Dataset(), array.drop_vars("lat")) is None

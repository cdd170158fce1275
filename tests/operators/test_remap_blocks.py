"""However a variable is cut into blocks, its remapped parts make what scipy's sparse product gives of the whole."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from bbflow.errors import ConfigError
from bbflow.operators.space import parse_space
from bbflow.operators.space.regridding import place_space
from bbflow.operators.steps import Steps

SHAPE, TARGET = (3, 7, 12), (4, 5)
LATS, LONS = np.linspace(-75, 75, 7), np.arange(0, 360, 30.0)
COORDINATES = {"lev": np.array([1000.0, 850.0, 500.0]), "lat": LATS, "lon": LONS}
CLAT, CLON = (item.reshape(-1) for item in np.meshgrid(LATS, LONS, indexing="ij"))
RANDOM = np.random.default_rng(5)
MATRIX = csr_array(RANDOM.random((20, 84)) * (RANDOM.random((20, 84)) < 0.15))
MATRIX = csr_array((MATRIX.data * np.repeat(1 / np.maximum(MATRIX.sum(1), 1e-9), np.diff(MATRIX.indptr)),
                    MATRIX.indices, MATRIX.indptr), (20, 84))  # fmt: skip
FIELDS = {"land": (RANDOM.random((7, 12)) > 0.4).astype("f4"), "share": RANDOM.random((7, 12))}
ORDERS = {
    "levels first": (("lev", "lat", "lon"), (0, 1, 2)),
    "levels last": (("lat", "lon", "lev"), (1, 2, 0)),
    "levels between, longitude first": (("lon", "lev", "lat"), (2, 0, 1)),
}


def scrip(path, matrix=MATRIX, target=TARGET, **changes):
    """A file as CDO writes it; its centres are those of the grid above."""
    rows, columns = matrix.nonzero()
    lat, lon = np.meshgrid(np.linspace(-60, 60, target[0]), np.arange(target[1]) * 72.0, indexing="ij")
    data = {
        "src_grid_dims": ("src_grid_rank", np.array([12, 7], "i4")),
        "dst_grid_dims": ("dst_grid_rank", np.array(target[::-1], "i4")),
        "src_grid_center_lat": ("src_grid_size", np.deg2rad(CLAT), {"units": "radians"}),
        "src_grid_center_lon": ("src_grid_size", np.deg2rad(CLON), {"units": "radians"}),
        "dst_grid_center_lat": ("dst_grid_size", np.deg2rad(lat.reshape(-1)), {"units": "radians"}),
        "dst_grid_center_lon": ("dst_grid_size", np.deg2rad(lon.reshape(-1)), {"units": "radians"}),
        "dst_grid_area": ("dst_grid_size", np.full(lat.size, 0.5)),
        "dst_grid_frac": ("dst_grid_size", np.ones(lat.size)),
        "src_address": ("num_links", (columns + 1).astype("i4")),
        "dst_address": ("num_links", (rows + 1).astype("i4")),
        "remap_matrix": (("num_links", "num_wgts"), matrix[rows, columns][:, np.newaxis]),
        **changes,
    }
    attributes = {"map_method": "Conservative remapping", "normalization": "fracarea"}
    xr.Dataset({name: item for name, item in data.items() if item is not None}, attrs=attributes).to_netcdf(path)
    return path


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return str(scrip(tmp_path_factory.mktemp("weights") / "weights.nc"))


def placed(space, dims=("lev", "lat", "lon"), shape=SHAPE, coordinates=COORDINATES, fields=FIELDS):
    return place_space(parse_space(space), dims, shape, coordinates, fields.__getitem__)


def expected(values, matrix=MATRIX, least=0.0, factor=None):
    """What scipy's product gives of values of shape (steps, lev, points)."""
    flat, cover = values.astype("f8"), matrix.sum(1)
    own = matrix if factor is None else csr_array(matrix * factor)
    valid = np.isfinite(flat)
    sums = np.stack([[own @ np.where(ok, row, 0) for ok, row in zip(*step, strict=True)] for step in
                     zip(valid, flat, strict=True)])  # fmt: skip
    weights = np.stack([[own @ ok.astype("f8") for ok in step] for step in valid])
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where((weights > 0) & (weights >= least * cover), sums / weights * cover, np.nan)


@st.composite
def decompositions(draw, shape):
    """Boxes that cover the whole, in any order."""
    cuts = [[0, *sorted(draw(st.sets(st.integers(1, size - 1), max_size=2))), size] for size in shape]
    spans = [list(pairwise(cut)) for cut in cuts]
    boxes = [((a, b, c), (d - a, e - b, f - c)) for a, d in spans[0] for b, e in spans[1] for c, f in spans[2]]
    return draw(st.permutations(boxes))


def of_blocks(placement, boxes, values, fill):
    """What the blocks' parts make, with those of complete regions checked against their values."""
    parts = []
    for start, count in boxes:
        local = placement.local(start, count)
        if local is not None:
            local = pickle.loads(pickle.dumps(local))
            ends = (slice(first, first + size) for first, size in zip(start, count, strict=True))
            blocks = [np.ascontiguousarray(step).reshape(-1) for step in values[(slice(None), *ends)]]
            steps = Steps(blocks, None if fill is None else np.array(fill, values.dtype))
            parts.append((local, local.partial(steps)))
            if local.complete:
                check_region(placement, local, steps, parts[-1])
    return placement.finish(placement.assemble(len(values), parts)).reshape(len(values), *placement.shape)


def check_region(placement, local, steps, part):
    alone = placement.finish(placement.assemble(len(steps.values), [part])).reshape(-1, *placement.shape)
    place = tuple(slice(first, first + size) for first, size in zip(local.start, local.count, strict=True))
    own = np.stack(local.values(steps)).reshape(-1, *local.count)
    assert own.dtype == placement.dtype(steps.values[0].dtype)
    np.testing.assert_allclose(own, alone[(slice(None), *place)], rtol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_the_parts_of_any_decomposition_make_scipys_product(weights, order, data):
    dims, axes = ORDERS[order]
    dtype = data.draw(st.sampled_from(["f4", "f8", "i2", ">f4"]))
    random = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    values = random.integers(-50, 50, (data.draw(st.integers(1, 3)), *SHAPE)).astype(dtype)
    fill = data.draw(st.sampled_from([None, 7, -20]))
    if "f" in dtype and data.draw(st.booleans()):
        values[:, data.draw(st.integers(0, 2)), data.draw(st.integers(0, 6))] = np.nan
    least = data.draw(st.sampled_from([0.0, 0.5]))
    placement = placed({"remapcon": {"weights": weights, "area_min": least}}, dims, tuple(SHAPE[a] for a in axes))
    ordered = np.ascontiguousarray(values.transpose(0, *(axis + 1 for axis in axes)))
    boxes = data.draw(decompositions(ordered.shape[1:]))
    found = of_blocks(placement, boxes, ordered, fill)
    known = np.where(values == fill, np.nan, values) if fill is not None else values
    wanted = expected(known.reshape(len(values), 3, 84), least=least).reshape(-1, 3, *TARGET)
    if order != "levels first":
        wanted = np.moveaxis(wanted, 1, -1)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)  # a sum of values up to 50 may come to nothing


def test_a_block_with_the_whole_plane_is_complete_and_one_with_a_part_is_not(weights):
    placement = placed({"remap": weights})
    assert placement.local((1, 0, 0), (1, 7, 12)).complete
    assert not placement.local((1, 0, 0), (1, 7, 6)).complete
    with pytest.raises(ValueError, match="use `partial`"):
        placement.local((1, 0, 0), (1, 7, 6)).values(Steps([np.zeros(42)]))


def test_infinite_values_are_valid_and_nothing_valid_is_missing(weights):
    values = np.full((1, *SHAPE), 3.0)
    values[0, 0] = np.nan
    values[0, 1, 3, 4] = np.inf
    found = of_blocks(placed({"remap": weights}), [((0, 0, 0), SHAPE)], values, None)
    assert np.isnan(found[0, 0]).all()
    assert np.isinf(found[0, 1]).sum() == (MATRIX[:, [3 * 12 + 4]].toarray() > 0).sum()
    assert not np.isnan(found[0, 1]).any()


CHAINS = [
    ([{"levels": [500, 1000]}], []),
    ([{"mask": "land"}], []),
    ([{"mean": ["lev"]}], []),
    ([], ["fldmean"]),
    ([], ["zonmax"]),
    ([], [{"box": {"lat": [-30, 60], "lon": [100, 10]}}]),
    ([], [{"mean": ["lat", "lon"], "weights": "cell_area"}]),
    ([{"mask": "land"}, {"isel": {"lev": [2]}}], [{"mask": "cell_area > 0"}, {"mean": ["lat", "lon", "lev"]}]),
]


@pytest.mark.parametrize(("before", "after"), CHAINS, ids=str)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_what_comes_before_and_after_a_remap_is_done_in_that_order(weights, before, after, data):
    values = RANDOM.normal(280, 10, (2, *SHAPE)).astype("f4")
    values[RANDOM.random(values.shape) < 0.1] = np.nan
    boxes = data.draw(decompositions(SHAPE))
    if {"mean": ["lev"]} in before:
        boxes = [((0, *start[1:]), (3, *count[1:])) for start, count in boxes if start[0] == 0]
    placement = placed([*before, {"remap": weights}, *after])
    found = of_blocks(placement, boxes, values, None)
    first = values.astype("f8")
    names = {str(move) for move in before}
    if str({"mask": "land"}) in names:
        first = np.where(FIELDS["land"] != 0, first, np.nan)
    if str({"levels": [500, 1000]}) in names:
        first = first[:, [2, 0]]
    if str({"isel": {"lev": [2]}}) in names:
        first = first[:, [2]]
    if str({"mean": ["lev"]}) in names:
        counts = np.isfinite(first).sum(axis=1, keepdims=True)
        first = np.where(counts > 0, np.nansum(first, axis=1, keepdims=True) / np.maximum(counts, 1), np.nan)
    product = expected(first.reshape(2, -1, 84)).reshape(2, -1, *TARGET)
    dims, shape = ("lev", "lat", "lon"), product.shape[1:]
    coordinates = {"lev": np.arange(shape[0]), "lat": np.linspace(-60, 60, 4), "lon": np.arange(5) * 72.0}
    area = {"cell_area": np.ones(TARGET)}
    if after:
        ending = placed(after, dims, shape, coordinates, area)
        product = np.stack(ending.local((0, 0, 0), shape).values(Steps(list(product.reshape(2, -1)))))
    np.testing.assert_allclose(found.reshape(2, -1), product.reshape(2, -1), rtol=1e-6)


def test_a_fraction_weighs_the_points_before_they_are_remapped(weights):
    values = RANDOM.normal(0, 1, (1, *SHAPE))
    placement = placed({"remap": {"weights": weights, "fraction": "share"}})
    found = of_blocks(placement, [((0, 0, 0), (3, 7, 5)), ((0, 0, 5), (3, 7, 7))], values, None)
    wanted = expected(values.reshape(1, 3, 84), factor=FIELDS["share"].reshape(-1)).reshape(1, 3, *TARGET)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_a_fraction_is_refused_where_weights_of_either_sign_may_cancel(tmp_path):
    matrix = MATRIX.toarray()
    row = int(np.flatnonzero((matrix > 0).sum(1) > 1)[0])
    matrix[row, np.flatnonzero(matrix[row])[0]] *= -1
    path = str(scrip(tmp_path / "second.nc", csr_array(matrix)))
    assert placed({"remap": path}).shape == (3, *TARGET)
    with pytest.raises(ConfigError, match="either sign"):
        placed({"remap": {"weights": path, "fraction": "share"}})


def test_what_is_reduced_first_must_be_in_the_block(weights):
    placement = placed([{"mean": ["lev"]}, {"remap": weights}])
    with pytest.raises(Exception, match="only a part of what is reduced before 'remap'"):
        placement.local((0, 0, 0), (2, 7, 12))


def test_the_targets_coordinates_bounds_and_areas_come_with_it(weights):
    placement = placed({"remapcon": weights})
    assert (placement.dims, placement.shape, placement.cell_methods) == (("lev", "lat", "lon"), (3, 4, 5), "area: mean")
    assert placement.coordinate_dims["lat_bnds"] == ("lat", "bnds")
    np.testing.assert_allclose(placement.coordinates["lon_bnds"][0], [-36, 36])
    np.testing.assert_allclose(placement.coordinates["cell_area"], 0.5 * 6371000.0**2)
    assert placement.attributes == {"cell_measures": "area: cell_area"}
    assert placement.coordinate_attributes["lat"]["units"] == "degrees_north"


def test_variables_whose_blocks_lie_alike_share_their_links(weights):
    one, other = (placed({"remap": weights}).local((0, 0, 0), (3, 7, 5)) for _ in range(2))
    assert one.links is other.links


def cells(space, weights_shape=84, **coordinates):
    """A variable along a list of cells whose centres its auxiliary coordinates have."""
    attributes = {"clat": {"units": "radian", "standard_name": "latitude"},
                  "clon": {"units": "radian", "standard_name": "longitude"}}  # fmt: skip
    known = {"clat": np.deg2rad(CLAT), "clon": np.deg2rad(CLON), **coordinates}
    return place_space(parse_space(space), ("lev", "ncells"), (3, weights_shape), known, FIELDS.__getitem__, attributes)


@settings(max_examples=10, deadline=None)
@given(cuts=st.sets(st.integers(1, 83), max_size=4), seed=st.integers(0, 99))
def test_lists_of_cells_are_remapped_from_any_ranges(tmp_path_factory, cuts, seed):
    path = scrip(tmp_path_factory.mktemp("cells") / "cells.nc", src_grid_dims=("src_grid_rank", np.array([84], "i4")))
    values = np.random.default_rng(seed).normal(280, 10, (2, 3, 84)).astype("f4")
    placement, edges = cells({"remap": str(path)}), [0, *sorted(cuts), 84]
    boxes = [((0, a), (3, b - a)) for a, b in pairwise(edges)]
    np.testing.assert_allclose(
        of_blocks(placement, boxes[::-1], values, None), expected(values).reshape(2, 3, *TARGET), rtol=1e-12
    )


def test_levels_are_made_of_columns_before_they_are_remapped(weights):
    """Twice as many levels, each halfway between two, of blocks that divide the horizontal dimensions."""
    levels = {"levels": {"to": [925.0, 675.0]}}
    placement = placed([levels, {"remap": weights}, {"mean": ["lat", "lon"]}])
    values = RANDOM.normal(280, 10, (1, *SHAPE))
    parts = []
    for start, count in (((0, 0, 0), (3, 7, 5)), ((0, 0, 5), (3, 7, 7))):
        local = placement.local(start, count)
        ends = tuple(slice(first, first + size) for first, size in zip(start, count, strict=True))
        steps = Steps([np.ascontiguousarray(values[(0, *ends)]).reshape(-1)])
        parts.append((local, local.partial(local.column.apply(steps, {}))))
    found = placement.finish(placement.assemble(1, parts))
    between = (values[:, :2] + values[:, 1:]) / 2
    wanted = expected(between.reshape(1, 2, 84)).reshape(2, *TARGET)
    shares = np.diff(np.sin(np.deg2rad([-80, -40, 0, 40, 80])))
    wanted = (wanted.mean(axis=-1) * shares).sum(axis=-1) / shares.sum()
    np.testing.assert_allclose(found[0], wanted, rtol=1e-12)
    assert placement.dims == ("lev",)
    np.testing.assert_allclose(placement.coordinates["lev"], [925, 675])

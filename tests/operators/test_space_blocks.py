"""However a variable is cut into blocks, the merged partial results are those of the whole."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from bbflow.operators.names.cdo import SPACES as CDO_SPACES
from bbflow.operators.space import parse_space, tracks
from bbflow.operators.space.chaining import Chained
from bbflow.operators.space.regridding import place_space
from bbflow.operators.steps import Steps

DIMS = ("lev", "lat", "lon")
SHAPE = (3, 7, 12)
COORDINATES = {
    "lev": np.array([1000.0, 850.0, 500.0]),
    "lat": np.linspace(-75, 75, 7),
    "lon": np.arange(0, 360, 30.0),
}
RANDOM = np.random.default_rng(11)
FIELDS = {
    "land": (RANDOM.random((7, 12)) > 0.4).astype("f4"),
    "dp": RANDOM.random(3),
    "areacella": RANDOM.random((7, 12)),
    "area4": RANDOM.random((7, 12)).astype("f4"),
}
SPACES = [
    "fldmean",
    "zonmean",
    "mermax",
    "fldint",
    "fldstd",
    "zonvar1",
    "gridboxstd1,5,2",
    {"range": ["lon", "lev"], "mask": "land"},
    {"std": ["lat", "lon"], "weights": "areacella", "mask": "land"},
    {"count": ["lat", "lon"]},
    ["vertmean", "fldmax"],
    ["zonsum", {"cumsum": "lat"}],
    ["zonpctl,30", "mermean"],
    ["zonmean", "fldmean"],
    ["mermax", "fldpctl,40"],
    [{"anomaly": ["lat", "lon"]}, {"box": {"lat": [-30, 60]}}, "fldstd"],
    {"box": {"lat": [-30, 60], "lon": [300, 75]}},
    {"box": {"lon": [300, 75]}, "min": ["lon"]},
    {"points": [[10, 20], [-60, 359], [11, 21], [75, 180]]},
    {"points": [[10, 20], [-60, 359]], "mean": "lev", "weights": "dp"},
    {"mask": "land"},
    {"mask": "land > 0.5", "mean": ["lat", "lon"]},
    {"mean": ["lat", "lon"], "weights": "areacella"},
    {"mean": ["lat", "lon", "lev"]},
    {"levels": [500, 1000]},
    {"isel": {"lon": [5, -1, 0], "lev": 1}},
    {"coarsen": {"lat": 2, "lon": 5}},
    {"coarsen": {"lat": 3, "lon": 4}, "how": "max", "mask": "land"},
    {"coarsen": {"lon": 40}, "how": "sum"},
    ["zonsum", {"levels": [850]}, {"box": {"lat": [0, 50]}}],
    [{"box": {"lon": [200, 100]}}, {"box": {"lon": [0, 90]}}, {"isel": {"lon": [1, 2]}}, "fldmean"],
]
OTHERWISE = ("ml2pl", "ml2plx", "ap2pl", "ap2plx", "intlevel", "vertint")
"""Names that need more than a field, or whole columns in a block."""
NAMES = [
    ",".join((name, *({"sellevel": ("850",)}.get(name, takes))))
    for name, (_, takes, _) in CDO_SPACES.items()
    if name not in OTHERWISE
]


def placed(space):
    return place_space(parse_space(space), DIMS, SHAPE, COORDINATES, FIELDS.__getitem__)


@pytest.mark.parametrize(("first", "second", "same"), [
    ("zonmean", "fldmean", "mermean"), ("mermax", "fldmin", "zonmin"), ("zonstd", "fldpctl,40", "merpctl,40"),
])  # fmt: skip
def test_what_is_reduced_over_one_of_latitude_and_longitude_can_be_over_both(first, second, same):
    values = [np.random.default_rng(2).normal(280, 10, SHAPE).reshape(-1)]
    found = []
    for last in (second, same):
        placement = placed([first, last])
        local = placement.local((0, 0, 0), SHAPE)
        found.append(placement.finish(placement.assemble(1, [(local, local.partial(Steps(values)))])))
    assert found[0].shape == (1, 3)
    np.testing.assert_array_equal(*found)


def steps_of(values, fill):
    marked = None if fill is None else np.array(fill, values.dtype)
    return Steps([np.ascontiguousarray(step).reshape(-1) for step in values], marked)


@st.composite
def decompositions(draw):
    """Boxes that cover the whole: each axis cut, or one of the boxes cut again."""
    cuts = [sorted(draw(st.sets(st.integers(1, size - 1), max_size=2))) for size in SHAPE]
    edges = [[0, *cut, size] for cut, size in zip(cuts, SHAPE, strict=True)]
    spans = [list(pairwise(edge)) for edge in edges]
    boxes = [
        ((a, b, c), (d - a, e - b, f - c)) for a, d in spans[0] for b, e in spans[1] for c, f in spans[2]
    ]  # fmt: skip
    return draw(st.permutations(boxes))


@st.composite
def fields(draw):
    """Two steps of some type, with missing values or none."""
    dtype = draw(st.sampled_from(["f4", "f8", "i2"]))
    values = np.random.default_rng(draw(st.integers(0, 9))).integers(-50, 50, (2, *SHAPE)).astype(dtype)
    fill = draw(st.sampled_from([None, 7, -20]))
    if dtype != "i2" and draw(st.booleans()):
        values[:, draw(st.integers(0, 2)), draw(st.integers(0, 6))] = np.nan
    return values, fill


@pytest.mark.parametrize("space", SPACES, ids=str)
@settings(max_examples=8, deadline=None)
@given(boxes=decompositions(), field=fields(), tile_points=st.sampled_from([1, 5, 13, 1 << 16]))
def test_the_parts_of_any_decomposition_make_the_whole(space, boxes, field, tile_points):
    (values, fill), placement = field, placed(space)
    whole = placement.local((0, 0, 0), SHAPE)
    if not isinstance(placement, Chained):
        assert (whole.complete, whole.start, whole.count) == (True, (0,) * len(placement.dims), placement.shape)
    both = whole.partial(steps_of(values, fill))
    alone = [whole.partial(steps_of(values[at : at + 1], fill)) for at in range(2)]
    np.testing.assert_array_equal(both, np.concatenate(alone), "a step doesn't depend on those beside it")
    expected = placement.finish(both)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracks, "TILE_POINTS", tile_points)
        found = placement.finish(placement.assemble(2, parts(placement, boxes, values, fill)))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_cdo_is_the_same_of_any_ranks_where_values_are_missing(name):
    random, placement = np.random.default_rng(5), placed(name)
    values = random.normal(280, 10, (2, *SHAPE))
    values[random.random(values.shape) < 0.2] = np.nan
    values[:, 0, 2] = values[:, :, 3:5, 4] = np.nan
    whole = placement.finish(placement.local((0, 0, 0), SHAPE).partial(steps_of(values, None)))
    for axis, cuts in ((1, (0, 3, 7)), (2, (0, 1, 8, 12))):
        boxes = [
            (tuple(begin if own == axis else 0 for own in range(3)),
             tuple(end - begin if own == axis else size for own, size in enumerate(SHAPE)))
            for begin, end in pairwise(cuts)
        ]  # fmt: skip
        found = placement.finish(placement.assemble(2, parts(placement, boxes, values, None)))
        np.testing.assert_allclose(found, whole, rtol=1e-12, atol=1e-12)
        assert np.isfinite(found).any()


def parts(placement, boxes, values, fill):
    """Partial results of the blocks; those of complete regions are checked against their values."""
    for start, count in boxes:
        local = placement.local(start, count)
        if local is None:
            continue
        local = pickle.loads(pickle.dumps(local))
        block = values[(slice(None), *(slice(a, a + n) for a, n in zip(start, count, strict=True)))]
        steps = steps_of(block, fill)
        partial = local.partial(steps)
        components = getattr(placement, "components", partial.shape[1])
        assert partial.shape == (2, components, np.prod(local.count, dtype=int))
        if local.complete:
            own = local.values(steps)
            assert {row.dtype for row in own} == {placement.dtype(values.dtype)}
            np.testing.assert_allclose(np.stack(own), placement.finish(partial), rtol=1e-6)
        yield local, partial


def test_a_zone_that_a_block_has_in_full_is_complete_and_a_part_of_it_is_not():
    placement = placed("zonmean")
    assert placement.local((0, 2, 0), (3, 2, 12)).complete
    assert not placement.local((0, 2, 0), (3, 2, 11)).complete


def test_values_of_an_incomplete_region_are_refused():
    with pytest.raises(ValueError, match="use `partial`"):
        placed("fldmean").local((0, 0, 0), (3, 7, 6)).values(Steps([np.zeros(126)]))


def test_blocks_beside_a_box_or_under_a_mask_are_not_needed():
    assert placed({"box": {"lat": [-30, 30]}}).local((0, 6, 0), (3, 1, 12)) is None
    dry = place_space(parse_space({"mask": "land"}), DIMS, SHAPE, COORDINATES, lambda _: np.eye(7, 12))
    assert dry.local((0, 0, 0), (3, 2, 2)) is not None
    assert dry.local((0, 4, 0), (3, 2, 2)) is None


def test_a_task_carries_only_its_blocks_part_of_a_mask():
    placement = place_space(parse_space({"mask": "land", "mean": ["lat", "lon"]}),
        ("lat", "lon"), (700, 1200), {"lat": np.linspace(-89, 89, 700), "lon": np.arange(1200) * 0.3},
        lambda _: np.ones((700, 1200)),
    )  # fmt: skip
    block = placement.local((0, 0), (10, 1200))
    assert len(pickle.dumps(block)) < 10 * 1200 + 16 * 1200  # the mask's bytes, and weights of one dimension


def as_xarray(values):
    return xr.DataArray(values.astype("f8"), dims=("time", *DIMS), coords=COORDINATES)


def computed(space, values):
    placement = placed(space)
    local = placement.local((0, 0, 0), SHAPE)
    return np.stack(local.values(steps_of(values, None))).reshape(len(values), *placement.shape)


@pytest.fixture
def values():
    field = RANDOM.normal(280, 10, (2, *SHAPE)).astype("f4")
    field[RANDOM.random(field.shape) < 0.2] = np.nan
    return field


@pytest.mark.parametrize(("space", "weights"), [
    ({"mean": ["lat", "lon"], "weights": "areacella"}, xr.DataArray(FIELDS["areacella"], dims=("lat", "lon"))),
    ({"mean": ["lat", "lon"], "weights": "area4"}, xr.DataArray(FIELDS["area4"].astype("f8"), dims=("lat", "lon"))),
    ({"mean": ["lev"], "weights": "dp"}, xr.DataArray(FIELDS["dp"], dims="lev")),
    ({"mean": ["lat", "lon"], "mask": "land"}, None),
])  # fmt: skip
def test_weighted_means_are_those_of_xarray(values, space, weights):
    data, dims = as_xarray(values), space["mean"]
    if weights is None:
        data = data.where(xr.DataArray(FIELDS["land"], dims=("lat", "lon")) != 0)
        edges = np.deg2rad([-90, -62.5, -37.5, -12.5, 12.5, 37.5, 62.5, 90])
        edges[[0, -1]] = np.deg2rad([-87.5, 87.5])
        weights = xr.DataArray(np.diff(np.sin(edges)), dims="lat")
    np.testing.assert_allclose(computed(space, values), data.weighted(weights).mean(dims).values, rtol=1e-12)


@pytest.mark.parametrize("how", ["mean", "sum", "min", "max"])
def test_coarsening_without_weights_is_that_of_xarray(values, how):
    ours = computed(
        {"coarsen": {"lat": 2, "lon": 5}, "how": how, "weights": "none" if how in ("mean", "sum") else None}, values
    )
    coarse = as_xarray(values).coarsen(lat=2, lon=5, boundary="pad")
    theirs = getattr(coarse, how)().where(coarse.count() > 0)
    np.testing.assert_allclose(ours, theirs.values, rtol=1e-12)


def test_infinite_values_are_valid_and_single_values_have_no_dimensions(values):
    values[0, 0, 3, 4] = np.inf
    assert np.isinf(computed("fldmean", values)[0, 0])
    assert np.isfinite(computed("fldmean", values)[0, 1:]).all()
    placement = place_space(parse_space({"mask": "on"}), (), (), {}, lambda _: np.array(1.0))
    (result,) = placement.local((), ()).values(Steps([np.array([3.5])]))
    assert (placement.shape, result.tolist()) == ((), [3.5])

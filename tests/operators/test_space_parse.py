"""What the configuration may say of space, and what is refused."""

import pickle

import numpy as np
import pytest

from bbflow.errors import ConfigError
from bbflow.operators.space import parse_space
from bbflow.operators.space.regridding import place_space
from bbflow.operators.steps import Steps

LATS, LONS = np.linspace(-75, 75, 7), np.arange(0, 360, 30.0)


def resolved(space, dims=("lat", "lon"), coordinates=None, attributes=None, variables=None):
    known = {"lat": LATS, "lon": LONS} if coordinates is None else coordinates
    shape = tuple(len(known[name]) if name in known else 2 for name in dims)
    fields = variables or {}

    def variable(name):
        if name not in fields:
            raise ConfigError(f"the stream has no variable {name!r}")
        return fields[name]

    return place_space(parse_space(space), dims, shape, known, variable, attributes)


@pytest.mark.parametrize(("name", "same"), [
    ("fldmean", {"mean": ["lat", "lon"]}),
    ("zonmax", {"max": "lon"}),
    ("mermin", {"min": ["lat"]}),
    ("fldint", {"sum": ["lat", "lon"], "weights": "area"}),
    ("sellonlatbox,350,20,-30,30", {"box": {"lat": [-30, 30], "lon": [350, 20]}}),
    ("sellevel,85000,500e2", {"levels": [85000, 50000]}),
    ("gridboxmean,3,2", {"coarsen": {"lat": 2, "lon": 3}}),
    (["zonmean", {"levels": 850}], [{"mean": ["lon"]}, {"select": {"level": [850]}}]),
])  # fmt: skip
def test_the_names_of_cdo_say_what_the_maps_say(name, same):
    assert parse_space(name) == parse_space(same)
    assert hash(parse_space(name)) == hash(parse_space(same))
    assert pickle.loads(pickle.dumps(parse_space(name))) == parse_space(name)


def test_selections_of_a_map_come_before_its_reduction_wherever_they_stand():
    assert parse_space({"mean": "lon", "box": {"lat": [0, 9]}}) == parse_space([{"box": {"lat": [0, 9]}}, "zonmean"])


@pytest.mark.parametrize(("item", "says"), [
    ("fldmeen", "did you mean 'fldmean'"),
    ({"bocks": {}}, "did you mean 'box'"),
    ("sellonlatbox,1,2,3", "write it like sellonlatbox,350,20,-30,30"),
    ("gridboxmean,0,2", "not a whole number from 1"),
    ({"box": {"lat": [1, 2, 3]}}, "box: .* must be two numbers"),
    ({"box": {"lat": ["a", 2]}}, "'a' is not a finite number"),
    ({"box": [1, 2]}, "must be a map"),
    ({"points": [[100, 3]]}, "beyond a pole"),
    ({"mask": "land >"}, "is not understood"),
    ({"isel": {"lon": [0.5]}}, "not a whole number"),
    ({"levels": []}, "isn't empty"),
    ({"mean": []}, "name the dimensions"),
    ({"mean": None}, "name the dimensions"),
    ({"mean": "lat", "sum": "lon"}, "a map says one of them"),
    ({"percentile": {"q": 90}}, "write it like percentile"),
    ({"cumsum": ["lat", "lon"]}, "name one dimension"),
    ("fldpctl,101", "not between 0 and 100"),
    ({"median": "lat", "weights": "area"}, "'weights' has no effect here"),
    ({"max": "lat", "weights": "area"}, "the max has none"),
    ({"box": {"lat": [0, 1]}, "weights": "area"}, "'weights' has no effect here"),
    ({"mean": "lat", "how": "max"}, "'how' has no effect here"),
    ({"coarsen": {"lat": 2}, "how": "maxi"}, "did you mean 'max'"),
    ([], "must say something"),
    ({}, "is not a space"),
    (3, "is not a space"),
])  # fmt: skip
def test_what_is_wrong_is_refused_with_what_would_be_right(item, says):
    with pytest.raises(ConfigError, match=says):
        parse_space(item)


@pytest.mark.parametrize(("space", "says"), [
    ({"mean": "lev"}, "no dimension 'lev'"),
    ({"mean": "latt"}, "did you mean 'lat'"),
    ({"box": {"lat": [80, 90]}}, "has no point: 'lat' goes from -75 to 75"),
    ({"select": {"lat": [51]}}, "'lat' has no 51; the nearest of its 7 values is 50"),
    ({"select": {"lat": [50, 50.0]}}, "twice"),
    ({"isel": {"lon": [12]}}, "no index 12; it has 12 points"),
    ({"isel": {"lon": [1, -11]}}, "twice"),
    (["zonmean", {"box": {"lon": [0, 20]}}], "'lon' is reduced already"),
    (["zonmean", {"mask": "land"}], "comes after the mean"),
    ([{"points": [[0, 0]]}, {"box": {"lat": [0, 9]}}], "has become a list of points"),
    ({"mean": ["lat", "latitude"]}, "given twice"),
    ({"sum": ["lon"], "weights": "area"}, "has no area"),
    ({"mask": "land"}, "no variable 'land'"),
    ({"mask": "odd"}, "'odd' has the shape"),
    ({"mean": ["lat", "lon"], "weights": "negative"}, "must be finite and not negative"),
])  # fmt: skip
def test_what_the_grid_lacks_is_refused(space, says):
    with pytest.raises(ConfigError, match=says):
        resolved(space, variables={"odd": np.ones(5), "negative": -np.ones((7, 12))})


def test_points_outside_of_a_regional_grid_are_refused():
    region = {"lat": np.arange(40, 60.0), "lon": np.arange(5, 16.0)}
    assert resolved({"points": [[52.5, 13.4], [59.9, 15.9]]}, coordinates=region).shape == (2,)
    with pytest.raises(ConfigError, match=r"point \(-33.9, 151.2\) is outside of the grid \(latitudes 40 to 59"):
        resolved({"points": [[-33.9, 151.2]]}, coordinates=region)


def test_a_point_near_a_pole_is_compared_on_the_globe_not_on_the_map():
    grid = {"lat": np.array([80.0, 88.0]), "lon": np.arange(0, 360, 60.0)}
    nearest = resolved({"points": [[83.8, 30.0]]}, coordinates=grid)
    assert nearest.coordinates["lat"].tolist() == [88.0]


def test_dimensions_are_known_by_their_attributes_or_their_names():
    attributes = {"y": {"units": "degrees_north"}, "x": {"standard_name": "longitude"}, "p": {"positive": "down"}}
    named = {"y": LATS, "x": LONS, "p": np.array([1000.0, 500.0])}
    placement = resolved([{"levels": [500]}, "fldmean"], ("p", "y", "x"), named, attributes)
    assert (placement.dims, placement.shape, placement.cell_methods) == (("p",), (1,), "area: mean")
    common = {"latitude": LATS, "longitude": LONS}
    assert resolved({"mean": "lon"}, ("latitude", "longitude"), common).cell_methods == "longitude: mean"


@pytest.mark.parametrize(
    ("mask", "reduction", "expected"),
    [
        ("land > 0.5", "fldmean", "area: mean where land"),
        ("land", "fldcount", "area: sum where land (of 1 for each valid value)"),
        ("land >= 50", {"max": ["lon"]}, "longitude: maximum where land"),
        ("land < 0.5", "fldmean", "area: mean"),
        ("land > 0.5 and land < 20", "fldmean", "area: mean"),
        ("land > 500", "fldmean", "area: mean"),
        ("ice * land > 0.5", "fldmean", "area: mean"),
        ("ice > 0.5", "fldmean", "area: mean where sea_ice"),
        ("height > 0.5", "fldmean", "area: mean"),
        ("land > 0.5", "vertmax", "lev: maximum"),
    ],
)
def test_a_mask_of_a_kind_of_area_is_a_part_of_the_cell_method(mask, reduction, expected):
    dims, grid = ("lev", "lat", "lon"), {"lat": LATS, "lon": LONS, "lev": np.array([2.0, 1.0])}
    standard = {"land": "land_area_fraction", "ice": "sea_ice_binary_mask", "height": "surface_altitude"}
    attributes = {name: {"standard_name": own} for name, own in standard.items()}
    fields = {name: np.broadcast_to(np.linspace(0, 100, 7)[:, None], (7, 12)) for name in standard}
    space = [{"mask": mask}, reduction]
    placement = resolved(space, dims, grid, attributes, fields)
    assert placement.cell_methods == expected


def test_a_grid_of_curved_coordinates_is_told_what_it_can_use():
    with pytest.raises(ConfigError, match=r"'lat' has the shape .* mean: .* weights: areacella; a box"):
        resolved("fldmean", ("j", "i"), {"lat": np.zeros((2, 2)), "lon": np.zeros((2, 2))})


def test_a_dimension_without_a_coordinate_can_be_indexed_only():
    assert resolved({"isel": {"j": 1}}, ("j", "i"), {}).shape == (1, 2)
    with pytest.raises(ConfigError, match="the stream must have a variable of that name"):
        resolved({"box": {"j": [0, 1]}}, ("j", "i"), {})


def test_a_box_across_the_date_line_has_longitudes_that_grow():
    assert resolved({"box": {"lon": [330, 60]}}).coordinates["lon"].tolist() == [330, 360, 390, 420]
    assert resolved({"box": {"lon": [-30, 60]}}).coordinates["lon"].tolist() == [-30, 0, 30, 60]
    assert "lon" not in resolved({"box": {"lon": [0, 360]}}).coordinates
    assert resolved({"box": {"lon": [100, 460]}}).shape == (7, 12)


def test_bounds_are_used_for_areas_and_cut_and_joined_with_their_cells():
    bounds = np.array([[-90, 0], [0, 10], [10, 90.0]])
    own = {"lat": np.array([-45.0, 5, 50]), "lon": LONS, "lat_bnds": bounds}
    placement = resolved({"coarsen": {"lat": 2, "lon": 12}}, coordinates=own)
    assert placement.coordinates["lat_bnds"].tolist() == [[-90, 10], [10, 90]]
    assert placement.coordinate_dims["lat_bnds"] == ("lat", "bnds")
    weights = resolved("mermean", coordinates=own).tracks[0].weights
    np.testing.assert_allclose(weights / weights.sum(), np.diff(np.sin(np.deg2rad([-90, 0, 10, 90]))) / 2)
    cut = resolved({"select": {"lat": [50]}}, coordinates=own)
    assert cut.coordinates["lat_bnds"].tolist() == [[10, 90]]


def test_an_area_integral_of_one_is_the_earths_surface():
    placement = resolved("fldint", coordinates={"lat": np.linspace(-89, 89, 90), "lon": LONS})
    (area,) = placement.local((0, 0), (90, 12)).values(Steps([np.ones(90 * 12)]))
    np.testing.assert_allclose(area, 4 * np.pi * 6371000.0**2, rtol=1e-12)
    assert placement.own_units == "{units} m2"


def test_a_single_latitude_has_a_mean_but_no_area_without_bounds():
    grid = {"lat": np.array([5.0]), "lon": LONS}
    (mean,) = resolved("fldmean", coordinates=grid).local((0, 0), (1, 12)).values(Steps([np.arange(12.0)]))
    np.testing.assert_allclose(mean, [5.5], rtol=1e-12)
    with pytest.raises(ConfigError, match="area of a single 'lat' is not known"):
        resolved("fldint", coordinates=grid)


def test_variables_that_a_space_needs_are_named():
    space = parse_space([{"mask": "land > 0.5 and `sea.ice` < 0.1"}, {"mean": ["lat", "lon"], "weights": "areacella"}])
    assert space.variables == ("land", "sea.ice", "areacella")

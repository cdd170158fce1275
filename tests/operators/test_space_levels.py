"""What is made of columns: other levels, means, integrals and derivatives, against NumPy and CDO."""

import shutil
import subprocess
from itertools import pairwise

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from bbflow.errors import ConfigError
from bbflow.operators.space import parse_space
from bbflow.operators.space.moves import NAMES as SPACES
from bbflow.operators.space.regridding import place_space
from bbflow.operators.space.vertical import reference_of
from bbflow.operators.steps import Steps
from bbflow.reading.yaml_files import parse_yaml

HYBI = np.array([0, 0, 0.02, 0.1, 0.25, 0.5, 0.75, 0.92, 1.0])
HYAI = np.array([0, 3000.0, 6000, 9000, 9500, 7000, 3000, 500, 0])
HYAM, HYBM = (HYAI[1:] + HYAI[:-1]) / 2, (HYBI[1:] + HYBI[:-1]) / 2
LEVELS, LATS, LONS = 8, 5, 70
DIMS = ("lev", "lat", "lon")
SHAPE = (LEVELS, LATS, LONS)
PRESSURE = {"a": "hyam", "b": "hybm", "surface": "ps"}
LAYERS = {"a": "hyai", "b": "hybi", "surface": "ps"}
STATIC = {"hyai": HYAI, "hybi": HYBI, "hyam": HYAM, "hybm": HYBM, "P0": np.array(2.0)}
TARGETS = [500.0, 2000, 6000, 20000, 50000, 70000, 85000, 95000, 100000, 110000]
COORDINATES = {"lev": np.arange(1.0, 9), "lat": np.linspace(-60, 60, LATS), "lon": np.arange(LONS) * 360 / LONS}
KINDS = {"lev": {"positive": "down"}, "ps": {"units": "Pa"}, "p": {"units": "hPa"}, "z": {"units": "m"}}
cdo = pytest.mark.skipif(not shutil.which("cdo"), reason="cdo is not installed")


def made(seed=1, dtype="f8", shape=SHAPE):
    """A field with some values missing, and the pressure at the ground."""
    random = np.random.default_rng(seed)
    field = random.normal(0, 1, shape).astype(dtype)
    return field, random.uniform(60000, 104000, shape[1:])


def placed(levels, **rest):
    return place_space(parse_space({"levels": levels, **rest}), DIMS, SHAPE, COORDINATES, STATIC.__getitem__, KINDS)


def of_block(placement, field, others, start=(0, 0, 0), fill=None):
    """What one block of the field contributes."""
    local = placement.local(start, field.shape)
    steps = {name: Steps([np.ascontiguousarray(values).reshape(-1)]) for name, values in others.items()}
    column = local.column.apply(Steps([np.ascontiguousarray(field).reshape(-1)], fill), steps)
    return local, column


def of_whole(levels, field, others, **rest):
    placement = placed(levels, **rest)
    local, column = of_block(placement, field, others)
    (values,) = local.values(column)
    return values.reshape(placement.shape)


def pressures(ps, a=HYAM, b=HYBM):
    return a[:, np.newaxis, np.newaxis] + b[:, np.newaxis, np.newaxis] * ps


def interpolated(field, coordinate, targets, function=np.asarray, ground=None):
    """NumPy's interpolation column by column; coordinates ascend towards the ground."""
    result = np.full((len(targets), *field.shape[1:]), np.nan)
    for at in np.ndindex(field.shape[1:]):
        x, y = coordinate[(slice(None), *at)], field[(slice(None), *at)]
        order = np.argsort(x)
        left = right = np.nan
        own = np.interp(function(targets), function(x[order]), y[order], left, right)
        if ground is not None:
            lowest = y[order][-1]
            own = np.where((targets > x.max()) & (targets <= ground[at]), lowest, own)
        result[(slice(None), *at)] = own
    return result


@st.composite
def blocks(draw):
    """Blocks with whole columns that cover all of them, in any order."""
    spans = []
    for size in SHAPE[1:]:
        cuts = sorted(draw(st.sets(st.integers(1, size - 1), max_size=2)))
        spans.append(list(pairwise([0, *cuts, size])))
    boxes = [((0, a, c), (LEVELS, b - a, d - c)) for a, b in spans[0] for c, d in spans[1]]
    return draw(st.permutations(boxes))


@settings(deadline=None, max_examples=30)
@given(
    blocks(),
    st.integers(0, 9),
    st.sampled_from(["f4", "f8"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["hybrid", "field"]),
)
def test_levels_are_those_of_numpy_however_the_columns_are_cut_into_blocks(boxes, seed, dtype, is_log, upside, kind):
    field, ps = made(seed, dtype)
    if seed % 2:
        field[2, :, 3:9] = 7  # the fill value
    whole = pressures(ps)
    coefficients = STATIC
    if upside:
        field, whole = field[::-1].copy(), whole[::-1].copy()
        coefficients = STATIC | {"hyam": HYAM[::-1], "hybm": HYBM[::-1]}
    pressure = PRESSURE if kind == "hybrid" else {"field": "p", "surface": "ps"}
    space = parse_space({"levels": {"to": TARGETS, "pressure": pressure, "log": is_log}})
    placement = place_space(space, DIMS, SHAPE, COORDINATES, coefficients.__getitem__, KINDS)
    result = np.full(placement.shape, -99.0)
    for start, count in boxes:
        at = tuple(slice(first, first + size) for first, size in zip(start, count, strict=True))
        others = {"ps": ps[at[1:]], "p": whole[at]}
        local, column = of_block(placement, field[at], others, start, np.asarray(7, dtype))
        (values,) = local.values(column)
        assert values.dtype == np.dtype(dtype)
        region = tuple(slice(first, first + size) for first, size in zip(local.start, local.count, strict=True))
        result[region] = values.reshape(local.count)
    clean = np.where(field == 7, np.nan, field)
    expected = interpolated(clean, whole, np.array(TARGETS), np.log if is_log else np.asarray, ps)
    np.testing.assert_allclose(result, expected.astype(dtype), rtol=1e-12 if dtype == "f8" else 1e-6, atol=1e-6)


@settings(deadline=None, max_examples=20)
@given(blocks(), st.sampled_from(["mean", "integral"]), st.booleans())
def test_layers_weigh_by_their_thickness_and_columns_can_be_averaged_over_an_area(boxes, make, is_missing):
    field, ps = made()
    if is_missing:
        field[3, 1:3] = np.nan
        field[:, 4, 5] = np.nan
    placement = placed({"make": make, "pressure": LAYERS}, mean=["lat", "lon"], weights="none")
    assert placement.dims == ()
    parts = []
    for start, count in boxes:
        at = tuple(slice(first, first + size) for first, size in zip(start, count, strict=True))
        local, column = of_block(placement, field[at], {"ps": ps[at[1:]]}, start)
        parts.append((local, local.partial(column)))
    result = float(placement.finish(placement.assemble(1, parts))[0, 0])
    thick = np.diff(pressures(ps, HYAI, HYBI), axis=0)
    valid = ~np.isnan(field)
    sums = np.where(valid, field * thick, 0).sum(axis=0)
    with np.errstate(invalid="ignore"):
        columns = sums / np.where(valid, thick, 0).sum(axis=0) if make == "mean" else sums
    columns[~valid.any(axis=0)] = np.nan
    assert result == pytest.approx(np.nanmean(columns), rel=1e-12)


def test_derivatives_are_those_of_numpy():
    field, ps = made()
    result = of_whole({"make": "derivative", "pressure": PRESSURE}, field, {"ps": ps})
    whole = pressures(ps)
    expected = np.empty_like(field)
    for at in np.ndindex(field.shape[1:]):
        column = (slice(None), *at)
        expected[column] = np.gradient(field[column], whole[column])
    np.testing.assert_allclose(result, expected, rtol=1e-10)
    along = of_whole({"make": "derivative"}, field, {})
    np.testing.assert_allclose(along, np.gradient(field, COORDINATES["lev"], axis=0), rtol=1e-12)


def test_heights_grow_away_from_the_ground():
    field, _ = made()
    heights = np.cumsum(np.random.default_rng(2).uniform(50, 500, SHAPE), axis=0)[::-1]
    targets = np.array([100.0, 800, 1500, 2500, 20000])
    result = of_whole({"to": list(targets), "height": "z"}, field, {"z": heights})
    np.testing.assert_allclose(result, interpolated(field, heights, targets), rtol=1e-12)
    lowest = of_whole({"to": [1.0], "height": "z", "below": "lowest"}, field, {"z": heights})
    np.testing.assert_array_equal(lowest[0], field[-1])
    placement = placed({"to": list(targets), "height": "z"})
    assert placement.dims == ("height", "lat", "lon")
    assert placement.coordinate_attributes["height"]["positive"] == "up"
    assert placement.coordinate_attributes["height"]["units"] == "m"


def test_fixed_heights_are_those_of_the_first_step():
    field, _ = made()
    heights = np.cumsum(np.random.default_rng(2).uniform(50, 500, SHAPE), axis=0)
    space = parse_space({"levels": {"to": [800.0], "height": {"field": "z", "fixed": True}}})
    assert space.of_each_step == ()
    assert space.variables == ("z",)
    placement = place_space(space, DIMS, SHAPE, COORDINATES, {"z": heights}.__getitem__, KINDS)
    at = (slice(None), slice(2, 5), slice(3, 40))
    local, column = of_block(placement, field[at], {}, (0, 2, 3))
    (values,) = local.values(column)
    expected = interpolated(field[at], heights[at], np.array([800.0]))
    np.testing.assert_allclose(values.reshape(local.count), expected, rtol=1e-12)


def test_selections_and_means_follow_on_the_new_levels():
    field, ps = made()
    to = {"to": [50000.0, 20000.0], "pressure": PRESSURE}
    levels = interpolated(field, pressures(ps), np.array([50000.0, 20000.0]))
    box = of_whole(to, field, {"ps": ps}, box={"lat": [-30, 60]}, select={"plev": [20000]})
    np.testing.assert_allclose(box, levels[1:, 1:], rtol=1e-12)
    zonal = of_whole(to, field, {"ps": ps}, mean=["lon"])
    np.testing.assert_allclose(zonal, levels.mean(axis=2), rtol=1e-12)


def test_columns_whose_coordinates_turn_round_or_lack_a_value_are_missing():
    field, ps = made()
    whole = pressures(ps)
    whole[3, 0, 0], whole[2, 0, 1], whole[:, 0, 2] = whole[1, 0, 0], np.nan, np.nan
    for target in (500.0, 50000.0, 110000.0):
        levels = {"to": [target], "pressure": "p", "above": "linear", "below": "lowest"}
        result = of_whole(levels, field, {"p": whole})
        assert np.isnan(result[0, 0, :3]).all()
        assert not np.isnan(result[0].ravel()[3:]).any()


def test_a_reference_multiplies_the_first_coefficient():
    field, ps = made()
    halves = {**PRESSURE, "reference": "P0"}
    placement = place_space(
        parse_space({"levels": {"to": [50000.0], "pressure": halves}}),
        DIMS,
        SHAPE,
        COORDINATES,
        (STATIC | {"hyam": HYAM / 2}).__getitem__,
        KINDS,
    )
    local, column = of_block(placement, field, {"ps": ps})
    expected = interpolated(field, pressures(ps), np.array([50000.0]))
    np.testing.assert_allclose(local.values(column)[0].reshape(placement.shape), expected, rtol=1e-12)


def test_units_and_cell_methods_tell_what_was_made():
    integral = placed({"make": "integral", "pressure": LAYERS})
    assert integral.own_units == "{units} Pa"
    assert integral.cell_methods == "lev: sum (weighted by thickness)"
    assert integral.dims == ("lat", "lon")
    assert placed({"make": "derivative", "pressure": PRESSURE}).own_units == "{units} Pa-1"
    mean = placed({"make": "mean", "pressure": LAYERS}, mean=["lat", "lon"])
    assert mean.cell_methods == "lev: mean (weighted by thickness) area: mean"
    assert mean.own_units == "{units}"


def test_a_cut_column_is_refused_by_its_dimension():
    with pytest.raises(ConfigError, match=r"0 to 3 of the 8 levels of 'lev'.*other dimensions"):
        placed({"to": [50000], "pressure": PRESSURE}).local((0, 0, 0), (4, LATS, LONS))


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ({"to": [50000], "make": "mean"}, "either"),
        ({"pressure": "p"}, "either"),
        ({"to": [50000], "pressure": {"a": "hyam"}}, "a, b and surface"),
        ({"to": [50000], "pressure": {"a": "hyam", "b": "hybm"}}, "a, b and surface"),
        ({"to": [50000], "pressure": "p", "height": "z"}, "one coordinate"),
        ({"to": [5, 5], "height": "z"}, "each once"),
        ({"to": [-5], "pressure": "p"}, "no pressure"),
        ({"to": [5], "height": "z", "log": True}, "logarithm"),
        ({"make": "mean", "pressure": "p"}, "interfaces"),
        ({"make": "mean"}, "vertmean"),
        ({"make": "derivative", "below": "lowest"}, "belongs to 'to'"),
        ({"to": [5], "pressur": "p"}, "'pressure'"),
        ({"to": [5], "pressure": {"field": "p", "reference": 2}}, "reference"),
    ],
)
def test_what_is_wrong_in_the_configuration_is_told(levels, message):
    with pytest.raises(ConfigError, match=message):
        parse_space({"levels": levels})


def test_levels_of_columns_come_first():
    with pytest.raises(ConfigError, match="come first"):
        parse_space([{"box": {"lat": [0, 1]}}, {"levels": {"to": [5], "height": "z"}}])


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ({"to": [0.5]}, "0.5 is beyond 'lev', which goes from 1 to 8"),
        ({"to": [9]}, "9 is beyond"),
        ({"to": [5], "pressure": {"a": "hyai", "b": "hybi", "surface": "ps"}}, "8 coefficients for 'lev'"),
        ({"make": "mean", "pressure": PRESSURE}, "9 coefficients"),
        ({"to": [5], "pressure": {**PRESSURE, "reference": "hyam"}}, "one number"),
    ],
)
def test_what_does_not_fit_the_grid_is_told(levels, message):
    with pytest.raises(ConfigError, match=message):
        placed(levels)


HYBRID = {
    "standard_name": "hybrid_sigma_pressure",
    "long_name": "hybrid level at layer midpoints",
    "positive": "down",
    "units": "level",
    "formula": "hyam hybm (mlev=hyam+hybm*aps)",
    "formula_terms": "ap: hyam b: hybm ps: aps",
    "borders": "ilev",
}
"""What ECHAM says of its levels."""
GENERAL = {"standard_name": "height", "long_name": "generalized_height", "units": "", "axis": "Z", "positive": "down"}
"""What ICON says of its own."""


def write(path, field, ps, kind, **rest):
    """Write a field on model levels with the pressure at the ground."""
    coefficients = {name: (f"nhy{name[-1]}", STATIC[name]) for name in ("hyai", "hybi", "hyam", "hybm")}
    data = xr.Dataset(
        {
            "q": (("time", *DIMS), field[np.newaxis], {"units": "1"}),
            "aps": (("time", "lat", "lon"), ps[np.newaxis], {"units": "Pa", "standard_name": "surface_air_pressure"}),
            **(coefficients if kind is HYBRID else {}),
            **rest,
        },
        {"time": ("time", [0.0], {"units": "days since 2000-01-01"}), **COORDINATES},
    )
    data["lat"].attrs["units"], data["lon"].attrs["units"] = "degrees_north", "degrees_east"
    data["lev"].attrs.update(kind)
    data.to_netcdf(path, engine="scipy", encoding={name: {"_FillValue": None} for name in data.variables})


def of_cdo(path, *operators):
    result = path.with_name("result.nc")
    chain = [f"-{operator}" for operator in operators]
    subprocess.run(["cdo", "-s", "-O", "-b", "F64", *chain, path, result], check=True, capture_output=True)
    with xr.open_dataset(result, engine="scipy") as data:
        return data["q"].load().isel(time=0).values


@cdo
@pytest.mark.parametrize(
    ("operator", "said"), [("ml2pl", {"above": "linear"}), ("ml2plx", {"above": "linear", "below": "lowest"})]
)
def test_model_levels_become_pressure_levels_as_in_cdo(tmp_path, operator, said):
    field, ps = made(4)
    write(tmp_path / "model.nc", field, ps, HYBRID)
    ours = of_whole({"to": TARGETS, "pressure": PRESSURE, **said}, field, {"ps": ps})
    theirs = of_cdo(tmp_path / "model.nc", f"{operator},{','.join(map(str, TARGETS))}")
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


@cdo
@pytest.mark.parametrize(
    ("operator", "said"), [("ap2pl", {"above": "linear"}), ("ap2plx", {"above": "linear", "below": "lowest"})]
)
def test_levels_with_a_pressure_of_their_own_become_pressure_levels_as_in_cdo(tmp_path, operator, said):
    field, ps = made(6)
    whole = pressures(ps)
    pressure = ("time", *DIMS), whole[np.newaxis], {"units": "Pa", "standard_name": "air_pressure"}
    write(tmp_path / "model.nc", field, ps, GENERAL, air=pressure)
    ours = of_whole({"to": TARGETS, "pressure": {"field": "p", "surface": "ps"}, **said}, field, {"p": whole, "ps": ps})
    theirs = of_cdo(tmp_path / "model.nc", f"{operator},{','.join(map(str, TARGETS))}")
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


@cdo
@pytest.mark.parametrize("operator", ["vertmean", "vertint"])
def test_vertical_means_weigh_by_the_bounds_of_levels_as_in_cdo(tmp_path, operator):
    field, _ = made(5)
    field[2, 1] = np.nan
    levels, bounds = np.array([5.0, 20, 50, 100, 200, 400, 800, 1500]), np.empty((LEVELS, 2))
    bounds[:, 0], bounds[:, 1] = [0, 10, 30, 70, 150, 300, 600, 1200], [10, 30, 70, 150, 300, 600, 1200, 2000]
    coordinates = {**COORDINATES, "lev": levels, "lev_bnds": bounds}
    kinds = {"lev": {"axis": "Z", "units": "m", "bounds": "lev_bnds"}}
    placement = place_space(parse_space(operator), DIMS, SHAPE, coordinates, {}.__getitem__, kinds)
    assert placement.own_units == ("{units}" if operator == "vertmean" else "{units} m")
    (ours,) = placement.local((0, 0, 0), SHAPE).values(Steps([field.reshape(-1)]))
    data = xr.Dataset(
        {"q": (("time", *DIMS), field[np.newaxis], {"units": "1"}), "lev_bnds": (("lev", "bnds"), bounds)},
        {"time": ("time", [0.0], {"units": "days since 2000-01-01"}), **COORDINATES, "lev": levels},
    )
    data["lev"].attrs.update(kinds["lev"], positive="down", standard_name="depth")
    data["lat"].attrs["units"], data["lon"].attrs["units"] = "degrees_north", "degrees_east"
    data.to_netcdf(
        tmp_path / "sea.nc", engine="scipy", encoding={"q": {"_FillValue": -9e33}, "lev_bnds": {"_FillValue": None}}
    )
    theirs = of_cdo(tmp_path / "sea.nc", operator)
    np.testing.assert_allclose(ours, theirs.reshape(-1), rtol=1e-12)


def test_thickness_needs_bounds():
    with pytest.raises(ConfigError, match="bounds of the levels"):
        place_space(parse_space("vertint"), DIMS, SHAPE, COORDINATES, {}.__getitem__, KINDS)


CAM = {"lev": {**KINDS.get("lev", {}), "formula_terms": "a: hyam b: hybm p0: P0 ps: ps"}, "ps": {"units": "Pa"}}
PLAIN = {"hyam": HYAM / 1e5}


def reference(attributes, said=None, **variables):
    coordinate = parse_space({"levels": {"to": [5], "pressure": {**PRESSURE, **({"reference": said} if said else {})}}})
    found = STATIC | {"P0": np.array([1e5])} | variables
    (levels,) = coordinate.moves
    return reference_of(levels.coordinate, attributes, found.__getitem__, np.asarray(found["hyam"], "f8"))


@pytest.mark.parametrize(
    ("attributes", "said", "variables", "right"),
    [
        (CAM, None, PLAIN, 1e5),  # as CESM and E3SM write it: hyam has no units
        (CAM | {"hyam": {"units": "1"}, "P0": {"units": "Pa"}}, None, PLAIN, 1e5),
        ({"ilev": {"formula_terms": "p0: P0 a: hyam b: hybm ps: PS"}}, None, PLAIN, 1e5),
        (CAM, 1000.0, PLAIN, 1000.0),
        (CAM, "P0", PLAIN, 1e5),
        ({"lev": {"formula_terms": "ap: hyam b: hybm ps: ps"}, "ps": {"units": "Pa"}}, None, {}, 1.0),
        ({"hyam": {"units": "Pa"}, "ps": {"units": "pascal"}}, None, {}, 1.0),
        ({"lev": {"formula": "hyam hybm (mlev=hyam+hybm*aps)"}}, None, {}, 1.0),
        ({}, None, {"hyam": np.zeros_like(HYAM)}, 1.0),
        ({}, 1, PLAIN, 1.0),
    ],
)
def test_the_first_coefficient_is_multiplied_by_what_formula_terms_name(attributes, said, variables, right):
    assert reference(attributes, said, **variables) == right


@pytest.mark.parametrize(
    ("attributes", "said", "variables", "message"),
    [
        ({"ps": {"units": "Pa"}}, None, PLAIN, "hyam is a plain number.*reference: P0"),
        ({"hyam": {"units": "1"}, "ps": {"units": "Pa"}}, None, {}, "hyam is a plain number"),
        ({"hyam": {"units": "hPa"}, "ps": {"units": "Pa"}}, None, {}, "hyam is in 'hPa', but ps in 'Pa'"),
        (CAM | {"P0": {"units": "hPa"}}, None, PLAIN, "P0 is in 'hPa', but ps in 'Pa'"),
        ({"ps": {"units": "days since 2000-01-01"}}, None, {}, "no pressure"),
        ({"ps": {"units": "1"}}, "P0", PLAIN, "no pressure"),
        ({"lev": {"formula_terms": "a: hyam b: other p0: P0 ps: ps"}}, None, PLAIN, "b: other beside hyam, not hybm"),
    ],
)
def test_coefficients_whose_units_do_not_fit_are_refused(attributes, said, variables, message):
    with pytest.raises(ConfigError, match=message):
        reference(attributes, said, **variables)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ml2pl", {"pressure": {"a": "hyam", "b": "hybm", "surface": "ps"}, "above": "linear"}),
        ("ap2plx", {"pressure": {"field": "pfull", "surface": "ps"}, "above": "linear", "below": "lowest"}),
        ("intlevel", {}),
    ],
)
def test_cdos_names_stand_for_their_maps(name, said):
    assert parse_space(f"{name},85000,50000") == parse_space({"levels": {"to": [85000, 50000], **said}})
    assert parse_space(parse_yaml(SPACES[name].as_map)) == parse_space(SPACES[name].example)


@cdo
def test_intlevel_is_that_of_cdo_between_the_levels(tmp_path):
    field, ps = made(3)
    write(tmp_path / "model.nc", field, ps, GENERAL)
    levels = np.sort(COORDINATES["lev"])
    targets = [float(levels[0]), float(levels[:2].mean()), float(levels[-2:].mean())]
    ours = of_whole({"to": targets}, field, {})
    np.testing.assert_allclose(
        ours, of_cdo(tmp_path / "model.nc", f"intlevel,{','.join(map(repr, targets))}"), rtol=1e-12
    )

"""Any attribute that ADIOS2 can hold is held by Zarr as strict JSON, and means what the CF conventions say."""

import json
import math

import adios2
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from bbflow.reading.wire_types import Attribute
from bbflow.stream.attributes import NUMBERS, TEXTS, as_cf, in_json, meant
from bbflow.stream.cf import Encoding, StreamAttributes
from bbflow.zarr_store.growing import GrowingZarr
from testsupport.stores import strict

NUMPY = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]
TEXT = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(["0.5", "-999", "K", "1 2", "true", "NaN"])
NAMES = (
    st.sampled_from(sorted(TEXTS | NUMBERS | {"_ARRAY_DIMENSIONS", "dtype", "_Encoding", "note ", "", "CLASS"})) | TEXT
)


def numbers(kind):
    low, high = (np.iinfo(kind).min, np.iinfo(kind).max) if kind[0] in "iu" else (0, 0)
    return st.integers(int(low), int(high)) if high else st.floats(width=8 * np.dtype(kind).itemsize)


def told(adios_type, values):
    return st.builds(lambda value: (adios_type, value), values | st.lists(values, max_size=3))


COMPLEX = st.tuples(st.floats(), st.floats()).map(list)
VALUES = st.one_of(
    *(told(f"{kind}_t", numbers(kind)) for kind in NUMPY),
    told("string", TEXT),
    told("long double", st.floats()),
    told("double complex", COMPLEX),
    told("float complex", COMPLEX),
)


@given(st.dictionaries(NAMES, VALUES, max_size=4), st.dictionaries(NAMES, VALUES, max_size=4))
def test_whatever_attributes_are_a_store_of_them_is_strict_json_and_opens(tmp_path_factory, of_variable, of_stream):
    own = {f"x/{name}": value for name, value in of_variable.items()} | {f"/{k}": v for k, v in of_stream.items()}
    values = {name: meant(Attribute(name, kind, value)) for name, (kind, value) in own.items()}
    attributes = StreamAttributes(values, variables={"x"}).agreeing({"x": (2, 3)})
    encoding = attributes.encoding("x")
    assert all(isinstance(number, int | float) for number in (*encoding.missing, encoding.scale, encoding.offset))
    path = tmp_path_factory.mktemp("stores") / "s.zarr"
    store = GrowingZarr(path)
    store.create("x", attributes.dimensions("x", (2, 3)), (2, 3), "i2", attributes.of("x"))
    store.commit(**attributes.of_stream)
    for found in (strict((path / "zarr.json").read_text()), strict((path / "x" / "zarr.json").read_text())):
        assert found["zarr_format"] == 3
    with xr.open_zarr(path, decode_times=False, chunks=None) as found:
        assert found.x.shape == (2, 3)
        if math.isfinite(encoding.scale) and math.isfinite(encoding.offset):  # else xarray says that it can't decode
            assert found.x.values.shape == (2, 3)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("K", "K"),
        (["K"], "K"),
        (["a", "b"], ["a", "b"]),
        (np.float32(0.5), 0.5),
        (np.array([2.5]), 2.5),
        (np.array([[1, 2], [3, 4]]), [1, 2, 3, 4]),
        (np.int8(-3), -3),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.array([2**64 - 1, 2**63], "u8"), [2**64 - 1, 2**63]),
        (1 + 2j, "1+2j"),
        (np.array([1 + 2j]), "1+2j"),
        (np.array([1 + 2j, -1j], "c8"), ["1+2j", "-0-1j"]),
        (True, 1),
    ],
)
def test_what_adios2_holds_is_told_as_text_numbers_and_lists(value, said):
    adios = adios2.Adios()  # its attributes live as long as it does
    attribute = adios.declare_io("s").define_attribute("a", value)
    data = attribute.data_string() if attribute.type() == "string" else np.asarray(attribute.data()).tolist()
    items = [[item.real, item.imag] if isinstance(item, complex) else item for item in np.atleast_1d(data).tolist()]
    wire = items[0] if attribute.single_value() else items  # as the engine sends it (FORMAT.md, 'Attribute')
    assert meant(Attribute("a", attribute.type(), wire)) == said


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("units", 1, "1"),
        ("units", 1.0, "1"),
        ("coordinates", ["lat", "lon"], "lat lon"),
        ("history", ["b", "a"], "b\na"),
        ("scale_factor", "0.5", 0.5),
        ("scale_factor", "half", None),
        ("missing_value", "-999", -999),
        ("valid_range", "0, 100", [0, 100]),
        ("flag_values", "0b, 1b", "0b, 1b"),
        ("_Unsigned", "True", "true"),
        ("_Unsigned", 1, "true"),
        ("_Unsigned", "false", "false"),
        ("fudge", ["a"], ["a"]),
    ],
)
def test_what_cf_knows_has_its_type(name, value, said):
    assert as_cf(name, value) == said
    assert type(as_cf(name, value)) is type(said)


def test_how_values_are_written_is_told_by_numbers_alone():
    said = {"x/scale_factor": "0.5", "x/_FillValue": "none", "x/missing_value": ["1e20", "-1"], "x/dtype": "bool"}
    attributes = StreamAttributes(said)
    assert attributes.encoding("x") == Encoding((1e20, -1), 0.5, 0.0)
    assert attributes.of("x") == {"scale_factor": 0.5}


def test_attributes_of_no_variable_are_the_streams():
    said = {"/basePath": "/data/%T/", "/data/E/unit": 1.5, "/data/E/x/unitSI": 2.0, "openPMD": "1.1.0", "a/b/c": 1}
    attributes = StreamAttributes(said, variables={"/data/E/x", "a"})
    assert attributes.of_stream == {"/basePath": "/data/%T/", "/data/E/unit": 1.5, "openPMD": "1.1.0", "a/b/c": 1}
    assert attributes.of("/data/E/x") == {"unitSI": 2.0}


@pytest.mark.parametrize("named", [[1, 2], 7, ["a", ""], ["a"], "a b c d", 1.5])
def test_what_names_no_dimensions_is_left_to_numbers(named):
    assert StreamAttributes({"x/_ARRAY_DIMENSIONS": named}).dimensions("x", (2, 3)) == ("x_dim0", "x_dim1")


def test_bounds_of_other_lengths_have_another_dimension():
    attributes = StreamAttributes({"lat_bnds/_ARRAY_DIMENSIONS": ["y", "bnds"], "v/_ARRAY_DIMENSIONS": ["x", "bnds"]})
    agreeing = attributes.agreeing({"lat_bnds": (3, 4), "v": (5, 2)})
    assert agreeing.dimensions("lat_bnds", (3, 4)) == ("y", "lat_bnds_dim1")
    assert agreeing.dimensions("v", (5, 2)) == ("x", "bnds")


def test_what_is_not_finite_is_text_in_json():
    value = {"a": math.nan, "b": [-math.inf, 5.0], "c": {"d": math.inf}}
    assert json.loads(json.dumps(in_json(value), allow_nan=False)) == {
        "a": "NaN",
        "b": ["-Infinity", 5.0],
        "c": {"d": "Infinity"},
    }

import netCDF4
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbflow.zarr_store.stored_names import MOST_BYTES, NETCDF_OWN, clash, netcdf_attribute, stored_name


@pytest.mark.parametrize("name", ["tas", "_x", "u10", "tas 2m°C", "été", "a.b", "a-b", "zarr.json_mean"])
def test_a_name_that_is_fit_stays(name):
    assert stored_name(name) == name


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("/data/E", "_x2F_data_x2F_E"),
        ("a\\b", "a_x5C_b"),
        ("..", "_x2E_."),
        ("a/../b", "a_x2F_.._x2F_b"),
        ("zarr.json", "zarr_x2E_json"),
        ("°C", "_xB0_C"),
        ("a ", "a_x20_"),
    ],
)
def test_what_cannot_be_in_a_name_is_its_code(name, stored):
    assert stored_name(name) == stored


@given(st.text(alphabet="ab./\n _x2F%ü", min_size=1) | st.text("aü /", min_size=180, max_size=300))
def test_a_stored_name_is_a_file_of_its_store_and_is_its_own(name):
    stored = stored_name(name)
    assert "/" not in stored
    assert stored[0].isalnum() or stored[0] == "_"
    assert stored not in ("zarr.json", "zarr.new")
    assert stored_name(stored) == stored
    assert len(stored.encode()) <= MOST_BYTES


def test_names_that_would_be_one_are_found():
    assert clash(["a", "a/b", "a_x2F_b"]) == ("a/b", "a_x2F_b")
    assert clash(["a", "a/b", "a//b"]) is None


def test_long_names_that_begin_alike_stay_two():
    assert stored_name("n" * 300) != stored_name("n" * 301)
    assert clash(["e\u0301", "\u00e9"]) == ("e\u0301", "\u00e9")


@pytest.mark.parametrize("name", [*sorted(NETCDF_OWN), "", "note ", "a/b", "x" * 300, "2m", "°C"])
def test_netcdf_takes_every_attribute(tmp_path, name):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 2)
        variable = file.createVariable("v", "f8", ("x",))
        for place in (file, variable):
            place.setncattr(netcdf_attribute(name), "said")
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        for place in (file, file["v"]):
            assert place.getncattr(netcdf_attribute(name)) == "said"

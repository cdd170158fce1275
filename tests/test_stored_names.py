import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbflow.stored_names import clash, stored_name


@pytest.mark.parametrize("name", ["tas", "_x", "u10", "tas 2m°C", "été", "a.b", "a-b", "zarr.json_mean"])
def test_a_name_that_is_fit_stays(name):
    assert stored_name(name) == name


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("/data/E", "_x2F_data_x2F_E"),
        ("..", "_x2E_."),
        ("a/../b", "a_x2F_.._x2F_b"),
        ("zarr.json", "zarr_x2E_json"),
        ("°C", "_xB0_C"),
        ("a ", "a_x20_"),
    ],
)
def test_what_cannot_be_in_a_name_is_its_code(name, stored):
    assert stored_name(name) == stored


@given(st.text(alphabet="ab./\n _x2F%", min_size=1))
def test_a_stored_name_is_a_file_of_its_store_and_is_its_own(name):
    stored = stored_name(name)
    assert "/" not in stored
    assert stored[0].isalnum() or stored[0] == "_"
    assert stored not in ("zarr.json", "zarr.new")
    assert stored_name(stored) == stored


def test_names_that_would_be_one_are_found():
    assert clash(["a", "a/b", "a_x2F_b"]) == ("a/b", "a_x2F_b")
    assert clash(["a", "a/b", "a//b"]) is None

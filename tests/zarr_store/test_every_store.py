"""That no test makes a store which others' programs can't read."""

import json

import numpy as np
import pytest

from bbflow.zarr_store.growing import GrowingZarr
from testsupport.stores import Stores, assert_opens


def make(path):
    store = GrowingZarr(path)
    store.create("x", ("t",), (2,), "f8", {}, (2,))
    store.write("x", 0, np.zeros(2))
    store.commit()


def test_stores_are_looked_at_once_and_again_when_they_change(tmp_path, request):
    assert "_stores_open" in request.fixturenames
    stores, here = Stores(tmp_path), tmp_path / "own"
    make(here / "out" / "a.zarr")
    (here / "nothing.zarr").mkdir()
    assert [store.name for store in stores.new("one", None)] == ["a.zarr"]
    assert stores.new("one", None) == []
    root = here / "out" / "a.zarr" / "zarr.json"
    root.write_text(root.read_text())
    make(here / "b.zarr")
    assert [store.name for store in stores.new("one", None)] == ["b.zarr", "a.zarr"]


def test_a_tests_own_directory_is_looked_into_once_and_not_by_a_second_name(tmp_path):
    stores = Stores(tmp_path)
    for name in ("test0", "shared"):
        make(tmp_path / name / "a.zarr")
        (tmp_path / f"{name}current").symlink_to(tmp_path / name)
    assert stores.new("one", "test0") == [tmp_path / "shared" / "a.zarr", tmp_path / "test0" / "a.zarr"]
    for name in ("test0", "shared"):
        make(tmp_path / name / "b.zarr")
    assert stores.new("one", "test1") == [tmp_path / "shared" / "b.zarr"]


@pytest.mark.odd_stores
@pytest.mark.parametrize("odd", ["NaN", "[1, 2"])
def test_a_store_that_is_no_json_is_found(tmp_path, odd):
    make(tmp_path / "a.zarr")
    assert_opens(tmp_path / "a.zarr")
    metadata = tmp_path / "a.zarr" / "x" / "zarr.json"
    text = metadata.read_text()
    metadata.write_text(text[: text.rindex("}")] + f',"odd":{odd}}}')
    with pytest.raises(ValueError, match=r"NaN isn't JSON|Expecting"):
        assert_opens(tmp_path / "a.zarr")


@pytest.mark.odd_stores
def test_a_store_with_two_lengths_of_a_dimension_is_found(tmp_path):
    make(tmp_path / "a.zarr")
    root = tmp_path / "a.zarr" / "zarr.json"
    told = json.loads(root.read_text())
    told["consolidated_metadata"]["metadata"]["y"] = told["consolidated_metadata"]["metadata"]["x"] | {"shape": [3]}
    root.write_text(json.dumps(told))
    with pytest.raises(ValueError, match="conflicting sizes"):
        assert_opens(tmp_path / "a.zarr")

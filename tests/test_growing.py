import threading

import numpy as np
import pytest
import xarray as xr

from bbflow.growing import GrowingZarr

ROWS = 40
COLUMNS = 64


def create(path):
    store = GrowingZarr(path)
    store.create("time", ["time"], [0], "f8", {"units": "days since 2000-01-01"}, chunks=[16])
    store.create("v", ["time", "x"], [0, COLUMNS], "f4", {"units": "K"})
    return store


def write(store, row):
    store.write("time", row, np.array([row], "f8"))
    store.write("v", row, np.full((1, COLUMNS), row, "f4"))


def open_store(path):
    return xr.open_zarr(path, chunks=None, decode_times=False)


class Reader(threading.Thread):
    """Opens a store again and again, and keeps what it saw wrong."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        self.ended = threading.Event()
        self.lengths = []
        self.error = None

    def run(self):
        try:
            while not self.ended.is_set():
                if self.path.exists():
                    self.look()
        except BaseException as error:
            self.error = error

    def look(self):
        with open_store(self.path) as dataset:
            rows = dataset.sizes["time"]
            assert dataset.attrs["rows"] == rows
            np.testing.assert_array_equal(dataset["time"].values, np.arange(rows))
            np.testing.assert_array_equal(dataset["v"].values, np.repeat(np.arange(rows), COLUMNS).reshape(rows, -1))
        self.lengths.append(rows)


def test_a_reader_at_any_moment_sees_written_values_only(tmp_path):
    path = tmp_path / "results.zarr"
    reader = Reader(path)
    reader.start()
    try:
        store = create(path)
        for row in range(ROWS):
            write(store, row)
            store.commit(rows=row + 1)
    finally:
        reader.ended.set()
        reader.join()
    if reader.error is not None:
        raise reader.error
    assert reader.lengths == sorted(reader.lengths)
    reader.look()
    assert reader.lengths[-1] == ROWS


def test_a_new_store_appears_with_its_first_commit(tmp_path):
    path = tmp_path / "results.zarr"
    store = create(path)
    write(store, 0)
    assert store.is_new
    assert not path.exists()
    store.commit(rows=1)
    assert not store.is_new
    assert list(tmp_path.iterdir()) == [path]


def test_what_was_not_committed_is_not_seen(tmp_path):
    path = tmp_path / "results.zarr"
    store = create(path)
    write(store, 0)
    store.commit(rows=1)
    write(store, 1)
    store.create("later", ["x"], [COLUMNS], "f4", {})
    with open_store(path) as dataset:
        assert dataset.sizes["time"] == 1
        assert "later" not in dataset
    assert store.read("v").shape == (2, COLUMNS)


def test_a_store_is_carried_on_after_a_crash(tmp_path):
    path = tmp_path / "results.zarr"
    store = create(path)
    write(store, 0)
    store.commit(rows=1)
    write(store, 1)
    again = GrowingZarr(path)
    assert not again.is_new
    assert "v" in again
    assert again.attribute("rows") == 1
    for row in (1, 2):
        write(again, row)
    again.commit(rows=3)
    Reader(path).look()


@pytest.mark.parametrize(("dtype", "empty"), [("f4", np.nan), ("f8", np.nan), ("i4", 0)])
def test_values_that_are_never_written_are_missing(tmp_path, dtype, empty):
    store = GrowingZarr(tmp_path / "a.zarr")
    store.create("v", ["x"], [3], dtype, {}, compression="zstd")
    np.testing.assert_array_equal(store.read("v"), np.full(3, empty, dtype))


def test_arrays_are_listed_by_their_first_dimension(tmp_path):
    store = create(tmp_path / "a.zarr")
    store.create("x", ["x"], [COLUMNS], "f8", {})
    assert store.names("time") == ["time", "v"]
    assert store.names("x") == ["x"]

import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

from bbflow.errors import ConfigError
from bbflow.zarr_store import growing
from bbflow.zarr_store.growing import GrowingZarr, shown_attributes

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


def test_axes_grow_in_their_files_but_what_readers_see_is_replaced(tmp_path):
    store, path = create(tmp_path / "results.zarr"), tmp_path / "results.zarr" / "time" / "c.0"
    write(store, 0)
    store.commit()
    first = path.stat().st_ino
    write(store, 1)
    assert path.stat().st_ino == first
    store.commit()
    held = path.open("rb")  # so that no other file gets its number
    store.shorten("time", 1)
    store.write("time", 1, np.array([9.0]))  # readers see the old one until the commit
    assert path.stat().st_ino != first
    assert np.frombuffer(held.read(), "f8")[1] == 1
    held.close()
    store.write("time", 3, np.array([3.0]))
    store.resize("v", 4)
    store.commit()
    np.testing.assert_array_equal(zarr.open_group(store.path, mode="r")["time"][...], [0, 9, np.nan, 3])


def test_a_store_with_a_directory_for_each_dimension_is_carried_on(tmp_path, monkeypatch):
    path = tmp_path / "results.zarr"
    with monkeypatch.context() as before:
        before.setattr(growing, "FLAT", {"name": "default", "configuration": {"separator": "/"}})
        store = create(path)
        write(store, 0)
        store.commit(rows=1)
    store = GrowingZarr(path)
    write(store, 1)
    store.create("later", ["time", "x"], [0, COLUMNS], "f4", {})
    store.write("later", 1, np.ones((1, COLUMNS), "f4"))
    store.commit(rows=2)
    assert (path / "v/c/1/0").exists()
    assert (path / "later/c.1.0").exists()
    Reader(path).look()


def test_an_array_grows_in_place_whoever_reads_its_own_metadata(tmp_path):
    path = tmp_path / "a.zarr"
    store = GrowingZarr(path)
    store.create("v", ["time", "x"], [0, 2], "f4", {"units": "K"})
    inodes = set()
    for row in range(12):
        store.write("v", row, np.full((1, 2), row, "f4"))
        store.commit()
        inodes.add((path / "v/zarr.json").stat().st_ino)
        assert zarr.open_array(path / "v", mode="r").shape == (row + 1, 2)
        assert json.loads((path / "v/zarr.json").read_text()) == store.metadata("v")
    assert len(inodes) == 1
    store.resize("v", 10**growing.LENGTH_DIGITS)
    store.commit()
    assert zarr.open_array(path / "v", mode="r").shape == (10**growing.LENGTH_DIGITS, 2)


@pytest.mark.parametrize("act", [lambda file: os.truncate(file, 0), lambda file: os.truncate(file, 60), Path.unlink])
def test_metadata_that_somebody_has_cut_off_are_whole_with_the_next_commit(tmp_path, act):
    path = tmp_path / "a.zarr"
    store = GrowingZarr(path)
    store.create("v", ["time", "x"], [0, 2], "f4", {"units": "K"})
    for row in range(3):
        store.write("v", row, np.full((1, 2), row, "f4"))
        if row:
            act(path / "v/zarr.json")
        store.commit()
        assert json.loads((path / "v/zarr.json").read_text()) == store.metadata("v")


def test_an_array_that_an_earlier_writer_laid_out_otherwise_grows(tmp_path):
    path = tmp_path / "a.zarr"
    store = create(path)
    write(store, 0)
    store.commit(rows=1)
    for name in ("v", "time", "."):
        own = path / name / "zarr.json"
        own.write_text(json.dumps(json.loads(own.read_text()), indent=1))
    store = GrowingZarr(path)
    for row in (1, 2):
        write(store, row)
        store.commit(rows=row + 1)
        assert json.loads((path / "v/zarr.json").read_text())["shape"] == [row + 1, COLUMNS]
    Reader(path).look()


@pytest.mark.parametrize(("dtype", "empty"), [("f4", np.nan), ("f8", np.nan), ("i4", 0)])
def test_values_that_are_never_written_are_missing(tmp_path, dtype, empty):
    store = GrowingZarr(tmp_path / "a.zarr")
    store.create("v", ["x"], [3], dtype, {})
    np.testing.assert_array_equal(store.read("v"), np.full(3, empty, dtype))


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u8", "f4", "f8", "c8", "c16"])
def test_an_array_is_described_as_zarr_describes_it(tmp_path, dtype):
    store, made = GrowingZarr(tmp_path / "a.zarr"), {}
    store.create("v", ["x"], [3], dtype, {"units": "K"}, [2])
    fill = np.nan if dtype[0] == "f" else 0
    how = {"shape": (3,), "chunks": (2,), "dtype": dtype, "fill_value": fill, "compressors": None}
    how["chunk_key_encoding"] = {"name": "default", "separator": "."}
    zarr.create_array(made, name="v", dimension_names=["x"], attributes={"units": "K"}, **how)
    assert store.metadata("v") == json.loads(made["v/zarr.json"].to_bytes())


def test_arrays_are_listed_by_their_first_dimension(tmp_path):
    store = create(tmp_path / "a.zarr")
    store.create("x", ["x"], [COLUMNS], "f8", {})
    assert store.names("time") == ["time", "v"]
    assert store.names("x") == ["x"]


def test_a_chunk_of_many_rows_is_written_in_parts(tmp_path):
    path = tmp_path / "a.zarr"
    store = GrowingZarr(path)
    store.create("x", ["x"], [0], "i2", {}, [16])
    for start in range(0, 40, 5):
        store.write("x", start, np.arange(start, start + 5))
    store.write("x", 14, np.array([-14, -15, -16, -17], "i2"))
    store.commit()
    expected = np.arange(40)
    expected[14:18] *= -1
    np.testing.assert_array_equal(xr.open_zarr(path, chunks=None)["x"], expected)
    np.testing.assert_array_equal(store.read("x"), expected)


def test_what_a_writer_left_uncommitted_is_not_seen_when_the_next_one_lengthens_the_array(tmp_path):
    path = tmp_path / "a.zarr"
    store = create(path)
    store.commit()
    store.write("time", 0, np.arange(9.0))
    again = GrowingZarr(path)
    again.write("time", 0, np.arange(2.0))
    again.resize("time", 4)
    np.testing.assert_array_equal(again.read("time"), [0, 1, np.nan, np.nan])


def test_zarr_reads_arrays_and_tables_without_the_consolidated_metadata_too(tmp_path):
    store = create(tmp_path / "a.zarr")
    store.create("table/value", ["point"], [0], "f4", {"units": "K"}, [8])
    store.write("table/value", 0, np.arange(20, dtype="f4"))
    store.describe("table", description="rows")
    store.commit()
    group = zarr.open_group(tmp_path / "a.zarr", mode="r", use_consolidated=False)
    assert group["table"].attrs["description"] == "rows"
    assert dict(group["table/value"].attrs) == {"units": "K"}
    np.testing.assert_array_equal(group["table/value"][...], np.arange(20))


@pytest.mark.parametrize("left", [b"", b'{"zarr_format": 3, "attri', b"\xff"])
def test_metadata_that_somebody_has_cut_off_are_an_error_with_their_name(tmp_path, left):
    (tmp_path / "zarr.json").write_bytes(left)
    with pytest.raises(ConfigError, match=r"zarr\.json is damaged, it isn't JSON: give another output"):
        shown_attributes(tmp_path)
    assert GrowingZarr(tmp_path, renews=True).is_new


def test_what_fails_to_be_written_or_read_is_named(tmp_path):
    store = GrowingZarr(tmp_path / "s.zarr")
    store.create("x", ("time",), (1,), "f8", {})
    store.commit()
    (tmp_path / "s.zarr" / "zarr.new").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as full:
        store.commit(more=1)
    assert full.value.filename == str(tmp_path / "s.zarr" / "zarr.new")
    (tmp_path / "s.zarr" / "x" / "c.0").symlink_to("/proc/self/mem")
    with pytest.raises(OSError, match="Input/output error") as unread:
        store.read("x")
    assert unread.value.filename == str(tmp_path / "s.zarr" / "x" / "c.0")

"""Files of raw arrays are plain Zarr: zarr reads what is written past it, also while a file grows."""

import math
import os
import threading
from itertools import pairwise

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from bbflow.configuring.settings import RawConfig
from bbflow.drain.encoding import encoder_of, rounded
from bbflow.drain.forms import form_of, storage_of
from bbflow.errors import ConfigError
from bbflow.stream.records import BlockForm
from bbflow.zarr_store.growing import GrowingZarr
from bbflow.zarr_store.shard_files import Shard, ShardChunks, same_bytes

SHAPE = (3, 5)


def block_of(shape):
    """Return the form of a block that is a whole field."""
    return BlockForm("v", "float", "GlobalArray", shape, (0,) * len(shape), shape, 0, 0, 0, 4 * math.prod(shape))


BLOCK = block_of(SHAPE)


def create(path, raw, rows, block=BLOCK):
    """Make an array as the drain does; give zarr's view of it, and its form."""
    store = GrowingZarr(path)
    dims = ["time", *(f"d{axis}" for axis in range(len(block.shape)))]
    store.create(block.name, dims, (rows, *block.shape), block.dtype, {}, storage=storage_of(block, raw))
    store.commit()
    return zarr.open_group(path, mode="r")[block.name], form_of(block, raw, store.metadata(block.name), np.nan)


def write(path, form, values, begin, end):
    """Write some rows, each as a chunk of its own bytes; None for a row that isn't there."""
    encode = encoder_of(form.codec) if form.codec else None
    for index in range(begin // form.steps, -(-end // form.steps)):
        rows = range(max(begin, index * form.steps), min(end, (index + 1) * form.steps))
        encoded = [None if values[row] is None else encode(values[row]) if encode else values[row] for row in rows]
        parts = [() if part is None else (np.frombuffer(part, "u1"),) for part in encoded]
        form.file(str(path), index).write(rows[0] % form.steps, ShardChunks(parts, [False] * len(parts)))


@settings(max_examples=20)
@given(
    st.integers(1, 30),
    st.integers(1, 7),
    st.sampled_from(["none", "zstd", "blosc"]),
    st.sets(st.integers(1, 30)),
    st.sets(st.integers(0, 29)),
)
def test_zarr_reads_what_was_written_in_any_pieces(tmp_path_factory, rows, steps, compression, cuts, holes):
    path = tmp_path_factory.mktemp("store") / "raw.zarr"
    raw = RawConfig(compression=compression, shard=steps * 60)
    array, form = create(path, raw, rows)
    values = [None if row in holes else np.full(SHAPE, row, "f4") for row in range(rows)]
    bounds = [0, *sorted(cut for cut in cuts if cut < rows), rows]
    for begin, end in pairwise(bounds):
        write(path, form, values, begin, end)
    expected = np.stack([np.full(SHAPE, np.nan, "f4") if row is None else row for row in values])
    np.testing.assert_array_equal(array[...], expected)
    for row in range(rows):
        np.testing.assert_array_equal(array[row], expected[row])
    assert len(list((path / "v").glob("c.*"))) <= -(-rows // steps)


@pytest.mark.parametrize("compression", ["none", "zstd", "blosc"])
def test_rows_that_are_written_again_in_other_pieces_are_the_same_bytes(tmp_path, compression):
    raw = RawConfig(compression=compression, shard=10 * 60)
    values = [np.random.default_rng(row).normal(size=SHAPE).astype("f4") for row in range(10)]
    files = []
    for name, cuts in {"a": [0, 4, 10], "b": [0, 1, 7, 10], "again": [0, 4, 10, 2, 5]}.items():
        _, form = create(tmp_path / name, raw, 10)
        for begin, end in pairwise(cuts):
            if begin < end:
                write(tmp_path / name, form, values, begin, end)
        files.append((tmp_path / name / "v" / "c.0.0.0").read_bytes())
    assert files[0] == files[1] == files[2]


def test_a_reader_sees_the_rows_that_it_may_see_while_others_are_written(tmp_path):
    rows, wrong, shown = 60, [], [0]
    path = tmp_path / "raw.zarr"
    array, form = create(path, RawConfig(shard=rows * 60, compression="zstd"), rows)
    ended = threading.Event()

    def read():
        while (count := shown[0]) < rows and not ended.is_set():
            if not np.array_equal(array[:count, 1, 1], np.arange(count)):
                wrong.append(count)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for row in range(rows):
            write(path, form, {row: np.full(SHAPE, row, "f4")}, row, row + 1)
            shown[0] = row + 1
    finally:
        ended.set()
        reader.join(300)
    assert not wrong


def test_a_file_that_two_make_at_once_is_made_once(tmp_path):
    shard = Shard(tmp_path / "c.0", 4, 1)
    shard.write(0, ShardChunks([[np.arange(3, dtype="u1")]], [False]))
    content = (tmp_path / "c.0").read_bytes()
    shard._make()
    assert (tmp_path / "c.0").read_bytes() == content
    assert os.listdir(tmp_path) == ["c.0"]


def test_large_chunks_begin_at_a_page(tmp_path):
    shape = (1 << 18, 5)
    block = block_of(shape)
    path = tmp_path / "raw.zarr"
    array, form = create(path, RawConfig(shard=30 << 20, compression="zstd"), 3, block)
    values = [np.random.default_rng(row).random(shape, "f4") for row in range(3)]
    write(path, form, values, 0, 3)
    entries = np.fromfile(path / "v" / "c.0.0.0", "<u8", 6)[::2]
    assert (entries % 4096 == 0).all()
    np.testing.assert_array_equal(array[...], values)


@given(st.binary(max_size=20_000), st.integers(0, 20_000), st.integers(0, 255))
def test_arrays_are_the_same_if_all_their_bytes_are(content, at, byte):
    one = np.frombuffer(content, "u1")
    other = one.copy()
    if at < len(other):
        other[at] = byte
    assert same_bytes(one, other) == (one.tobytes() == other.tobytes())
    assert not same_bytes(one, np.append(one, np.uint8(0)))


@given(st.lists(st.floats(width=32), min_size=1, max_size=20), st.integers(1, 30))
def test_rounded_values_are_near_and_have_few_bits(values, bits):
    values = np.array([*values, 1e20], "f4")
    with np.errstate(all="ignore"):
        new = rounded(values, bits, [1e20])
        normal = np.isfinite(values) & (np.abs(values) >= np.finfo("f4").tiny) & (values != np.float32(1e20))
        error = np.abs(new[normal].astype("f8") - values[normal]) / np.abs(values[normal].astype("f8"))
    assert (error <= 2.0 ** -(bits + 1)).all()
    np.testing.assert_array_equal(new[~np.isfinite(values)], values[~np.isfinite(values)])
    assert new[-1] == np.float32(1e20)
    small = np.abs(values) < np.finfo("f4").tiny
    np.testing.assert_array_equal(new[small], values[small])
    changed = new[normal & (new != values)].view("u4")
    assert not (changed & ((1 << max(23 - bits, 0)) - 1)).any()


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_rounding_goes_to_the_nearest_with_ties_to_even(dtype):
    values = np.array([1 + 2.0**-3, 1 + 3 * 2.0**-3, 1 + 2.0**-3 + 2.0**-9, -1 - 2.0**-3], dtype)
    np.testing.assert_array_equal(rounded(values, 2, []), np.array([1, 1.5, 1.25, -1], dtype))


def test_no_value_is_rounded_to_what_stands_for_a_missing_one():
    values = np.array([-1024, -1001, -999.5, -900, 1024, 1001], "f4")
    np.testing.assert_array_equal(rounded(values, 3, [-1024]), np.array([-1024, -1001, -999.5, -896, 1024, 1024], "f4"))
    np.testing.assert_array_equal(rounded(values, 3, [-1024, 1024])[3:], np.array([-896, 1024, 1001], "f4"))
    np.testing.assert_array_equal(rounded(values, 3, [])[1:3], np.array([-1024, -1024], "f4"))


def test_an_array_that_someone_wrote_otherwise_is_refused(tmp_path):
    array = zarr.open_group(tmp_path).create_array("v", shape=(2, *SHAPE), chunks=(1, *SHAPE), dtype="f4")
    with pytest.raises(ConfigError, match="give another output"):
        form_of(BLOCK, RawConfig(), array.metadata.to_dict(), np.nan)

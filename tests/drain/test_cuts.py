"""Chunks of raw steps: whatever their shape, zarr reads what was written, and a part costs about its own bytes."""

from itertools import pairwise
from math import prod

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from bbflow.configuring.config import parse_config
from bbflow.configuring.settings import RawConfig
from bbflow.drain.cuts import LARGEST_BYTES, WANTED_BYTES, ChunkGrid, cut_of
from bbflow.drain.encoding import encoder_of
from bbflow.drain.forms import form_of, storage_of
from bbflow.errors import ConfigError
from bbflow.stream.records import BlockForm
from bbflow.zarr_store.growing import GrowingZarr
from bbflow.zarr_store.shard_files import ShardChunks


def create(path, raw, rows, shape):
    """Make an array as the drain does; give zarr's view of it, and its form."""
    block = BlockForm("v", "float", "GlobalArray", shape, (0,) * len(shape), shape, 0, 0, 0, 4 * prod(shape))
    store, dims = GrowingZarr(path), [f"d{axis}" for axis in range(len(shape))]
    store.create("v", ["time", *dims], (rows, *shape), block.dtype, {}, storage=storage_of(block, raw, dims))
    store.commit()
    return zarr.open_group(path, mode="r")["v"], form_of(block, raw, store.metadata("v"), np.nan)


def write(path, form, values, begin, end):
    """Write some rows as the drain does; None for one that isn't there. Give the bytes that were stored."""
    encode = encoder_of(form.codec) if form.codec else np.ndarray.tobytes
    cut, stored = form.cut or ChunkGrid(form.shape, form.shape), 0
    for index in range(begin // form.steps, -(-end // form.steps)):
        rows = range(max(begin, index * form.steps), min(end, (index + 1) * form.steps))
        parts = []
        for row in rows:
            if values[row] is None:
                parts += [()] * cut.pieces
            else:
                parts += [(np.frombuffer(encode(chunk), "u1"),) for chunk in cut.parts(values[row], form.fill)]
        chunks = ShardChunks(parts, [False] * len(parts))
        stored += form.file(str(path), index).write(rows[0] % form.steps, chunks)
    return stored


@st.composite
def cases(draw):
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    chunks = {f"d{axis}": draw(st.integers(1, 8)) for axis in range(len(shape)) if draw(st.booleans())}
    if draw(st.booleans()):
        chunks["time"] = draw(st.integers(1, 5))
    compression = draw(st.sampled_from(["none", "zstd"])) if chunks.get("time", 1) == 1 else "none"
    most = prod(min(chunks.get(f"d{axis}", size), size) for axis, size in enumerate(shape)) * chunks.get("time", 1)
    shard = draw(st.integers(4 * most, 4 * most + 2000))
    return shape, RawConfig(compression=compression, shard=shard, chunks=chunks or "auto")


@given(cases(), st.integers(1, 20), st.sets(st.integers(1, 20)), st.sets(st.integers(0, 19)), st.booleans())
def test_zarr_reads_what_was_written_in_any_chunks(tmp_path_factory, case, rows, cuts, holes, again):
    shape, raw = case
    path = tmp_path_factory.mktemp("store") / "raw.zarr"
    array, form = create(path, raw, rows, shape)
    random = np.random.default_rng(rows)
    values = [None if row in holes else random.normal(size=shape).astype("f4") for row in range(rows)]
    for begin, end in pairwise([0, *sorted(cut for cut in cuts if cut < rows), rows]):
        write(path, form, values, begin, end)
    if again:  # one whose batch doesn't count yet is written again, cut differently
        write(path, form, values, rows // 2, rows)
    expected = np.stack([np.full(shape, np.nan, "f4") if row is None else row for row in values])
    np.testing.assert_array_equal(array[...], expected)
    np.testing.assert_array_equal(array[rows // 2], expected[rows // 2])
    np.testing.assert_array_equal(array[:, ..., -1], expected[..., -1])
    assert array.chunks == (form.rows, *(form.cut.chunk if form.cut else shape))
    assert len(list((path / "v").glob("c.*"))) <= -(-rows // form.steps)
    assert len({file.name for file in (path / "v").iterdir()}) == len(list((path / "v").iterdir()))


@pytest.mark.parametrize("chunks", [{"time": 4}, {"time": 4, "d0": 2}, {"d0": 2, "d1": 3}])
def test_rows_that_are_written_again_in_other_pieces_are_the_same_bytes(tmp_path, chunks):
    shape, files = (3, 5), []
    values = [np.random.default_rng(row).normal(size=shape).astype("f4") for row in range(10)]
    for name, cuts in {"a": [0, 4, 10], "b": [0, 1, 7, 10], "again": [0, 4, 10, 2, 5]}.items():
        _, form = create(tmp_path / name, RawConfig(shard=12 * 60, chunks=chunks), 10, shape)
        for begin, end in pairwise(cuts):
            if begin < end:
                write(tmp_path / name, form, values, begin, end)
        files.append((tmp_path / name / "v" / "c.0.0.0").read_bytes())
    assert files[0] == files[1] == files[2]


def test_a_time_series_of_a_point_reads_its_own_chunks_only(tmp_path):
    shape, rows = (64, 64), 48
    read = {}
    for name, chunks in {"fields": None, "parts": {"d0": 8, "d1": 8}, "series": {"time": 24, "d0": 8, "d1": 8}}.items():
        array, form = create(tmp_path / name, RawConfig(chunks=chunks), rows, shape)
        values = [np.full(shape, row, "f4") for row in range(rows)]
        write(tmp_path / name, form, values, 0, rows)
        np.testing.assert_array_equal(array[:, 3, 5], np.arange(rows))
        chunk = prod(array.chunks) * 4
        read[name] = len({row // array.chunks[0] for row in range(rows)}), chunk
    assert read == {"fields": (48, 16384), "parts": (48, 256), "series": (2, 24 * 256)}


@pytest.mark.parametrize(
    ("shape", "item"),
    [((721, 1440), 4), ((30, 721, 1440), 4), ((83886080,), 4), ((37, 5242880), 4), ((3, 4, 5000000), 8)],
)
def test_chunks_that_bbflow_chooses_have_one_to_sixteen_mebibytes(shape, item):
    steps, cut = cut_of([""] * len(shape), shape, item, RawConfig(chunks="auto"))
    assert steps == 1
    size = prod(cut.chunk) * item
    assert WANTED_BYTES / 4 <= size <= LARGEST_BYTES
    if prod(shape) * item <= LARGEST_BYTES:
        assert cut.is_whole
    if len(shape) == 1:
        assert cut.chunk == (4**10,)


def test_a_chunk_that_is_larger_than_a_file_is_refused():
    with pytest.raises(ConfigError, match=r"24 steps of 100 x 100 values has 960000 bytes.*shard: 1000"):
        cut_of(("lat", "lon"), (100, 100), 4, RawConfig(chunks={"time": 24}, shard=1000))


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"chunks": {"time": 4}, "compression": "zstd"}, "can't be compressed"),
        ({"chunks": "auto", "dedup": True}, "take out 'chunks' or 'dedup'"),
        ({"chunks": {"lat": 0}}, "not a whole number from 1"),
        ({"chunks": "large"}, "neither auto nor a map"),
        ({"chunks": {}}, "neither auto nor a map"),
    ],
)
def test_what_chunks_cannot_be_is_told(raw, message):
    with pytest.raises(ConfigError, match=message):
        parse_config({"stream": "s", "operators": {"v": ["mean"]}, "raw": raw})


def test_a_store_goes_on_with_the_chunks_that_it_has(tmp_path):
    first, form = create(tmp_path / "raw.zarr", RawConfig(chunks={"time": 4, "d0": 2}), 8, (5,))
    write(tmp_path / "raw.zarr", form, [np.full(5, row, "f4") for row in range(8)], 0, 6)
    block = BlockForm("v", "float", "GlobalArray", (5,), (0,), (5,), 0, 0, 0, 20)
    again = form_of(block, RawConfig(), first.metadata.to_dict(), np.nan)
    write(tmp_path / "raw.zarr", again, [np.full(5, row, "f4") for row in range(8)], 6, 8)
    np.testing.assert_array_equal(first[:, 4], np.arange(8))
    with pytest.raises(ConfigError, match="give another output"):
        form_of(block, RawConfig(dedup=True), first.metadata.to_dict(), np.nan)

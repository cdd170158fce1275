"""Chunks of results: whatever their shape, zarr reads what was published, also again after a crash and from a chain."""

import numpy as np
import pytest
import streams
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from bbflow.configuring.config import parse_config
from bbflow.configuring.settings import ResultsConfig
from bbflow.errors import ConfigError
from bbflow.operators import parse_operators
from bbflow.operators.windows import parse_windows
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.cf import StreamAttributes
from bbflow.transit.output.fields import ResultField
from bbflow.transit.output.results import Results
from bbflow.transit.output.tiles import (
    MOST_PACKED,
    PACKED_BYTES,
    SpanFiles,
    Tiles,
    packed_rows,
    tiled_storage,
    tiles_of,
)
from bbflow.transit.spans.timeline import Closing, Span
from bbflow.zarr_store.growing import GrowingZarr

STEPS, LATS, LONS = 96, 10, 12


@st.composite
def cases(draw):
    shape = tuple(draw(st.lists(st.integers(1, 7), max_size=3)))
    chunks = {f"d{axis}": draw(st.integers(1, 8)) for axis in range(len(shape)) if draw(st.booleans())}
    chunks["time"] = draw(st.integers(1, 5))
    size = 4 * chunks["time"] * int(np.prod(shape))
    return shape, ResultsConfig(chunks, draw(st.integers(size, size + 2000))), draw(st.permutations(range(9)))


@settings(deadline=None, max_examples=60)
@given(cases())
def test_spans_that_are_written_in_any_order_and_again_are_read_by_zarr(tmp_path_factory, case):
    shape, layout, order = case
    path, dims = tmp_path_factory.mktemp("cut") / "v.zarr", [f"d{axis}" for axis in range(len(shape))]
    values = np.random.default_rng(3).normal(size=(9, *shape)).astype("f4")
    store, storage = GrowingZarr(path), tiled_storage(dims, shape, np.dtype("f4"), layout)
    store.create("v", ["time", *dims], (0, *shape), "f4", {}, storage=storage)
    store.commit()
    tiles = tiles_of(store.metadata("v"), store.chunks("v"))
    assert isinstance(tiles, Tiles) == (storage is not None)
    for at in (*order, *order[:3]):
        if isinstance(tiles, Tiles):
            tiles.make_room(at)
        tiles.write(at, values[at])
        np.testing.assert_array_equal(tiles.read(at)[0], values[at])
    store.resize("v", 9)
    store.commit()
    array = zarr.open_group(path, mode="r")["v"]
    np.testing.assert_array_equal(array[...], values)
    if storage is not None:
        assert array.chunks[0] == layout.chunks["time"]
        assert len(list((path / "v").glob("c.*"))) == -(-9 // array.shards[0])
        assert array.chunks == (layout.chunks["time"], *tiles.cut.chunk)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(1, 40), max_size=2).map(tuple),
    st.sampled_from(["i4", "f8"]),
    st.lists(st.integers(0, 700), min_size=1, max_size=9, unique=True),
)
def test_spans_of_small_results_share_files(tmp_path_factory, shape, dtype, order):
    path, dims = tmp_path_factory.mktemp("packed") / "v.zarr", [f"d{axis}" for axis in range(len(shape))]
    (window,), dtype = parse_windows(["day"]), np.dtype(dtype)
    rows = packed_rows(window, shape, dtype, ResultsConfig())
    assert rows == min(max(PACKED_BYTES // (int(np.prod(shape)) * dtype.itemsize), 1), MOST_PACKED)
    store = GrowingZarr(path)
    store.create("v", ["time", *dims], (0, *shape), dtype, {}, (rows, *shape))
    store.commit()
    files = tiles_of(store.metadata("v"), store.chunks("v"))
    expected = np.full((max(order) + 1, *shape), files.fill, dtype)
    for at in (*order, *order[:2]):
        if isinstance(files, SpanFiles):
            files.make_room(at)
        expected[at] = at
        files.write(at, expected[at])
        np.testing.assert_array_equal(files.read(at)[0], expected[at])
    store.resize("v", len(expected))
    store.commit()
    np.testing.assert_array_equal(zarr.open_group(path, mode="r")["v"][...], expected)
    assert len(list((path / "v").glob("c.*"))) == len({at // rows for at in order})


def test_what_comes_once_or_was_asked_for_in_chunks_shares_no_file():
    day, run = parse_windows(["run", "day"])
    assert packed_rows(run, (2,), np.dtype("f4"), ResultsConfig()) == 1
    assert packed_rows(day, (2,), np.dtype("f4"), ResultsConfig({"time": 1})) == 1
    assert packed_rows(day, (2, 0), np.dtype("f4"), ResultsConfig()) == 1
    assert packed_rows(day, (PACKED_BYTES,), np.dtype("f4"), ResultsConfig()) == 1


def prepared(tmp_path):
    values = np.random.default_rng(5).normal(280, 4, (STEPS, LATS, LONS)).astype("f4")
    lat, lon = np.linspace(-81, 81, LATS), np.arange(LONS) * 30.0
    attributes = {"time/units": "hours since 2001-01-01", "tas/_ARRAY_DIMENSIONS": ["lat", "lon"], "tas/units": "K"}
    fields = {"tas": values, "lat": lat, "lon": lon}
    streams.store(tmp_path, fields, np.arange(STEPS), attributes, steady=("lat", "lon"))


def test_results_that_are_cut_are_those_that_are_not(tmp_path):
    prepared(tmp_path)
    config = {
        "operators": {
            "tas": {"operators": ["mean", {"histogram": {"range": [270, 290], "bins": 5}}], "windows": ["hour", "day"]},
            "global": {"of": "tas", "space": "fldmean", "operators": ["max"], "windows": ["hour"]},
            "coarse": {"of": "tas", "space": {"coarsen": {"lat": 2}}, "operators": ["mean"], "windows": ["hour"]},
        }
    }
    plain = streams.analyse(tmp_path, config, ranks=2)
    cut = {"chunks": {"time": 4, "lat": 3, "lon": 5}, "shard": "16KiB"}
    made = streams.analyse(tmp_path, {**config, "output": str(tmp_path / "cut"), "results": cut}, ranks=2, nodes=2)
    with xr.open_zarr(tmp_path / "cut" / "results.zarr") as opened:
        made = opened.load()
    names = [name for name in plain.data_vars if "tas" in name or "global" in name or "coarse" in name]
    for name in names:
        np.testing.assert_array_equal(made[name], plain[name])
    arrays = zarr.open_group(tmp_path / "cut" / "results.zarr", mode="r")
    assert arrays["tas_hour_mean"].chunks == (4, 3, 5)
    assert arrays["global_hour_max"].chunks == (4,)
    assert arrays["coarse_hour_mean"].chunks == (4, 3, 5)
    files = list((tmp_path / "cut" / "results.zarr" / "tas_hour_mean").glob("c.*"))
    assert len(files) == -(-STEPS // arrays["tas_hour_mean"].shards[0])


@pytest.mark.parametrize("layout", [ResultsConfig(), ResultsConfig({"time": 4, "x": 2}, 1 << 20)])
def test_readers_see_a_span_that_is_written_again_as_it_was_until_all_is_shown(tmp_path, layout):
    (window,), operators = parse_windows(["month"]), parse_operators(["mean"])
    clock = Clock("days since 2001-01-01", "noleap")
    results = Results(tmp_path / "results.zarr", "s", StreamAttributes({}), clock, layout)
    field = ResultField("v", "<f8", (5,), ("x",), {}, {})

    def ended(months):
        spans = [Span((2001, month + 1), 30.5 * month, 30.5 * month, 1, 0) for month in months]
        return [(Closing(window, (span,), frozenset()), {"v": (field, operators)}) for span in spans]

    def write(prepared, value):
        for span in prepared:
            span.targets["v"]["mean"].write(np.full(5, value + span.index))

    def seen():
        return zarr.open_group(results.path, mode="r")["v_month_mean"][:, 4].tolist()

    first = results.prepare(ended([0, 1]))
    write(first, 10.0)
    results.show(first, {})
    assert seen() == [10, 11]
    again = results.prepare(ended([2, 1, 3]))  # the one that is there comes in the middle
    write(again, 20.0)
    assert seen() == [10, 11]
    results.show(again, {})
    assert seen() == [10, 21, 22, 23]
    assert [path.name for path in (results.path / "v_month_mean").iterdir() if "part" in path.name] == []


@pytest.mark.parametrize(
    ("results", "said"),
    [
        (
            {"chunks": {"time": 4}, "shard": 100},
            "results: a chunk of 4 steps of 10 x 12 values has 3840 bytes",
        ),
        ({"chunks": {"latt": 4}}, "results: chunks: no result has a dimension 'latt'; did you mean 'lat'?"),
    ],
)
def test_chunks_that_can_not_be_are_refused(results, said, tmp_path):
    prepared(tmp_path)
    with pytest.raises(ConfigError, match=said):
        streams.analyse(tmp_path, {"operators": {"tas": ["mean"]}, "windows": ["day"], "results": results})


def test_lengths_may_be_powers():
    content = {"stream": "s", "operators": {"tas": ["mean"]}, "results": {"chunks": {"time": 24, "cell": "4^6"}}}
    assert parse_config(content).results.chunks == {"time": 24, "cell": 4096}
    content["results"] = {"chunks": {"cell": "4^"}}
    with pytest.raises(ConfigError, match="results: chunks"):
        parse_config(content)

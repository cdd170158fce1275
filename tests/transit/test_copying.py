"""The copy of the stores in a bucket: it follows the run, and readers of it never see half a commit."""

import contextlib
import re
import threading
import time

import numpy as np
import pytest
import streams
import xarray as xr
import zarr
from zarr.storage import ObjectStore

from bbflow.configuring.config import parse_config
from bbflow.configuring.settings import Config
from bbflow.errors import ConfigError
from bbflow.stores.moved import is_moved
from bbflow.stores.sources import Sources
from bbflow.transit.output.copying import Copying, CopyTimes, check_copy
from bbflow.zarr_store.growing import GrowingZarr, set_attributes
from testsupport.object_server import objects_in, refusing_keys
from testsupport.waiting import until

pytestmark = pytest.mark.usefixtures("known_endpoint")

ONCE = CopyTimes(last_tries_s=(0.0,))


def copied(endpoint, prefix):
    return ObjectStore(objects_in(endpoint, prefix), read_only=True)


@pytest.mark.parametrize("moves", [False, True], ids=["copied", "moved"])
def test_readers_of_the_copy_never_see_half_a_commit(endpoint, tmp_path, moves):
    store, following, seen, wrong = GrowingZarr(tmp_path / "results.zarr"), threading.Event(), set(), []
    store.create("v", ["time", "x"], (0, 3), "f8", {}, (1, 3))
    store.create("time", ["time"], (0,), "f8", {}, (512,))
    store.commit(history="this run")

    def look():
        group = zarr.open_group(copied(endpoint, f"grows{moves}/results.zarr"), mode="r", use_consolidated=True)
        size = group["time"].shape[0]
        expected = np.arange(size, dtype="f8")
        if not ((group["time"][...] == expected).all() and (group["v"][...] == expected[:, np.newaxis]).all()):
            wrong.append((size, group["time"][...], group["v"][...]))
        seen.add(size)

    def read():
        while not following.is_set():
            with contextlib.suppress(FileNotFoundError):
                look()

    times = CopyTimes(look_s=0.01)
    reader = threading.Thread(target=read)
    follower = Copying(tmp_path, f"s3://bucket/grows{moves}", moves=moves, times=times)
    reader.start()
    for at in range(66):
        store.write("v", at, np.full((1, 3), float(at)))
        store.write("time", at, np.array([float(at)]))
        store.commit()
        time.sleep(0.02)
        until(lambda: len(seen) > at - 60 or wrong)  # noqa: B023
    errors = follower.finish()
    following.set()
    reader.join()
    look()
    assert not errors
    assert not wrong
    assert all(is_moved(path) == moves for path in (tmp_path / "results.zarr" / "v").glob("c.*"))
    assert len(seen) > 5
    assert max(seen) == at + 1


def write_store(path, **arrays):
    path.parent.mkdir(parents=True, exist_ok=True)
    store = GrowingZarr(path)
    for name, value in arrays.items():
        store.create(name, ["x"], (2,), "f8", {}, (2,))
        store.write(name, 0, np.full(2, float(value)))
    store.commit()


def keys(endpoint, prefix):
    found = [item["path"] for page in objects_in(endpoint).list(prefix) for item in page]
    return {key.removeprefix(f"{prefix}/") for key in found}


def files_of(output):
    return {path.relative_to(output).as_posix() for path in output.rglob("*") if path.is_file()}


class Noted(Sources):
    """A bucket that has noted what was done in it, in order."""

    def __init__(self):
        super().__init__()
        self.steps = []

    def create(self, url, *args):
        self.steps.append(("create", url.removeprefix("s3://bucket/")))
        return super().create(url, *args)

    def remove(self, url, *args):
        self.steps.append(("remove", url.removeprefix("s3://bucket/")))
        return super().remove(url, *args)


def test_stores_of_another_run_are_hidden_first_and_then_removed(endpoint, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    stores = ("results.zarr", "raw.zarr", "functions/f.zarr", "pyramids/day.zarr")
    for name in stores:
        write_store(first / name, v=1, **{"deep/in/it": 1})
    assert not Copying(first, "s3://bucket/again").finish()
    assert keys(endpoint, "again") == files_of(first)
    theirs = {"notes.txt", "results.zarr/notes.txt", "results.zarr/theirs/zarr.json", "results.zarr/theirs/c.0"}
    theirs |= {"functions/theirs.zarr/zarr.json", "functions/theirs.zarr/v/zarr.json", "results.zarr/deep/own/c.0"}
    for key in theirs:
        objects_in(endpoint).put(f"again/{key}", b'{"zarr_format": 3, "node_type": "group", "attributes": {}}')
    write_store(second / "results.zarr", v=2)
    bucket = Noted()
    assert not Copying(second, "s3://bucket/again", sources=bucket).finish()
    steps = bucket.steps
    assert keys(endpoint, "again") == files_of(second) | theirs
    assert set(steps[:4]) == {("remove", f"again/{name}/zarr.json") for name in stores}
    created = [at for at, (name, _) in enumerate(steps) if name == "create"]
    assert max(at for at, (name, _) in enumerate(steps) if name == "remove") < min(created)


def test_the_copy_of_another_run_can_be_opened_without_consolidated_metadata(endpoint, tmp_path):
    write_store(tmp_path / "first" / "results.zarr", v=1, longer=1)
    write_store(tmp_path / "second" / "results.zarr", v=2)
    for run in ("first", "second"):
        assert not Copying(tmp_path / run, "s3://bucket/plain").finish()
    with xr.open_zarr(copied(endpoint, "plain/results.zarr"), consolidated=False) as there:
        assert set(there) == {"v"}
        assert there["v"][0] == 2


def test_the_other_stays_until_there_is_something_to_show(endpoint, tmp_path):
    write_store(tmp_path / "first" / "results.zarr", v=1)
    assert not Copying(tmp_path / "first", "s3://bucket/kept").finish()
    (tmp_path / "second").mkdir()
    assert not Copying(tmp_path / "second", "s3://bucket/kept").finish()
    assert keys(endpoint, "kept") == files_of(tmp_path / "first")


def test_stores_of_the_same_run_stay_when_its_analysis_starts_again(endpoint, tmp_path):
    bucket = Noted()
    for name in ("results.zarr", "raw.zarr", "functions/f.zarr", "pyramids/day.zarr"):
        write_store(tmp_path / name, v=1)
    assert not Copying(tmp_path, "s3://bucket/same", sources=bucket).finish()
    GrowingZarr(tmp_path / "functions" / "f.zarr").commit(more="of it")
    set_attributes(tmp_path / "results.zarr", bbflow_status="incomplete")
    assert not Copying(tmp_path, "s3://bucket/same", sources=bucket).finish()
    assert [url for name, url in bucket.steps if name == "remove"] == []
    assert zarr.open_group(copied(endpoint, "same/functions/f.zarr"), mode="r").attrs["more"] == "of it"


def test_a_store_that_bbflow_did_not_make_is_left_alone_and_said(endpoint, tmp_path):
    objects_in(endpoint).put("way/results.zarr/zarr.json", b'{"zarr_format": 3, "node_type": "group"}')
    with pytest.raises(ConfigError, match=r"way/results.zarr is in the way, and bbflow didn't make it: move it, or"):
        check_copy(Config("s", {}, copy_to="s3://bucket/way"))
    write_store(tmp_path / "results.zarr", v=1)
    [error] = Copying(tmp_path, "s3://bucket/way", times=ONCE).finish()
    assert "is in the way" in error
    assert keys(endpoint, "way") == {"results.zarr/zarr.json"}


def test_all_stores_of_a_run_are_in_the_bucket_as_they_are_in_the_output(endpoint, tmp_path):
    tas = np.random.default_rng(3).normal(280, 3, (48, 4, 6)).astype("f4")
    attributes = {"time/units": "hours since 2001-01-01", "tas/_ARRAY_DIMENSIONS": ["lat", "lon"]}
    streams.store(tmp_path, {"tas": tas}, np.arange(48), attributes)
    config = {
        "operators": {"tas": ["mean", "max"]},
        "windows": ["hour", "day"],
        "raw": {"variables": ["tas"]},
        "results": {"chunks": {"time": 6}},
        "copy_to": "s3://bucket/run",
    }
    results = streams.analyse(tmp_path, config)
    with xr.open_zarr(copied(endpoint, "run/results.zarr")) as there:
        xr.testing.assert_identical(there.load(), xr.open_zarr(tmp_path / "out" / "results.zarr").load())
        np.testing.assert_array_equal(there["tas_hour_mean"], results["tas_hour_mean"])
    with xr.open_zarr(copied(endpoint, "run/raw.zarr")) as there:
        np.testing.assert_array_equal(there["tas"], tas)


def test_a_copy_that_can_not_be_is_said(endpoint, tmp_path):
    with pytest.raises(ConfigError, match="there is no bucket 'nowhere'"):
        check_copy(Config("s", {}, copy_to="s3://nowhere/run"))
    check_copy(Config("s", {}, copy_to="s3://bucket/nothing/yet"))
    assert not keys(endpoint, "nothing")
    content = {"stream": "s", "operators": {"tas": ["mean"]}, "copy_to": "bucket/run"}
    with pytest.raises(ConfigError, match="copy_to: 'bucket/run' isn't a place for results"):
        parse_config(content)
    store = GrowingZarr(tmp_path / "results.zarr")
    store.commit(history="run")
    [error] = Copying(tmp_path, "s3://nowhere/run", times=ONCE).finish()
    assert error.startswith("s3://nowhere/run: the copy isn't complete: ")


@pytest.mark.parametrize("key", ["output", "copy_to"])
def test_a_key_that_the_bucket_rejects_is_told_in_a_line_before(endpoint, key):
    config = Config("s", {}, copy_to="s3://bucket/rejected", moves=key == "output")
    why = "s3://bucket/rejected/.bbflow: no permission; check its owner, or the credentials of its store"
    with refusing_keys(endpoint), pytest.raises(ConfigError) as refused:
        check_copy(config)
    assert str(refused.value) == f"{key}: s3://bucket/rejected can't be written: {why}"
    check_copy(config)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://127.0.0.1:9/run", "this kind of store can't do that"),
        ("https://example.org/run", "this kind of store can't do that"),
        ("s3://bucket/a//b", "'//' or '..' are none"),
        ("s3://bucket/../x", "'//' or '..' are none"),
        ("nosuch://bucket/x", "nosuch"),
    ],
)
def test_a_place_that_can_not_be_written_is_refused_before(url, why):
    with pytest.raises(ConfigError, match=f"^copy_to: {re.escape(url)} can't be written: .*{re.escape(why)}[^\n]*$"):
        check_copy(Config("s", {}, copy_to=url))

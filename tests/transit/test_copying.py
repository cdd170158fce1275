"""The copy of the stores in a bucket: it follows the run, and readers of it never see half a commit."""

import threading
import time

import numpy as np
import pytest
import streams
import xarray as xr
import zarr
from obstore.store import S3Store
from zarr.storage import ObjectStore

from bbflow.config import parse_config
from bbflow.errors import ConfigError
from bbflow.growing import GrowingZarr
from bbflow.transit.output import copying
from bbflow.transit.output.copying import Copying, check_copy
from testsupport.object_server import object_server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with object_server(tmp_path_factory.mktemp("moto") / "log") as url:
        yield url


@pytest.fixture(autouse=True)
def credentials(server, monkeypatch):
    names = {"AWS_ENDPOINT_URL": server, "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
    for name, value in (names | {"AWS_REGION": "us-east-1"}).items():
        monkeypatch.setenv(name, value)


def copied(server, prefix):
    store = S3Store(
        "bucket", prefix=prefix, endpoint=server, access_key_id="k", secret_access_key="s", region="us-east-1",
        client_options={"allow_http": True},
    )  # fmt: skip
    return ObjectStore(store, read_only=True)


def test_readers_of_the_copy_never_see_half_a_commit(server, tmp_path, monkeypatch):
    monkeypatch.setattr(copying, "LOOK_S", 0.01)
    store, following, seen, wrong = GrowingZarr(tmp_path / "results.zarr"), threading.Event(), set(), []
    store.create("v", ["time", "x"], (0, 3), "f8", {}, (1, 3))
    store.create("time", ["time"], (0,), "f8", {}, (512,))
    store.commit(history="this run")

    def read():
        while not following.is_set():
            try:
                group = zarr.open_group(copied(server, "grows/results.zarr"), mode="r", use_consolidated=True)
            except FileNotFoundError:
                continue
            size = group["time"].shape[0]
            expected = np.arange(size, dtype="f8")
            if not ((group["time"][...] == expected).all() and (group["v"][...] == expected[:, np.newaxis]).all()):
                wrong.append((size, group["time"][...], group["v"][...]))
            seen.add(size)

    reader, follower = threading.Thread(target=read), Copying(tmp_path, "s3://bucket/grows")
    reader.start()
    for at in range(60):
        store.write("v", at, np.full((1, 3), float(at)))
        store.write("time", at, np.array([float(at)]))
        store.commit()
        time.sleep(0.02)
    errors = follower.finish()
    time.sleep(0.2)
    following.set()
    reader.join()
    assert not errors
    assert not wrong
    assert len(seen) > 5
    assert max(seen) == 60


def test_another_runs_copy_is_hidden_before_it_is_written_over(server, tmp_path):
    for number, run in enumerate(("first", "second")):
        store = GrowingZarr(tmp_path / run / "results.zarr")
        store.create("v", ["x"], (2,), "f8", {}, (2,))
        store.write("v", 0, np.full(2, float(number)))
        store.commit(history=run)
        assert not Copying(tmp_path / run, "s3://bucket/again").finish()
        group = zarr.open_group(copied(server, "again/results.zarr"), mode="r")
        assert (group.attrs["history"], group["v"][0]) == (run, number)


def test_all_stores_of_a_run_are_in_the_bucket_as_they_are_in_the_output(server, tmp_path):
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
    with xr.open_zarr(copied(server, "run/results.zarr")) as there:
        xr.testing.assert_identical(there.load(), xr.open_zarr(tmp_path / "out" / "results.zarr").load())
        np.testing.assert_array_equal(there["tas_hour_mean"], results["tas_hour_mean"])
    with xr.open_zarr(copied(server, "run/raw.zarr")) as there:
        np.testing.assert_array_equal(there["tas"], tas)


def test_a_copy_that_can_not_be_is_said(server, tmp_path):
    with pytest.raises(ConfigError, match="there is no bucket 'nowhere'"):
        check_copy("s3://nowhere/run")
    check_copy("s3://bucket/nothing/yet")
    content = {"stream": "s", "operators": {"tas": ["mean"]}, "copy_to": "bucket/run"}
    with pytest.raises(ConfigError, match="copy_to: 'bucket/run' is no place for a copy"):
        parse_config(content)
    store = GrowingZarr(tmp_path / "results.zarr")
    store.commit(history="run")
    [error] = Copying(tmp_path, "s3://nowhere/run").finish()
    assert error.startswith("s3://nowhere/run: the copy isn't complete: ")

"""Streams as Zarr in the mount of the files: what a program that knows files only sees of a running simulation."""

import errno
from functools import partial

import numpy as np
import programs
import pytest
import xarray as xr

from bbflow.landing.client import NodeClient
from testsupport.asking import ask
from testsupport.files_servers import Servers
from testsupport.mounts import Mounts, errno_of, missing
from testsupport.processes import finish
from testsupport.waiting import until
from testsupport.writers import wait_for_file, write_config, writing


@pytest.fixture
def streams(two_nodes, tmp_path):
    """The directory of the streams, in a mount of the files of the same nodes."""
    if reason := missing():
        pytest.skip(reason)
    with Servers(tmp_path) as servers, Mounts(tmp_path) as mounts:
        servers.contact = two_nodes.contact
        servers.start(storage=False)
        source = ["--storage", f"bbflow-streams:{two_nodes.contact}", "--subtree", "/streams"]
        servers.spawn("streams", "master", *source, "--read-only", "--refresh", "0.1")
        servers.spawn("streams-io", "ionode", *source, "--name", "streams-io", "--capacity", "4MiB")
        until(lambda: '"/streams"' in two_nodes.contact.read_text(), "the streams' master")
        servers.client(2)
        where = mounts.start("m", contact=two_nodes.contact) / "streams"
        until(where.is_dir, "the streams' directory")
        yield where


def at_least(group, steps):
    """Return what a group has, once it has this many steps."""
    seen = xr.open_zarr(group, chunks=None)
    return seen if seen.sizes.get("time", 0) >= steps else None


def test_a_running_stream_is_a_zarr_group_in_the_mount_that_grows_with_it(two_nodes, opened, streams, tmp_path):
    with writing(two_nodes.contact, programs.STEP_BY_STEP, write_config(tmp_path), ranks=2) as job:
        for step in range(4):
            for rank in range(2):
                wait_for_file(tmp_path / f"landed.{step}.{rank}")
            view = opened(two_nodes, wait=step + 1)
            seen = until(partial(at_least, streams / "model", step + 1), f"step {step}")
            xr.testing.assert_equal(seen, view)
            assert seen.tas.attrs == view.tas.attrs
            view.close()
            for rank in range(2):
                (tmp_path / f"go.{step}.{rank}").touch()
        assert finish(job) == (0, "")
    until(lambda: at_least(streams / "model", 4).attrs["bbflow_status"] == "closed", "the end")
    assert errno_of((streams / "model" / "new").write_bytes, b"") == errno.EROFS
    assert errno_of((streams / "model" / ".zattrs").unlink) == errno.EROFS


def test_times_and_axes_stay_when_the_steps_have_gone(two_nodes, streams, tmp_path):
    group = streams / "model"
    with writing(two_nodes.contact, programs.STEP_BY_STEP, write_config(tmp_path), ranks=2) as job:
        clients = [NodeClient(node) for node in two_nodes.nodes]
        epochs = [ask(client, "attach", stream="model", consumers=["fold"])["epoch"] for client in clients]
        for step in range(4):
            for rank in range(2):
                wait_for_file(tmp_path / f"landed.{step}.{rank}")
            until(partial(at_least, group, step + 1), f"step {step}")
            for client, epoch in zip(clients, epochs, strict=True):
                ask(client, "done", stream="model", consumer="fold", epoch=epoch, step=step, checkpoint=b"")
            seen = until(partial(without_fields, group, step + 1), f"a group without the fields of step {step}")
            assert (seen.time.size, seen.lat.size) == (step + 1, 4)
            for rank in range(2):
                (tmp_path / f"go.{step}.{rank}").touch()
        assert finish(job) == (0, "")
        for client in clients:
            client.close()
    seen = until(partial(closed, group), "the end")
    days = (seen.time.values - np.datetime64("2000-01-01")) / np.timedelta64(1, "D")
    assert days.tolist() == [0, 0.5, 1, 1.5]
    assert seen.lat.values.tolist() == [0, 1, 2, 3]
    assert np.isnan(seen.tas).all()


def without_fields(group, steps):
    """Return what a group has, once nothing is left of the field in this many steps."""
    seen = at_least(group, steps)
    try:
        return seen if seen is not None and np.isnan(seen.tas).all() else None
    except OSError:  # its chunks are still listed
        return None


def closed(group):
    """Return what a group has of a stream that is closed."""
    seen = xr.open_zarr(group, chunks=None)
    return seen if seen.attrs["bbflow_status"] == "closed" else None

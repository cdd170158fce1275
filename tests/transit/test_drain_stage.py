"""Batches of the drain that follow each other count in their order, whatever becomes of the workers."""

import os
import queue
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import dask
import distributed  # noqa: F401 - its configuration, which the fixture changes, comes with it
import numpy as np
import pytest
import xarray as xr

from bbflow.configuring.settings import Config, RawConfig, WorkersConfig
from bbflow.configuring.step_time import TimeConfig
from bbflow.drain.drain_task import Drained, drain_steps, write_next
from bbflow.errors import StreamError
from bbflow.events import EventLog, read_events
from bbflow.landing.embedded import EmbeddedNodes
from bbflow.net.contact import read_contact
from bbflow.operators.windows.calendars import STEP_CLOCK
from bbflow.stream.cf import StreamAttributes
from bbflow.transit.clusters.local_cluster import local_cluster
from bbflow.transit.driver import drain_stage
from bbflow.transit.driver.drain_stage import MOST_BEGUN, DrainStage
from bbflow.transit.driver.stage import Running, Seen
from bbflow.view.consumers import DRAIN, Consumers
from bbflow.view.lease import Lease
from bbflow.view.stream import News, StreamView
from testsupport.waiting import until
from testsupport.writers import steps_of, watch, write, write_config

STEPS = 16
WRITE = f"""
field = io.define_variable("field", np.empty(0), [6], [0], [6], True)
number = io.define_variable("number", np.array([0]))
engine = io.open("out", Mode.Write)
for step in range({STEPS}):
    engine.begin_step()
    engine.put(field, np.arange(6) + 10.0 * step, Mode.Sync)
    engine.put(number, np.array([step]), Mode.Sync)
    engine.end_step()
engine.close()
"""


def deadly(folder, work):
    """Write, and kill the worker afterwards, for as long as there are files that say so."""
    done = drain_steps(work)
    for path in sorted(Path(folder).glob(f"{work.numbers[0]}.*"))[:1]:
        path.unlink()
        os._exit(9)
    return done


def slow(work):
    """Write so slowly that the drain is never idle."""
    time.sleep(0.1)
    return drain_steps(work)


@pytest.fixture
def stage(request, tmp_path, monkeypatch):
    """The drain of a stream that has ended, in batches of one step; its news; and where it is told whom to kill.

    Dask runs a task again as often as the parameter says; then it gives it up, and what follows it.
    """
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    monkeypatch.setattr(drain_stage, "writing", lambda raw: partial(deadly, str(deaths)))
    config = Config("model", {}, tmp_path, TimeConfig(variable="number"), RawConfig())
    woken = queue.SimpleQueue()
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": request.param}),
        EmbeddedNodes(1, 1 << 18) as nodes,
        local_cluster(WorkersConfig(processes=1, threads=1)) as cluster,
    ):
        write(nodes.contact, WRITE, write_config(tmp_path))
        addresses = {node.name: node for node in read_contact(nodes.contact)}
        (name,) = addresses
        view = StreamView([name], {name: -1})
        view.update(name, News("closed", 1, 1, tuple(steps_of(watch(nodes))), STEPS - 1))
        consumers, log = Consumers(list(addresses.values()), "model", [DRAIN]), EventLog(tmp_path)
        wake = partial(woken.put, None)
        stage = DrainStage(Running(config, nodes.contact, addresses, cluster, consumers, 1 << 18, view, log, wake))
        stage.draining.batch_bytes = (1, 1)
        stage.draining.open(tmp_path / "raw.zarr", StreamAttributes({}), None)
        yield stage, woken, deaths
        consumers.close()
        log.close()


SEEN = Seen(StreamAttributes({}), STEP_CLOCK, lambda number, parts: None)


def drain(stage, woken, look=lambda: None):
    """Drain all; return how many batches were begun at most, and the cursor whenever it had changed."""
    most, cursors = 0, [stage.draining.cursor]
    while True:
        look()
        stage.take(SEEN)
        stage.begin(SEEN)
        most = max(most, len(stage._begun))
        cursors += [stage.draining.cursor] if stage.draining.cursor != cursors[-1] else []
        if stage.idle:
            return most, cursors
        woken.get(timeout=300)


@pytest.mark.parametrize(
    ("stage", "deaths"),
    [(0, {}), (0, {1: 1, 2: 1}), (3, {0: 1})],
    ids=["nobody", "two batches, given up at once", "one, run again"],
    indirect=["stage"],
)
def test_batches_count_in_their_order_and_each_once_whatever_worker_dies(tmp_path, stage, deaths):
    stage, woken, folder = stage
    for step, count in deaths.items():
        for number in range(count):
            (folder / f"{step}.{number}").touch()
    most, cursors = drain(stage, woken)
    assert most == MOST_BEGUN
    assert cursors == sorted(cursors)
    assert cursors[-1] == STEPS - 1
    assert not list(folder.iterdir())
    raw = xr.open_zarr(tmp_path / "raw.zarr", chunks=None)
    assert raw.bbflow_step.values.tolist() == list(range(STEPS))
    np.testing.assert_array_equal(raw["field"].values, np.arange(6) + 10.0 * np.arange(STEPS)[:, None])
    drained = [event for event in read_events(tmp_path) if event["event"] == "drain"]
    assert [event["first_step"] for event in drained] == list(range(STEPS))
    assert all(event["bytes"] == 48 for event in drained)


@pytest.mark.parametrize("stage", [0], indirect=True)
def test_steps_that_have_counted_are_not_written_again_from_room_that_others_have(tmp_path, stage):
    stage, woken, _ = stage
    stage._task, submit, works = partial(write_next, drain_steps), stage._submit, []
    stage._submit = lambda batch: (works.extend(batch.works), submit(batch))
    drain(stage, woken)
    (node,) = stage.run.nodes.values()
    until(lambda: not Lease(stage.run.contact, "model").pin(node.name, range(STEPS)), "the node has kept steps")
    with Path(node.pool).open("r+b") as pool:
        pool.write(bytes(1 << 18))
    assert [write_next(drain_steps, work) for work in works] == [Drained(0, 0, 0)] * STEPS
    raw = xr.open_zarr(tmp_path / "raw.zarr", chunks=None)
    np.testing.assert_array_equal(raw["field"].values, np.arange(6) + 10.0 * np.arange(STEPS)[:, None])
    with pytest.raises(StreamError, match="is gone"):
        write_next(drain_steps, replace(works[0], start=STEPS))


@pytest.mark.parametrize("stage", [0], indirect=True)
def test_dask_keeps_no_more_tasks_than_follow_each_other(stage):
    stage, woken, _ = stage
    stage.longest_chain = 2
    stage._task = partial(write_next, slow)
    client, kept = stage.run.cluster.client, []
    _, cursors = drain(
        stage, woken, lambda: kept.append(client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))
    )
    assert cursors[-1] == STEPS - 1
    assert max(kept) <= STEPS // 2

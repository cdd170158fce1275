"""A rescue that is killed goes on where it was, whatever the nodes have let go of; each stream has its own store."""

import json
import random
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
import streams
import xarray as xr

from bbflow import start_nodes
from bbflow.configuring.step_time import TimeConfig
from bbflow.drain import rescuing
from bbflow.drain.rescuing import Rescue, check_known
from bbflow.drain.stores import rescued_stores
from bbflow.errors import BbflowError, StreamError
from bbflow.net.contact import read_contact
from bbflow.view.consumers import FOLD, RESCUE, Consumers, no_checkpoint
from testsupport.processes import finish_well
from testsupport.waiting import PATIENCE_S, until
from testsupport.writers import clean_environment, write, write_config, writing

STEPS, LATS, LONS = 6, 4, 3
TIMES = 6.0 * np.arange(STEPS)
ATTRIBUTES = {"time/units": "hours since 2001-01-01", "tas/_ARRAY_DIMENSIONS": ["lat", "lon"]}


class KilledError(Exception):
    """Stands for a signal."""


@pytest.fixture
def tas():
    return np.random.default_rng(3).random((STEPS, LATS, LONS), "f4")


@pytest.fixture
def contact(tas, tmp_path):
    """Two nodes that hold all steps of a stream, which has ended."""
    streams.store(tmp_path, {"tas": tas}, TIMES, ATTRIBUTES)
    with start_nodes(2, "4MiB") as nodes, held(tmp_path, nodes.contact):
        yield nodes.contact


@contextmanager
def held(folder, contact):
    Consumers(read_contact(contact), "fields", [RESCUE]).close()  # else nobody is to come, and they let go
    with streams.writing(folder, contact, ranks=2):
        yield


def rescue(contact, folder, **limits):
    return Rescue(contact, "fields", folder, TimeConfig(), **limits).run()


def test_a_stream_that_no_node_knows_is_not_waited_for(contact):
    check_known(contact, "fields")
    with pytest.raises(StreamError, match="know no stream 'field', they have 'fields': nothing is left to rescue"):
        check_known(contact, "field")


@pytest.mark.parametrize("told", ["bb0", "bb1"])
def test_it_is_killed_when_one_node_has_let_go_of_steps_and_another_has_not(contact, tas, tmp_path, monkeypatch, told):
    commit = Consumers.commit

    def killed(self, consumer, through, nodes, checkpoint):
        commit(self, consumer, through, [told], checkpoint)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(rescuing, "BATCH_STEPS", 2)
        patch.setattr(Consumers, "commit", killed)
        with pytest.raises(KilledError):
            rescue(contact, tmp_path)
    rescued = rescue(contact, tmp_path)
    assert (rescued.steps, rescued.complete) == (STEPS, True)
    assert_is_there(rescued.store, tas)


def test_another_stream_of_the_same_name_gets_a_store_of_its_own(contact, tas, tmp_path, monkeypatch):
    first = rescue(contact, tmp_path / "out")
    streams.store(tmp_path / "next", {"tas": tas + 1}, TIMES, ATTRIBUTES)
    with held(tmp_path / "next", contact):
        with monkeypatch.context() as patch:
            patch.setattr(rescuing, "BATCH_STEPS", 2)
            patch.setattr(Consumers, "drop", interrupted)
            with pytest.raises(KilledError):
                rescue(contact, tmp_path / "out")
        second = rescue(contact, tmp_path / "out")
    assert (first.steps, second.steps) == (STEPS, STEPS)
    assert [first.store, second.store] == [tmp_path / "out" / name for name in ("raw.zarr", "raw_2.zarr")]
    assert rescued_stores(tmp_path / "out") == [first.store, second.store]
    assert_is_there(first.store, tas)
    assert_is_there(second.store, tas + 1)


MANY = """
field = io.define_variable("field", np.empty(0, "i4"), [2], [rank], [1], True)
engine = io.open("out", Mode.Write)
for step in range(STEPS):
    engine.begin_step()
    engine.put(field, np.full(1, step, "i4"), Mode.Sync)
    engine.end_step()
    time.sleep(PAUSE)
engine.close()
"""


@pytest.mark.parametrize("seed", range(6))
def test_every_step_that_landed_is_rescued_however_nodes_tell_of_them(tmp_path, seed):
    dice = random.Random(seed)
    steps, pause_s = dice.randint(1, 90), dice.choice([0, 0, 0.002])
    limits = {"reply_steps": dice.randint(1, 40), "batch_steps": dice.randint(1, 40)}
    code = MANY.replace("STEPS", str(steps)).replace("PAUSE", str(pause_s))
    with start_nodes(dice.randint(1, 2), "4MiB") as nodes, ThreadPoolExecutor() as pool:
        Consumers(read_contact(nodes.contact), "model", [RESCUE]).close()
        configs = [write_config(tmp_path, Writers="2", Rank=str(rank)) for rank in range(2)]
        ranks = [pool.submit(write, nodes.contact, code, config, rank, 2) for rank, config in enumerate(configs)]
        if dice.random() < 0.7:  # all of it lies there when the rescue begins
            [rank.result() for rank in ranks]
        rescued = Rescue(nodes.contact, "model", tmp_path / "out", TimeConfig(), **limits).run()
        [rank.result() for rank in ranks]
    assert (rescued.steps, rescued.complete) == (steps, True)
    with xr.open_zarr(rescued.store) as raw:
        np.testing.assert_array_equal(raw.field, np.repeat(np.arange(steps)[:, None], 2, axis=1))


HALVES = """
field = io.define_variable("field", np.empty(0, "i4"), [2], [0], [2], True)
engine = io.open("out", Mode.Write)
for step in range(6):
    if step == 3:
        tell("half")
        wait_for("go")
    engine.begin_step()
    engine.put(field, np.full(2, step, "i4"), Mode.Sync)
    engine.end_step()
engine.close()
"""


def test_a_rescue_may_begin_while_the_nodes_hold_nothing_and_be_killed_before_they_do(tmp_path, monkeypatch):
    with start_nodes(1, "4MiB") as nodes, ThreadPoolExecutor() as pool:
        analysis = Consumers(read_contact(nodes.contact), "model", [FOLD])
        with writing(nodes.contact, HALVES, write_config(tmp_path)) as process:
            until((tmp_path / "half").exists, of=process)
            analysis.commit(FOLD, 2, ["bb0"], no_checkpoint)
            analysis.close()
            drain, told = Rescue._drain, threading.Event()
            with monkeypatch.context() as patch:
                patch.setattr(Rescue, "_drain", lambda self: (drain(self), interrupted()))
                with pytest.raises(KilledError):
                    Rescue(nodes.contact, "model", tmp_path / "out", TimeConfig(), take_over=True).run()
            monkeypatch.setattr(Rescue, "_drain", lambda self: (drain(self), told.set()))
            rescued = pool.submit(Rescue(nodes.contact, "model", tmp_path / "out", TimeConfig()).run)
            assert told.wait(PATIENCE_S)
            (tmp_path / "go").touch()
            finish_well(process)
        assert (rescued.result().steps, rescued.result().complete) == (3, True)


def test_a_store_of_an_earlier_rescue_that_was_removed_is_missed(contact, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Consumers, "drop", interrupted)
        with pytest.raises(KilledError):
            rescue(contact, tmp_path / "out")
    shutil.rmtree(tmp_path / "out/raw.zarr")
    with pytest.raises(BbflowError, match=r"raw\.zarr was removed, so steps in it are lost; give another output"):
        rescue(contact, tmp_path / "out")
    assert rescue(contact, tmp_path / "other").steps == 0


def test_steps_are_rescued_without_ranks_of_a_lost_node_that_come_to_no_other(tmp_path):
    """Ranks of the other waited for room, the rescue for the lost ranks, and neither ended."""
    steps, lost = 40, tmp_path / "lost.json"
    code = MANY.replace("STEPS", str(steps)).replace("PAUSE", "0")
    with start_nodes(2, "64KiB") as nodes, ThreadPoolExecutor() as pool:
        Consumers(read_contact(nodes.contact)[:1], "model", [RESCUE]).close()
        known = json.loads(nodes.contact.read_bytes())
        known["nodes"][1] |= {"socket": str(tmp_path / "gone"), "tcp": "127.0.0.1:1"}
        lost.write_text(json.dumps(known))
        lost.chmod(0o600)
        config = write_config(tmp_path, Writers="2", Rank="0")
        rank = pool.submit(write, nodes.contact, code, config, 0, 2)
        rescued = Rescue(lost, "model", tmp_path / "out", TimeConfig(), absent_s=0.5).run()
        rank.result()
    assert (rescued.steps, rescued.complete) == (steps, False)
    assert rescued.refused == ["ranks of lost nodes have come to no other for 0.5 s: their values aren't there"]
    with xr.open_zarr(rescued.store) as raw:
        np.testing.assert_array_equal(raw.field[:, 0], np.arange(steps))
        assert raw.field[:, 1].isnull().all() or (raw.field[:, 1] == 0).all()


def test_a_rescue_that_misses_steps_is_an_error_and_the_nodes_keep_them(contact, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(rescuing.StreamView, "ended", property(lambda view: view.status == "closed"))  # too early
        with pytest.raises(StreamError, match="2 steps have landed, the first of them 4"):
            rescue(contact, tmp_path / "out", reply_steps=4)
    rescued = rescue(contact, tmp_path / "out")
    assert (rescued.steps, rescued.complete) == (STEPS, True)


CHANGING = """
same = io.define_variable("same", np.empty(0, "f4"), [20000], [0], [20000], True)
particles = io.define_variable("particles", np.empty(0, "f4"), [3], [0], [3], False)
engine = io.open("out", Mode.Write)
for step in range(40):
    engine.begin_step()
    engine.put(same, np.full(20000, step, "f4"), Mode.Sync)
    count = 3 if step < 4 else 1 + step % 7
    particles.set_shape([count])
    particles.set_selection([[0], [count]])
    engine.put(particles, np.full(count, step, "f4"), Mode.Sync)
    engine.end_step()
engine.close()
"""


def test_a_variable_that_changes_its_shape_goes_into_a_table_and_the_simulation_is_not_held_up(tmp_path):
    with start_nodes(1, "1MiB") as nodes:
        Consumers(read_contact(nodes.contact), "model", [RESCUE]).close()
        with ThreadPoolExecutor() as pool:
            writing = pool.submit(write, nodes.contact, CHANGING, write_config(tmp_path))
            rescued = Rescue(nodes.contact, "model", tmp_path / "out", TimeConfig()).run()
            writing.result()
    assert (rescued.steps, rescued.complete, rescued.left_out) == (40, True, ())
    with xr.open_zarr(rescued.store) as raw:
        np.testing.assert_array_equal(raw.same[:, -1], range(40))
        np.testing.assert_array_equal(raw.particles[:, 0], [0, 1, 2, 3, *[np.nan] * 36])
    with xr.open_zarr(rescued.store, group="particles_blocks") as table:
        np.testing.assert_array_equal(table.step, range(4, 40))
        np.testing.assert_array_equal(table["size"], [1 + step % 7 for step in range(4, 40)])
        np.testing.assert_array_equal(table.value, np.repeat(table.step, table["size"]))


ALL_KINDS = """
io.define_attribute("own/units", ["K"])
io.define_attribute("odd/units", np.array([1 + 2j]))
own = io.define_variable("own", np.empty(0), [], [], [2])
joined = io.define_variable("joined", np.empty(0, "i4"), [adios2.JoinedDim, 2], [], [1, 2])
growing = io.define_variable("growing", np.empty(0, "f4"), [1, 2], [0, 0], [1, 2])
mine = io.define_variable("mine", np.empty(0, "i4"), [adios2.LocalValueDim])
said = io.define_variable("said", "")
fixed = io.define_variable("fixed", np.empty(0), [3], [0], [3])
engine = io.open("out", Mode.Write)
for step in range(4):
    engine.begin_step()
    engine.put(said, f"2000-01-{step + 1:02d} \u00fc")
    engine.put(fixed, np.arange(3.0) + step, Mode.Sync)
    for block in range(step + 1):
        own.set_selection([[], [block + 1]])
        engine.put(own, np.full(block + 1, 10.0 * step + block), Mode.Sync)
        engine.put(joined, np.array([[step, block]], "i4"), Mode.Sync)
    growing.set_shape([step + 1, 2])
    growing.set_selection([[0, 0], [step + 1, 2]])
    engine.put(growing, np.full((step + 1, 2), step, "f4"), Mode.Sync)
    engine.put(mine, np.array([step], "i4"), Mode.Sync)
    engine.end_step()
engine.close()
"""


def test_all_kinds_of_variables_are_rescued_and_replayed(tmp_path):
    with start_nodes(1, "4MiB") as nodes:
        Consumers(read_contact(nodes.contact), "model", [RESCUE]).close()
        write(nodes.contact, ALL_KINDS, write_config(tmp_path))
        rescued = Rescue(nodes.contact, "model", tmp_path / "out", TimeConfig()).run()
    assert (rescued.steps, rescued.complete, rescued.left_out) == (4, True, ())
    with xr.open_zarr(rescued.store) as raw:
        assert raw.said.values.tolist() == [f"2000-01-{day:02d} \u00fc" for day in (1, 2, 3, 4)]
    with xr.open_zarr(rescued.store, group="own_blocks") as own:
        assert own["value"].units == "K"
        assert own["size"].values.tolist() == [1, 1, 2, 1, 2, 3, 1, 2, 3, 4]
    with start_nodes(1, "4MiB") as nodes:
        command = [sys.executable, "-m", "bbflow", "replay", rescued.store, "--stream", "model"]
        subprocess.run(command, env=clean_environment(nodes.contact), check=True, timeout=300)
        with xr.open_dataset(nodes.contact, engine="bbflow") as back:
            assert back.said.values.tolist() == [f"2000-01-{day:02d} \u00fc" for day in (1, 2, 3, 4)]
            np.testing.assert_array_equal(back.fixed, np.arange(3.0) + np.arange(4.0)[:, None])
            np.testing.assert_array_equal(back.mine[:, 0], range(4))
            np.testing.assert_array_equal(back.growing[3], np.full((4, 2), 3.0))
            np.testing.assert_array_equal(back.growing[1], [[1.0, 1.0], [1.0, 1.0], [np.nan] * 2, [np.nan] * 2])
            np.testing.assert_array_equal(back.joined[3], [[3, block] for block in range(4)])
            np.testing.assert_array_equal(back.own[3, 3], np.full(4, 33.0))
            np.testing.assert_array_equal(back.own[2, 1], [21.0, 21.0, np.nan, np.nan])
            assert (back.own.units, back.attrs["odd/units"]) == ("K", "1+2j")


OTHER_TIME = """
io.define_attribute("day/units", "days since 2000-01-01")
day = io.define_variable("day", np.zeros(1))
engine = io.open("out", Mode.Write)
for step in range(3):
    engine.begin_step()
    engine.put(day, np.array([10.0 + step]), Mode.Sync)
    engine.end_step()
engine.close()
"""


def test_steps_have_the_time_that_the_configuration_names(tmp_path):
    with start_nodes(1, "4MiB") as nodes:
        Consumers(read_contact(nodes.contact), "model", [RESCUE]).close()
        write(nodes.contact, OTHER_TIME, write_config(tmp_path))
        rescued = Rescue(nodes.contact, "model", tmp_path / "out", TimeConfig(variable="day")).run()
    with xr.open_zarr(rescued.store, decode_times=False) as raw:
        assert raw.bbflow_step.dims == ("day",)
        np.testing.assert_array_equal(raw.day, [10, 11, 12])


def interrupted(*_):
    raise KilledError


def assert_is_there(store, tas):
    with xr.open_zarr(store, decode_times=False) as raw:
        assert raw.tas.dims == ("time", "lat", "lon")
        np.testing.assert_array_equal(raw.tas, tas)
        np.testing.assert_array_equal(raw.time, TIMES)
        np.testing.assert_array_equal(raw.bbflow_step, range(STEPS))

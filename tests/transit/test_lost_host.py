"""A host that is gone for good costs its points the steps since the last safe copy, and nothing else."""

import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import bbflow_adios2
import mainjob
import numpy as np
import pytest
import xarray as xr

from bbflow.events import read_events
from bbflow.landing.client import status_of
from bbflow.net.contact import read_contact
from bbflow.run.course import INCOMPLETE
from testsupport.nodes import count_nodes
from testsupport.waiting import until

STEPS = 60
OPERATORS = {
    "tas": ["mean", "min", "max", "count"],
    "global_tas": {"of": "tas", "space": "fldmean", "operators": ["mean"]},
}


@pytest.fixture
def nodes(tmp_path):
    """Two BB nodes that nobody starts again."""
    contact = tmp_path / "contact.json"
    with ExitStack() as stack:

        def start(name):
            words = ["node", "--name", name, "--capacity", "256KiB", "--contact", contact, "--directory", tmp_path]
            with (tmp_path / f"{name}.log").open("wb") as log:
                process = subprocess.Popen([sys.executable, "-m", "bbflow", *map(str, words)], stdout=log, stderr=log)
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        started = {}
        for name in ("bb0", "bb1"):
            started[name] = start(name)
            until(lambda: count_nodes(contact) == len(started), f"{name} doesn't start")
        yield contact, started, start


def events(output, kind):
    return [event for event in read_events(output) if event["event"] == kind]


def is_removed(directory):
    """Remove a directory in which the analysis makes and removes files of its own meanwhile, if that can be."""
    shutil.rmtree(directory, ignore_errors=True)
    return not Path(directory).exists()


@pytest.mark.slow
def test_a_lost_host_costs_its_points_the_steps_since_the_last_copy(program, tmp_path, nodes):
    contact, started, _ = nodes
    victim = "bb0"  # which the steps' time lands on
    truth = mainjob.oracle(program, tmp_path, STEPS)
    config = mainjob.write_config(
        tmp_path,
        operators=OPERATORS,
        raw="none",
        safe_every_s=0.1,
        nodes={"back_s": 3},
        workers={"processes": 1, "batch_steps": 2},
    )
    xml = tmp_path / "climate.xml"
    xml.write_text(bbflow_adios2.engine_xml("climate", NodeLossTimeoutSecs="1"))
    output = tmp_path / "out"
    process = mainjob.start_run(config, mainjob.simulation(program, 2, STEPS, config=xml), "--contact", str(contact))
    until(lambda: len(events(output, "safe")) >= 3, "nothing is copied")
    directory = next(node.directory for node in read_contact(contact) if node.name == victim)
    started[victim].kill()
    until(lambda: is_removed(directory), "the node's directory doesn't go")
    said, _ = process.communicate(timeout=300)
    print(said)
    assert process.returncode == INCOMPLETE, said
    assert f"{STEPS} of {STEPS} steps" in said
    results = xr.open_zarr(output / "results.zarr").load()
    assert results.attrs["bbflow_status"] == "incomplete"
    (lost,) = [text for text in results.attrs["bbflow_lost"] if text.startswith("tas")]
    mainjob.assert_lacks_what_is_said(results, truth, lost)


def test_a_node_that_comes_back_empty_is_noticed_and_the_rest_is_rescued(program, tmp_path, nodes):
    contact, started, start = nodes
    victim = "bb0"
    truth = mainjob.oracle(program, tmp_path, STEPS)
    config = mainjob.write_config(tmp_path, operators=OPERATORS, raw="none", workers={"processes": 1, "batch_steps": 2})
    xml = tmp_path / "climate.xml"
    xml.write_text(bbflow_adios2.engine_xml("climate"))
    output = tmp_path / "out"
    process = mainjob.start_run(config, mainjob.simulation(program, 2, STEPS, config=xml), "--contact", str(contact))
    until(lambda: len(events(output, "fold")) >= 3, "nothing is folded")
    directory = next(node.directory for node in read_contact(contact) if node.name == victim)
    started[victim].kill()
    until(lambda: is_removed(directory), "the node's directory doesn't go")
    start(victim)
    said, _ = process.communicate(timeout=300)
    print(said)
    assert process.returncode == INCOMPLETE, said
    assert f"{STEPS} of {STEPS} steps" in said
    assert f"BB node {victim} came back without what it held" in said
    assert "THE STATISTICS ARE INCOMPLETE" in said
    raw = xr.open_zarr(output / "rescued" / "raw.zarr", decode_times=False).load()
    assert raw.bbflow_step.values[-1] == STEPS - 1
    assert np.isnan(raw.time.values[0])
    np.testing.assert_array_equal(raw.tas.values[-5:], truth.tas.values[-5:].astype("f4"))


RANKS = """
import os, sys, time
import adios2
import numpy as np
from adios2.bindings import Mode

ready, steps = sys.argv[1], int(sys.argv[2])
rank = 0 if os.fork() else 1
io = adios2.Adios().declare_io("climate")
io.set_engine("Plugin")
told = {"PluginName": "bbflow", "PluginLibrary": "bbflow_adios2", "Stream": "climate", "RanksPerNode": "1"}
io.set_parameters(told | {"Rank": str(rank), "Writers": "2"})
tas = io.define_variable("tas", np.zeros(1, "f4"), (8,), (4 * rank,), (4,))
engine = io.open("climate", Mode.Write)
for step in range(steps):
    engine.begin_step()
    engine.put(tas, np.full(4, step, "f4"), Mode.Sync)
    while rank == 0 and step == steps - 1 and not os.path.exists(ready):
        time.sleep(0.02)
    engine.end_step()
engine.close()
if rank:
    os._exit(0)
sys.exit(os.waitpid(-1, 0)[1])
"""


def test_ranks_that_had_closed_the_stream_on_a_lost_host_are_not_said_never_to_have_opened_it(tmp_path, nodes):
    contact, started, _ = nodes
    victim, ready, steps = "bb1", tmp_path / "ready", 6
    (tmp_path / "ranks.py").write_text(RANKS)
    config = mainjob.write_config(
        tmp_path, operators={"tas": ["sum"]}, windows=["run"], raw="none", safe_every_s=0.1, nodes={"back_s": 2},
        workers={"batch_steps": 2},
    )  # fmt: skip
    command = [sys.executable, str(tmp_path / "ranks.py"), str(ready), str(steps)]
    process = mainjob.start_run(config, command, "--contact", str(contact))
    address = {node.name: node for node in read_contact(contact)}[victim]

    def has_closed():
        stream = status_of(address).streams.get("climate")
        return stream is not None and [how for _, how in stream.ranks] == ["closed"]

    until(lambda: len(events(tmp_path / "out", "safe")) >= 1 and has_closed(), "nothing is copied, or closed")
    started[victim].kill()
    until(lambda: is_removed(address.directory), "the node's directory doesn't go")
    ready.touch()
    said, _ = process.communicate(timeout=300)
    assert process.returncode == INCOMPLETE, said
    assert f"BB node {victim} was lost" in said
    assert "never opened" not in said
    assert "without closing" not in said
    results = xr.open_zarr(tmp_path / "out" / "results.zarr").load()
    assert results.attrs["bbflow_status"] == "incomplete"
    assert results.attrs["bbflow_lost"]

"""Starts ADIOS2 programs that write through the engine, and looks at what they left on the node."""

import os
import subprocess
import sys
import time
from pathlib import Path

import bbflow_adios2
from msgspec import convert

from bbflow.landing.client import NodeClient
from bbflow.landing.replies import Shown
from bbflow.store.block_values import read_block
from bbflow.stream.layouts import Layouts
from testsupport.asking import ask, ask_once
from testsupport.processes import finish, finish_well, running
from testsupport.waiting import PATIENCE_S, until

LAUNCHED = Path(__file__).with_name("launched.py")
LAUNCHERS = ("PMI", "MPI_LOCAL", "OMPI_", "MV2_", "SLURM_")

# What every Python writer starts with: `here` is a folder that the test and its writers share.
PREAMBLE = """
import pathlib, sys, time
import numpy as np
import adios2
from adios2.bindings import Mode, StepMode, StepStatus

here = pathlib.Path(sys.argv[1]).parent
rank, writers = int(sys.argv[2]), int(sys.argv[3])
io = adios2.Adios(sys.argv[1]).declare_io("model")

def wait_for(name):
    while not (here / name).exists():
        time.sleep(0.005)

def tell(name):
    (here / name).touch()

def field(count, shape=None, start=0):
    return io.define_variable("field", np.empty(0), [shape or count], [start], [count], True)
"""


def clean_environment(contact):
    """Environment of a program that no launcher started."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(LAUNCHERS)}
    inherited.pop("BBFLOW_CONTACT", None)
    return inherited | bbflow_adios2.environment(contact)


def write_config(folder, **parameters):
    """Write the XML that selects the engine for the IO `model`."""
    config = Path(folder) / f"config{''.join(parameters.values()).replace('/', '')}.xml"
    config.write_text(bbflow_adios2.engine_xml("model", **parameters))
    return config


def run_program(nodes, programs, mode, config, name="writer", **variables):
    """Run the C++ writer, or another of the programs, to its end, with further environment variables."""
    return subprocess.run(
        [programs / name, mode, config],
        env=clean_environment(nodes.contact) | variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def writing(contact, code, config, ranks=1, rank=0, writers=1):
    """Run a Python writer beside the test; it is killed if it is still there afterwards."""
    program = [LAUNCHED, str(ranks)] if ranks > 1 else ["-c"]
    command = [sys.executable, *program, PREAMBLE + code, config, str(rank), str(writers)]
    return running(command, clean_environment(contact))


def run_writer(contact, code, config):
    """Run a Python writer to its end; return its exit code and what it said."""
    with writing(contact, code, config) as process:
        return finish(process)


def write(contact, code, config, rank=0, writers=1):
    """Run a Python writer that must succeed; of several ranks one."""
    with writing(contact, code, config, rank=rank, writers=writers) as process:
        finish_well(process)


def watch(nodes, stream="model"):
    """What the node shows of a stream now."""
    return ask_once(nodes.nodes[0], "watch", stream=stream, after=-1, change=-1, limit=1000, extremes=True)


def watch_until(nodes, condition, stream="model"):
    """Wait until what the node shows of a stream meets a condition; return it."""
    deadline_s, shown, layouts = time.monotonic() + PATIENCE_S, {"change": -1}, Layouts()
    asked = {"timeout_s": 1.0, "stream": stream, "after": -1, "limit": 1000, "extremes": True}
    with NodeClient(nodes.nodes[0]) as client:
        while time.monotonic() < deadline_s:
            shown = ask(client, "watch", change=shown["change"], **asked)
            for step in convert(shown, Shown).steps:
                layouts.take_of(step)
            if condition(shown):
                return shown | {"layouts": layouts}
    raise AssertionError(f"it never came: {shown}")


def wait_for_file(path):
    """Wait until a writer tells something."""
    until(path.exists, f"no writer told {path.name}")


def steps_of(shown):
    """The visible steps."""
    layouts = shown.get("layouts") or Layouts()
    told = {key: value for key, value in shown.items() if key != "layouts"}
    return [step.taken(layouts.take_of(step)) for step in convert(told, Shown).steps]


def attributes_of(shown):
    """The newest attributes, name to value."""
    return {item["name"]: item["value"] for item in shown["attributes"]}


def arrays_of(nodes, step):
    """Each array block's name and values, copied."""
    pool = nodes.nodes[0].pool
    return [(block.name, read_block(pool, block).copy()) for block in step.blocks if block.bytes]


def node_status(nodes):
    """The node's answer to `status`."""
    return ask_once(nodes.nodes[0], "status")

"""Python programs that tests start, forked from a process that has imported what they need.

An interpreter costs 0.15 to 0.9 s of CPU with NumPy, ADIOS2, xarray or Snakemake, and the suite starts some thousands.
So what a test starts as ``python -c``, ``python -m`` or a script is forked from a process that has imported one of
these: a child of pytest's process, with words, environment, files and session of its own. Such a process begins with
the first program that wants it, and ends with pytest. What is started in another way, or in a test that is marked
``cold``, or with ``--cold``, has an interpreter that begins anew. What a fork can't have of its own is the seed of its
strings' hashes. What ``bbflow run`` and the like start in their turn is forked for them from a process of their own.
"""

import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import bbflow_adios2
import pytest

from bbflow.host import one_thread
from testsupport.forks import COLD, ROOM, Popen, Server

OF_BBFLOW = ("xarray", "zarr", "distributed", "bbflow.api", "bbflow.cli.node", "bbflow.registered.runner")
OF_WRITERS = ("numpy", "adios2.bindings")
OF_SNAKEMAKE = ("numpy", "snakemake.cli", "snakemake_scheduler_plugin_bbflow", "snakemake_storage_plugin_bbflow")
"""Modules that the programs import."""
PLACES = ("adios2-engine/tests/", "snakemake-plugin/tests/", "tests/cli/", "tests/drain/", "tests/ensemble/")
PLACES += ("tests/files/", "tests/landing/", "tests/mount/", "tests/registered/", "tests/run/", "tests/schemas/")
PLACES += ("tests/staging/", "tests/stream/", "tests/transit/", "tests/view/", "tests/test_warm_programs.py")
"""Whose programs are forked: where most are started."""
PLUGIN = str(Path(__file__).parents[1] / "snakemake-plugin")
SERVER = Path(__file__).with_name("warm_server.py")
LEFT_BEHIND = ("MALLOC_TRIM_THRESHOLD_", "PYTHONHASHSEED", "__DASK_PARENT_PID")
"""Variables that Dask sets for good in a process that has started workers: no later test is to see them."""


def begin(modules, environment):
    """Start a process that imports these; return the socket to ask it by, and the process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, SERVER, str(theirs.fileno()), *modules, ROOM]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    with theirs:
        return ours, COLD(command, pass_fds=[theirs.fileno()], env=environment, **quiet)


def pytest_addoption(parser):
    """Make the whole suite start its programs as users do."""
    parser.addoption("--cold", action="store_true", help="start Python programs anew, instead of by forks")


def warm_servers():
    """Return the warm processes of programs that this process starts as it is now; each begins when it is asked."""
    usual = dict(os.environ) | dict.fromkeys(one_thread.VARIABLES, "1")
    of_writers = usual | bbflow_adios2.environment()
    of_snakemake = usual | {"PYTHONPATH": os.pathsep.join([PLUGIN, os.environ.get("PYTHONPATH", "")])}
    kinds = ((OF_BBFLOW, usual), (OF_WRITERS, of_writers), (OF_SNAKEMAKE, of_snakemake))
    return tuple(Server(variables, partial(begin, modules, variables)) for modules, variables in kinds)


def pytest_collection_finish(session):
    """Begin where tests are to run: in each of pytest-xdist's processes, not in the one that hands out."""
    if session.items and not session.config.option.cold:
        Popen.servers = warm_servers()
        subprocess.Popen = Popen


def pytest_sessionfinish():
    """End it."""
    subprocess.Popen = COLD
    for server in Popen.servers:
        server.close()
    Popen.servers = ()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Start programs anew where it isn't to be forked, with a test's fixtures; undo what Dask leaves behind."""
    servers, before = Popen.servers, {name: os.environ[name] for name in LEFT_BEHIND if name in os.environ}
    if item.get_closest_marker("cold") is not None or not item.nodeid.startswith(PLACES):
        Popen.servers = ()
    try:
        return (yield)
    finally:
        Popen.servers = servers
        for name in LEFT_BEHIND:
            os.environ.pop(name, None)
        os.environ.update(before)

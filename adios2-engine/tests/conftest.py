import importlib.util
import subprocess
from functools import cache
from pathlib import Path

import pytest
from badnetwork import BadNetwork
from devices import build, start_program

from testsupport.once import BUILD_S, built_once

SOURCES = Path(__file__).parent / "program"


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Folder of the C++ programs, built once."""
    adios2 = Path(importlib.util.find_spec("adios2").origin).parent / "cmake" / "adios2"
    with built_once(tmp_path_factory, "programs") as build:
        for command in (
            ["cmake", "-S", SOURCES, "-B", build, "-G", "Ninja", f"-DADIOS2_DIR={adios2}"],
            ["cmake", "--build", build],
        ):
            done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
    return build


@pytest.fixture
def bad_network(node, tmp_path):
    """A network between writers and a node that damages and cuts what goes over it."""
    network = BadNetwork(node, tmp_path / "through.json")
    yield network
    network.close()


@pytest.fixture
def big_bad_network(big_node, tmp_path):
    """The same before the big node."""
    network = BadNetwork(big_node, tmp_path / "through.json")
    yield network
    network.close()


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    """Build a stand-in of a GPU's runtime."""
    return cache(lambda name: build(tmp_path_factory.mktemp(name), name))


@pytest.fixture
def starting(runtime, tmp_path):
    """Start a program with a stand-in's memory of some values; it is killed if it is still there afterwards."""

    def start(nodes, code, name="cuda", count=24, environment=None, **parameters):
        return start_program(runtime(name), tmp_path, nodes, code, count, environment, **parameters)

    return start

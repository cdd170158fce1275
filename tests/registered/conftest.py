import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bbflow.landing.embedded import EmbeddedNodes

HERE = Path(__file__).parent


@pytest.fixture
def two_nodes():
    """Two BB nodes of 1 MiB."""
    with EmbeddedNodes(2, 1 << 20) as nodes:
        yield nodes


@pytest.fixture(scope="session")
def functions(tmp_path_factory):
    """A library of functions that get a buffer."""
    return compile_library(tmp_path_factory, "g++", "functions")


@pytest.fixture(scope="session")
def ranks(tmp_path_factory):
    """A library of functions that get a communicator."""
    beside = Path(sys.executable).with_name("mpicxx")
    return compile_library(tmp_path_factory, str(beside) if beside.exists() else "mpicxx", "ranks")


def compile_library(tmp_path_factory, compiler, name):
    found = shutil.which(compiler)
    if found is None:
        pytest.skip(f"{compiler} is missing")
    library = tmp_path_factory.mktemp(name) / f"lib{name}.so"
    subprocess.run([found, "-shared", "-fPIC", "-O1", "-w", HERE / f"{name}.cpp", "-o", library], check=True)
    return library


@pytest.fixture
def small_node():
    """One BB node with room for four steps of 64 KiB."""
    with EmbeddedNodes(1, 1 << 18) as nodes:
        yield nodes

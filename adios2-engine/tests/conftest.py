import importlib.util
import subprocess
from pathlib import Path

import pytest

from bbflow.landing.embedded import EmbeddedNodes

SOURCES = Path(__file__).parent / "program"


@pytest.fixture
def node():
    """One BB node of 16 MiB."""
    with EmbeddedNodes(1, 16 << 20) as nodes:
        yield nodes


@pytest.fixture
def small_node():
    """One BB node of 1 MiB: room for four steps of 256 KiB."""
    with EmbeddedNodes(1, 1 << 20) as nodes:
        yield nodes


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Folder of the C++ programs, built once."""
    build = tmp_path_factory.mktemp("programs")
    adios2 = Path(importlib.util.find_spec("adios2").origin).parent / "cmake" / "adios2"
    for command in (
        ["cmake", "-S", SOURCES, "-B", build, "-G", "Ninja", f"-DADIOS2_DIR={adios2}"],
        ["cmake", "--build", build],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return build

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
GUIDE = HERE.parents[1] / "docs" / "own-operators.md"


@pytest.fixture(scope="session")
def functions(tmp_path_factory):
    """A library of functions that get a buffer."""
    return compile_library(tmp_path_factory, "g++", (HERE / "functions.cpp").read_text())


@pytest.fixture(scope="session")
def ranks(tmp_path_factory):
    """A library of functions that get a communicator."""
    return compile_library(tmp_path_factory, "mpicxx", (HERE / "ranks.cpp").read_text())


@pytest.fixture(scope="session")
def guide(tmp_path_factory):
    """The two libraries of the guide."""
    texts = [part.split("```")[0] for part in GUIDE.read_text().split("```cpp\n")[1:]]
    compilers = ("g++", "mpicxx")
    return [compile_library(tmp_path_factory, *both) for both in zip(compilers, texts, strict=True)]


def compile_library(tmp_path_factory, compiler, text):
    found = shutil.which(compiler, path=str(Path(sys.executable).parent)) or shutil.which(compiler)
    if found is None:
        pytest.skip(f"{compiler} is missing")
    folder = tmp_path_factory.mktemp("library")
    (folder / "own.cpp").write_text(text)
    words = ["-shared", "-fPIC", "-O1", "-Wall", folder / "own.cpp", "-o", folder / "libown.so"]
    subprocess.run([found, *words], check=True)
    return folder / "libown.so"

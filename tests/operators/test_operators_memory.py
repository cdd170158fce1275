"""The kernel where there is no memory left."""

import subprocess
from pathlib import Path

from bbflow import operators
from bbflow.operators.library import LIBRARY

SOURCE = Path(__file__).with_name("scarce_memory.cpp")


def test_the_kernel_fails_or_is_right_wherever_memory_ends(tmp_path):
    package = Path(operators.__file__).parent
    program, library = tmp_path / "scarce_memory", package / LIBRARY
    words = ["-std=c++17", "-O1", "-pthread", "-I", package / "native", SOURCE, library, f"-Wl,-rpath,{package}"]
    subprocess.run(["g++", *words, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "1 1\n"

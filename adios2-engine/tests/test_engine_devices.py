"""A GPU's memory, by a stand-in for its runtime whose memory crashes who reads it (there is no GPU here)."""

import subprocess
import sys
from pathlib import Path

import adios2
import pytest

from testsupport.writers import PATIENCE_S, arrays_of, clean_environment, steps_of, watch, write_config

HERE = Path(__file__).parent
LIBRARY = Path(adios2.__file__).with_name("libadios2_c.so")
RUNTIMES = {"cuda": ("libcuda.so.1", []), "hip": ("libamdhip64.so.6", ["-DHIP"])}

PROGRAM = """
runtime = ctypes.CDLL(RUNTIME)
runtime.device_copy_of.restype = ctypes.c_void_p
values = np.arange(24.0)
there = runtime.device_copy_of(values.ctypes.data_as(ctypes.c_void_p), values.nbytes)
io = adios.io("model")
field = adios.variable(io, "field", [4, 6], [0, 0], [COUNT, 6] if COUNT else [1, 13])
host = adios.variable(io, "host", [4, 6], [0, 0], [4, 6])
engine = adios.open(io, WRITE)
adios.begin(engine)
adios.call("put", engine, host, values, SYNC)
adios.call("put", engine, field, there, DEFERRED)
adios.call("end_step", engine)
adios.call("close", engine)
assert not hasattr(runtime, "hipPeekAtLastError") or runtime.hipPeekAtLastError() == 0
"""


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    """Build a stand-in."""

    def build(name):
        file, words = RUNTIMES[name]
        path = tmp_path_factory.mktemp(name) / file
        subprocess.run(["cc", "-shared", "-fPIC", *words, HERE / "program" / "device.c", "-o", path], check=True)
        return path

    return build


def run(node, tmp_path, code):
    return subprocess.run(
        [sys.executable, HERE / "c_program.py", "C", write_config(tmp_path), LIBRARY, code],
        env=clean_environment(node.contact), capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip


@pytest.mark.parametrize("name", RUNTIMES)
def test_what_is_put_from_a_gpu_lands_by_the_runtime_of_the_program(node, tmp_path, runtime, name):
    done = run(node, tmp_path, PROGRAM.replace("RUNTIME", repr(str(runtime(name)))).replace("COUNT", "4"))
    assert done.returncode == 0, done.stderr
    (step,) = steps_of(watch(node))
    found = dict(arrays_of(node, step))
    assert found["field"].tolist() == found["host"].tolist()
    assert found["field"].ravel().tolist() == list(range(24))


def test_what_the_runtime_cannot_copy_is_refused_in_one_line(node, tmp_path, runtime):
    code = PROGRAM.replace("RUNTIME", repr(str(runtime("cuda")))).replace("COUNT", "0").replace("[4, 6]", "[4, 13]")
    done = run(node, tmp_path, code.replace('"host", [4, 13], [0, 0], [4, 13]', '"host", [4, 6], [0, 0], [4, 6]'))
    assert done.returncode == 1
    assert "CUDA can't copy 104 bytes from the GPU's memory (error 201): Put them from the host's" in done.stderr

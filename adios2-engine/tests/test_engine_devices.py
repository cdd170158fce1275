"""A GPU's memory: a real one's, and that of a stand-in for its runtime, which crashes who reads it without."""

import ctypes
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
adios.begin(engine)
adios.call("put", engine, field, there, DEFERRED)
adios.call("end_step", engine)
assert runtime.device_locks() == 1, "what is copied at once is kept for the next"
adios.call("close", engine)
assert runtime.device_locks() == 0
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
    steps = [dict(arrays_of(node, step)) for step in steps_of(watch(node))]
    assert [step["field"].ravel().tolist() for step in steps] == [list(range(24))] * 2
    assert steps[0]["host"].ravel().tolist() == list(range(24))


def test_what_the_runtime_cannot_copy_is_refused_in_one_line(node, tmp_path, runtime):
    code = PROGRAM.replace("RUNTIME", repr(str(runtime("cuda")))).replace("COUNT", "0").replace("[4, 6]", "[4, 13]")
    done = run(node, tmp_path, code.replace('"host", [4, 13], [0, 0], [4, 13]', '"host", [4, 6], [0, 0], [4, 6]'))
    assert done.returncode == 1
    assert "CUDA can't copy 104 bytes from the GPU's memory (error 201): Put them from the host's" in done.stderr


REAL = """
cuda = ctypes.CDLL("libcuda.so.1")

def device(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    assert status == 0, (name, status)

values = np.arange(3 * 24.0)
context, gpu, address = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_uint64()
device("cuInit", 0)
device("cuDeviceGet", ctypes.byref(gpu), 0)
device("cuDevicePrimaryCtxRetain", ctypes.byref(context), gpu)
device("cuCtxPushCurrent_v2", context)
device("cuMemALLOC", ctypes.byref(address), ctypes.c_size_t(values.nbytes), *MORE)
device("cuMemcpyHtoD_v2", address, values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(values.nbytes))
device("cuCtxPopCurrent_v2", ctypes.byref(context))  # its stream of work belongs to another thread, say
io = adios.io("model")
fields = [adios.variable(io, name, [4, 6], [0, 0], [4, 6]) for name in "abc"]
engine = adios.open(io, WRITE)
adios.begin(engine)
for number, field in enumerate(fields):
    place = ctypes.c_void_p(address.value + number * 24 * 8)
    adios.call("put", engine, field, place, SYNC if number % 2 else DEFERRED)
adios.call("end_step", engine)
adios.call("close", engine)
"""


def has_gpu():
    """Whether CUDA's driver is here and finds one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return driver.cuInit(0) == driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


@pytest.mark.skipif(not has_gpu(), reason="needs a GPU of NVIDIA's and its driver")
@pytest.mark.parametrize(
    ("kind", "more"),
    [("Alloc_v2", ""), ("AllocManaged", "ctypes.c_uint(1),"), ("HostAlloc", "ctypes.c_uint(3),")],
    ids=["device", "managed", "pinned"],
)
def test_what_is_put_from_a_real_gpu_lands(node, tmp_path, kind, more):
    done = run(node, tmp_path, REAL.replace("ALLOC", kind).replace("*MORE", more))
    assert done.returncode == 0, done.stderr
    (step,) = steps_of(watch(node))
    found = dict(arrays_of(node, step))
    assert [value for name in "abc" for value in found[name].ravel()] == list(range(3 * 24))

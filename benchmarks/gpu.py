"""Landing from a GPU's memory, beside copies into pinned memory in the same process: a minute, with a GPU of NVIDIA's.

It needs nothing but a checkout in which bbflow is built: ``python -m benchmarks.gpu`` (``make gpu-suite`` has it, too).
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import adios2
import bbflow_adios2

import bbflow
from bbflow.net.contact import read_contact
from benchmarks.consumer import free_steps
from benchmarks.rows import Row, markdown

MIB = 1 << 20
CASES = {"64 blocks of 64 KiB": (64, MIB // 16), "1 MiB": (1, MIB), "16 MiB": (1, 16 * MIB), "256 MiB": (1, 256 * MIB)}
"""Blocks of a step, and bytes of each."""
STEPS = 12
"""For each case; the first four count for nothing."""
PROGRAM = Path(__file__).parents[1] / "adios2-engine" / "tests" / "c_program.py"
CODE = """
import json, time
cuda = ctypes.CDLL("libcuda.so.1")

def device(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    assert status == 0, (name, status)

def seconds(work):
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun

context, gpu, there, pinned = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_uint64(), ctypes.c_void_p()
device("cuInit", 0)
device("cuDeviceGet", ctypes.byref(gpu), 0)
device("cuDevicePrimaryCtxRetain", ctypes.byref(context), gpu)
device("cuCtxPushCurrent_v2", context)
most = max(blocks * size for blocks, size in CASES.values())
device("cuMemAlloc_v2", ctypes.byref(there), ctypes.c_size_t(most))
device("cuMemAllocHost_v2", ctypes.byref(pinned), ctypes.c_size_t(most))
values = np.random.default_rng(0).random(most // 8)
device("cuMemcpyHtoD_v2", there, values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(most))
io = adios.io("field")
engine = adios.open(io, WRITE)
told = {}
for name, (blocks, size) in CASES.items():
    points = size // 8
    field = adios.variable(io, name, [blocks * points], [0], [points])

    def copy():
        for block in range(blocks):
            device("cuMemcpyDtoH_v2", pinned, ctypes.c_uint64(there.value + block * size), ctypes.c_size_t(size))

    def puts():
        for block in range(blocks):
            adios.call("set_selection", field, 1, [block * points], [points])
            adios.call("put", engine, field, ctypes.c_void_p(there.value + block * size), DEFERRED)

    def land():
        queued.append(seconds(puts))
        adios.call("end_step", engine)

    copies, lands, queued = [], [], []
    for step in range(STEPS):
        adios.begin(engine)
        lands.append(seconds(land))
        copies.append(seconds(copy))
    told[name] = [sorted(times[4:])[len(times[4:]) // 2] for times in (copies, lands, queued)]
adios.call("close", engine)
print(json.dumps(told))
"""


def missing() -> str | None:
    """Return why there is no GPU of NVIDIA's here, or None."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return str(error)
    count = ctypes.c_int(0)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return "CUDA's driver finds no GPU"
    return None


def measure() -> list[Row]:
    """Measure; ratios are to the pinned copies."""
    library = Path(adios2.__file__).with_name("libadios2_c.so")
    most = max(blocks * size for blocks, size in CASES.values())
    with bbflow.start_nodes(capacity=8 * most) as buffer, tempfile.TemporaryDirectory() as folder:
        (node,) = read_contact(buffer.contact)
        config = Path(folder, "adios2.xml")
        config.write_text(bbflow_adios2.engine_xml("field"))
        consumer = (node, "field", STEPS * len(CASES))
        threading.Thread(target=free_steps, args=consumer, daemon=True).start()
        code = CODE.replace("import json", f"CASES, STEPS = {CASES!r}, {STEPS}\nimport json", 1)
        words = [sys.executable, str(PROGRAM), "C", str(config), str(library), code]
        environment = os.environ | bbflow_adios2.environment(buffer.contact)
        done = subprocess.run(words, env=environment, check=True, stdout=subprocess.PIPE, timeout=300)
    rows = []
    for name, (copy_s, land_s, queued_s) in json.loads(done.stdout.splitlines()[-1]).items():
        blocks, size = CASES[name]
        gigabytes = blocks * size / 1e9
        rows += [
            Row(f"{name}: deferred Puts to EndStep", gigabytes / land_s, "GB/s", copy_s / land_s),
            Row(f"{name}: the Puts alone", 1e3 * queued_s, "ms"),
            Row(f"{name}: cuMemcpyDtoH into pinned memory (the ratio's 1)", gigabytes / copy_s, "GB/s", 1.0),
        ]
    return rows


if __name__ == "__main__":
    if reason := missing():
        print(f"skipped: {reason}")
    else:
        print(markdown({(__doc__ or "").splitlines()[0]: measure()}))

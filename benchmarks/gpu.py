"""Landing from a GPU's memory, beside copies into pinned memory, and folding there: minutes, with a GPU of NVIDIA's.

It needs nothing but a checkout in which bbflow is built: ``python -m benchmarks.gpu`` (``make gpu-suite`` has it, too).
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import adios2
import bbflow_adios2
import xarray as xr

import bbflow
from bbflow.net.contact import read_contact
from bbflow.transit.output.decoding import open_results
from benchmarks.consumer import free_steps
from benchmarks.rows import Row, markdown

MIB = 1 << 20
CASES = {"64 blocks of 64 KiB": (64, MIB // 16), "1 MiB": (1, MIB), "16 MiB": (1, 16 * MIB), "256 MiB": (1, 256 * MIB)}
"""Blocks of a step, and bytes of each."""
STEPS = 12
"""For each case; the first four count for nothing."""
PROGRAM = Path(__file__).parents[1] / "adios2-engine" / "tests" / "c_program.py"
BEGIN = """
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
"""
CODE = """
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


FIELD_BYTES, FOLD_STEPS = 32 * MIB, 400
"""Of the field that is folded; the first half of the steps counts for nothing: it lands until its plan is there."""
FOLD = """
FIELDS, WORK = 3, 20
device("cuMemAlloc_v2", ctypes.byref(there), ctypes.c_size_t((FIELDS + 1) * FIELD_BYTES))
values = np.random.default_rng(0).random(FIELDS * FIELD_BYTES // 8)
device("cuMemcpyHtoD_v2", there, values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(values.nbytes))
places = [there.value + number * FIELD_BYTES for number in range(FIELDS + 1)]

def work():  # a model's
    for number in range(WORK):
        device("cuMemcpyDtoD_v2", ctypes.c_uint64(places[-1]), ctypes.c_uint64(places[0]), ctypes.c_size_t(FIELD_BYTES))
    device("cuCtxSynchronize")

io = adios.io("field")
field = adios.variable(io, "f", [FIELD_BYTES // 8], [0], [FIELD_BYTES // 8])
engine = adios.open(io, WRITE)
begun = None
for step in range(FOLD_STEPS):
    if step == FOLD_STEPS // 2:
        begun = time.perf_counter()
    work()
    adios.begin(engine)
    adios.call("put", engine, field, ctypes.c_void_p(places[step % FIELDS]), DEFERRED)
    adios.call("end_step", engine)
device("cuCtxSynchronize")
each = (time.perf_counter() - begun) / (FOLD_STEPS - FOLD_STEPS // 2)
adios.call("close", engine)
print(json.dumps([each, seconds(work) / WORK]))
"""
KERNEL = """
POINTS = FIELD_BYTES // 4

class Task(ctypes.Structure):  # FoldTask.h
    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("count", "shift", "first", "second", "min", "max", "points")),
        *((name, ctypes.c_uint) for name in ("blocks", "steps", "has_fill", "begins")),
        ("fill", ctypes.c_char * 8), ("which", ctypes.c_uint64 * 32),
        ("bins", ctypes.c_uint64), ("rows", ctypes.c_uint), ("breaks", ctypes.c_double * 64),
    ]

def room(bytes):
    place = ctypes.c_uint64()
    device("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(bytes))
    return place.value

module, kernel, stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
device("cuModuleLoadData", ctypes.byref(module), open(PTX, "rb").read())
device("cuModuleGetFunction", ctypes.byref(kernel), module, b"bbflow_fold_f4")
device("cuStreamCreate", ctypes.byref(stream), 1)
state = [room(POINTS * size) for size in (4, 4, 8, 8, 4, 4)]
task = Task(*state, POINTS, min(4096, -(-POINTS // 128)))
steps = [room(FIELD_BYTES) for step in range(MOST)]
task.which[:MOST] = steps
arguments = (ctypes.c_void_p * 1)(ctypes.addressof(task))

def copy():
    target, source = map(ctypes.c_uint64, steps[:2])
    device("cuMemcpyDtoDAsync_v2", target, source, ctypes.c_size_t(FIELD_BYTES), stream)

def fold():
    device("cuLaunchKernel", kernel, task.blocks, 1, 1, 128, 1, 1, 0, stream, arguments, None)

def rate(work):
    work()
    device("cuStreamSynchronize", stream)
    many = lambda: [[work() for _ in range(10)], device("cuStreamSynchronize", stream)]
    return sorted(seconds(many) / 10 for _ in range(5))[2]

told = [rate(copy)]
for task.steps in (8, MOST):
    for task.begins in (1, 0):
        told.append(rate(fold))
print(json.dumps(told))
"""


def run(config: str, code: str, environment: Mapping[str, str], **constants: object) -> Any:
    """Run a program with a configuration of ADIOS2's, and return what it tells."""
    library = Path(adios2.__file__).with_name("libadios2_c.so")
    told = "".join(f"{name} = {value!r}\n" for name, value in constants.items())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "adios2.xml")
        file.write_text(config)
        words = [sys.executable, str(PROGRAM), "C", str(file), str(library), told + BEGIN + code]
        done = subprocess.run(words, env=os.environ | environment, check=True, stdout=subprocess.PIPE, timeout=300)
    return json.loads(done.stdout.splitlines()[-1])


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


def measure(cases: Mapping[str, tuple[int, int]] = CASES, steps: int = STEPS) -> list[Row]:
    """Measure; ratios are to the pinned copies."""
    most = max(blocks * size for blocks, size in cases.values())
    with bbflow.start_nodes(capacity=8 * most) as buffer:
        (node,) = read_contact(buffer.contact)
        consumer = (node, "field", steps * len(cases))
        threading.Thread(target=free_steps, args=consumer, daemon=True).start()
        environment = bbflow_adios2.environment(buffer.contact)
        told = run(bbflow_adios2.engine_xml("field"), CODE, environment, CASES=cases, STEPS=steps)
    rows = []
    for name, (copy_s, land_s, queued_s) in told.items():
        blocks, size = cases[name]
        gigabytes = blocks * size / 1e9
        rows += [
            Row(f"{name}: deferred Puts to EndStep", gigabytes / land_s, "GB/s", copy_s / land_s),
            Row(f"{name}: the Puts alone", 1e3 * queued_s, "ms"),
            Row(f"{name}: cuMemcpyDtoH into pinned memory (the ratio's 1)", gigabytes / copy_s, "GB/s", 1.0),
        ]
    return rows


def fold(on: str, field_bytes: int, steps: int) -> tuple[list[float], xr.Dataset]:
    """Run a program while an analysis folds; return seconds of a step and of a copy on the GPU, and results."""
    with tempfile.TemporaryDirectory() as folder, bbflow.start_nodes(capacity=32 * field_bytes) as buffer:
        content = {
            "stream": "field", "output": f"{folder}/out", "time": "steps", "windows": [{"steps": 64}, "run"],
            "operators": {"f": ["mean", "std", "min", "max"]}, "fold": {"on": on},
        }  # fmt: skip
        with buffer.analyse(content) as analysis:
            environment = bbflow_adios2.environment(buffer.contact)
            constants = {"FIELD_BYTES": field_bytes, "FOLD_STEPS": steps}
            seconds = run(bbflow_adios2.engine_xml("field"), FOLD, environment, **constants)
            analysis.wait(300)
        with open_results(Path(folder, "out", "results.zarr")) as results:
            return seconds, results.load()


def measure_folds(field_bytes: int = FIELD_BYTES, steps: int = FOLD_STEPS) -> list[Row]:
    """Measure a program's pace; ratios are to the engine Null.

    Raises
    ------
    AssertionError
        If the results differ from those of a fold by the CPU.
    """
    null = '<adios-config><io name="field"><engine type="Null"/></io></adios-config>'
    null_s, copy_s = run(null, FOLD, {}, FIELD_BYTES=field_bytes, FOLD_STEPS=steps)
    (rank_s, _), expected = fold("rank", field_bytes, steps)
    (device_s, _), found = fold("device", field_bytes, steps)
    xr.testing.assert_allclose(found, expected, rtol=1e-9)
    size, gigabytes = f"{field_bytes / MIB:g} MiB", field_bytes / 1e9
    return [
        Row(f"{size}: a step with fold: {{on: device}} (aim 1.02)", 1e3 * device_s, "ms", device_s / null_s),
        Row(f"{size}: a step with fold: {{on: rank}}", 1e3 * rank_s, "ms", rank_s / null_s),
        Row(f"{size}: a step with the engine Null (the ratio's 1)", 1e3 * null_s, "ms", 1.0),
        Row(f"{size}: what device adds to Null, and to a copy within the GPU", 1e3 * (device_s - null_s), "ms",
            (device_s - null_s) / copy_s),
        Row(f"{size}: a copy within the GPU", gigabytes / copy_s, "GB/s"),
    ]  # fmt: skip


def kernels() -> bytes | None:
    """Return the kernels for CUDA that the engine has, as it has them; None if it was built without."""
    engines = Path(bbflow_adios2.__file__).parent.glob("libbbflow_engine_*.so")
    whole = next(engines).read_bytes()
    begin = whole.rfind(b"\0", 0, max(whole.find(b".version"), 0)) + 1
    ptx = whole[begin : whole.find(b"\0", begin) + 1]
    return ptx if b".entry bbflow_fold_f4(" in ptx else None


def measure_kernels(field_bytes: int = FIELD_BYTES) -> list[Row]:
    """Measure the fold of float32 steps to mean, std, min and max; ratios are to what a copy reads and writes."""
    if (ptx := kernels()) is None:
        return []
    most = 24
    with tempfile.NamedTemporaryFile() as file:  # longer than a word of a command line may be
        file.write(ptx)
        file.flush()
        copy_s, *folds_s = run("<adios-config/>", KERNEL, {}, PTX=file.name, FIELD_BYTES=field_bytes, MOST=most)
    rows = [Row("reading and writing the GPU's memory (the ratio's 1)", 2e-9 * field_bytes / copy_s, "GB/s", 1.0)]
    for number, seconds in enumerate(folds_s):
        steps, begins = (8, most)[number // 2], number % 2 == 0
        value = 1e-9 * steps * field_bytes / seconds
        name = f"{steps} steps{'' if begins else ' more'} in a launch{' (aim 0.5)' if steps == 8 and begins else ''}"
        rows.append(Row(name, value, "GB/s", value / rows[0].value))
    return rows


if __name__ == "__main__":
    if reason := missing():
        print(f"skipped: {reason}")
    else:
        print(markdown({
            "Landing (aims: 0.95; 64 blocks of 64 KiB 3 GB/s)": measure(),
            "Folding float32 steps (32 MiB) by the kernel": measure_kernels(),
            "A program's pace": measure_folds(),
        }))  # fmt: skip

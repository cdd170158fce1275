"""A GPU's memory: a real one's, and that of a stand-in for its runtime, which crashes who reads it without."""

import ctypes
import subprocess
from math import prod
from threading import Thread

import numpy as np
import pytest
from devices import RUNTIMES, has_kernels, words_of

from bbflow.store.block_values import read_block
from bbflow.store.spilled import map_spilled
from benchmarks import gpu
from benchmarks.consumer import free_steps
from testsupport.asking import ask_once
from testsupport.fabrics import NEEDS_LIBFABRIC, PROVIDER
from testsupport.processes import finish, finish_well
from testsupport.writers import (
    PATIENCE_S,
    arrays_of,
    clean_environment,
    steps_of,
    wait_for_file,
    watch,
    write_config,
)

IN_ORDER = """
field, host = (adios.variable(io, name, [4, 6], [0, 0], [4, 6]) for name in ("field", "host"))
engine = adios.open(io, WRITE)
for step in range(4):
    adios.begin(engine)
    adios.call("put", engine, host, values[:24], SYNC)
    device_becomes(values * (step + 1))
    put(field, 0, SYNC if step == 2 else DEFERRED)
    assert under_way() == (step in (1, 3)), "once there is room it is under way, or done"
    adios.call("end_step", engine)
    assert under_way() == 0
"""


def run(node, tmp_path, code, **environment):
    """Run a program with a real GPU."""
    return subprocess.run(
        words_of(write_config(tmp_path), code), env=clean_environment(node.contact) | environment,
        capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip


@pytest.mark.parametrize("name", RUNTIMES)
def test_what_is_put_from_a_gpu_lands_after_the_program_s_own_work(node, starting, name):
    code = f"{IN_ORDER}\nassert runtime.device_unregistered() == 0, 'the GPU writes the pool itself'"
    with starting(node, code, name) as process:
        finish_well(process)
    check_in_order(node)


def test_copies_wait_for_the_stream_that_the_program_names(node, starting):
    code = """
named = ctypes.c_void_p(runtime.device_stream())
adios.call("set_parameter", io, b"GpuStream", hex(named.value).encode())
"""
    with starting(node, code + IN_ORDER.replace("(step + 1))", "(step + 1), named)")) as process:
        finish_well(process)
    check_in_order(node)


def test_a_stream_that_is_no_number_is_refused(node, starting):
    with starting(node, "engine = adios.open(io, WRITE)", GpuStream="mine") as process:
        returncode, said = finish(process)
    assert returncode == 1
    assert "parameter GpuStream=mine must be a stream's handle as a number" in said


def check_in_order(node):
    """See that all of `IN_ORDER` has landed."""
    steps = steps_of(watch(node))
    assert [step.number for step in steps] == list(range(4))
    for step in steps:
        found = dict(arrays_of(node, step))
        assert found["field"].ravel().tolist() == [value * (step.number + 1) for value in range(24)]
        assert found["host"].ravel().tolist() == list(range(24))
        ends = {block.name: (block.min, block.max) for block in step.blocks}
        assert ends == {"field": (0, 23 * (step.number + 1)), "host": (0, 23)}


@pytest.mark.parametrize("name", RUNTIMES)
@pytest.mark.parametrize("points", [8, 600_000], ids=["small", "large"])
def test_memory_that_the_program_uses_again_after_a_deferred_put_is_copied_before(big_node, starting, name, points):
    """BP5 has copied a GPU's memory when a deferred Put returns."""
    code = """
engine = adios.open(io, WRITE)
fields = [adios.variable(io, letter, [COUNT], [0], [COUNT]) for letter in "abc"]
for step in range(3):
    adios.begin(engine)
    for number, field in enumerate(fields):
        device_becomes(values + 10 * step + number)
        runtime.device_works()
        put(field, 0, DEFERRED)
    device_becomes(-values)
    runtime.device_works()
    adios.call("end_step", engine)
"""
    with starting(big_node, code.replace("COUNT", str(points)), name, count=points) as process:
        finish_well(process)
    for step in steps_of(watch(big_node)):
        for number, (_, found) in enumerate(arrays_of(big_node, step)):
            assert (found == np.arange(points) + 10 * step.number + number).all()


@pytest.mark.parametrize("name", RUNTIMES)
def test_memory_selections_are_copied_by_rows_into_the_pool(node, starting, name):
    code = """
engine = adios.open(io, WRITE)
for rank in (1, 2, 3, 4):
    field = adios.variable(io, f"field{rank}", [2, 3, 4, 5][-rank:], [0] * rank, [2, 3, 4, 5][-rank:])
    adios.call("set_memory_selection", field, rank, [1, 0, 2, 1][-rank:], [4, 3, 7, 8][-rank:])
    adios.begin(engine)
    put(field, 0, SYNC if rank == 2 else DEFERRED)
    adios.call("end_step", engine)
# Planes that are whole in their memory count as rows of the next; all but the first step's come together on the GPU.
assert runtime.device_copies() - runtime.device_launches() == 1 + 2 + 4 + 7, runtime.device_copies()
"""
    with starting(node, code, name, count=4 * 3 * 7 * 8) as process:
        finish_well(process)
    whole = np.arange(4.0 * 3 * 7 * 8).reshape(4, 3, 7, 8)
    part = (slice(1, 3), slice(0, 3), slice(2, 6), slice(1, 6))
    for step in steps_of(watch(node)):
        ((name, found),) = arrays_of(node, step)
        rank = int(name[-1])
        memory = whole.ravel()[: prod(whole.shape[-rank:])].reshape(whole.shape[-rank:])
        assert (found == memory[part[-rank:]]).all(), name


RANGES = """
TYPES = ["f4", "f8", None, None, "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]  # ADIOS2's numbers begin with 1
engine = adios.open(io, WRITE)
fields = {}
for step in range(2):  # small blocks of the first go by way of the host
    adios.begin(engine)
    noise = np.random.default_rng(step)
    for number, kind in enumerate(TYPES, 1):
        for case in ("some", "none") if kind and kind[0] == "f" else ("some",) if kind else ():
            array = noise.integers(0, 256, BYTES, np.uint8).view(kind)
            if kind[0] == "f":
                array[(array != array) | (np.abs(array) > 1e30) | (case == "none")] = np.nan
            for place in ("there", "here"):
                name, size = f"{place} {kind} {case}".encode(), [len(array)]
                if name not in fields:
                    fields[name] = adios.call("define_variable", io, name, number, 1, size, [0], size, 0)
                runtime.device_copy_of(array.ctypes.data_as(ctypes.c_void_p), array.nbytes)
                adios.call("put", engine, fields[name], ctypes.c_void_p(there) if place == "there" else array, SYNC)
    adios.call("end_step", engine)
assert runtime.device_launches() == LAUNCHES, runtime.device_launches()
"""


@pytest.mark.parametrize("name", RUNTIMES)
@pytest.mark.parametrize("size", [1 << 10, (1 << 20) + 64], ids=["small", "large"])
def test_kernels_find_the_range_of_a_gpu_s_blocks(big_node, starting, name, size):
    code = RANGES.replace("BYTES", str(size)).replace("LAUNCHES", str(12 * has_kernels(name)))
    with starting(big_node, code, name) as process:
        finish_well(process)
    for step in steps_of(watch(big_node)):
        ends = {block.name: (block.min, block.max) for block in step.blocks}
        assert len(ends) == 24
        for name, found in ends.items():
            assert found == ends[name.replace("there", "here")], name


@pytest.mark.parametrize(
    ("name", "failing", "error"),
    [
        ("cuda", "DEVICE_LOADS_NOTHING", 209),
        ("hip", "DEVICE_LOADS_NOTHING", 209),
        ("hip", "DEVICE_COMPILES_NOTHING", 6),
    ],
)
def test_a_gpu_that_takes_no_kernels_is_copied_from_all_the_same(node, starting, name, failing, error):
    code = IN_ORDER + "assert runtime.device_launches() == 0"
    with starting(node, code, name, environment={failing: "1"}) as process:
        said = finish_well(process)
    line = f"{name.upper()} can't load kernels (error {error}): blocks of the GPU are looked at by the CPU"
    assert said.count(line) == has_kernels(name)
    check_in_order(node)


@pytest.mark.parametrize("name", RUNTIMES)
def test_small_blocks_of_a_gpu_come_in_one_copy_and_are_looked_at_in_one_launch(node, starting, name):
    code = """
field = adios.variable(io, "field", [64], [0], [1])
engine = adios.open(io, WRITE)
for step in range(2):
    adios.begin(engine)
    for place in range(64):
        adios.call("set_selection", field, 1, [place], [1])
        put(field, 63 - place, DEFERRED)
    assert under_way() == 64 * step
    before = runtime.device_copies()
    step and adios.call("perform_puts", engine)
    assert under_way() == 0
    assert (runtime.device_copies() - before, runtime.device_launches()) == (step * (1 + KERNELS), step * KERNELS)
    adios.call("end_step", engine)
"""
    with starting(node, code.replace("KERNELS", str(int(has_kernels(name)))), name, count=64) as process:
        finish_well(process)
    for step in steps_of(watch(node)):
        assert [array.item() for _, array in arrays_of(node, step)] == list(range(63, -1, -1))
        assert [block.min for block in step.blocks] == list(range(63, -1, -1))


def test_more_small_blocks_than_wait_on_the_gpu_come_by_and_by(big_node, starting):
    """Of memory that the program uses again at once, and of two types, of which one kernel takes one."""
    code = """
engine = adios.open(io, WRITE)
fields = [
    (adios.call("define_variable", io, kind.encode(), number, 2, [70, points], [0, 0], [1, points], 0), kind, points)
    for kind, number, points in (("f8", DOUBLE, 1 << 17), ("f4", 1, 40))
]
for step in range(2):
    adios.begin(engine)
    for place in range(70):
        for field, kind, points in fields[place >= 17:]:
            adios.call("set_selection", field, 2, [place, 0], [1, points])
            device_becomes(np.full(points, place, kind))
            put(field, 0, DEFERRED)
    device_becomes(-values)
    runtime.device_works()
    adios.call("end_step", engine)
assert runtime.device_launches() == LAUNCHES, "each type is looked at when there is no more room, and at the end"
"""
    with starting(big_node, code.replace("LAUNCHES", str(4 * has_kernels("cuda"))), count=1 << 17) as process:
        finish_well(process)
    _, step = steps_of(watch(big_node))
    assert len(step.blocks) == 17 + 70
    for block, (_, array) in zip(step.blocks, arrays_of(big_node, step), strict=True):
        assert set(array.ravel()) == {block.start[0]} == {block.min} == {block.max}, block


@pytest.mark.parametrize(
    "parameters",
    [{"Transport": "tcp"}, pytest.param({"Transport": "fabric", "FabricProvider": PROVIDER}, marks=NEEDS_LIBFABRIC)],
    ids=["tcp", "fabric"],
)
def test_blocks_of_a_gpu_go_to_other_hosts_through_memory_of_this_one(node, starting, parameters):
    code = IN_ORDER.replace("assert under_way() == (step in (1, 3))", "assert under_way() == 0")
    with starting(node, code, **parameters) as process:
        finish_well(process)
    check_in_order(node)


def test_blocks_of_a_gpu_without_room_go_to_the_spill_directory(small_node, starting, tmp_path):
    code = """
field = adios.variable(io, "field", [32768], [0], [32768])
engine = adios.open(io, WRITE)
for step in range(6):
    adios.begin(engine)
    device_becomes(values + step)
    put(field, 0, SYNC if step % 2 else DEFERRED)
    device_becomes(-values)
    runtime.device_works()
    adios.call("end_step", engine)
"""
    words = {"QueueFullPolicy": "Spill", "SpillDirectory": str(tmp_path)}
    with starting(small_node, code, count=32768, **words) as process:
        finish_well(process)
    blocks = {step.number: step.blocks[0] for step in steps_of(watch(small_node))}
    assert {number for number, block in blocks.items() if block.file} == {4, 5}
    for number, block in blocks.items():
        if block.file:
            there = map_spilled(block.file, block.offset, block.bytes)
            found = there[block.offset : block.offset + block.bytes].view(float)
        else:
            found = read_block(small_node.nodes[0].pool, block)
        assert (found == np.arange(32768) + number).all()


def test_memory_that_cannot_be_registered_is_copied_into_all_the_same(node, starting):
    with starting(node, IN_ORDER, environment={"DEVICE_REGISTERS_NOTHING": "1"}) as process:
        said = finish_well(process)
    assert said.count("CUDA can't register") == 1
    check_in_order(node)


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_a_block_whose_node_dies_before_its_step_ends_lands_on_the_next(faulty_nodes, starting, tmp_path, transport):
    nodes = faulty_nodes(2, 4 << 20)
    code = IN_ORDER.replace("    assert under_way()", "    step == 1 and pause()\n    assert under_way()")
    if transport == "tcp":
        code = code.replace("(step in (1, 3))", "0")
    with starting(nodes, code, NodeLossTimeoutSecs="0.5", Transport=transport) as process:
        wait_for_file(tmp_path / "there")
        nodes.kill("bb0")
        (tmp_path / "go").touch()
        finish_well(process)
    shown = ask_once(nodes.nodes[1], "watch", stream="model", after=-1, change=-1, limit=10, extremes=True)
    steps = steps_of(shown)
    assert (shown["discarded"], [step.number for step in steps]) == ([], [1, 2, 3])
    for step in steps:
        found = {block.name: read_block(nodes.nodes[1].pool, block).ravel().tolist() for block in step.blocks}
        assert found == {"field": [value * (step.number + 1) for value in range(24)], "host": list(range(24))}


def test_extents_that_lie_elsewhere_than_before_are_registered_anew(small_node, starting):
    """A consumer frees steps of blocks that grow, so that room is cut otherwise each time."""
    code = """
engine = adios.open(io, WRITE)
for step in range(40):
    points = 1000 + 517 * (step * 7 % 23)
    field = adios.variable(io, f"field{step}", [points], [0], [points])
    adios.begin(engine)
    put(field, step, DEFERRED)
    adios.call("end_step", engine)
assert runtime.device_unregistered() == 0
"""
    consumer = Thread(target=free_steps, args=(small_node.nodes[0], "model", 40), daemon=True)
    with starting(small_node, code, count=20_000) as process:
        consumer.start()
        finish_well(process)
    consumer.join(PATIENCE_S)
    assert not consumer.is_alive()


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_fork_leaves_its_parent_s_memory_registered(node, starting, name):
    code = """
field = adios.variable(io, "field", [24], [0], [24])
engine = adios.open(io, WRITE)
for step in range(3):
    adios.begin(engine)
    put(field, 0, SYNC if step else DEFERRED)
    if step == 1:
        before = runtime.device_wrong()
        if (child := os.fork()) == 0:
            adios.call("finalize", adios._adios)
            os._exit(runtime.device_wrong() != before)
        assert os.waitpid(child, 0)[1] == 0
    adios.call("end_step", engine)
assert runtime.device_unregistered() == 0
"""
    with starting(node, code, name) as process:
        finish_well(process)
    steps = steps_of(watch(node))
    assert [arrays_of(node, step)[0][1].tolist() for step in steps] == 3 * [list(range(24))]


@pytest.mark.parametrize("name", RUNTIMES)
def test_extents_are_registered_anew_after_an_agent_s_restart(faulty_nodes, starting, tmp_path, name):
    """One that keeps files, too, has left them the pool's pages if nobody held room, and given the pool others."""
    nodes = faulty_nodes(1, 4 << 20, ["--files", "none"])
    code = """
field = adios.variable(io, "field", [24], [0], [24])
engine = adios.open(io, WRITE)
for step in range(4):
    adios.begin(engine)
    put(field, 0, DEFERRED)
    adios.call("end_step", engine)
    if step == 2:
        before = runtime.device_registrations()
        pause()
assert runtime.device_registrations() == before + 1
"""
    with starting(nodes, code, name) as process:
        free_steps(nodes.nodes[0], "model", 3)
        wait_for_file(tmp_path / "there")
        nodes.kill("bb0")
        nodes.start("bb0")
        (tmp_path / "go").touch()
        finish_well(process)
    (step,) = steps_of(watch(nodes))
    assert arrays_of(nodes, step)[0][1].tolist() == list(range(24))


def test_what_the_runtime_cannot_copy_is_refused_in_one_line(node, starting):
    code = """
field = adios.variable(io, "field", [13], [0], [13])
engine = adios.open(io, WRITE)
adios.begin(engine)
put(field, 0, SYNC)
"""
    with starting(node, code) as process:
        returncode, said = finish(process)
    assert returncode == 1
    assert "CUDA can't copy 104 bytes from the GPU's memory (error 201): Put them from the host's" in said


def test_a_step_whose_copies_fail_under_way_is_not_committed(node, starting):
    code = """
field = adios.variable(io, "field", [17], [0], [17])
engine = adios.open(io, WRITE)
adios.begin(engine)
put(field, 0, DEFERRED)
adios.call("end_step", engine)
"""
    with starting(node, code) as process:
        returncode, said = finish(process)
    assert returncode == 1
    assert "CUDA can't copy 136 bytes from the GPU's memory (error 700)" in said
    assert watch(node)["steps"] == []


def test_the_benchmark_of_gpus_goes_through_with_a_stand_in(runtime, monkeypatch, capfd):
    """The first real GPU must not find its mistakes."""
    cases = {"4 blocks of 64 KiB": (4, 1 << 16), "2 MiB": (1, 2 << 20)}
    monkeypatch.setenv("LD_LIBRARY_PATH", str(runtime("cuda").parent))
    rows = gpu.measure(cases, steps=5)
    assert "stand-in of a GPU" not in capfd.readouterr().err
    assert [row.name for row in rows[2::3]] == [
        f"{case}: cuMemcpyDtoH into pinned memory (the ratio's 1)" for case in cases
    ]
    assert all(row.value > 0 for row in rows)


def test_the_benchmark_of_folds_on_gpus_goes_through_with_a_stand_in(runtime, monkeypatch, capfd):
    """And finds the results of a fold on the ranks."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(runtime("cuda").parent))
    rows = gpu.measure_folds(1 << 14, steps=200)
    said = capfd.readouterr().err
    assert "stand-in of a GPU" not in said
    assert ("folded by the CPU" in said) is not has_kernels("cuda")
    assert [row.unit for row in rows] == ["ms"] * 4 + ["GB/s"]


@pytest.mark.skipif(not has_kernels("cuda"), reason="needs an engine with kernels for CUDA (clang++)")
def test_the_benchmark_of_kernels_goes_through_with_a_stand_in(runtime, monkeypatch, capfd):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(runtime("cuda").parent))
    rows = gpu.measure_kernels(1 << 14)
    assert "stand-in of a GPU" not in capfd.readouterr().err
    assert len(rows) == 5
    assert all(row.value > 0 for row in rows)


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

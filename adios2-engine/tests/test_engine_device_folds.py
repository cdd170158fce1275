"""Blocks of a GPU's memory that are folded there: the states are those of a fold by the CPU, bit for bit."""

import numpy as np
import pytest
from devices import RUNTIMES, has_kernels, start_program
from msgspec import msgpack

from bbflow.landing.embedded import EmbeddedNodes
from bbflow.operators.statistics.bins import cell_table
from bbflow.reading.rank_plan import FoldedBins, RankPlan
from bbflow.store.block_values import read_block
from bbflow.store.pool import map_pool
from bbflow.stream.folded import folded_of, rows_of, state_places
from testsupport.asking import ask_once
from testsupport.processes import finish
from testsupport.writers import steps_of, wait_for_file, watch

STEPS, ODD, POINTS = 36, 33, 600
PLENTY = 4 << 20
ENDS = [8, 17, 27, 40]
LANDED = {0, 1, 8, 17, 27, *range(28, STEPS)}
"""Up to 32 they take less room than their state would; then the time is another than foretold."""
MOMENTS, EXTREMES = 0b001111, 0b110001
FILL = 3.0
EDGES = (0.0, 2.5, 4.0)
BINS = cell_table(EDGES)
VARIABLES = (
    ("f4", "float", MOMENTS | EXTREMES, b"", None),
    ("f8", "double", MOMENTS, np.float64(FILL).tobytes(), None),
    ("i2", "int16_t", EXTREMES, b"", None),
    ("part", "double", MOMENTS | EXTREMES, b"", None),
    ("host", "double", MOMENTS | EXTREMES, b"", None),
    ("bins", "double", folded_of(1, EDGES), b"", FoldedBins(
        BINS.breaks.astype("<f8").tobytes(), BINS.cells.astype("<i4").tobytes(), BINS.start, BINS.cells_per_unit,
        BINS.one_step,
    )),
)  # fmt: skip
PROGRAM = f"""
NUMBERS = {{"f4": 1, "f8": 2, "i2": 6}}
engine = adios.open(io, WRITE)
time_ = adios.call("define_variable", io, b"time", DOUBLE, 0, None, None, None, 0)
fields = {{
    name: adios.call("define_variable", io, name.encode(), number, 1, [{POINTS}], [0], [{POINTS}], 0)
    for name, number in NUMBERS.items()
}}
fields["host"] = adios.variable(io, "host", [{POINTS}], [0], [{POINTS}])
fields["part"] = adios.variable(io, "part", [20, 15], [0, 0], [20, 15])
fields["bins"] = adios.variable(io, "bins", [16], [0], [16])
adios.call("set_memory_selection", fields["part"], 2, [2, 4], [24, 25])

def put_from_there(name, array, mode):
    device_becomes(array)
    put(fields[name], 0, mode)
    device_becomes(np.full_like(array, 77))  # what the program queues next must not count

for step in range({STEPS}):
    noise = np.random.default_rng(step)
    adios.begin(engine)
    adios.call("put", engine, time_, np.array([float(step + 7 * (step == {ODD}))]), SYNC)
    for name, number in NUMBERS.items():
        array = noise.normal(3, 2, {POINTS}).astype(name)
        if name == "f4":
            array[noise.random({POINTS}) < 0.2] = np.nan
            array[0] = np.nan
        if name == "f8":
            array[noise.random({POINTS}) < 0.2] = {FILL}
        if step % 3 == 1:
            put_from_there(name, array + array.dtype.type(9), DEFERRED)  # the next one counts
        put_from_there(name, array, SYNC if step % 4 == 2 else DEFERRED)
    put_from_there("part", noise.normal(3, 2, 24 * 25), DEFERRED)
    put_from_there("bins", noise.normal(3, 2, 16), DEFERRED)
    own = noise.normal(3, 2, {POINTS})
    adios.call("put", engine, fields["host"], own, SYNC)
    if step % 2:
        runtime.device_works()
    if step == 12:
        adios.call("perform_puts", engine)
        assert runtime.device_copying() == 0
    adios.call("end_step", engine)
    assert runtime.device_copying() == 0
    if step in PAUSES:
        (here / "there").touch()
        while not (here / f"go{{step}}").exists():
            time.sleep(0.005)
print("folds", runtime.device_folds(), flush=True)
"""


def tell(node, device_bytes):
    """Run ranks that fold."""
    plan = RankPlan(
        time="time", first=0, begins=0.0, interval=1.0, tolerance=0.1, ends=np.array(ENDS, "<i8").tobytes(),
        variables=VARIABLES, wanted=(), device_bytes=device_bytes,
    )  # fmt: skip
    epoch = ask_once(node, "attach", stream="model", consumers=["fold"])["epoch"]
    ask_once(node, "plan", stream="model", epoch=epoch, plan=msgpack.decode(msgpack.encode(plan)))


def states_of(nodes):
    """Return what has landed: step and variable to its state's accumulators, or to its values."""
    pool, found = nodes.nodes[0].pool, {}
    for step in steps_of(watch(nodes)):
        for block in step.blocks:
            if block.folded == 0 and block.bytes:
                found[step.number, block.name] = {"values": read_block(pool, block).copy()}
            elif block.folded > 0:
                size = int(np.prod(block.count))
                places, _ = state_places(block.folded, block.dtype.itemsize, size)
                kinds = {"count": "i4", "counts": "i4", "first": "f8", "second": "f8"}
                sizes = {"counts": size * rows_of(block.folded)}
                found[step.number, block.name] = {
                    name: np.frombuffer(
                        map_pool(pool), kinds.get(name, block.dtype), sizes.get(name, size), block.offset + place
                    ).copy()
                    for name, place in places.items()
                }
    return found


def run(runtime, folder, nodes, device_bytes, meanwhile=None, **more):
    """Run the program, and let it fold after its first step; give how it ended, what it said, and what has landed."""
    code = PROGRAM.replace("PAUSES", "(0, 20)")
    with start_program(runtime, folder, nodes, code, POINTS, **more) as process:
        wait_for_file(folder / "there")
        (folder / "there").unlink()
        tell(nodes.nodes[0], device_bytes)
        (folder / "go0").touch()
        if meanwhile is not None:
            wait_for_file(folder / "there")
            meanwhile(process)
        (folder / "go20").touch()
        returncode, said = finish(process)
    return returncode, said, states_of(nodes)


@pytest.fixture
def folding(runtime, tmp_path):
    """Do that with a stand-in."""

    def fold(nodes, device_bytes=PLENTY, name="cuda", **more):
        return run(runtime(name), tmp_path, nodes, device_bytes, **more)

    return fold


@pytest.fixture(scope="module")
def expected(runtime, tmp_path_factory):
    """What lands with fold: {on: rank}."""
    with EmbeddedNodes(1, 16 << 20) as nodes:
        returncode, said, found = run(runtime("cuda"), tmp_path_factory.mktemp("cpu"), nodes, 0)
    assert returncode == 0, said
    assert "folds 0\n" in said
    assert {step for step, _ in found} == LANDED
    return found


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for key, arrays in expected.items():
        assert found[key].keys() == arrays.keys()
        for name, array in arrays.items():
            assert found[key][name].tobytes() == array.tobytes(), (key, name)


@pytest.mark.parametrize(("name", "transport"), [("cuda", "shm"), ("cuda", "tcp"), ("hip", "shm")])
def test_states_are_those_of_the_cpu_to_the_bit(node, folding, expected, name, transport):
    returncode, said, found = folding(node, name=name, Transport=transport)
    assert returncode == 0, said
    assert ("folds 0\n" in said) is not has_kernels(name)
    assert_same(found, expected)


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_gpu_that_takes_no_kernels_leaves_the_fold_to_the_cpu(node, folding, expected, name):
    returncode, said, found = folding(node, name=name, environment={"DEVICE_LOADS_NOTHING": "1"})
    assert returncode == 0, said
    assert "folds 0\n" in said
    assert said.count(f"no kernels for a GPU of {name.upper()}: its blocks are folded by the CPU") == 1
    assert_same(found, expected)


def totals(found):
    """Sum up all that has landed of each variable."""
    sums = {}
    for (_, name), state in found.items():
        if "values" in state:
            values = state["values"].reshape(-1).astype(float)
            valid = ~np.isnan(values) & ((name != "f8") | (values != FILL))
            own = {"count": valid.astype(int), "sum": np.where(valid, values, 0)}
            own |= {"min": np.where(valid, values, np.inf), "max": np.where(valid, values, -np.inf)}
        else:
            own = {"count": state["count"].astype(int)}
            own |= {key: state[key].astype(float) for key in ("min", "max") if key in state}
            if "first" in state:
                own["sum"] = state["first"] + state["count"] * state["shift"].astype(float)
        old = sums.get(name, own)
        how = {"min": np.minimum, "max": np.maximum}
        sums[name] = own if old is own else {key: how.get(key, np.add)(old[key], own[key]) for key in old.keys() & own}
    return sums


@pytest.mark.parametrize("limit", ["fold", "GPU"])
@pytest.mark.parametrize("room", [100, 20_000, 50_000, 110_000])
def test_what_has_no_room_on_the_gpu_is_folded_by_the_cpu(node, folding, expected, limit, room):
    more = {"environment": {"DEVICE_BYTES": str(room)}} if limit == "GPU" else {}
    returncode, said, found = folding(node, room if limit == "fold" else PLENTY, **more)
    assert returncode == 0, said
    assert said.count("the GPU has no more room for states and blocks than") == has_kernels("cuda")
    sums, wanted = totals(found), totals(expected)
    assert sums.keys() == wanted.keys()
    for name, own in wanted.items():
        for key, array in own.items():
            np.testing.assert_allclose(sums[name][key], array, rtol=1e-12 if key == "sum" else 0, err_msg=name)


@pytest.mark.skipif(not has_kernels("cuda"), reason="needs an engine with kernels for CUDA (clang++)")
def test_states_that_lack_a_step_do_not_land(node, folding):
    returncode, said, found = folding(node, environment={"DEVICE_FOLDS_NOTHING": "1"})
    assert returncode == 1
    assert "CUDA can't fold on the GPU (error 201): use fold: {on: rank}" in said
    assert not any("count" in state for state in found.values())


def test_what_a_gpu_holds_outlives_the_node(faulty_nodes, folding, expected):
    nodes = faulty_nodes(1, 16 << 20)

    def again(_):
        nodes.kill("bb0")
        nodes.start("bb0")

    returncode, said, found = folding(nodes, meanwhile=again)
    assert returncode == 0, said
    until = {key: state for key, state in expected.items() if key[0] <= 27}
    assert_same({key: state for key, state in found.items() if key[0] <= 27}, until)
    assert {step for step, _ in found} == {step for step, _ in until} | set(range(28, STEPS))


def test_a_program_that_dies_takes_with_it_what_has_not_landed(node, folding, expected):
    returncode, _, found = folding(node, meanwhile=lambda process: process.kill())
    assert returncode == -9
    assert_same(found, {key: state for key, state in expected.items() if key[0] <= 17})

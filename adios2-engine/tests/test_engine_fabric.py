"""Blocks that are written into the pool by libfabric: through its software providers, which every host can have."""

import ctypes
import mmap
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random, randrange

import numpy as np
import pytest
from devices import RUNTIMES, has_kernels
from test_engine_faults import DIE_IN_STEP_2, ONE_STEP
from test_engine_takeover import PAUSES, STEPS, all_nodes, run_through, values_of
from test_engine_tcp import FABRIC, LARGE_BLOCKS, TCP, check_large_blocks

from bbflow.errors import NodeError
from bbflow.landing.fabric import OPENED, FabricGates
from testsupport.connections import break_connections
from testsupport.fabrics import NEEDS_LIBFABRIC, PROVIDER, has_fast_network
from testsupport.processes import finish, finish_well
from testsupport.writers import (
    arrays_of,
    node_status,
    run_writer,
    steps_of,
    wait_for_file,
    watch,
    watch_until,
    write,
    write_config,
    writing,
)

HEADERS = Path("/usr/include/rdma/fi_rma.h")
SOURCES = Path(__file__).parent / "program"


pytestmark = NEEDS_LIBFABRIC


NEEDS_HEADERS = pytest.mark.skipif(
    not HEADERS.exists(), reason="needs the headers of libfabric (Debian: libfabric-dev)"
)


@NEEDS_HEADERS
def test_what_is_declared_of_libfabric_is_what_its_headers_have():
    command = ["c++", "-std=c++17", "-fsyntax-only", "-I", SOURCES.parents[1] / "wire", SOURCES / "ofi.cpp"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def gates():
    """Gates to two pages of memory."""
    memory = memoryview(mmap.mmap(-1, 2 * mmap.PAGESIZE))
    gates = FabricGates("127.0.0.1", lambda: memory)
    yield gates, memory
    gates.close()


def test_a_node_says_once_why_libfabric_fails_for_a_rank_that_asks_again_and_again(gates, capfd):
    opener, _ = gates
    for provider in ("psmx9", "psmx9", "psmx8", "psmx8"):
        with pytest.raises(NodeError, match=provider):
            opener.open([provider])
    said = [line for line in capfd.readouterr().err.splitlines() if "libfabric fails" in line]
    assert ["psmx9" in line for line in said] == [True, False]


CAUGHT = """
def caught():  # above 31 are those of the C library
    with open("/proc/self/status") as file:
        return [int(line.split()[1], 16) % 2**31 for line in file if line.startswith(("SigIgn", "SigCgt"))]
"""


@pytest.mark.parametrize("provider", [PROVIDER, "shm"])
def test_signals_go_where_they_went_before_libfabric_was_loaded(node, tmp_path, provider):
    """Its PSM provider catches SIGTERM as soon as it is there, and ends the process by exit()."""
    code = f"{CAUGHT}before = caught()\nengine = io.open('out', Mode.Write)\nassert caught() == before\nengine.close()"
    write(node.contact, code, write_config(tmp_path, Transport="fabric", FabricProvider=provider))
    code = f"""
from contextlib import suppress
from bbflow.errors import NodeError
from bbflow.landing.fabric import FabricGates
{CAUGHT}
before = caught()
with suppress(NodeError):
    FabricGates("127.0.0.1", lambda: memoryview(bytearray(1))).open([{provider!r}])
assert caught() == before
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def try_to_write(programs, gate, opened, beyond=0):
    """Write eight bytes so far beyond the first one that was opened, as whoever knows its key; give what came of it."""
    base, key = OPENED.unpack(opened)
    words = [PROVIDER, gate.way.address.hex(), str(base + beyond), str(key)]
    done = subprocess.run([programs / "fabric", *words], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.partition(":")[0].strip()


@pytest.mark.parametrize("beyond", [-8, -1, mmap.PAGESIZE - 7, mmap.PAGESIZE, 1 << 40])
def test_nothing_is_written_outside_of_what_was_granted(programs, gates, beyond):
    (opener, memory), size = gates, mmap.PAGESIZE
    gate = opener.open([PROVIDER])
    opened = gate.grant([(0, size)])
    assert try_to_write(programs, gate, opened, beyond % 2**64) == "refused"
    assert bytes(memory) == bytes(2 * size)
    assert try_to_write(programs, gate, opened, size - 8) == "written"
    assert bytes(memory) == bytes(size - 8) + b"written!" + bytes(size)


def test_a_key_counts_for_its_own_connection_and_until_it_is_revoked(programs, gates):
    opener, memory = gates
    own, other = opener.open([PROVIDER]), opener.open([PROVIDER])
    opened = own.grant([(0, mmap.PAGESIZE)])
    assert try_to_write(programs, other, opened) == "refused"
    own.revoke()
    assert try_to_write(programs, own, opened) == "refused"
    assert bytes(memory) == bytes(2 * mmap.PAGESIZE)


@pytest.mark.parametrize("moment", ["begun", "put"])
def test_a_writer_goes_on_by_libfabric_with_an_agent_that_was_killed(faulty_nodes, tmp_path, moment):
    nodes = faulty_nodes(1, 4 << 20)

    def kill_and_start():
        nodes.kill("bb0")
        nodes.start("bb0")

    with writing(nodes.contact, STEPS, write_config(tmp_path, **FABRIC)) as process:
        run_through(process, tmp_path, {moment: kill_and_start})
    check_steps(nodes)


def check_steps(nodes):
    """See that all of `STEPS` has landed, once."""
    (shown,) = all_nodes(nodes)
    steps = steps_of(shown)
    assert (shown["status"], [step.number for step in steps]) == ("closed", [0, 1, 2, 3])
    for step in steps:
        assert values_of(nodes.nodes[0], step) == [("field", step.number), ("fine", 10.0 * step.number)]


def break_fabric(nodes, process):
    """Break what libfabric has between a writer and its node; the connection for all else stays."""
    port = int(nodes.nodes[0].tcp.rpartition(":")[2])
    assert break_connections(process, port) > 0


@pytest.mark.parametrize("moment", PAUSES)
def test_a_fabric_that_fails_between_writes_is_opened_again(node, tmp_path, moment):
    with writing(node.contact, STEPS, write_config(tmp_path, **FABRIC)) as process:
        run_through(process, tmp_path, {moment: lambda: break_fabric(node, process)})
    check_steps(node)


def test_a_fabric_that_fails_again_and_again_is_left_for_tcp(big_node, tmp_path):
    config = write_config(tmp_path, FabricProvider=PROVIDER)
    code = STEPS.replace("65536", str(1 << 20))  # so large that each Put waits until all has arrived
    with writing(elsewhere(big_node, tmp_path), code, config) as process:
        said = run_through(process, tmp_path, dict.fromkeys(PAUSES, lambda: break_fabric(big_node, process)))
    assert said.count("blocks go by TCP, since libfabric doesn't work") == 1
    check_steps(big_node)


def test_a_killed_writer_s_room_is_another_s_and_stays_as_that_one_left_it(node, tmp_path):
    with writing(node.contact, DIE_IN_STEP_2, write_config(tmp_path, **FABRIC)) as process:
        wait_for_file(tmp_path / "in-step-2")
        process.send_signal(signal.SIGKILL)
        process.wait()
    shown = watch_until(node, lambda shown: shown["status"] == "aborted")
    assert [arrays_of(node, step)[0][1].max() for step in steps_of(shown)] == [0.0, 1.0]
    with writing(node.contact, ONE_STEP, write_config(tmp_path, Stream="next", **FABRIC)) as process:
        (tmp_path / "go").touch()
        assert finish(process) == (0, "")
    (step,) = steps_of(watch(node, "next"))
    assert set(arrays_of(node, step)[0][1].tolist()) == {1.0}


UNTIL_STOPPED = """
part, fine = field(6000), io.define_variable("fine", np.empty(0), [8], [0], [8], True)
engine, step = io.open("out", Mode.Write), 0
tell("open")
while not (here / "stop").exists():
    engine.begin_step()
    engine.put(part, np.full(6000, float(step)), Mode.Sync if step % 2 else Mode.Deferred)
    engine.put(fine, np.full(8, 10.0 * step))
    engine.end_step()
    step += 1
    time.sleep(0.1)
engine.close()
print(step)
"""


def harm(nodes, process, seed):
    """Do a hundred faults at random to a writer's node and connections, and let it end."""
    dice = Random(seed)

    def restart():
        nodes.kill("bb0")
        nodes.start("bb0")

    def hang():
        nodes.signal("bb0", signal.SIGSTOP)
        time.sleep(dice.uniform(0, 0.3))
        nodes.signal("bb0", signal.SIGCONT)

    for number in range(100):
        if (fault := dice.choice([restart, hang, break_connections])) == break_connections:
            port = int(nodes.nodes[0].tcp.rpartition(":")[2])
            break_connections(process, dice.choice([None, port]))
        else:
            fault()
        time.sleep(dice.uniform(0, 0.2))
        assert process.poll() is None, (seed, number, finish(process))


def stop(process, folder, seed):
    """Wait for a writer's end; return how many steps it has written."""
    (folder / "stop").touch()
    returncode, said = finish(process)
    assert returncode == 0, (seed, said)
    return int(said.split()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("options", [TCP, FABRIC], ids=["tcp", "fabric"])
def test_a_hundred_faults_at_random_lose_and_double_nothing(faulty_nodes, tmp_path, options):
    nodes, seed = faulty_nodes(1, 256 << 20), randrange(1 << 32)
    with writing(nodes.contact, UNTIL_STOPPED, write_config(tmp_path, **options)) as process:
        wait_for_file(tmp_path / "open")
        harm(nodes, process, seed)
        count = stop(process, tmp_path, seed)
    (shown,) = all_nodes(nodes)
    steps = steps_of(shown)
    assert (shown["status"], [step.number for step in steps]) == ("closed", list(range(count))), seed
    for step in steps:
        assert values_of(nodes.nodes[0], step) == [("field", step.number), ("fine", 10.0 * step.number)], seed


FROM_GPU = """
field = adios.variable(io, "field", [COUNT], [0], [COUNT])
engine = adios.open(io, WRITE)
for step in range(3):
    adios.begin(engine)
    device_becomes(values + step)
    put(field, 0, SYNC if step == 1 else DEFERRED)
    device_becomes(-values)
    runtime.device_works()
    adios.call("end_step", engine)
"""
POINTS = 600_000  # more than the 4 MiB up to which a block is kept by the host until its step has landed


def check_from_gpu(nodes):
    steps = steps_of(watch(nodes))
    assert [step.number for step in steps] == [0, 1, 2]
    for step in steps:
        ((_, found),) = arrays_of(nodes, step)
        assert (found == np.arange(POINTS) + step.number).all()
        assert [(block.min, block.max) for block in step.blocks] == [(step.number, POINTS - 1 + step.number)]


@pytest.fixture(scope="module")
def reads_gpus(tmp_path_factory):
    """Environment of a program whose libfabric has a provider that reads the memory of a stand-in's GPU."""
    folder = tmp_path_factory.mktemp("reads_gpus")
    words = [f"-Wl,--version-script={SOURCES / 'gpu_fabric.map'}", "-o", folder / "libfabric.so.1"]
    subprocess.run(["cc", "-shared", "-fPIC", SOURCES / "gpu_fabric.c", *words], check=True)
    ctypes.CDLL("libfabric.so.1")
    maps = Path("/proc/self/maps").read_text().split()
    return {"LD_LIBRARY_PATH": str(folder), "FABRIC": next(word for word in maps if "libfabric.so.1" in word)}


@NEEDS_HEADERS
@pytest.mark.parametrize("refuses", [False, True], ids=["takes", "refuses"])
@pytest.mark.parametrize("name", RUNTIMES)
def test_a_provider_that_can_reads_a_gpu_s_memory_itself(big_node, starting, reads_gpus, name, refuses):
    pieces = 0 if refuses or not has_kernels(name) else 3 * -(-POINTS * 8 // (512 << 10))
    written = f"written = ctypes.CDLL('libfabric.so.1').fabric_written()\nassert written == {pieces}, written"
    code = FROM_GPU.replace("COUNT", str(POINTS)) + written
    environment = reads_gpus | ({"FABRIC_TAKES_NONE": "1"} if refuses else {})
    with starting(big_node, code, name, POINTS, environment, FabricGpu="yes", **FABRIC) as process:
        said = finish_well(process)
    assert said.count("goes through the host's") == (refuses and has_kernels(name))
    check_from_gpu(big_node)


@pytest.mark.parametrize("provider", [PROVIDER, "shm"])  # the latter says that it can
def test_a_provider_that_cannot_gets_a_gpu_s_memory_through_the_host_s(big_node, starting, provider):
    options = FABRIC | {"FabricProvider": provider, "FabricGpu": "yes"}
    with starting(big_node, FROM_GPU.replace("COUNT", str(POINTS)), "hip", POINTS, None, **options) as process:
        said = finish_well(process)
    assert said.count(f"bbflow: libfabric's provider {provider}") == said.count("goes through the host's") == 1
    check_from_gpu(big_node)


def elsewhere(node, tmp_path):
    """A contact file in which the node is on another host, as far as its name tells."""
    contact = tmp_path / "elsewhere.json"
    contact.write_text(node.contact.read_text().replace(f'"host": "{node.nodes[0].host}"', '"host": "n017"'))
    return contact


def test_auto_takes_the_provider_that_is_named_for_ranks_of_other_hosts(big_node, tmp_path):
    code = LARGE_BLOCKS.replace("engine.close()", 'tell("there")\nwait_for("go")\nengine.close()')
    with writing(elsewhere(big_node, tmp_path), code, write_config(tmp_path, FabricProvider=PROVIDER)) as process:
        wait_for_file(tmp_path / "there")
        assert node_status(big_node)["streams"]["model"]["ranks"] == [[0, "fabric"]]
        (tmp_path / "go").touch()
        assert finish(process) == (0, f"bbflow: stream 'model', rank 0: blocks go by libfabric ({PROVIDER})\n")
    check_large_blocks(big_node)


def test_a_node_without_the_provider_gets_blocks_by_tcp_and_one_line_says_so(faulty_nodes, tmp_path, monkeypatch):
    monkeypatch.setenv("FI_PROVIDER", "shm")
    nodes = faulty_nodes(1, 32 << 20)
    monkeypatch.delenv("FI_PROVIDER")
    config = write_config(tmp_path, FabricProvider=PROVIDER)
    returncode, said = run_writer(elsewhere(nodes, tmp_path), LARGE_BLOCKS, config)
    assert (returncode, said.count("blocks go by TCP")) == (0, 1), said
    why = f"BB node bb0 takes nothing by libfabric, and says: libfabric's provider {PROVIDER} has nothing"
    assert why in said
    check_large_blocks(nodes)
    config = write_config(tmp_path, **FABRIC, Stream="forced", OpenTimeoutSecs="0.5")
    returncode, said = run_writer(nodes.contact, LARGE_BLOCKS, config)
    assert returncode != 0
    assert why in said


def test_auto_says_why_blocks_go_by_tcp_where_a_provider_is_named(big_node, tmp_path):
    config = write_config(tmp_path, FabricProvider="psmx9")
    returncode, said = run_writer(elsewhere(big_node, tmp_path), LARGE_BLOCKS, config)
    why = "libfabric has no provider psmx9 on this host"
    assert (returncode, said) == (0, f"bbflow: stream 'model', rank 0: blocks go by TCP, since {why}\n")
    check_large_blocks(big_node)


@pytest.mark.skipif(has_fast_network(), reason="this host has a network that libfabric is loaded for")
@pytest.mark.parametrize("transport", ["shm", "tcp", "auto"])
def test_libfabric_is_not_loaded_where_it_is_not_used(node, tmp_path, transport):
    code = "engine = io.open('out', Mode.Write)\nassert 'libfabric' not in pathlib.Path('/proc/self/maps').read_text()"
    contact = elsewhere(node, tmp_path) if transport == "auto" else node.contact
    write(contact, f"{code}\nengine.close()", write_config(tmp_path, Transport=transport))


def test_a_host_without_a_fabric_better_than_tcp_is_told_so(node, tmp_path):
    for words, why in [({"FabricProvider": "psmx9"}, "no provider psmx9 on this host"),
                       ({"FabricProvider": "verbs;ofi_rxm"}, "set Transport=auto")]:  # fmt: skip
        config = write_config(tmp_path, Transport="fabric", **words)
        returncode, said = run_writer(node.contact, 'io.open("out", Mode.Write)', config)
        assert returncode != 0
        assert why in said

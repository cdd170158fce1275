"""Blocks that are written into the pool by libfabric: through its software providers, which every host can have."""

import mmap
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_engine_faults import DIE_IN_STEP_2, ONE_STEP
from test_engine_takeover import STEPS, all_nodes, run_through, values_of
from test_engine_tcp import FABRIC, LARGE_BLOCKS, check_large_blocks

from bbflow.landing.fabric import OPENED, FabricGates
from testsupport.fabrics import NEEDS_LIBFABRIC, PROVIDER
from testsupport.processes import finish
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


@pytest.mark.skipif(not HEADERS.exists(), reason="needs the headers of libfabric (Debian: libfabric-dev)")
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
    opening = f"FabricGates('127.0.0.1', lambda: memoryview(bytearray(1))).open([{provider!r}])"
    code = f"{CAUGHT}before = caught()\n{opening}\nassert caught() == before"
    code = f"from bbflow.landing.fabric import FabricGates\n{code}"
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
    (shown,) = all_nodes(nodes)
    steps = steps_of(shown)
    assert (shown["status"], [step.number for step in steps]) == ("closed", [0, 1, 2, 3])
    for step in steps:
        assert values_of(nodes.nodes[0], step) == [("field", step.number), ("fine", 10.0 * step.number)]


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
        assert finish(process) == (0, "")
    check_large_blocks(big_node)


def test_a_node_without_the_provider_gets_blocks_by_tcp_and_one_line_says_so(faulty_nodes, tmp_path, monkeypatch):
    monkeypatch.setenv("FI_PROVIDER", "shm")
    nodes = faulty_nodes(1, 32 << 20)
    monkeypatch.delenv("FI_PROVIDER")
    config = write_config(tmp_path, FabricProvider=PROVIDER)
    returncode, said = run_writer(elsewhere(nodes, tmp_path), LARGE_BLOCKS, config)
    assert (returncode, said.count("blocks go by TCP")) == (0, 1), said
    assert "BB node bb0 has none of the providers of libfabric" in said
    check_large_blocks(nodes)
    config = write_config(tmp_path, **FABRIC, Stream="forced", OpenTimeoutSecs="0.5")
    returncode, said = run_writer(nodes.contact, LARGE_BLOCKS, config)
    assert returncode != 0
    assert "BB node bb0 has none of the providers" in said


def test_a_host_without_a_fabric_better_than_tcp_is_told_so(node, tmp_path):
    for words, why in [({"FabricProvider": "psmx9"}, "no provider psmx9 on this host"),
                       ({"FabricProvider": "verbs;ofi_rxm"}, "set Transport=auto")]:  # fmt: skip
        config = write_config(tmp_path, Transport="fabric", **words)
        returncode, said = run_writer(node.contact, 'io.open("out", Mode.Write)', config)
        assert returncode != 0
        assert why in said

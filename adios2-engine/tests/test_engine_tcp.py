import signal
import time

import numpy as np
import psutil
import pytest

from bbflow.net.listen import SILENCE_S
from testsupport.fabrics import NEEDS_LIBFABRIC, PROVIDER
from testsupport.processes import finish
from testsupport.writers import (
    arrays_of,
    node_status,
    run_writer,
    steps_of,
    wait_for_file,
    watch,
    write,
    write_config,
    writing,
)

TCP = {"Transport": "tcp"}
FABRIC = {"Transport": "fabric", "FabricProvider": PROVIDER}
MORE_OF_FABRIC = [{"FabricChecks": "no"}, {"FabricProvider": "shm"}]
TRANSPORTS = [TCP, pytest.param(FABRIC, marks=NEEDS_LIBFABRIC)]

LARGE_BLOCKS = """
large, small = field(700_001), io.define_variable("small", np.empty(0, np.int16), [3], [0], [3], True)
engine = io.open("out", Mode.Write)
for step in range(3):
    engine.begin_step()
    values = np.arange(700_001.0) * (step + 1)
    engine.put(large, values, Mode.Sync if step != 1 else Mode.Deferred)
    engine.put(small, np.array([step, -step, 7], np.int16), Mode.Sync)
    engine.end_step()
engine.close()
"""


def check_large_blocks(node):
    steps = steps_of(watch(node))
    assert [step.number for step in steps] == [0, 1, 2]
    for step in steps:
        (_, large), (_, small) = arrays_of(node, step)
        assert (large == np.arange(700_001.0) * (step.number + 1)).all()
        assert small.tolist() == [step.number, -step.number, 7]
        assert [(block.min, block.max) for block in step.blocks] == [
            (0, 700_000 * (step.number + 1)), (-step.number, 7)
        ]  # fmt: skip


@pytest.mark.parametrize(
    "options", [*TRANSPORTS, *(pytest.param(FABRIC | more, marks=NEEDS_LIBFABRIC) for more in MORE_OF_FABRIC)]
)
def test_blocks_of_any_size_land_from_another_host(big_node, tmp_path, options):
    write(big_node.contact, LARGE_BLOCKS, write_config(tmp_path, **options))
    check_large_blocks(big_node)
    assert watch(big_node)["status"] == "closed"


@pytest.mark.parametrize("options", TRANSPORTS)
def test_the_node_shows_how_blocks_come(node, tmp_path, options):
    code = 'engine = io.open("out", Mode.Write)\ntell("open")\nwait_for("go")\nengine.close()'
    with writing(node.contact, code, write_config(tmp_path, **options)) as process:
        wait_for_file(tmp_path / "open")
        assert node_status(node)["streams"]["model"]["ranks"] == [[0, options["Transport"]]]
        (tmp_path / "go").touch()
        assert finish(process) == (0, "")


def test_memory_that_is_overwritten_after_its_put_lands_as_it_was(big_node, tmp_path):
    code = """
part = field(1 << 17)
engine = io.open("out", Mode.Write)
engine.begin_step()
values = np.empty(1 << 17)
for number in range(45):
    values[:] = number
    engine.put(part, values, Mode.Sync if number % 2 else Mode.Deferred)
values[:] = -1
engine.end_step()
engine.close()
"""
    write(big_node.contact, code, write_config(tmp_path, **TCP))
    (step,) = steps_of(watch(big_node))
    assert [set(array.tolist()) for _, array in arrays_of(big_node, step)] == [{number} for number in range(45)]


@pytest.mark.parametrize("puts", ["sync", "deferred"])
def test_damaged_bytes_are_sent_again(big_node, big_bad_network, tmp_path, puts):
    big_bad_network.damage = lambda number: number % 5 == 1
    code = LARGE_BLOCKS if puts == "sync" else LARGE_BLOCKS.replace("step != 1", "step < 0")
    write(big_bad_network.contact, code, write_config(tmp_path, **TCP))
    assert big_bad_network.flipped > 5
    check_large_blocks(big_node)


def test_bytes_that_always_arrive_damaged_are_an_error(node, bad_network, tmp_path):
    bad_network.damage = lambda number: True
    code = LARGE_BLOCKS.replace("700_001", "1000")
    returncode, said = run_writer(bad_network.contact, code, write_config(tmp_path, **TCP))
    assert returncode != 0
    assert "arrived damaged" in said
    assert watch(node)["steps"] == []


@pytest.mark.parametrize("cut", [0, 3, 11, 13, 22])
def test_a_connection_cut_in_mid_block_loses_and_doubles_nothing(big_node, big_bad_network, tmp_path, cut):
    big_bad_network.cut = lambda number: number == cut
    write(big_bad_network.contact, LARGE_BLOCKS, write_config(tmp_path, **TCP))
    assert big_bad_network.cuts == 1
    check_large_blocks(big_node)
    assert watch(big_node)["status"] == "closed"


@pytest.mark.parametrize(
    ("options", "request_name"),
    [
        *((TCP, name) for name in ("open", "begin", "reserve", "sync", "commit", "close")),
        *(pytest.param(FABRIC, name, marks=NEEDS_LIBFABRIC) for name in ("begin", "sync", "commit")),
    ],
)
def test_a_request_whose_reply_is_lost_is_asked_again(big_node, big_bad_network, tmp_path, options, request_name):
    big_bad_network.cut_after = request_name
    code = LARGE_BLOCKS.replace("for step in range(3):", "for step in range(3):\n    step == 1 and time.sleep(0.1)")
    write(big_bad_network.contact, code, write_config(tmp_path, **options))
    assert big_bad_network.cuts == 1
    check_large_blocks(big_node)
    assert watch(big_node)["status"] == "closed"


def test_a_network_that_cuts_again_and_again_is_lived_with(big_node, big_bad_network, tmp_path):
    big_bad_network.cut = lambda number: number % 17 == 5
    write(big_bad_network.contact, LARGE_BLOCKS, write_config(tmp_path, **TCP))
    assert big_bad_network.cuts > 2
    check_large_blocks(big_node)


def test_a_wrong_secret_is_refused_with_the_reason(node, tmp_path):
    text = node.contact.read_text()
    key = text.split('"key": "')[1][:64]
    contact = tmp_path / "wrong.json"
    contact.write_text(text.replace(key, "0" * 64))
    for transport in ("tcp", "shm"):
        config = write_config(tmp_path, Transport=transport)
        returncode, said = run_writer(contact, 'io.open("out", Mode.Write)', config)
        assert returncode != 0
        assert "another secret than the contact file" in said
        assert key not in said
    assert node_status(node)["streams"] == {}


def test_a_node_without_tcp_says_so(node, tmp_path):
    contact = tmp_path / "deaf.json"
    contact.write_text(node.contact.read_text().replace(node.nodes[0].tcp, ""))
    returncode, said = run_writer(contact, 'io.open("out", Mode.Write)', write_config(tmp_path, **TCP))
    assert returncode != 0
    assert "doesn't listen for TCP" in said


def test_shared_memory_with_a_node_of_another_host_is_an_error(node, tmp_path):
    contact = tmp_path / "elsewhere.json"
    contact.write_text(node.contact.read_text().replace(f'"host": "{node.nodes[0].host}"', '"host": "n017"'))
    config = write_config(tmp_path, Transport="shm")
    returncode, said = run_writer(contact, 'io.open("out", Mode.Write)', config)
    assert returncode != 0
    assert "n017" in said
    write(contact, LARGE_BLOCKS.replace("700_001", "1000"), write_config(tmp_path))  # auto: by TCP
    assert [step.number for step in steps_of(watch(node))] == [0, 1, 2]


@pytest.mark.slow
def test_a_node_that_is_stopped_for_longer_than_a_host_may_be_silent_keeps_its_connections(faulty_nodes, tmp_path):
    nodes = faulty_nodes(1, 128 << 20)
    code = """
whole = field(12_000_000)
engine = io.open("out", Mode.Write)
tell("open")
wait_for("go")
engine.begin_step()
engine.put(whole, np.arange(12e6), Mode.Sync)
engine.end_step()
tell("written")
wait_for("end")
engine.close()
"""
    with writing(nodes.contact, code, write_config(tmp_path, **TCP)) as process:
        connections = lambda: [one.laddr for one in psutil.Process(process.pid).net_connections("tcp")]  # noqa: E731
        wait_for_file(tmp_path / "open")
        before = connections()
        nodes.signal("bb0", signal.SIGSTOP)
        (tmp_path / "go").touch()
        time.sleep(SILENCE_S + 10)  # its window is full by then, and nobody takes anything
        nodes.signal("bb0", signal.SIGCONT)
        wait_for_file(tmp_path / "written")
        assert connections() == before
        (tmp_path / "end").touch()
        assert finish(process) == (0, "")
    ((_, values),) = arrays_of(nodes, *steps_of(watch(nodes)))
    assert (values == np.arange(12e6)).all()

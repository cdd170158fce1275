import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from bbflow.errors import CapacityError, NodeError, StreamError
from bbflow.host.belongings import MARK
from bbflow.landing.client import NodeClient
from bbflow.landing.embedded import EmbeddedNodes, own_directory, spawn_node, wait_until_ready
from bbflow.net.contact import read_contact
from testsupport.asking import ask, ask_once
from testsupport.processes import agent_of
from testsupport.waiting import until

PARENT = """
import sys, time
from pathlib import Path
from bbflow.landing.embedded import EmbeddedNodes
nodes = EmbeddedNodes(2, 1 << 20, Path(sys.argv[1]))
print("up", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def short():
    """A directory with a short name, as a Unix socket needs."""
    with tempfile.TemporaryDirectory(prefix="bb-", dir="/dev/shm") as directory:
        yield Path(directory)


def test_embedded_nodes_answer_and_leave_nothing_behind(short):
    with EmbeddedNodes(2, 1 << 20, short) as nodes:
        assert [node.name for node in read_contact(nodes.contact)] == ["bb0", "bb1"]
        for node in nodes.nodes:
            status = ask_once(node, "status")
            assert (status["name"], status["capacity"], status["free"]) == (node.name, 1 << 20, 1 << 20)
            assert stat.S_IMODE(os.stat(node.directory).st_mode) == 0o700
            assert stat.S_IMODE(os.stat(node.pool).st_mode) == 0o600
            assert os.stat(node.pool).st_blocks * 512 >= 1 << 20
    assert list(short.iterdir()) == []


def test_too_large_a_capacity_is_one_clear_error_and_leaves_nothing_behind(short):
    with pytest.raises(CapacityError, match=r"free, but the pool needs .*: give a smaller capacity or another"):
        EmbeddedNodes(1, 1 << 50, short)
    assert list(short.iterdir()) == []


def test_a_directory_that_is_not_there_is_named(tmp_path):
    with pytest.raises(NodeError, match="can't make a directory in"):
        EmbeddedNodes(1, 1 << 20, tmp_path / "none")


def test_nodes_end_with_a_parent_that_is_killed(short):
    command = [sys.executable, "-c", PARENT, str(short)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout.readline() == "up\n"
        (root,) = short.iterdir()
        assert len(list(root.glob("bbflow-bb*/pool"))) == 2
        parent.send_signal(signal.SIGKILL)
    until(lambda: not list(short.iterdir()))


@pytest.mark.parametrize("count", [1, 2])
def test_an_agent_that_a_signal_ends_comes_back_to_what_it_held(short, count):
    with EmbeddedNodes(count, 1 << 20, short) as nodes:
        node = nodes.nodes[-1]
        ask_once(node, "attach", stream="a", consumers=["fold"], owner="", take_over=False)
        agent = agent_of(node)
        agent.terminate()
        until(lambda: not agent.is_running())
        until(lambda: _streams(nodes.contact, node.name) == ["a"])
    assert list(short.iterdir()) == []


def killing(times):
    """What starts agents, of which this many are killed while they start."""
    left = iter(range(times))

    def spawn(*words, **options):
        process = spawn_node(*words, **options)
        if next(left, None) is not None:
            process.kill()
        return process

    return spawn


def test_an_agent_that_is_killed_while_it_starts_is_started_again(short):
    with EmbeddedNodes(1, 1 << 20, short, spawn=killing(5)) as nodes:
        assert [node.name for node in nodes.nodes] == ["bb0"]
    assert list(short.iterdir()) == []


def test_an_agent_that_is_always_killed_is_one_clear_error(short):
    with pytest.raises(NodeError, match=r"^BB node bb0 was killed by SIGKILL while it started$"):
        EmbeddedNodes(1, 1 << 20, short, spawn=killing(1000))
    assert list(short.iterdir()) == []


@pytest.mark.parametrize("is_begun", [False, True])
def test_an_agent_that_is_killed_before_it_has_marked_its_directory_leaves_none(short, is_begun):
    kill = killing(1000)

    def spawn(name, root, capacity, contact, **options):
        own = own_directory(root, name, contact)
        own.mkdir(exist_ok=True)
        if is_begun:
            (own / MARK).touch()
        return kill(name, root, capacity, contact, **options)

    with pytest.raises(NodeError, match="SIGKILL"):
        EmbeddedNodes(1, 1 << 20, short, spawn=spawn)
    assert list(short.iterdir()) == []


def test_a_node_that_does_not_come_names_its_log(tmp_path):
    log = tmp_path / "bb0.log"
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            with pytest.raises(NodeError, match=rf"^node bb0 didn't start within 0\.1 s: see {log}$"):
                wait_until_ready("bb0", tmp_path / "contact.json", process, log, timeout_s=0.1)
        finally:
            process.kill()


def _streams(contact, name):
    with suppress(NodeError, StopIteration):
        node = next(node for node in read_contact(contact) if node.name == name)
        return list(ask_once(node, "status")["streams"])


def test_a_peer_that_breaks_the_format_is_cut_off_and_the_node_serves_on(short):
    with EmbeddedNodes(1, 1 << 20, short) as nodes:
        (node,) = nodes.nodes
        for keys in ({"op": "fly"}, {"op": "watch", "stream": "a"}, {"op": "attach", "stream": "a", "consumers": 1}):
            with NodeClient(node) as client:
                with pytest.raises(StreamError, match="a request that the format doesn't know"):
                    ask(client, **keys)
                with pytest.raises(NodeError, match=r"closed|gone"):
                    ask(client, "status")
        with pytest.raises(StreamError, match="there is no stream 'none'"):
            ask_once(node, "drop", stream="none")
        assert ask_once(node, "status")["name"] == "bb0"


def test_a_node_that_is_gone_is_named(short):
    with EmbeddedNodes(1, 1 << 20, short) as nodes:
        (node,) = nodes.nodes
    with pytest.raises(NodeError, match=r"BB node bb0 on .* doesn't answer"):
        NodeClient(node)


def test_a_node_that_can_not_be_started_again_says_why(short, capfd):
    with EmbeddedNodes(1, 1 << 20, short) as nodes:
        (node,) = nodes.nodes
        os.unlink(node.pool)
        agent_of(node).kill()
        # Not by looking at what was said: pytest loses what comes while it is asked for that.
        until(lambda: "keep-bb0" not in {thread.name for thread in threading.enumerate()}, "its last word")
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("bbflow: BB node bb0 ended 10 times, and isn't started again: ")
    assert f"{node.pool} was removed, cut or replaced" in line

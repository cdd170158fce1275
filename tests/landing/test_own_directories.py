"""A node's directory is its own: what a user has beside or inside it stays, and a node started again finds it."""

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bbflow.landing.client import NodeClient
from bbflow.landing.embedded import EmbeddedNodes, own_directory, spawn_node, wait_until_ready
from bbflow.net.contact import read_contact
from testsupport.asking import ask
from testsupport.foreign import assert_untouched, plant
from testsupport.peers import OPEN

SIZE = 1 << 20
ALONE = OPEN | {"stream": "s", "rank": 0, "writers": 1, "local_writers": 1, "policy": "Block"}


@pytest.fixture
def given():
    """A directory that a user names, with files of hers; its name is short, as a Unix socket needs."""
    with tempfile.TemporaryDirectory(prefix="bb-", dir="/dev/shm") as name:
        yield Path(name)


def start(given, contact):
    process = spawn_node("bb0", given, SIZE, contact)
    wait_until_ready("bb0", contact, process, given / "bb0.log")
    return process


def end(process, number=signal.SIGTERM):
    process.send_signal(number)
    process.wait()


def foreign_in(given, own):
    places = [given, own, own / "state"]
    return plant(Path("/"), [place / name for place in places for name in ("thesis.tex", "pool.bak", "a/index")])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_node_removes_what_it_made_and_nothing_else(given, tmp_path, number):
    contact = tmp_path / "contact.json"
    planted = plant(given, [Path("pool"), Path("index"), Path("state/x.0"), Path("bbflow-bb0/pool"), Path(".hidden")])
    process = start(given, contact)
    own = Path(read_contact(contact)[0].directory)
    assert own == own_directory(given, "bb0", contact)
    planted += foreign_in(given, own)
    end(process, number)
    assert_untouched(planted)
    assert not (own / "pool").exists()
    assert "thesis.tex stays: no node put it there" in (given / "bb0.log").read_text()
    end(start(given, contact))
    assert_untouched(planted)


def test_a_node_that_is_alone_in_its_directory_leaves_the_user_s_as_it_was(given, tmp_path):
    process = start(given, tmp_path / "contact.json")
    end(process)
    assert [path.name for path in given.iterdir()] == ["bb0.log"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_same_command_finds_what_the_node_holds(given, tmp_path, number):
    contact = tmp_path / "contact.json"
    process = start(given, contact)
    with NodeClient(read_contact(contact)[0]) as client:
        ask(client, "open", **ALONE)
        end(process, number)
    process = start(given, contact)
    with NodeClient(read_contact(contact)[0]) as client:
        assert list(ask(client, "status")["streams"]) == ["s"]
        ask(client, "stop", force=True)
    process.wait()
    assert [path.name for path in given.iterdir()] == ["bb0.log"]


def test_nodes_of_two_contact_files_never_share_a_directory(given, tmp_path):
    processes = [start(given, tmp_path / name) for name in ("one.json", "two.json")]
    directories = {read_contact(tmp_path / name)[0].directory for name in ("one.json", "two.json")}
    assert len(directories) == 2
    for process in processes:
        end(process)


def test_a_second_agent_of_a_directory_is_refused(given, tmp_path):
    contact = tmp_path / "contact.json"
    process = start(given, contact)
    words = ["node", "--name", "bb0", "--directory", str(given), "--capacity", str(SIZE), "--contact", str(contact)]
    second = subprocess.run([sys.executable, "-m", "bbflow", *words], capture_output=True, text=True, check=False)
    assert f"another agent serves {own_directory(given, 'bb0', contact)}: stop it first" in second.stderr
    with NodeClient(read_contact(contact)[0]) as client:
        assert ask(client, "status")["name"] == "bb0"
    end(process)


def test_a_directory_of_the_same_name_that_no_node_made_is_refused(given, tmp_path):
    own = own_directory(given, "bb0", tmp_path / "contact.json")
    planted = plant(own, [Path("pool")])
    words = ["node", "--name", "bb0", "--directory", str(given), "--contact", str(tmp_path / "contact.json")]
    done = subprocess.run([sys.executable, "-m", "bbflow", *words], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"{own} isn't empty, and bbflow didn't make it" in done.stderr
    assert_untouched(planted)


def test_embedded_nodes_leave_what_others_put_beside_and_inside(given):
    with EmbeddedNodes(2, SIZE, given) as embedded:
        roots = [path for path in given.iterdir() if path.is_dir()]
        planted = foreign_in(roots[0], Path(embedded.nodes[0].directory))
    assert_untouched(planted)
    assert not any(given.rglob("pool"))


def test_embedded_nodes_leave_the_other_nodes_of_a_contact_file_in_it(given, tmp_path):
    contact = tmp_path / "contact.json"
    words = ["node", "--name", "other", "--directory", str(given), "--capacity", str(SIZE), "--contact", str(contact)]
    with (tmp_path / "log").open("wb") as log:
        other = subprocess.Popen([sys.executable, "-m", "bbflow", *words], stderr=log)
    wait_until_ready("other", contact, other, tmp_path / "log")
    with EmbeddedNodes(1, SIZE, given, contact) as embedded:
        assert [node.name for node in embedded.nodes] == ["bb0", "other"]
    assert [node.name for node in read_contact(contact)] == ["other"]
    end(other)
    assert not contact.exists()

import json
import subprocess
import sys

import pytest

from bbflow.errors import ConfigError, NodeError
from bbflow.net.contact import (
    MOST_MASTERS,
    NodeAddress,
    add_master,
    add_node,
    contact_key,
    lock_of,
    read_contact,
    read_masters,
    remove_master,
    remove_node,
    remove_scheduler_file,
)

REGISTER = """
import sys
from pathlib import Path
from bbflow.net.contact import NodeAddress, add_node, contact_key
path = Path(sys.argv[1])
add_node(path, NodeAddress(sys.argv[2], "here", "s", "d", contact_key(path)))
"""


def node(path, name, directory="/dev/shm/x", **more):
    key = contact_key(path)
    return NodeAddress(name, "here", f"{directory}/{name}/agent.sock", f"{directory}/{name}", key, **more)


def test_nodes_come_back_from_a_file_that_only_its_owner_reads(tmp_path):
    path = tmp_path / "contact.json"
    nodes = (node(path, "a", tcp="10.0.0.1:5", tls="/ca.pem"), node(path, "b"))
    for each in nodes:
        add_node(path, each)
    assert read_contact(path) == nodes
    assert path.stat().st_mode & 0o777 == 0o600
    assert set(tmp_path.iterdir()) == {path, lock_of(path)}


def test_the_key_is_made_once_is_long_and_stays_out_of_what_is_printed(tmp_path):
    path = tmp_path / "contact.json"
    key = contact_key(path)
    assert contact_key(path) == key
    assert len(bytes.fromhex(key)) == 32
    assert contact_key(tmp_path / "other.json") != key
    assert key not in repr(node(path, "a"))


def test_a_node_that_was_started_again_takes_its_old_place(tmp_path):
    path = tmp_path / "contact.json"
    add_node(path, node(path, "a", tcp="127.0.0.1:1"))
    add_node(path, node(path, "a", tcp="127.0.0.1:2"))
    assert [found.tcp for found in read_contact(path)] == ["127.0.0.1:2"]


def test_a_file_without_nodes_yet_says_so(tmp_path):
    contact_key(tmp_path / "contact.json")
    with pytest.raises(NodeError, match="there is no node in"):
        read_contact(tmp_path / "contact.json")


def test_nodes_that_register_at_once_all_stand_in_the_file(tmp_path):
    path = tmp_path / "contact.json"
    names = [f"bb{number}" for number in range(4)]
    processes = [subprocess.Popen([sys.executable, "-c", REGISTER, path, name]) for name in names]
    assert [process.wait(300) for process in processes] == [0] * 4
    assert [found.name for found in read_contact(path)] == names


def test_nodes_are_kept_sorted_by_name_and_the_file_goes_with_the_last(tmp_path):
    path = tmp_path / "contact.json"
    for name in ("b", "c", "a"):
        add_node(path, node(path, name))
    assert [found.name for found in read_contact(path)] == ["a", "b", "c"]
    for name in ("b", "a", "c"):
        remove_node(path, name, f"/dev/shm/x/{name}")
    assert not path.exists()


def test_a_name_stands_in_the_file_once(tmp_path):
    path = tmp_path / "contact.json"
    add_node(path, node(path, "a"))
    with pytest.raises(NodeError, match="has a node 'a' already: give --name"):
        add_node(path, node(path, "a", directory="/elsewhere"))


def test_a_node_that_started_with_another_key_is_refused(tmp_path):
    path = tmp_path / "contact.json"
    foreign = node(tmp_path / "other.json", "b")
    add_node(path, node(path, "a"))
    with pytest.raises(NodeError, match="rewritten while node 'b' started: start it again"):
        add_node(path, foreign)


def test_a_missing_file_says_how_to_make_one(tmp_path):
    with pytest.raises(NodeError, match=r"bbflow up --contact"):
        read_contact(tmp_path / "contact.json")
    with pytest.raises(NodeError, match=r"bbflow up --files URL --contact"):
        read_masters(tmp_path / "contact.json")


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", "not json", "[" * 99999, '{"format": "bbflow-contact", "version": 5}']
)
def test_another_file_is_refused(tmp_path, text):
    path = tmp_path / "contact.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="is not a contact file"):
        read_contact(path)


def test_a_file_of_bytes_is_refused_in_a_short_line(tmp_path):
    path = tmp_path / "contact.json"
    path.write_bytes(bytes(range(256)) * 99)
    with pytest.raises(ConfigError, match=r"is not a contact file \(no text\)$"):
        read_contact(path)


def test_a_directory_is_named_when_it_is_refused(tmp_path):
    with pytest.raises(IsADirectoryError) as refused:
        read_contact(tmp_path)
    assert refused.value.filename == str(tmp_path)


def test_another_version_is_refused(tmp_path):
    path = tmp_path / "contact.json"
    path.write_text(json.dumps({"format": "bbflow-contact", "version": 1, "nodes": []}))
    with pytest.raises(ConfigError, match="another version"):
        read_contact(path)


@pytest.mark.parametrize("text", ["", "not JSON", "[1]", '{"type": "Worker"}'])
def test_a_file_that_is_no_scheduler_file_stays(tmp_path, text):
    path = tmp_path / "scheduler.json"
    remove_scheduler_file(path)
    path.write_text(text)
    with pytest.raises(ConfigError, match="isn't a Dask scheduler file"):
        remove_scheduler_file(path)
    assert path.read_text() == text
    path.write_text('{"type": "Scheduler", "address": "tls://127.0.0.1:1"}')
    remove_scheduler_file(path)
    assert not path.exists()


def test_a_subtrees_number_is_its_own_for_ever(tmp_path):
    path = tmp_path / "contact.json"
    address = NodeAddress("a", "h", "/a/socket", "/a", contact_key(path))
    assert add_master(path, "/", address) == 0
    number = add_master(path, "/a", address)
    assert 0 < number < MOST_MASTERS
    remove_master(path, "/a", "/a", stays=True)
    assert add_master(path, "/b", address) not in {0, number}
    assert add_master(path, "/a", address, number) == number
    with pytest.raises(NodeError, match="was removed while the master of /d started: start it again"):
        add_master(tmp_path / "none.json", "/d", address)
    with pytest.raises(NodeError, match=f"the master of /a in {path} has the number of /c: start that one later"):
        add_master(path, "/c", address, number)

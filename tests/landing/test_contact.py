import json
import subprocess
import sys

import pytest

from bbflow.errors import ConfigError, NodeError
from bbflow.landing.contact import NodeAddress, add_node, read_contact, remove_node, write_contact

REGISTER = """
import sys
from pathlib import Path
from bbflow.landing.contact import NodeAddress, add_node
add_node(Path(sys.argv[1]), NodeAddress(sys.argv[2], "here", "s", "d"))
"""


def node(name):
    return NodeAddress(name, "here", f"/dev/shm/x/{name}/agent.sock", f"/dev/shm/x/{name}")


def test_nodes_come_back_in_their_order_from_a_file_that_only_its_owner_reads(tmp_path):
    path = tmp_path / "contact.json"
    nodes = (node("b"), node("a"))
    write_contact(path, nodes)
    assert read_contact(path) == nodes
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_nodes_that_register_at_once_all_stand_in_the_file(tmp_path):
    path = tmp_path / "contact.json"
    names = [f"bb{number}" for number in range(4)]
    processes = [subprocess.Popen([sys.executable, "-c", REGISTER, path, name]) for name in names]
    assert [process.wait(30) for process in processes] == [0] * 4
    assert [found.name for found in read_contact(path)] == names


def test_nodes_are_kept_sorted_by_name_and_the_file_goes_with_the_last(tmp_path):
    path = tmp_path / "contact.json"
    for name in ("b", "c", "a"):
        add_node(path, node(name))
    assert [found.name for found in read_contact(path)] == ["a", "b", "c"]
    for name in ("b", "a", "c"):
        remove_node(path, name)
    assert not path.exists()


def test_a_name_stands_in_the_file_once(tmp_path):
    add_node(tmp_path / "contact.json", node("a"))
    with pytest.raises(NodeError, match="has a node 'a' already: give --name"):
        add_node(tmp_path / "contact.json", node("a"))


def test_a_missing_file_says_how_to_make_one(tmp_path):
    with pytest.raises(NodeError, match=r"bbflow up --contact"):
        read_contact(tmp_path / "contact.json")


@pytest.mark.parametrize("text", ["", "{}", "[1]", "not json", '{"format": "bbflow-contact", "version": 1}'])
def test_another_file_is_refused(tmp_path, text):
    path = tmp_path / "contact.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="is not a contact file"):
        read_contact(path)


def test_another_version_is_refused(tmp_path):
    path = tmp_path / "contact.json"
    path.write_text(json.dumps({"format": "bbflow-contact", "version": 2, "nodes": []}))
    with pytest.raises(ConfigError, match="another version"):
        read_contact(path)

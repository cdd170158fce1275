"""A contact file says which pools, states and sockets are opened: root believes its own only."""

import os

import pytest

from bbflow.errors import ConfigError
from bbflow.landing.embedded import EmbeddedNodes
from bbflow.net.contact import contact_key, read_contact
from testsupport.writers import run_writer, write_config

OPEN = "io.open('out.bp', Mode.Write)\n"
SOMEBODY = 4321


@pytest.fixture
def contact():
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    with EmbeddedNodes(1, 4 << 20) as nodes:
        os.chown(nodes.contact, SOMEBODY, SOMEBODY)
        try:
            yield nodes.contact
        finally:
            os.chown(nodes.contact, 0, 0)


@pytest.mark.parametrize("reads", [read_contact, contact_key])
def test_root_reads_no_contact_of_another_user(contact, reads):
    with pytest.raises(ConfigError, match=f"belongs to user {SOMEBODY}"):
        reads(contact)


def test_a_program_of_roots_writes_to_no_node_of_another_users_contact(contact, tmp_path):
    code, said = run_writer(contact, OPEN, write_config(tmp_path))
    assert code != 0
    assert f"belongs to user {SOMEBODY}" in said


def test_a_pipe_in_the_place_of_a_contact_file_holds_nobody_up(tmp_path):
    os.mkfifo(tmp_path / "contact.json")
    with pytest.raises(ConfigError, match="no regular file"):
        read_contact(tmp_path / "contact.json")
    code, said = run_writer(tmp_path / "contact.json", OPEN, write_config(tmp_path, OpenTimeoutSecs="0"))
    assert code != 0
    assert "no regular file" in said

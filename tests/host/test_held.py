"""Files that root opens where others can write; tests/security has those others."""

import os
import socket
from pathlib import Path

import pytest

from bbflow.errors import ConfigError
from bbflow.host.held import HeldDirectory, clear_below, open_regular


@pytest.fixture
def held(tmp_path):
    (tmp_path / "own").mkdir(mode=0o700)
    with HeldDirectory.at(tmp_path / "own") as held:
        yield held


def test_a_file_is_written_whole_and_read(held):
    held.write("a", b"first")
    held.write("a", b"second")
    assert held.read("a") == b"second"
    assert [path.name for path in held.path.iterdir()] == ["a"]
    assert (held.path / "a").stat().st_mode & 0o777 == 0o600


def test_what_is_held_stays_when_its_name_gets_another(held, tmp_path):
    held.write("a", b"mine")
    held.path.rename(tmp_path / "moved")
    held.path.mkdir()
    (held.path / "a").write_bytes(b"theirs")
    assert held.read("a") == b"mine"


def make_link(path):
    (path.parent.parent / "elsewhere").write_text("kept")
    path.symlink_to(path.parent.parent / "elsewhere")


def make_second_name(path):
    (path.parent.parent / "elsewhere").write_text("kept")
    path.hardlink_to(path.parent.parent / "elsewhere")


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize("make", [make_link, make_second_name, os.mkfifo, Path.mkdir, make_socket])
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_CREAT])
def test_only_a_regular_file_with_one_name_is_opened(held, make, flags):
    make(held.path / "a")
    with pytest.raises((ConfigError, OSError)):
        os.close(held.open("a", flags))
    elsewhere = held.path.parent / "elsewhere"
    assert not elsewhere.exists() or elsewhere.read_text() == "kept"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc/passwd"])
def test_names_are_single(held, name):
    with pytest.raises(ConfigError, match="isn't a single name"):
        held.open(name, os.O_RDONLY)


def test_a_directory_that_others_can_write_is_not_held(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(ConfigError, match="can be written by others"):
        HeldDirectory.at(tmp_path / "open")


def test_a_link_to_a_directory_is_not_held(held, tmp_path):
    (tmp_path / "link").symlink_to(held.path)
    with pytest.raises(OSError, match="Not a directory"):
        HeldDirectory.at(tmp_path / "link")


def test_a_lock_is_had_once(held):
    first = held.lock("a")
    assert held.lock("a") is None
    os.close(first)
    os.close(held.lock("a"))


def test_a_file_that_is_larger_than_it_may_be_is_not_opened(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    os.close(open_regular(tmp_path / "a", 5))
    with pytest.raises(ConfigError, match="has 5 bytes, and may have 4"):
        open_regular(tmp_path / "a", 4)
    with pytest.raises(ConfigError, match="No such file"):
        open_regular(tmp_path / "none", 4)


def test_a_deep_directory_is_emptied_and_nothing_that_links_name(held, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("kept")
    here = os.getcwd()
    os.chdir(held.path)
    try:
        os.symlink(tmp_path / "kept", "link")
        for _ in range(1100):  # more than Python lets functions call themselves
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)
    clear_below(held.descriptor)
    assert not list(held.path.iterdir())
    assert (tmp_path / "kept" / "file").read_text() == "kept"

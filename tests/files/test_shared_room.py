"""Streams and files of one node share its capacity: a real node, its files' servers, a client and a writer."""

import os
import subprocess
import sys
import threading
from contextlib import contextmanager

import psutil
import pytest

from bbflow.cli import main
from bbflow.files.client.client import FilesClient
from bbflow.landing.client import NodeClient
from bbflow.net.contact import read_contact
from testsupport.asking import ask
from testsupport.peers import OPEN, STREAM
from testsupport.waiting import until

CAPACITY = 16 << 20
FILE = 1 << 20


@pytest.fixture
def node(tmp_path, short_path):
    """The contact file of a node that keeps 16 MiB, half of them for streams when there are any."""
    contact = tmp_path / "contact.json"
    where = ["--directory", str(short_path), "--capacity", str(CAPACITY), "--files", str(tmp_path / "storage")]
    command = [sys.executable, "-m", "bbflow", "up", "--contact", str(contact), *where]
    assert subprocess.run(command, check=False).returncode == 0
    yield contact
    assert main(["down", "--contact", str(contact), "--force"]) == 0
    until(lambda: not [*short_path.glob("*/bbflow-*")], "the node's end")


@contextmanager
def most_pages(directory):
    """Look again and again how many bytes lie in the node's memory; give the most."""
    seen, over = [0], threading.Event()

    def look():
        """Count what two looks have seen alike: one alone may see a file that went beside one that came later."""
        before = None
        while not over.is_set():
            found = {
                path: blocks_of(path) for path in directory.rglob("*") if path.name == "pool" or "pieces" in path.parts
            }
            if found == before:
                seen.append(sum(found.values()))
            before = found

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def blocks_of(path):
    try:
        return path.stat().st_blocks * 512 if path.is_file() else 0
    except OSError:
        return 0


def in_memory(client):
    return [entry.path[1:] for entry in client.entries("/") if entry.kind == "f" and entry.state != "cold"]


def ionode(client):
    return next(status for status in client.status() if status.subtree == "/").nodes[0]


def capacity(client):
    return ionode(client).capacity


def test_files_leave_a_stream_its_room_and_get_it_back(node, short_path):
    with most_pages(short_path) as seen, FilesClient(node) as client:
        for number in range(14):
            client.write(f"/f{number:02}", os.urandom(FILE))
        assert len(in_memory(client)) == 14  # more than their half
        assert client.flush(wait_s=100).left == 0  # else they go in the order in which they are written back
        with NodeClient(read_contact(node)[0]) as writer:
            keys = {"stream": STREAM, "rank": 0, "writers": 1, "local_writers": 1, "policy": "Block"}
            ask(writer, "open", **OPEN | keys)
            assert ask(writer, "begin", step=0, bytes=4 << 20)["extents"]
            kept = in_memory(client)
            assert kept == [f"f{number:02}" for number in range(14 - len(kept), 14)]  # least recently used went
            assert 0 < len(kept) * FILE <= CAPACITY // 2
            for number in range(20, 30):
                client.write(f"/f{number}", os.urandom(FILE))  # waits until others are written back
            writer.ask({"op": "abort"})  # it has no reply
        assert main(["drop", STREAM, "--contact", str(node)]) == 0
        until(lambda: capacity(client) > CAPACITY // 2, "the pool's end")
        for number in range(30, 42):
            client.write(f"/f{number}", os.urandom(FILE))
        assert len(in_memory(client)) > CAPACITY // 2 // FILE
        assert client.flush(wait_s=100).left == 0
    assert CAPACITY // 2 < max(seen) <= CAPACITY


def test_an_ionode_that_is_started_again_finds_the_room_whose_file_somebody_has_removed(node, short_path):
    (room,) = short_path.rglob("room")
    with FilesClient(node) as client:
        before = until(lambda: capacity(client), "the IOnode")
        room.unlink()
        for process in psutil.process_iter(["cmdline"]):
            if {"ionode", str(room)} <= set(process.info["cmdline"] or ()):
                process.kill()
        until(room.exists, "the file")
        client.status()  # once this is answered, the master knows that it went
        until(lambda: ionode(client).up, "the IOnode again")
        assert capacity(client) == before

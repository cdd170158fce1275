"""BB nodes: fixtures for all test folders, and nodes that a test kills and starts again."""

import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from bbflow.errors import NodeError
from bbflow.landing.embedded import EmbeddedNodes, make_root, spawn_node, wait_until_ready
from bbflow.net import connection
from bbflow.net.contact import read_contact
from testsupport.waiting import until


@pytest.fixture
def short_path():
    """A directory whose name leaves room for that of a Unix socket."""
    with tempfile.TemporaryDirectory(prefix="bb") as directory:
        yield Path(directory)


@pytest.fixture
def far(monkeypatch):
    """Treat loopback as a network: clients of another host reach nodes by it."""
    monkeypatch.setattr(connection, "is_loopback", lambda _: False)


@pytest.fixture
def node():
    """One BB node of 16 MiB."""
    with EmbeddedNodes(1, 16 << 20) as nodes:
        yield nodes


@pytest.fixture
def big_node():
    """One BB node of 64 MiB."""
    with EmbeddedNodes(1, 64 << 20) as nodes:
        yield nodes


@pytest.fixture
def small_node():
    """One BB node of 1 MiB: room for four steps of 256 KiB."""
    with EmbeddedNodes(1, 1 << 20) as nodes:
        yield nodes


@pytest.fixture
def tiny_node():
    """One BB node of 256 KiB: room for four steps of 64 KiB."""
    with EmbeddedNodes(1, 1 << 18) as nodes:
        yield nodes


@pytest.fixture
def two_nodes():
    """Two BB nodes of 1 MiB."""
    with EmbeddedNodes(2, 1 << 20) as nodes:
        yield nodes


@pytest.fixture
def faulty_nodes():
    """Make nodes that the test kills and starts again."""
    made = []

    def make(count, capacity, options=()):
        made.append(Nodes(count, capacity, options))
        return made[-1]

    yield make
    for nodes in made:
        nodes.close()


def count_nodes(contact):
    """Return how many nodes a contact file names; none if it isn't there."""
    try:
        return len(read_contact(contact))
    except NodeError:
        return 0


class Nodes:
    """Nodes bb0, bb1, … of this host, each with a log beside its directory."""

    def __init__(self, count, capacity, options=()):
        self._root = make_root(Path("/dev/shm"))
        self.contact = self._root / "contact.json"
        self._capacity, self._options = capacity, options
        self._processes = {}
        for number in range(count):
            self.start(f"bb{number}")

    @property
    def nodes(self):
        """Their addresses now: a node that was started again has another port."""
        return read_contact(self.contact)

    def start(self, name, *options):
        """Start a node, on its directory if it had one before, with further options of ``bbflow node``."""
        before = self._written()
        process = spawn_node(name, self._root, self._capacity, self.contact, options=[*self._options, *options])
        self._processes[name] = process
        wait_until_ready(name, self.contact, process, self._root / f"{name}.log")
        # A node that is started again answers before it has put its new port into the contact file.
        until(lambda: process.poll() is not None or self._written() != before)
        assert process.poll() is None, self.log(name)

    def _written(self):
        """When the contact file was written; it is a new file each time."""
        return self.contact.exists() and (self.contact.stat().st_ino, self.contact.stat().st_mtime_ns)

    def kill(self, name):
        """Kill a node's agent; its directory stays."""
        self._processes[name].kill()
        self._processes[name].wait()

    def signal(self, name, number):
        """Send a signal to a node's agent."""
        self._processes[name].send_signal(number)

    def log(self, name):
        """What a node has said."""
        return (self._root / f"{name}.log").read_text()

    def close(self):
        """End them all and remove what they kept."""
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
            process.wait()
        shutil.rmtree(self._root)

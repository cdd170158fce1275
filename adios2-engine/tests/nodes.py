"""BB nodes that a test kills and starts again."""

import shutil
import signal
from pathlib import Path

from processes import wait_until

from bbflow.landing.contact import read_contact
from bbflow.landing.embedded import make_root, spawn_node, wait_until_ready


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
        wait_until(lambda: process.poll() is not None or self._written() != before)
        assert process.poll() is None, self.log(name)

    def _written(self):
        """When the contact file was written; it is a new file each time."""
        return self.contact.exists() and (self.contact.stat().st_ino, self.contact.stat().st_mtime_ns)

    def kill(self, name):
        """Kill a node's agent; its directory stays."""
        self._processes[name].kill()
        self._processes[name].wait()

    def log(self, name):
        """What a node has said."""
        return (self._root / f"{name}.log").read_text()

    def close(self):
        """End them all and remove what they kept."""
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
            process.wait()
        shutil.rmtree(self._root)

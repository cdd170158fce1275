"""Masters and IOnodes as processes of their own, which a test kills and starts again."""

import signal
import subprocess
import sys
from contextlib import suppress

from bbflow.errors import NodeError
from bbflow.files.client.client import FilesClient
from testsupport.waiting import until

BOUND_S = 120


class Servers:
    """One contact file with its servers; all end with the test.

    Parameters
    ----------
    directory
        For them all.
    starter
        Starts them instead of this process.
    """

    def __init__(self, directory, starter=None):
        self.directory, self._starter = directory, starter
        self.contact = directory / "contact.json"
        self.storage = directory / "storage"
        self.processes = {}
        self._clients = []

    def start(self, nodes=1, capacity="64MiB", storage=True, url=None, master=(), node=(), subtree="/"):
        """Start a master of a subtree and its IOnodes, and return a client."""
        where = ["--storage", url or str(self.storage)] if storage else []
        name = subtree.strip("/") or "master"
        self.spawn(name, "master", "--subtree", subtree, "--write-back-after", "0", *where, *master)
        for number in range(nodes):
            words = ["--subtree", subtree, "--capacity", capacity, *where, *node]
            self.spawn(f"{name}-io{number}", "ionode", "--name", f"{name}-io{number}", *words)
        until(lambda: f'"subtree": "{subtree}"' in self._contact_text(), "the master")
        return self.client(sum(command[1] == "ionode" for _, command in self.processes.values()))

    def _contact_text(self):
        return self.contact.read_text() if self.contact.exists() else ""

    def spawn(self, name, kind, *words, program=("-m", "bbflow"), **options):
        command = [sys.executable, *program, "files", kind, "--contact", str(self.contact)]
        command += ["--directory", str(self.directory / name), *words]
        log = self.directory / f"{name}.log"
        if self._starter is not None:
            process = self._starter.start(command, log)
        else:
            with log.open("ab") as file:
                process = subprocess.Popen(command, stdout=file, stderr=file, **options)
        self.processes[name] = (process, (name, kind, *words))

    def kill(self, name, number=signal.SIGKILL):
        process, _ = self.processes[name]
        process.send_signal(number)
        process.wait()

    def restart(self, name):
        self.kill(name)
        self.spawn(*self.processes[name][1])

    def client(self, nodes=1):
        """Return a client, once the master has its nodes."""

        def connect():
            with suppress(NodeError):
                return FilesClient(self.contact)

        client = until(connect, "the master")
        self._clients.append(client)
        until(lambda: self.up(client) >= nodes, f"{nodes} IOnodes")
        return client

    def up(self, client):
        return sum(node.up for status in client.status() for node in status.nodes)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for client in self._clients:
            client.close()
        for process, _ in self.processes.values():
            process.terminate()
        for process, _ in self.processes.values():
            process.wait(BOUND_S)

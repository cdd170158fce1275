"""BB nodes that live as long as the process that starts them."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from bbflow.errors import CapacityError, NodeError
from bbflow.landing.client import NodeClient
from bbflow.landing.contact import NodeAddress, write_contact
from bbflow.landing.server import SOCKET_NAME

DEFAULT_DIRECTORY = Path("/dev/shm")
START_TIMEOUT_S = 120.0


class EmbeddedNodes:
    """Starts BB nodes on this host; closing it ends them and removes what they kept.

    Parameters
    ----------
    count
        How many.
    capacity
        Bytes of each node's pool.
    directory
        A file system in memory or on a fast disk.
    contact
        Where to write the contact file; by default beside the nodes' directories.

    Raises
    ------
    CapacityError
        If the directory has no room for the pools.
    NodeError
        If a node doesn't start.
    """

    def __init__(
        self,
        count: int = 1,
        capacity: int = 512 << 20,
        directory: Path = DEFAULT_DIRECTORY,
        contact: Path | None = None,
    ) -> None:
        self._root = make_root(directory)
        self.contact = contact or self._root / "contact.json"
        """The contact file."""
        self._processes: list[subprocess.Popen[bytes]] = []
        self.nodes = tuple(address(f"bb{number}", self._root) for number in range(count))
        """Their addresses."""
        try:
            self._processes = [spawn_node(node, capacity, with_parent=True) for node in self.nodes]
            for node, process in zip(self.nodes, self._processes, strict=True):
                wait_until_ready(node, process, self._root / f"{node.name}.log")
            write_contact(self.contact, self.nodes)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the nodes and remove their directories and the contact file."""
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        self.contact.unlink(missing_ok=True)
        shutil.rmtree(self._root, ignore_errors=True)

    def __enter__(self) -> "EmbeddedNodes":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def make_root(directory: Path) -> Path:
    """Make a private directory for nodes; its name is short, as a Unix socket's path must be."""
    try:
        return Path(tempfile.mkdtemp(prefix="bbflow-", dir=directory))
    except OSError as error:
        raise NodeError(f"can't make a node's directory in {directory} ({error.strerror})") from None


def address(name: str, root: Path) -> NodeAddress:
    """Address of a node of this host that keeps its things below `root`."""
    directory = root / name
    return NodeAddress(name, socket.gethostname(), str(directory / SOCKET_NAME), str(directory))


def spawn_node(node: NodeAddress, capacity: int, *, with_parent: bool) -> subprocess.Popen[bytes]:
    """Start a node's process; its words go to a log beside its directory."""
    log = Path(node.directory).with_suffix(".log")
    command = [sys.executable, "-m", "bbflow", "node", "--name", node.name]
    command += ["--directory", node.directory, "--capacity", str(capacity)]
    if with_parent:
        command.append("--with-parent")
    with log.open("wb") as file:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE if with_parent else subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,  # Ctrl-C in the terminal is for the parent, which ends its nodes in order
        )


def wait_until_ready(node: NodeAddress, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a node's agent answers.

    Raises
    ------
    CapacityError, NodeError
        If the process ended first; the message is what it said last.
    """
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s:
        if process.poll() is not None:
            said = log.read_text().strip().removeprefix("bbflow: ").splitlines() or ["it said nothing"]
            kind = CapacityError if process.returncode == os.EX_TEMPFAIL else NodeError
            raise kind(said[-1])
        with suppress(NodeError):
            NodeClient(node).close()
            return
        time.sleep(0.01)
    raise NodeError(f"node {node.name} didn't start within {START_TIMEOUT_S:.0f} s: see {log}")

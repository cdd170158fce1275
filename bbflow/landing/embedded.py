"""BB nodes that live as long as the process that starts them."""

import hashlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from bbflow.errors import CapacityError, NodeError, describe_end
from bbflow.host.belongings import is_made, make, remove, remove_begun
from bbflow.host.closable import Closable
from bbflow.host.log import log
from bbflow.landing.client import NodeClient
from bbflow.net.contact import NodeAddress, contact_key, lock_of, read_contact, remove_node
from bbflow.store.pool import forget_pools, free_bytes

DEFAULT_DIRECTORY = Path("/dev/shm")
ROOT_FILES = ("*.log", "contact.*", ".contact.*", "dask-scratch-space/**")
"""What lies beside the nodes' directories; each of these has a mark of its own."""
START_TIMEOUT_S = 120.0
RESTARTS = 10
"""How often the agent of an embedded node is started again that doesn't live long."""
STEADY_S = 10.0
"""One that has lived for this long may be killed as often again."""


class EmbeddedNodes(Closable):
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
    waits
        Whether to wait until they answer; otherwise `wait` must be called.
    prefix
        Of the nodes' names, for a contact file in which other hosts' nodes are, too.
    options
        Further options of ``bbflow node``.
    spawn
        Starts a node's agent; `spawn_node` if None.

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
        *,
        waits: bool = True,
        prefix: str = "bb",
        options: Sequence[str] = (),
        spawn: Callable[..., subprocess.Popen[bytes]] | None = None,
    ) -> None:
        self._root = make_root(directory)
        self.free_bytes = free_bytes(directory)
        """What was free there before they took any."""
        self._options, self._spawn_node = options, spawn or spawn_node
        self._capacity = capacity
        self._closing = self._is_over = False
        self._lock = threading.Lock()
        self._keepers: list[threading.Thread] = []
        self.contact = contact or self._root / "contact.json"
        """The contact file."""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        names = [f"{prefix}{number}" for number in range(count)]
        try:
            contact_key(self.contact)
            self._processes = {name: self._spawn(name) for name in names}
            if waits:
                self.wait()
        except BaseException:
            self.close()
            raise

    def wait(self) -> None:
        """Wait until they answer; from then on those that are killed are started again.

        Raises
        ------
        CapacityError, NodeError
            As the class does.
        """
        for name in self._processes:
            self._wait_until_ready(name)
        for name in self._processes:
            keeper = threading.Thread(target=self._keep, args=(name,), name=f"keep-{name}", daemon=True)
            self._keepers.append(keeper)
            keeper.start()

    @property
    def nodes(self) -> Sequence[NodeAddress]:
        """Their addresses."""
        return read_contact(self.contact)

    def _spawn(self, name: str) -> subprocess.Popen[bytes]:
        return self._spawn_node(name, self._root, self._capacity, self.contact, with_parent=True, options=self._options)

    def _wait_until_ready(self, name: str) -> None:
        """Wait until a node answers; one that was killed meanwhile is started again."""
        for left in range(RESTARTS, -1, -1):
            process = self._processes[name]
            try:
                wait_until_ready(name, self.contact, process, self._root / f"{name}.log")
                break
            except NodeError:
                if not left or process.returncode is None or process.returncode >= 0:
                    raise
            _close_input(process)
            self._processes[name] = self._spawn(name)

    def _keep(self, name: str) -> None:
        """Start a node's agent again that was killed: it takes over what the node holds."""
        left = RESTARTS
        while True:
            began_s = time.monotonic()
            self._processes[name].wait()
            _close_input(self._processes[name])
            left = RESTARTS if time.monotonic() - began_s > STEADY_S else left - 1
            with self._lock:
                # Under the lock, else an agent could be started after all others were told to end.
                if self._closing:
                    return
                if not left:
                    why = _last_word(self._root / f"{name}.log") or describe_end(self._processes[name].returncode)
                    log(f"bbflow: BB node {name} ended {RESTARTS} times, and isn't started again: {why}")
                    return
                self._processes[name] = self._spawn(name)

    def leave(self) -> None:
        """End the nodes at once, and leave what they keep: nodes that are started on it continue."""
        self._end(subprocess.Popen.kill)
        self._is_over = True

    def close(self) -> None:
        """End the nodes and remove their directories and the contact file, unless they are over."""
        if self._is_over:
            return
        self._end(_close_input)
        self._is_over = True
        for name in self._processes:
            own = own_directory(self._root, name, self.contact)
            remove(own)  # of an agent that a signal had ended just before
            remove_begun(own)  # of an agent that was killed before it had marked it
            if self.contact.exists():
                remove_node(self.contact, name, str(own))
        if not self.contact.exists():
            lock_of(self.contact).unlink(missing_ok=True)
        remove_root(self._root)
        forget_pools()

    def _end(self, end: Callable[["subprocess.Popen[bytes]"], None]) -> None:
        with self._lock:
            self._closing = True
        for process in self._processes.values():
            end(process)
        for keeper in self._keepers:
            keeper.join()
        for process in self._processes.values():
            process.wait()
            _close_input(process)


def _close_input(process: "subprocess.Popen[bytes]") -> None:
    """End an embedded node: its parent has no more use for it."""
    if process.stdin is not None:
        process.stdin.close()


def make_root(directory: Path) -> Path:
    """Make a private directory for nodes; its name is short, as a Unix socket's path must be."""
    return make_scratch(directory, ROOT_FILES)


def make_scratch(directory: Path, files: Sequence[str] = ("**",)) -> Path:
    """Make a new directory that `bbflow.host.belongings.remove` removes with these files, by default with all."""
    try:
        path = Path(tempfile.mkdtemp(prefix="bbflow-", dir=directory))
        make(path, *files)
    except OSError as error:
        raise NodeError(f"can't make a directory in {directory} ({error.strerror})") from None
    return path


def remove_root(root: Path) -> None:
    """Remove a directory of nodes, once the last of them is gone."""
    if not any(map(is_made, root.glob("*/"))):
        remove(root)


def own_directory(directory: Path, name: str, contact: Path) -> Path:
    """Return a node's own directory below the one that a user names; the same command finds the same one again."""
    # Other users, hosts and contact files may name the same directory, which all may see.
    where = f"{os.getuid()} {socket.gethostname()} {contact.resolve()}"
    return directory.resolve() / f"bbflow-{name}-{hashlib.sha256(where.encode()).hexdigest()[:8]}"


def spawn_node(
    name: str, directory: Path, capacity: int, contact: Path, *, with_parent: bool = False, options: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    """Start a node's process; its words go to a log beside its directory.

    Parameters
    ----------
    name
        The node's.
    directory
        Where it makes a directory of its own.
    capacity
        Bytes of its pool.
    contact
        Contact file that it puts itself into.
    with_parent
        Whether it ends with this process.
    options
        Further options of ``bbflow node``.
    """
    command = [sys.executable, "-m", "bbflow", "node", "--name", name, "--directory", str(directory)]
    command += ["--capacity", str(capacity), "--contact", str(contact), *options]
    if with_parent:
        command.append("--with-parent")
    with (directory / f"{name}.log").open("ab") as file:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE if with_parent else subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,  # Ctrl-C in the terminal is for the parent, which ends its nodes in order
        )


def _last_word(log: Path) -> str:
    """Return the last line of a node's log; "" if there is none."""
    with suppress(OSError):
        return log.read_text(errors="replace").strip().rpartition("\n")[2].removeprefix("bbflow: ")
    return ""


def wait_until_ready(
    name: str, contact: Path, process: subprocess.Popen[bytes], said_in: Path, timeout_s: float = START_TIMEOUT_S
) -> None:
    """Wait until a node stands in the contact file and answers.

    Raises
    ------
    CapacityError, NodeError
        If the process ended first, where the message is what it said last, or if it takes longer than `timeout_s`.
    """
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        if process.poll() is not None:
            said = _last_word(said_in) if process.returncode > 0 else ""
            kind = CapacityError if process.returncode == os.EX_TEMPFAIL else NodeError
            raise kind(said or f"BB node {name} {describe_end(process.returncode)} while it started")
        with suppress(NodeError):
            for node in read_contact(contact):
                if node.name == name:
                    NodeClient(node).close()
                    return
        time.sleep(0.01)
    raise NodeError(f"node {name} didn't start within {timeout_s:g} s: see {said_in}")

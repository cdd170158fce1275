"""The contact file: where the BB nodes are (FORMAT.md, 'Contact file')."""

import fcntl
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bbflow.atomic import PRIVATE, write_whole
from bbflow.errors import ConfigError, NodeError
from bbflow.landing.handshake import VERSION, new_key
from bbflow.records import Message


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """How to reach one BB node."""

    name: str
    """Unique in the contact file."""
    host: str
    """``gethostname()`` of its host."""
    socket: str
    """Path of the agent's Unix socket, on that host."""
    directory: str
    """The node's directory, on that host."""
    key: str = field(repr=False)
    """The contact file's secret."""
    tcp: str = ""
    """``host:port`` for other hosts; empty if it listens on its Unix socket only."""
    tls: str = ""
    """PEM file with the authorities that its certificate is checked against; empty without TLS."""

    @property
    def pool(self) -> str:
        """Path of the pool."""
        return f"{self.directory}/pool"

    @property
    def state_directory(self) -> str:
        """Where the fold keeps its partial states."""
        return f"{self.directory}/state"


_PUBLIC = ("name", "host", "socket", "directory", "tcp", "tls")


def read_contact(path: Path) -> tuple[NodeAddress, ...]:
    """Read the nodes of a contact file, in their order.

    Raises
    ------
    NodeError
        If there is no such file, or no node in it.
    ConfigError
        If it is no contact file of this version.
    """
    if not path.exists():
        raise NodeError(f"there is no contact file {path}: start nodes with 'bbflow up --contact {path}'")
    _, nodes = _read(path)
    if not nodes:
        raise NodeError(f"there is no node in {path}: start one with 'bbflow up --contact {path}'")
    return nodes


def contact_key(path: Path) -> str:
    """Give the key of a contact file, which is made, without nodes yet, if need be."""
    with locked(path):
        if path.exists():
            return _read(path)[0]
        key = new_key()
        _write(path, key, ())
        return key


def add_node(path: Path, node: NodeAddress) -> None:
    """Put a node into the contact file; a node that was started again on its directory takes its old place.

    Raises
    ------
    NodeError
        If another node has the name already, or the file's key is another one.
    """

    def add(key: str, nodes: tuple[NodeAddress, ...]) -> tuple[NodeAddress, ...]:
        others = tuple(other for other in nodes if (other.name, other.directory) != (node.name, node.directory))
        if any(other.name == node.name for other in others):
            raise NodeError(f"{path} has a node {node.name!r} already: give --name, or stop that one")
        if key != node.key:
            raise NodeError(f"{path} was written anew while node {node.name!r} started: start it again")
        return tuple(sorted((*others, node), key=lambda other: other.name))

    _change(path, add)


def remove_node(path: Path, name: str, directory: str) -> None:
    """Take a node out of the contact file; the file goes with its last node."""
    _change(path, lambda _, nodes: tuple(node for node in nodes if (node.name, node.directory) != (name, directory)))


def remove_scheduler_file(path: Path) -> None:
    """Remove the scheduler file of a Dask cluster that has ended.

    Raises
    ------
    ConfigError
        If the file is something else.
    """
    try:
        is_one = json.loads(path.read_text())["type"] == "Scheduler"
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError):
        is_one = False
    if not is_one:
        raise ConfigError(f"{path} is there, and is no scheduler file of Dask: give another --scheduler-file")
    path.unlink(missing_ok=True)


def _change(path: Path, change: Callable[[str, tuple[NodeAddress, ...]], tuple[NodeAddress, ...]]) -> None:
    with locked(path):
        if not path.exists():
            return
        key, nodes = _read(path)
        if nodes := change(key, nodes):
            _write(path, key, nodes)
        else:
            path.unlink()


def _read(path: Path) -> tuple[str, tuple[NodeAddress, ...]]:
    try:
        content = json.loads(path.read_text())
        if content["format"] != "bbflow-contact" or content["version"] != VERSION:
            raise ConfigError(f"{path} is of another version: start the nodes with this version of bbflow")
        key: str = content["key"]
        nodes = (NodeAddress(**{name: node[name] for name in _PUBLIC}, key=key) for node in content["nodes"])
        return key, tuple(nodes)
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is not a contact file ({error!r})") from None


def _write(path: Path, key: str, nodes: tuple[NodeAddress, ...]) -> None:
    public: list[Message] = [{name: getattr(node, name) for name in _PUBLIC} for node in nodes]
    content = {"format": "bbflow-contact", "version": VERSION, "key": key, "nodes": public}
    write_whole(path, json.dumps(content, indent=1), PRIVATE)


def lock_of(path: Path) -> Path:
    """Give the lock file of a contact file."""
    return path.with_name(f".{path.name}.lock")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep others away from a contact file and what belongs to it, until the end of the block."""
    # Nodes of several hosts may register at once. The lock file stays: removing it would let two in.
    with lock_of(path).open("a") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        yield

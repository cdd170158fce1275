"""The contact file: where the BB nodes are (FORMAT.md, 'Contact file')."""

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bbflow.errors import ConfigError, NodeError


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

    @property
    def pool(self) -> str:
        """Path of the pool."""
        return f"{self.directory}/pool"

    @property
    def state_directory(self) -> str:
        """Where the fold keeps its partial states."""
        return f"{self.directory}/state"


def read_contact(path: Path) -> tuple[NodeAddress, ...]:
    """Read the nodes of a contact file, in their order.

    Raises
    ------
    NodeError
        If there is no such file.
    ConfigError
        If it is no contact file of this version.
    """
    try:
        content = json.loads(path.read_text())
        if content["format"] != "bbflow-contact" or content["version"] != 1:
            raise ConfigError(f"{path} is of another version: start the nodes with this version of bbflow")
        return tuple(NodeAddress(**{key: node[key] for key in NodeAddress.__slots__}) for node in content["nodes"])
    except FileNotFoundError:
        raise NodeError(f"there is no contact file {path}: start nodes with 'bbflow up --contact {path}'") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is not a contact file ({error!r})") from None


def write_contact(path: Path, nodes: tuple[NodeAddress, ...]) -> None:
    """Write a contact file that only its owner can read; it appears whole or not at all."""
    content = {"format": "bbflow-contact", "version": 1, "nodes": [asdict(node) for node in nodes]}
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file, indent=1)
    temporary.rename(path)


def add_node(path: Path, node: NodeAddress) -> None:
    """Put a node into the contact file, which is made if need be; nodes are kept sorted by name.

    Raises
    ------
    NodeError
        If another node has the name already.
    """

    def add(nodes: tuple[NodeAddress, ...]) -> tuple[NodeAddress, ...]:
        if any(other.name == node.name for other in nodes):
            raise NodeError(f"{path} has a node {node.name!r} already: give --name, or stop that one")
        return tuple(sorted((*nodes, node), key=lambda other: other.name))

    _change(path, add)


def remove_node(path: Path, name: str) -> None:
    """Take a node out of the contact file; the file goes with its last node."""
    _change(path, lambda nodes: tuple(node for node in nodes if node.name != name))


def _change(path: Path, change: Callable[[tuple[NodeAddress, ...]], tuple[NodeAddress, ...]]) -> None:
    with _locked(path):
        nodes = change(read_contact(path) if path.exists() else ())
        if nodes:
            write_contact(path, nodes)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    # Nodes of several hosts may register at once. The lock file stays: removing it would let two in.
    lock = path.with_name(f".{path.name}.lock")
    with lock.open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        yield

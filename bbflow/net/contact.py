"""The contact file: where the BB nodes are (FORMAT.md, 'Contact file')."""

import json
import os
import secrets
import stat
import zlib
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bbflow.errors import ConfigError, NodeError
from bbflow.host.atomic import PRIVATE, write_whole
from bbflow.host.locks import locked
from bbflow.reading.wire_types import VERSION

MOST_BYTES = 64 << 20
"""What a contact file may have."""
MOST_MASTERS = 1 << 15
"""What the upper bits of inodes' numbers have room for."""


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """How to reach one BB node."""

    name: str
    """Unique in the contact file."""
    host: str
    """``gethostname()`` of its host."""
    socket: str
    """Path of the agent's Unix socket, on that host; empty if it listens by TCP only."""
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


@dataclass(frozen=True, slots=True)
class MasterAddress:
    """How to reach one master of the files (bbflow/files/FORMAT.md)."""

    subtree: str
    """What it serves: ``/``, or a path below it."""
    number: int
    """Unique in the contact file; 0 for ``/``."""
    address: NodeAddress
    """Where it is."""


@dataclass(frozen=True, slots=True)
class _Content:
    """A contact file."""

    key: str = field(repr=False)
    """The secret."""
    nodes: tuple[NodeAddress, ...] = ()
    """BB nodes, by name."""
    masters: tuple[MasterAddress, ...] = ()
    """Masters, by subtree."""


_PUBLIC = ("name", "host", "socket", "directory", "tcp", "tls")


def new_key() -> str:
    """Make a secret for a contact file: 64 hexadecimal digits."""
    return secrets.token_hex(32)


def read_contact(path: Path) -> tuple[NodeAddress, ...]:
    """Read the nodes of a contact file, in their order.

    Raises
    ------
    NodeError
        If there is no such file, or no node in it.
    ConfigError
        If it isn't a contact file of this version.
    """
    nodes = _read_there(path, "").nodes
    if not nodes:
        raise NodeError(f"there is no node in {path}: start one with 'bbflow up --contact {path}'")
    return nodes


def read_masters(path: Path) -> tuple[MasterAddress, ...]:
    """Read the masters of a contact file, in the order of their subtrees.

    Raises
    ------
    NodeError
        If there is no such file, or no master in it.
    ConfigError
        If it isn't a contact file of this version.
    """
    masters = _read_there(path, "--files URL ").masters
    if not masters:
        raise NodeError(f"there are no files behind {path}: start its nodes with --files")
    return masters


def has_masters(path: Path) -> bool:
    """Whether there are files behind a contact file."""
    return path.exists() and bool(_read(path).masters)


def contact_key(path: Path) -> str:
    """Return the key of a contact file, which is made, without nodes yet, if need be."""
    with only_one(path):
        if path.exists():
            return _read(path).key
        key = new_key()
        _write(path, _Content(key))
        return key


def add_node(path: Path, node: NodeAddress) -> None:
    """Put a node into the contact file; a node that was started again on its directory takes its old place.

    Raises
    ------
    NodeError
        If another node has the name already, or the file's key is another one.
    """

    def add(content: _Content) -> _Content:
        others = [other for other in content.nodes if (other.name, other.directory) != (node.name, node.directory)]
        if any(other.name == node.name for other in others):
            raise NodeError(f"{path} has a node {node.name!r} already: give --name, or stop that one")
        if content.key != node.key:
            raise NodeError(f"{path} was rewritten while node {node.name!r} started: start it again")
        return replace(content, nodes=tuple(sorted((*others, node), key=lambda other: other.name)))

    _change(path, add)


def remove_node(path: Path, name: str, directory: str) -> None:
    """Take a node out of the contact file; the file goes with its last node and master."""

    def remove(content: _Content) -> _Content:
        kept = tuple(node for node in content.nodes if (node.name, node.directory) != (name, directory))
        return replace(content, nodes=kept)

    _change(path, remove)


def add_master(path: Path, subtree: str, address: NodeAddress, number: int | None = None) -> int:
    """Put a master into the contact file, where it takes the place of its subtree's last one; return its number.

    Parameters
    ----------
    path
        The contact file.
    subtree
        What the master is for.
    address
        How to reach it.
    number
        The one that its files have already; None for a new one.

    Raises
    ------
    NodeError
        If the file is gone or its key is another one, or if another master has the number.
    """
    given: int | None = None

    def add(content: _Content) -> _Content:
        nonlocal given
        if content.key != address.key:
            raise NodeError(f"{path} was rewritten while the master of {subtree} started: start it again")
        others = tuple(master for master in content.masters if master.subtree != subtree)
        taken = {master.number: master.subtree for master in others}
        # Inode numbers are made of it, and clients keep these: no two masters may have the same.
        if number in taken:
            raise NodeError(
                f"the master of {taken[number]} in {path} has the number of {subtree}: start that one later"
            )
        given = _number(subtree, content.masters) if number is None else number
        return _with_masters(content, *others, MasterAddress(subtree, given, address))

    _change(path, add)
    if given is None:
        # Else it would keep a number that another master can be given.
        raise NodeError(f"{path} was removed while the master of {subtree} started: start it again")
    return given


def _number(subtree: str, masters: Iterable[MasterAddress]) -> int:
    """Return a subtree's number: the same each time, but for that of another one."""
    known = {master.subtree: master.number for master in masters}
    if subtree == "/" or subtree in known:
        return known.get(subtree, 0)
    # By the name: the inode numbers made of it stay when the contact file is written afresh.
    number = zlib.crc32(subtree.encode()) % MOST_MASTERS
    while number in {0, *known.values()}:  # 0 is for all that no other master has
        number = (number + 1) % MOST_MASTERS
    return number


def _with_masters(content: _Content, *masters: MasterAddress) -> _Content:
    return replace(content, masters=tuple(sorted(masters, key=lambda master: master.subtree)))


def claim_master(path: Path, subtree: str, place: NodeAddress) -> bool:
    """Note that a node will have a subtree's master; give false if another one has it, or will have it.

    Parameters
    ----------
    path
        The contact file.
    subtree
        What the master is for.
    place
        Its name, host and directory; how to reach it is told by `add_master`.
    """
    claimed = False

    def claim(content: _Content) -> _Content:
        nonlocal claimed
        others = [master for master in content.masters if master.subtree == subtree]
        claimed = all((m.address.host, m.address.directory) == (place.host, place.directory) for m in others)
        if others or not claimed:
            return content
        number = _number(subtree, content.masters)
        return _with_masters(content, *content.masters, MasterAddress(subtree, number, place))

    _change(path, claim)
    return claimed


def remove_master(path: Path, subtree: str, directory: str, *, stays: bool) -> None:
    """Take a master out of the contact file, if it is still this one.

    Parameters
    ----------
    path
        The contact file.
    subtree
        What the master was for.
    directory
        Its directory.
    stays
        Whether the file stays, though it was its last: IOnodes that continue serve by its key. Else it goes.
    """

    def remove(content: _Content) -> _Content:
        gone = (subtree, directory)
        kept = tuple(m for m in content.masters if (m.subtree, m.address.directory) != gone)
        return replace(content, masters=kept)

    _change(path, remove, stays=stays)


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
        raise ConfigError(f"{path} exists, but isn't a Dask scheduler file: give another --scheduler-file")
    path.unlink(missing_ok=True)


def _change(path: Path, change: Callable[[_Content], _Content], *, stays: bool = False) -> None:
    with only_one(path):
        if not path.exists():
            return
        content = change(_read(path))
        if content.nodes or content.masters or stays:
            _write(path, content)
        else:
            path.unlink()


def _read_there(path: Path, option: str) -> _Content:
    if not path.exists():
        raise NodeError(f"there is no contact file {path}: start nodes with 'bbflow up {option}--contact {path}'")
    return _read(path)


def _text(path: Path) -> str:
    # O_NONBLOCK: a pipe in its place must not hold anybody up
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY)) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
            raise ConfigError(f"{path} is not a contact file: no regular file of at most {MOST_BYTES} bytes")
        if os.geteuid() == 0 and found.st_uid != 0:
            # it says which pools, states and sockets are opened, and whom bytes come from
            raise ConfigError(f"{path} belongs to user {found.st_uid}: root opens nothing that it names; be that user")
        return file.read().decode()


def _read(path: Path) -> _Content:
    try:
        content = json.loads(_text(path))
        if content["format"] != "bbflow-contact" or content["version"] != VERSION:
            raise ConfigError(f"{path} is of another version: start the nodes with this version of bbflow")
        key: str = content["key"]
        nodes = tuple(_address(node, key) for node in content["nodes"])
        masters = tuple(
            MasterAddress(str(told["subtree"]), int(told["number"]), _address(told, key))
            for told in content.get("masters", ())
        )
        return _Content(key, nodes, masters)
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not a contact file (no text)") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(f"{path} is not a contact file ({error!r})") from None


def _address(told: dict[str, Any], key: str) -> NodeAddress:
    return NodeAddress(**{name: told[name] for name in _PUBLIC}, key=key)


def _told(address: NodeAddress) -> dict[str, Any]:
    return {name: getattr(address, name) for name in _PUBLIC}


def _write(path: Path, content: _Content) -> None:
    written: dict[str, Any] = {"format": "bbflow-contact", "version": VERSION, "key": content.key}
    written["nodes"] = [_told(node) for node in content.nodes]
    if content.masters:
        written["masters"] = [
            {**_told(master.address), "subtree": master.subtree, "number": master.number} for master in content.masters
        ]
    write_whole(path, json.dumps(written, indent=1), PRIVATE)


def lock_of(path: Path) -> Path:
    """Return the lock file of a contact file."""
    return path.with_name(f".{path.name}.lock")


def only_one(path: Path) -> AbstractContextManager[None]:
    """Keep others away from a contact file and what belongs to it, for as long as a ``with`` lasts."""
    # Nodes of several hosts may register at once. The lock file stays: removing it would let two in.
    return locked(lock_of(path))

"""A master's IOnodes: they come, tell what they have and what they may hold, and go."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from bbflow.errors import ProtocolError
from bbflow.files.commands import (
    AT_OBJECTS,
    CommandAnswer,
    FitsNotice,
    HaveCommand,
    IonodeAddress,
    IonodeTold,
    JoinIonode,
    NodesNotice,
)
from bbflow.files.inodes import FILE, pages
from bbflow.files.master.awaited_events import (
    AnyNodeEvent,
    ClosedEvent,
    Event,
    FilledEvent,
    NodeEvent,
    RoomEvent,
    StorageEvent,
    TransferredEvent,
)
from bbflow.files.master.core import Core, CutOff
from bbflow.files.master.replicas import Replicas
from bbflow.files.master.room import Node
from bbflow.files.master.sessions import Changes

LOOK_S = 10.0
"""How often a node is asked whether it still answers."""
MAKING_ROOM = (RoomEvent, TransferredEvent, ClosedEvent, FilledEvent, AnyNodeEvent)
"""What may let more files go."""


class Shrinking:
    """Evicts files until what lies on a node fits what it may hold, which is less once streams want its room.

    Parameters
    ----------
    core
        The master's state.
    make_room
        Lets files go from a node until this many bytes come free.
    """

    def __init__(self, core: Core, make_room: Callable[[Node, int], None]) -> None:
        self._core, self._make_room = core, make_room
        self._unsettled: set[str] = set()

    def may_hold(self, node: Node, capacity: int) -> None:
        """Take in what a node may hold from now on; it is told when nothing more lies there, nor will."""
        node.may_hold(capacity)
        self._unsettled.discard(node.name)
        if capacity < node.most_bytes:
            self._unsettled.add(node.name)
        self._core.happened(RoomEvent(node.name))

    def take(self, events: Iterable[Event]) -> None:
        """Take in what has happened: let files go from nodes that hold too much, and tell those that don't."""
        if not self._unsettled or not any(isinstance(event, MAKING_ROOM) for event in events):
            return
        for name in sorted(self._unsettled):
            node = self._core.nodes[name]
            if node.free_bytes < 0:
                self._make_room(node, 0)
                continue
            self._unsettled.discard(name)
            if node.peer is not None:
                self._core.send(node.peer, FitsNotice(bytes=node.capacity))


class Fleet:
    """The IOnodes.

    Parameters
    ----------
    core
        The master's state.
    replicas
        Acts when bytes are gone, or found.
    shrinking
        Acts when a node may hold less.
    """

    def __init__(self, core: Core, replicas: Replicas, shrinking: Shrinking) -> None:
        self._core, self._replicas, self._shrinking = core, replicas, shrinking
        self._telling: dict[int, tuple[JoinIonode, dict[str, int]]] = {}
        self._heard_s: dict[int, float] = {}
        self._asked: set[int] = set()
        self.by_peer: dict[int, Node] = {}
        """Those that are up."""
        self.changes = Changes()
        """What clients must forget, and have not been told to yet."""
        now_s = core.clock()
        # Where a master before this one has placed files: such nodes count as away until they come.
        for inode in core.image.inodes.values():
            for name in inode.ring:
                if name not in core.nodes:
                    nowhere = IonodeAddress(name=name, host="", socket="", directory="", tcp="", tls="")
                    core.node(name, nowhere).go(now_s)
        for inode in core.image.inodes.values():
            if inode.kind == FILE and inode.ring:
                core.place(inode.places)

    def told(self) -> tuple[IonodeTold, ...]:
        """Return what clients need to reach the nodes."""
        return tuple(node.told() for node in self._core.nodes.values() if node.most_bytes)

    def hear(self, peer: int, told: JoinIonode) -> Changes | None:
        """Take in what a node tells of itself; return what clients must forget once it has told all, else None.

        Raises
        ------
        ProtocolError
            If another node of its name is up.
        """
        first, keys = self._telling.setdefault(peer, (told, {}))
        keys.update(told.keys)
        if not told.last:
            return None
        del self._telling[peer]
        there = self._core.nodes.get(first.name)
        if there is not None and there.peer is not None:
            if there.address.directory != first.directory:
                raise ProtocolError(f"there is an IOnode {first.name!r} already: give it another name")
            self.leave(there.peer)
        return self._join(peer, first, keys, still=set(told.busy.values()))

    def _join(self, peer: int, told: JoinIonode, keys: dict[str, int], still: set[int]) -> Changes:
        core, name = self._core, told.name
        address = IonodeAddress(**{key: getattr(told, key) for key in IonodeAddress.__struct_fields__})
        node = core.node(name, address)
        granted_bytes = sum(session.room.get(name, 0) for session in core.sessions.by_name.values())
        node.come(address, told.most, peer, granted_bytes, told.verifier)
        self.by_peer[peer] = node
        self._shrinking.may_hold(node, told.capacity)
        core.send(peer, NodesNotice(nodes=self.told()))  # before any command that names one
        # What it isn't at work on any more got lost with its connection, or with its process.
        core.fail_commands(name, but=lambda task, _: task in still)
        changes = self._compare(node, keys)
        core.happened(NodeEvent(name))
        core.happened(AnyNodeEvent())
        core.happened(RoomEvent(name))
        core.happened(StorageEvent())
        return changes

    def _compare(self, node: Node, keys: dict[str, int]) -> Changes:
        """Hold what a node has against what it should have."""
        core = self._core
        # What is being written lies there before it counts, and must stay.
        written = {handle.version for handle in core.image.handles.values() if handle.version}
        self._look_for(node, {key: size for key, size in node.placed.items() if _lacks(keys, key, size)})
        changes = self._replicas.found(node, keys)
        self._replicas.widen()
        needed = node.placed.keys() | {key for key in keys if key in core.image.pins or version_of(key) in written}
        if stale := [key for key in keys if key not in needed]:
            # Counted until they are gone: they take room that no one else can have meanwhile.
            for key in stale:
                node.place(key, keys[key])
            core.drop_from(node, stale)
        return changes

    def _look_for(self, node: Node, missing: dict[str, int]) -> None:
        """Ask a node again for what it didn't tell of: it may have been made and committed since it looked."""

        def told(answer: CommandAnswer) -> None:
            if answer.errno is not None:
                return  # it went away again
            keys = dict(answer.keys)
            sizes = {key: min(size, node.placed[key]) for key, size in missing.items() if key in node.placed}
            gone = {key for key, size in sizes.items() if _lacks(keys, key, size)}
            self.changes.add(inos=self._replicas.missing(node, gone).inos)

        if missing:
            self._core.command(node.name, HaveCommand(keys=tuple(missing)), told)

    def look(self) -> None:
        """Ask nodes whether they still answer, and cut off who doesn't: one that is stopped keeps its connection."""
        core, now_s = self._core, self._core.clock()
        for peer, node in self.by_peer.items():
            silent_s = now_s - self._heard_s.setdefault(peer, now_s)
            if peer not in self._asked and silent_s >= LOOK_S:
                self._asked.add(peer)
                core.command(node.name, HaveCommand(keys=()), partial(self._hear_again, peer))
            elif peer in self._asked and silent_s >= LOOK_S + max(core.options.node_loss_s, LOOK_S):
                core.send(peer, CutOff())

    def _hear_again(self, peer: int, answer: CommandAnswer) -> None:
        if answer.errno is None:
            self._asked.discard(peer)
            self._heard_s[peer] = self._core.clock()

    def leave(self, peer: int) -> bool:
        """Record that a node's connection is gone; return whether it was a node's."""
        self._telling.pop(peer, None)
        self._heard_s.pop(peer, None)
        self._asked.discard(peer)
        node = self.by_peer.pop(peer, None)
        if node is None:
            return False
        node.go(self._core.clock())
        self._core.fail_commands(
            node.name, but=lambda _, command: isinstance(command, AT_OBJECTS)
        )  # until it is back, or counts as lost
        return True

    def give_up(self) -> Changes:
        """Release what lies on nodes that have been away for too long; return what clients must forget."""
        changes, core = Changes(), self._core
        for node in core.nodes.values():
            if not node.is_lost(core.clock(), core.options.node_loss_s):
                continue
            core.fail_commands(node.name, but=lambda *_: False)
            if node.placed:
                changes.add(inos=self._replicas.missing(node, set(node.placed)).inos)
        return changes


def version_of(key: str) -> int:
    """Return the version in a piece file's name."""
    return int(key.partition(".")[0], 16)


def _lacks(keys: Mapping[str, int], key: str, size: int) -> bool:
    """Whether a piece file isn't there, or only an older, shorter copy of it."""
    return key not in keys or pages(keys[key]) < size

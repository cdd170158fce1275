"""Pieces on several nodes, and the fate of files whose node is gone."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from msgspec.structs import replace

from bbflow.files.commands import CommandAnswer, FetchCommand, IonodeAddress
from bbflow.files.inodes import FILE, Inode, Piece, holders, key_of, keys_of, pages, places_of
from bbflow.files.master.core import Core
from bbflow.files.master.records import Handle, InodeRecord
from bbflow.files.master.room import Node
from bbflow.files.master.sessions import Changes

Places = dict[tuple[str, str], str]


class Replicas:
    """Copies pieces from node to node.

    Parameters
    ----------
    core
        The master's state.
    let_go
        Lets a file go that the shared storage has.
    """

    def __init__(self, core: Core, let_go: Callable[[Inode], None]) -> None:
        self._core, self._let_go = core, let_go
        self.thin: dict[int, None] = {}
        """Files that lack a copy."""

    def copy(self, handle: Handle, pieces: Iterable[tuple[int, Piece]], then: Callable[[Places], None]) -> None:
        """Copy pieces to their further nodes, and call back; a node that has failed has its copy later.

        Parameters
        ----------
        handle
            Who wrote them.
        pieces
            Their numbers, and what they are.
        then
            Called with the copies that are there, by node and piece file, and each node's verifier.
        """
        copies = [
            (node, key_of(version, index), size, handle.striping.holders(index)[0])
            for index, (version, size) in pieces
            for node in handle.striping.holders(index)[1:]
        ]
        there: Places = {}
        left = len(copies)

        def done(node: str, key: str, answer: CommandAnswer) -> None:
            nonlocal left
            left -= 1
            if answer.errno is None:
                there[node, key] = self._core.nodes[node].verifier
            else:
                self.miss(handle.ino, [(node, key)])  # with it goes what it had of the piece before
            if not left:
                then(there)

        if not copies:
            then(there)
        for node, key, size, first in copies:
            command = FetchCommand(key=key, bytes=size, node=self._address(first))
            self._core.command(node, command, partial(done, node, key))

    def miss(self, ino: int, copies: Iterable[tuple[str, str]]) -> None:
        """Record which copies, by node and piece file, aren't there: `mend` makes them."""
        for name, key in copies:
            self._core.nodes[name].remove(key)
            self.thin[ino] = None

    def _address(self, name: str) -> IonodeAddress:
        return self._core.nodes[name].address

    def mend(self) -> Changes:
        """Make the copies that are missing, as far as nodes are there to take them; return what clients must forget."""
        changes = Changes()
        for ino in list(self.thin):
            inode = self._core.image.inodes.get(ino)
            # First: what is lost keeps its nodes, which may come back with it, and no other one gets a part of it.
            if inode is not None and inode.ring and not inode.lost and self._is_gone(inode):
                self._lose(inode)
                changes.add(inos=(ino,))
            elif inode is None or not inode.ring or inode.lost or self._mend(inode):
                self.thin.pop(ino, None)
        return changes

    def _is_gone(self, inode: Inode) -> bool:
        """Whether a piece lies nowhere any more: the last node went while it was being copied."""
        nodes = self._core.nodes
        for index, (version, _) in enumerate(inode.pieces):
            key = key_of(version, index)
            is_there = not version or any(key in nodes[name].placed for name in inode.holders(index))
            # Only then all: to look through a hundred nodes for each piece would take the master seconds.
            if not is_there and not any(key in node.placed for node in nodes.values()):
                return True
        return False

    def widen(self) -> None:
        """Record which files were made while there were fewer nodes than copies of each, now that one has come."""
        wanted = self._core.options.replicas
        for inode in self._core.image.inodes.values() if wanted > 1 else ():
            # Of a clean file the storage has another copy.
            if inode.ring and inode.replicas < wanted and inode.state != "clean":
                self.thin[inode.ino] = None

    def is_thin(self, inode: Inode) -> bool:
        """Whether a file that is in memory only has fewer copies than it is to have, and none is on its way."""
        if inode.lost or inode.state not in ("dirty", "scratch") or not any(version for version, _ in inode.pieces):
            return False
        return inode.ino in self.thin or inode.replicas < self._core.options.replicas

    def _widen(self, inode: Inode) -> None:
        """Add nodes to a file whose ring's nodes each have all pieces."""
        if inode.replicas < len(inode.ring) or self._core.image.writer(inode.ino) is not None:
            return
        up = sorted(node.name for node in self._core.nodes.values() if node.peer is not None)
        more = [name for name in up if name not in inode.ring][: self._core.options.replicas - inode.replicas]
        if more:
            ring = inode.ring + tuple(more)
            self._core.commit(InodeRecord(replace(inode, ring=ring, replicas=len(ring))))

    def _mend(self, inode: Inode) -> bool:
        """Begin with a file's missing copies; return whether all are there, or on their way."""
        core = self._core
        for name in inode.ring:
            if core.nodes[name].is_lost(core.clock(), core.options.node_loss_s):
                self._replace(core.image.inodes[inode.ino], name)
        self._widen(core.image.inodes[inode.ino])
        is_whole, inode = True, core.image.inodes[inode.ino]
        for index, (version, size) in enumerate(inode.pieces):
            key = key_of(version, index)
            for name in inode.holders(index) if version else ():
                if key not in core.nodes[name].placed:
                    is_whole = self._fetch(inode, index, key, core.nodes[name], size) and is_whole
        return is_whole

    def _fetch(self, inode: Inode, index: int, key: str, node: Node, size: int) -> bool:
        """Order a node to fetch a copy of a piece; return whether it can now."""
        source = self._elsewhere(inode, index, node.name)
        if source is None or node.peer is None or node.free_bytes < pages(size):
            return False

        def done(answer: CommandAnswer) -> None:
            now = self._core.image.inodes.get(inode.ino)
            if answer.errno is not None and now is not None and key in now.keys:
                self.miss(inode.ino, [(node.name, key)])

        node.place(key, pages(size))
        command = FetchCommand(key=key, bytes=size, node=self._address(source.name))
        self._core.command(node.name, command, done)
        return True

    def missing(self, node: Node, keys: set[str]) -> Changes:
        """Record that a node no longer has these piece files; return what clients must forget.

        What the shared storage has will come from there; what another node has is copied to a third; all else is lost.
        """
        changes = Changes()
        for inode in list(self._core.image.inodes.values()):
            if inode.kind != FILE or node.name not in inode.ring or inode.filling:
                continue
            gone = [key for key in inode.places.get(node.name, ()) if key in keys]
            if gone:
                indices = {int(key.rpartition(".")[2], 16) for key in gone}
                if inode.state != "clean" and all(self._elsewhere(inode, index, node.name) for index in indices):
                    self.thin[inode.ino] = None
                else:
                    self._lose(inode)
                changes.add(inos=(inode.ino,))
        for key in keys:
            node.remove(key)
        return changes

    def _lose(self, inode: Inode) -> None:
        # The shared storage has it, too: whoever opens it next fetches it from there.
        if inode.state == "clean":
            self._let_go(inode)
        else:
            self._core.commit(InodeRecord(replace(inode, lost=True)))

    def _elsewhere(self, inode: Inode, index: int, but: str) -> Node | None:
        key = key_of(inode.pieces[index][0], index)
        others = (self._core.nodes.get(name) for name in inode.holders(index) if name != but)
        return next(
            (node for node in others if node is not None and node.peer is not None and key in node.placed), None
        )

    def _replace(self, inode: Inode, name: str) -> None:
        """Move to other nodes what a lost one had of a file, if they have room; its writer knows the old ring."""
        up = [node for node in self._core.nodes.values() if node.peer is not None]
        best = sorted(up, key=lambda node: (node.name in inode.ring, -node.free_bytes))
        rings = rings_without(inode.ring, inode.replicas, name, [node.name for node in best])
        ring = next((ring for ring in rings if self._have_room(inode, ring)), None)
        if ring is not None and self._core.image.writer(inode.ino) is None:
            self._core.commit(InodeRecord(replace(inode, ring=ring)))

    def _have_room(self, inode: Inode, ring: tuple[str, ...]) -> bool:
        """Whether the nodes of a ring have room for what they would have more of a file."""
        for name, pieces in places_of(ring, inode.replicas, inode.pieces).items():
            node = self._core.nodes[name]
            more = sum(size for key, size in pieces.items() if key not in node.placed)
            if node.peer is not None and more > node.free_bytes:
                return False
        return True

    def found(self, node: Node, keys: Mapping[str, int]) -> Changes:
        """Record which of its pieces a node has that is back: what was lost with it isn't.

        Parameters
        ----------
        node
            Which.
        keys
            The piece files that are there, with their bytes.
        """
        changes, files = Changes(), list(self._core.image.inodes.values())
        if keys.keys() - node.placed.keys():
            for inode in files:
                if node.name in inode.ring and not inode.filling:
                    self._place_again(inode, node, keys)
        there = {key for key, size in keys.items() if key in node.placed and pages(size) >= node.placed[key]}
        for inode in files:
            if inode.lost and all(self._is_there(key, node, there) for key in keys_of(inode.pieces)):
                self._core.commit(InodeRecord(replace(inode, lost=False)))
                changes.add(inos=(inode.ino,))
        return changes

    def _place_again(self, inode: Inode, node: Node, keys: Mapping[str, int]) -> None:
        """Count what a node has of a file, but for a copy that has missed an append: that one is shorter."""
        for index, (version, size) in enumerate(inode.pieces):
            key = key_of(version, index)
            if version and node.name in inode.holders(index) and keys.get(key, -1) >= size:
                node.place(key, pages(size))

    def _is_there(self, key: str, node: Node, there: set[str]) -> bool:
        return key in there or any(key in other.placed for other in self._core.nodes.values() if other is not node)


def rings_without(ring: tuple[str, ...], replicas: int, lost: str, others: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Yield rings on which all pieces stay with the nodes that have them, and those of a lost one are with others.

    Another node takes each of its places, also one of the ring if it shares no piece with the lost one: a node may
    have several places. Where only as many nodes are left as there are copies, each of these has all pieces.

    Parameters
    ----------
    ring
        With the lost node.
    replicas
        Copies of each piece.
    lost
        The node that is gone.
    others
        Nodes that are up, the best first.
    """
    for other in others:
        changed = tuple(other if name == lost else name for name in ring)
        if _keeps_copies_apart(changed, replicas):
            yield changed
    left = tuple(dict.fromkeys(name for name in ring if name != lost))
    if len(left) == replicas:
        yield left


def _keeps_copies_apart(ring: tuple[str, ...], replicas: int) -> bool:
    """Whether no piece has two copies on one node."""
    places = (holders(ring, index, replicas) for index in range(len(ring)))
    return all(len(set(names)) == len(names) for names in places)

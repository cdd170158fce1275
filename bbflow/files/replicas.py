"""Pieces on several nodes, and what becomes of files whose node is gone."""

from collections.abc import Callable, Iterable

from bbflow.files.core import Core
from bbflow.files.filling import Filling
from bbflow.files.inodes import FILE, Inode, Piece, key_of, keys_of, pages, places_of
from bbflow.files.room import Node
from bbflow.files.sessions import Changes
from bbflow.records import Message


class Replicas:
    """Copies pieces from node to node.

    Parameters
    ----------
    core
        The master's state.
    filling
        Lets files go that the shared storage has.
    """

    def __init__(self, core: Core, filling: Filling) -> None:
        self._core, self._filling = core, filling

    def copy(self, inode: Inode, pieces: Iterable[tuple[int, Piece]], then: Callable[[], None]) -> None:
        """Copy pieces to their further nodes, and call back; a node that is away doesn't hold it up.

        Parameters
        ----------
        inode
            Whose.
        pieces
            Their numbers, and what they are.
        then
            Called once they are where they belong.
        """
        copies = [
            (node, key_of(version, index), size, inode.holders(index)[0])
            for index, (version, size) in pieces
            for node in inode.holders(index)[1:]
        ]
        left = len(copies)

        def done(_: Message) -> None:
            nonlocal left
            left -= 1
            if not left:
                then()

        if not copies:
            then()
        for node, key, size, first in copies:
            self._core.command(node, "fetch", done, key=key, bytes=size, node=self._address(first))

    def _address(self, name: str) -> Message:
        return {"name": name, **self._core.nodes[name].address}

    def missing(self, node: Node, keys: set[str]) -> Changes:
        """Take down that a node no longer has these piece files; give what clients must forget.

        What the shared storage has will come from there; what another node has is copied to a third; all else is lost.
        """
        changes = Changes()
        for inode in list(self._core.image.inodes.values()):
            if inode.kind != FILE or node.name not in inode.ring or inode.filling:
                continue
            gone = [
                key for key in places_of(inode.ring, inode.replicas, inode.pieces).get(node.name, ()) if key in keys
            ]
            if gone:
                self._lose(inode, node, gone)
                changes.add(inos=(inode.ino,))
        for key in keys:
            node.remove(key)
        return changes

    def _lose(self, inode: Inode, node: Node, gone: list[str]) -> None:
        if inode.state == "clean":
            self._filling.let_go(inode)
            return
        indices = {int(key.rpartition(".")[2], 16) for key in gone}
        if all(self._elsewhere(inode, index, node.name) for index in indices):
            self._replace(inode, node.name, sorted(indices))
            return
        inode.lost = True
        self._core.save(inode)

    def _elsewhere(self, inode: Inode, index: int, but: str) -> Node | None:
        key = key_of(inode.pieces[index][0], index)
        others = (self._core.nodes.get(name) for name in inode.holders(index) if name != but)
        return next(
            (node for node in others if node is not None and node.peer is not None and key in node.placed), None
        )

    def _replace(self, inode: Inode, name: str, indices: list[int]) -> None:
        """Let another node take a node's place in a file's ring, if there is one with room."""
        size = sum(pages(inode.pieces[index][1]) for index in indices)
        free = [n for n in self._core.nodes.values() if n.peer is not None and n.name not in inode.ring]
        new = max(free, key=lambda node: node.free_bytes, default=None)
        if new is None or new.free_bytes < size:
            return
        sources = {index: self._elsewhere(inode, index, name) for index in indices}
        inode.ring = tuple(new.name if node == name else node for node in inode.ring)
        self._core.save(inode)
        for index, source in sources.items():
            version, count = inode.pieces[index]
            new.place(key_of(version, index), pages(count))
            if source is not None:
                address = {"name": source.name, **source.address}
                key = key_of(version, index)
                self._core.command(new.name, "fetch", lambda _: None, key=key, bytes=count, node=address)

    def found(self, node: Node, keys: set[str]) -> Changes:
        """Take down that a node that was away has these piece files: what was lost with it isn't."""
        changes = Changes()
        for inode in self._core.image.inodes.values():
            if inode.lost and all(self._is_there(inode, key, node, keys) for key in keys_of(inode.pieces)):
                inode.lost = False
                self._core.save(inode)
                changes.add(inos=(inode.ino,))
        return changes

    def _is_there(self, inode: Inode, key: str, node: Node, keys: set[str]) -> bool:
        return key in keys or any(key in other.placed for other in self._core.nodes.values() if other is not node)

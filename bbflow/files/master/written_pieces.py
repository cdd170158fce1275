"""Whether what a commit tells of is there: it counts only once a node has each of its new pieces."""

import errno
from functools import partial
from typing import NoReturn

from bbflow.files.commands import CommandAnswer, HaveCommand
from bbflow.files.inodes import Inode, Piece, key_of
from bbflow.files.master.awaited_events import NodeEvent, SeenEvent
from bbflow.files.master.core import AnyCall, Call, Core, SeenPieces
from bbflow.files.master.records import Handle
from bbflow.files.master.replicas import Places, Replicas
from bbflow.files.requests import CommitFileRequest


class WrittenPieces:
    """What clients have written and commit.

    Parameters
    ----------
    core
        The master's state.
    replicas
        Copies it to further nodes.
    """

    def __init__(self, core: Core, replicas: Replicas) -> None:
        self._core, self._replicas = core, replicas
        self._copying: set[int] = set()

    def wait_for_copies(self, call: AnyCall, handle: Handle) -> None:
        """Wait until nothing of a handle is being copied for a commit.

        If it is another one, its client waits for that no longer: it must neither count after this one, nor take its
        room twice.
        """
        if handle.number in self._copying:
            self._wait(call, handle)

    def check(
        self, call: Call[CommitFileRequest], handle: Handle, inode: Inode, new: list[tuple[int, Piece]]
    ) -> list[tuple[str, str]]:
        """Wait for the nodes of pieces that are to count, and until they are copied to further ones.

        Parameters
        ----------
        call
            The commit; it is decided again from its begin whenever something has come of that.
        handle, inode
            What it commits.
        new
            The new pieces, each with its number.

        Returns
        -------
        list
            Copies that aren't there, by node and piece file: `Replicas.miss` is to know once they count.

        Raises
        ------
        OSError
            EIO if a node has lost what was written to it; EHOSTDOWN if it stays away.
        """
        seen = call.seen = call.seen or SeenPieces()
        absent = []
        for index, (version, _) in new:
            key = key_of(version, index)
            first, *others = handle.striping.holders(index)
            lacking = [(name, key) for name in others if not self._is_seen(seen, name, key)]
            if len(lacking) == len(others):
                self._wait_for_node(call, inode, first)
            is_kept = handle.verifiers[index % len(handle.striping.ring)] == self._core.nodes[first].verifier
            if not is_kept and not self._is_seen(seen, first, key):
                if len(lacking) == len(others):
                    self._look(call, handle, inode, first, is_own=version == handle.version)
                lacking.append((first, key))
            absent += lacking
        if handle.striping.replicas > 1 and new and not seen.are_copied:
            # The version doesn't count before its copies are there: a close that was answered must outlive a node.
            seen.are_copied = True
            self._copying.add(handle.number)
            self._replicas.copy(handle, new, partial(self._copied, handle, seen))
            self._wait(call, handle)
        return absent

    def _copied(self, handle: Handle, seen: SeenPieces, there: Places) -> None:
        seen.places |= there
        self._copying.discard(handle.number)
        self._core.happened(SeenEvent(handle.number))

    def _wait(self, call: AnyCall, handle: Handle) -> NoReturn:
        over = OSError(errno.EIO, "an earlier commit of this file isn't over")
        call.wait(SeenEvent(handle.number), over, -1, self._core.clock())

    def _is_seen(self, seen: SeenPieces, name: str, key: str) -> bool:
        verifier = seen.places.get((name, key))
        return verifier is not None and verifier == self._core.nodes[name].verifier

    def _wait_for_node(self, call: AnyCall, inode: Inode, name: str) -> None:
        node = self._core.nodes.get(name)
        if node is None or node.peer is None:
            away = OSError(errno.EHOSTDOWN, f"IOnode {name}, which has bytes of {inode.name!r}, is away")
            call.wait(NodeEvent(name), away, self._core.options.node_loss_s, self._core.clock())

    def _look(self, call: Call[CommitFileRequest], handle: Handle, inode: Inode, name: str, *, is_own: bool) -> None:
        """Ask a node that came back empty for a commit's own pieces; refuse what it hasn't.

        No client begins a piece of its own twice: one that is there was begun after that. What was appended to an older
        one may have gone, and the rest have been copied here again.
        """
        seen, verifier = call.seen or SeenPieces(), self._core.nodes[name].verifier
        if not is_own or (name, verifier) in seen.asked:
            what = f"IOnode {name} came back without what was written to {inode.name!r}: write it again"
            raise OSError(errno.EIO, what)
        own = {
            key_of(version, index): size
            for index, (version, size) in enumerate(call.asked.pieces)
            if version == handle.version and handle.striping.holders(index)[0] == name
        }

        def told(answer: CommandAnswer) -> None:
            if answer.errno is not None:
                seen.asked.discard((name, verifier))  # it went away again
            there = dict(answer.keys)
            seen.places |= {(name, key): verifier for key, size in own.items() if there.get(key, -1) >= size}
            self._core.happened(SeenEvent(handle.number))

        seen.asked.add((name, verifier))
        self._core.command(name, HaveCommand(keys=tuple(own)), told)
        self._wait(call, handle)

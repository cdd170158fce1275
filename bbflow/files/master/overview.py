"""What users ask of a master: how full it is, what is written back, and to hurry."""

import errno
from collections.abc import Iterator
from functools import partial
from itertools import chain, islice

from bbflow.files.commands import CommandAnswer, EndCommand
from bbflow.files.inodes import DIRECTORY, FILE, Inode
from bbflow.files.master.awaited_events import TransferredEvent
from bbflow.files.master.core import Answers, AnyCall, Call, Core, Deferred
from bbflow.files.master.filling import Filling
from bbflow.files.master.image import MissingEntry
from bbflow.files.master.permissions import READ, check_access
from bbflow.files.master.prefetching import Prefetching
from bbflow.files.master.replicas import Replicas
from bbflow.files.master.scanning import Scanning
from bbflow.files.master.writeback import WriteBack
from bbflow.files.names import CONFLICT
from bbflow.files.replies import (
    EvictReply,
    FileReply,
    FlushReply,
    IonodeStatus,
    OverviewReply,
    PrefetchReply,
    StatfsReply,
    Writing,
)
from bbflow.files.requests import (
    EvictRequest,
    FlushRequest,
    OverviewRequest,
    PrefetchRequest,
    RefreshRequest,
    ShutdownRequest,
    StatfsRequest,
)

MAX_LISTED = 1000


class Overview:
    """Requests about the whole, or about whole trees.

    Parameters
    ----------
    core
        The master's state.
    filling, prefetching, scanning, write_back, replicas
        Its other parts.
    """

    def __init__(
        self,
        core: Core,
        filling: Filling,
        prefetching: Prefetching,
        scanning: Scanning,
        write_back: WriteBack,
        replicas: Replicas,
    ) -> None:
        self._core, self._filling, self._prefetching, self._scanning = core, filling, prefetching, scanning
        self._write_back, self._replicas = write_back, replicas
        self.is_over = False
        """Whether a client has asked all servers to end."""
        self.requests: Answers = {
            StatfsRequest: self._statfs,
            OverviewRequest: self._status,
            FlushRequest: self._flush,
            PrefetchRequest: self._prefetch,
            RefreshRequest: self._refresh,
            EvictRequest: self._evict,
            ShutdownRequest: self._shutdown,
        }
        """What clients may ask."""

    def _statfs(self, call: AnyCall) -> StatfsReply:
        core = self._core
        # A lost host's room would stay in what df shows of the mount.
        nodes = [node for node in core.nodes.values() if not node.is_lost(core.clock(), core.options.node_loss_s)]
        capacity = sum(node.capacity for node in nodes)
        taken = sum(node.placed_bytes + node.leaving_bytes for node in nodes)
        files = len(core.image.inodes)
        return StatfsReply(capacity=capacity, free=max(capacity - taken, 0), files=files)

    def _status(self, call: AnyCall) -> OverviewReply:
        core, image = self._core, self._core.image
        files = [inode for inode in image.inodes.values() if inode.kind == FILE]
        states: dict[str, tuple[int, int]] = {}
        for inode in files:
            state = self._state(inode)
            count, size = states.get(state, (0, 0))
            states[state] = (count + 1, size + inode.size)
        lost = [image.path(inode) for inode in files if inode.lost and inode.parent]
        oldest = next(iter(image.dirty), None)
        failures = list(self._write_back.failures.items())[:MAX_LISTED]
        return OverviewReply(
            subtree=core.options.subtree,
            storage=core.options.storage,
            write_back=core.options.write_back,
            nodes=tuple(self._node(name) for name in sorted(core.nodes)),
            sessions=len(core.sessions.by_name),
            open=sum(bool(handle.session) for handle in image.handles.values()),
            files=states,
            oldest_dirty_s=self._since_s(oldest),
            written_bytes=self._write_back.written_bytes,
            removing=len(image.doomed),
            prefetching=self._prefetching.wanted,
            failed=tuple((path, failure.error, failure.attempts) for path, failure in failures),
            unread=self._unread(),
            lost=tuple(sorted(lost)),
            writing=tuple(self._writing(image.root)),
            conflicts=tuple(sorted(image.path(inode) for inode in files if CONFLICT in inode.name and inode.parent)),
            weakness=self._write_back.weakness,
            replicas=core.options.replicas,
            thin=sum(map(self._replicas.is_thin, files)),
        )

    def _unread(self) -> tuple[tuple[str, str], ...]:
        """Return what can't be read, or isn't shown, and why."""
        inodes = self._core.image.inodes
        losses = {ino: why for ino, why in self._write_back.losses.items() if self._is_lost(ino)}
        failed = (self._scanning.failures, self._filling.failed, losses)
        unread = islice(chain.from_iterable(errors.items() for errors in failed), MAX_LISTED)
        named = [(inodes[ino], error) for ino, error in unread if ino in inodes and inodes[ino].parent]
        hidden = list(self._core.image.hidden.items())[:MAX_LISTED]
        return (
            *((self._core.image.path(inode) or "/", error) for inode, error in named),
            *((repr(name)[1:-1], f"the object is left out, since {one.reason}") for name, one in hidden),
        )

    def _state(self, inode: Inode) -> str:
        """Return a file's state, and tell those apart whose bytes, or whose object, are yet to be where it says."""
        if inode.state == "clean" and inode.filling:
            return "coming"
        is_moving = inode.state in ("clean", "cold") and inode.ino in self._core.image.misplaced
        return "moving" if is_moving else inode.state

    def _is_lost(self, ino: int) -> bool:
        """Whether a file was not rewritten since its bytes were lost."""
        return ino in self._core.image.inodes and self._core.image.inodes[ino].lost

    def _since_s(self, ino: int | None) -> float:
        """For how long a file has waited to be written back (seconds)."""
        return 0.0 if ino is None else max(self._core.clock() - self._core.image.inodes[ino].dirty_ns / 1e9, 0.0)

    def _node(self, name: str) -> IonodeStatus:
        core, node = self._core, self._core.nodes[name]
        return IonodeStatus(
            name=name,
            host=node.address.host,
            up=node.peer is not None,
            lost=node.is_lost(core.clock(), core.options.node_loss_s),
            capacity=node.capacity,
            placed_bytes=node.placed_bytes,
            granted_bytes=node.granted_bytes,
            free_bytes=node.free_bytes,
            pieces=len(node.placed),
        )

    def _below(self, call: AnyCall, path: str) -> Inode:
        try:
            return self._core.image.find(self._core.image.root_ino, path, call.who)
        except MissingEntry as error:
            self._scanning.look(call, error.directory)
            raise

    def _flush(self, call: Call[FlushRequest]) -> FlushReply:
        start, image = self._below(call, call.asked.path), self._core.image
        if not self._write_back.is_on:
            raise OSError(errno.EINVAL, "there is no shared storage behind these files")
        left = self._write_back.left(start)
        if not call.begun:
            call.begun = len(left)
            self._write_back.flush(left)
            # Someone waits: what the storage has refused is tried at once, not when its rest is over.
            if left:
                self._write_back.failures.try_again()
        if left or (start.ino == image.root_ino and (image.doomed or image.busy)):
            try:
                late = OSError(errno.EAGAIN, "")
                call.wait(TransferredEvent(), late, call.asked.wait_s, self._core.clock())
            except OSError:
                pass  # the time is up: the reply says what is left
        paths = {image.path(inode) for inode in left}
        failures = self._write_back.failures.items()
        failed = tuple((path, failure.error) for path, failure in failures if path in paths)
        return FlushReply(
            written=call.begun - len(left), left=len(left), failed=failed, writing=tuple(self._writing(start))
        )

    def _writing(self, start: Inode) -> Iterator[Writing]:
        """Iterate over what is open for writing below an inode, or is the inode itself."""
        core, image = self._core, self._core.image
        path = image.path(start)
        for handle in image.handles.values():
            inode = image.inodes[handle.ino]
            if handle.version and handle.session and inode.parent:
                its = image.path(inode)
                if not path or f"{its}/".startswith(f"{path}/"):
                    session = core.sessions.by_name.get(handle.session)
                    yield its, session.host if session is not None else "", handle.pid

    def _prefetch(self, call: Call[PrefetchRequest]) -> PrefetchReply:
        asked = call.asked
        tasks = [[inode for path in task for inode in self._files_below(call, path)] for task in asked.tasks]
        return PrefetchReply(files=self._prefetching.begin(tasks, asked.at_once, asked.lookahead))

    def _files_below(self, call: AnyCall, path: str) -> list[Inode]:
        """Return the files of a path by name, as they are in the shared storage now."""
        start = self._below(call, path)
        if start.kind == DIRECTORY:
            self._scanning.look(call, start, below=True)
        return sorted(self._files(call, start), key=self._core.image.path)

    def _files(self, call: AnyCall, start: Inode) -> Iterator[Inode]:
        for inode in self._core.image.below(start):
            if inode.kind == FILE:
                check_access(inode, call.who, READ)
                yield inode

    def _refresh(self, call: Call[RefreshRequest]) -> FileReply:
        start = self._below(call, call.asked.path)
        if start.kind == DIRECTORY:
            self._scanning.look(call, start, below=True, again=True)
        return FileReply()

    def _evict(self, call: Call[EvictRequest]) -> EvictReply:
        start = self._below(call, call.asked.path)
        below = {inode.ino for inode in self._core.image.below(start)}
        going = [inode for inode in self._filling.evictable() if inode.ino in below]
        for inode in going:
            self._filling.let_go(inode)
        return EvictReply(bytes=sum(inode.size for inode in going))

    def _shutdown(self, call: Call[ShutdownRequest]) -> FileReply:
        """End master and IOnodes, which remove what they keep; files that were not written back forbid it."""
        core = self._core
        names = [core.image.path(inode) for inode in core.image.inodes.values() if self._is_only_here(inode)]
        if names and not call.asked.force:
            raise OSError(errno.EBUSY, f"{len(names)} files are nowhere but here, as {names[0]!r}: flush them first")
        writing = sorted(self._writing(core.image.root)) if self._write_back.is_on else []
        if writing and not call.asked.force:
            what = f"{len(writing)} files are" if len(writing) > 1 else "a file is"
            raise OSError(errno.EBUSY, f"{what} open for writing, as {writing[0][0]!r}: close it first")
        left = set(core.nodes)

        def ended(name: str, _: CommandAnswer) -> None:
            left.discard(name)
            if not left:
                self.is_over = True
                core.finish(call, FileReply())

        for name in sorted(left):
            core.command(name, EndCommand(), partial(ended, name))
        if core.nodes:
            raise Deferred  # whoever asked may end what the IOnodes belong to, and they should know before
        self.is_over = True
        return FileReply()

    def _is_only_here(self, inode: Inode) -> bool:
        return inode.kind == FILE and inode.state == "dirty" and bool(inode.parent) and self._write_back.is_on

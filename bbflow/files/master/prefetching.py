"""Files that come from the shared storage before they are read: in waves, as inputs of tasks in `bbflow stage`."""

import errno
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bbflow.errors import CapacityError
from bbflow.files.inodes import Inode
from bbflow.files.master.awaited_events import AnyNodeEvent, ClosedEvent, Event, FilledEvent, RoomEvent
from bbflow.files.master.core import Core
from bbflow.files.master.filling import Filling
from bbflow.staging.actions import Action, Check, Evict, Refused, Stage
from bbflow.staging.files import File, Task
from bbflow.staging.waves import Waves
from bbflow.units import format_bytes

EVENTS = (ClosedEvent, FilledEvent, RoomEvent, AnyNodeEvent)
"""What may let a prefetch continue."""
ALL = 1 << 40
"""Slots of a prefetch that only room bounds."""


@dataclass(slots=True)
class Prefetch:
    """One prefetch: its waves, and what they still want."""

    waves: Waves
    """Which task's files come when."""
    unread: dict[str, set[int]] = field(default_factory=dict)
    """For each task that isn't final, those of its files that haven't been read."""
    tasks: dict[int, list[str]] = field(default_factory=dict)
    """Whose files they are."""
    coming: deque[int] = field(default_factory=deque)
    """Files that come next, in this order."""
    begun: set[int] = field(default_factory=set)
    """Those on their way."""


class Prefetching:
    """Prefetches files, and keeps them until they have been read.

    A file that was open and is closed counts as read, and a task as final when all of its files do. What is prefetched
    and not yet read goes for someone who waits for room, after everything else; never for another prefetch.

    Parameters
    ----------
    core
        The master's state.
    filling
        Lets files come and go.
    """

    def __init__(self, core: Core, filling: Filling) -> None:
        self._core, self._filling = core, filling
        self._prefetches: list[Prefetch] = []

    def begin(self, tasks: Sequence[Iterable[Inode]], slots: int = 0, lookahead: int = 1) -> int:
        """Fetch the files of tasks, in their order; return how many.

        Parameters
        ----------
        tasks
            The files of each.
        slots
            Tasks that run at once; 0 lets each file come as soon as there is room, as if it were a task.
        lookahead
            Waves of this many tasks that may lie ahead of the one that runs.
        """
        prefetch = Prefetch(Waves(slots or ALL, max(self._capacity, 1), lookahead))
        wanted = [[inode for inode in task if inode.is_cold and inode.size] for task in tasks]
        for files in wanted if slots else [[inode] for task in wanted for inode in task]:
            if files:
                self._add(prefetch, files)
        count = len(prefetch.tasks)
        self._prefetches.append(prefetch)
        self._pump()
        return count

    def _add(self, prefetch: Prefetch, inodes: list[Inode]) -> None:
        key = str(len(prefetch.unread))
        prefetch.unread[key] = {inode.ino for inode in inodes}
        for ino in prefetch.unread[key]:
            prefetch.tasks.setdefault(ino, []).append(key)
        self._filling.hold(prefetch.unread[key])
        files = dict.fromkeys(File(str(inode.ino), inode.size) for inode in inodes)
        self._follow(prefetch, prefetch.waves.add(Task(key, tuple(files))))

    @property
    def _capacity(self) -> int:
        return sum(node.capacity for node in self._core.nodes.values() if node.peer is not None)

    @property
    def wanted(self) -> int:
        """How many files are still to come."""
        inodes = self._core.image.inodes
        return sum(ino in inodes and (inodes[ino].is_cold or inodes[ino].filling) for ino in self._filling.held)

    def take(self, events: Iterable[Event]) -> None:
        """Take in what has happened, and continue."""
        happened = [event for event in events if isinstance(event, EVENTS)] if self._prefetches else []
        if not happened:
            return
        for event in happened:
            if isinstance(event, ClosedEvent):
                self._read(event.ino)
            elif isinstance(event, FilledEvent):
                self._arrived(event.ino)
        self._pump()

    def _read(self, ino: int) -> None:
        for prefetch in self._prefetches if ino in self._filling.held else ():
            for key in prefetch.tasks.pop(ino, ()):
                files = prefetch.unread.get(key, set())
                files.discard(ino)
                if not files and prefetch.unread.pop(key, None) is not None:
                    self._follow(prefetch, prefetch.waves.final(key))
        self._filling.let_loose(ino)

    def _arrived(self, ino: int) -> None:
        inode = self._core.image.inodes.get(ino)
        for prefetch in self._prefetches:
            if ino not in prefetch.begun:
                continue
            prefetch.begun.discard(ino)
            if inode is not None and not inode.is_cold:
                self._follow(prefetch, prefetch.waves.staged(str(ino)))
            elif inode is not None and ino not in self._filling.failed:  # its node went away: another one may have it
                prefetch.coming.appendleft(ino)
            else:
                error = OSError(errno.EIO, self._filling.failed.get(ino, "it was removed"))
                self._follow(prefetch, prefetch.waves.failed(str(ino), error))

    def _pump(self) -> None:
        """Begin with the next files, while there is room."""
        for prefetch in self._prefetches:
            if prefetch.waves.capacity_bytes != (capacity := max(self._capacity, 1)):
                self._follow(prefetch, prefetch.waves.resize(capacity))
            while prefetch.coming and len(self._core.image.filling) < self._core.options.uploads:
                if not self._start(prefetch, prefetch.coming[0]):
                    break
                prefetch.coming.popleft()
        self._prefetches = [prefetch for prefetch in self._prefetches if prefetch.unread]

    def _start(self, prefetch: Prefetch, ino: int) -> bool:
        """Begin with a file; return whether there was room."""
        inode = self._core.image.inodes.get(ino)
        if inode is not None and inode.is_cold:
            try:
                if self._filling.start(inode, urgent=False) is not None:
                    return False
            except OSError as error:
                if error.errno == errno.EHOSTDOWN:
                    return False
                self._filling.failed[ino] = str(error.strerror or error)
        prefetch.begun.add(ino)
        if ino not in self._core.image.filling:
            self._core.happened(FilledEvent(ino))  # it is there, or never will be
        return True

    def _follow(self, prefetch: Prefetch, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, Stage | Check):
                prefetch.coming.append(int(action.file.url))
            elif isinstance(action, Evict):
                self._filling.evict(int(action.url))
            elif isinstance(action, Refused):
                self._give_up(prefetch, action)

    def _give_up(self, prefetch: Prefetch, refused: Refused) -> None:
        """Forget a task whose files can't all come."""
        files = prefetch.unread.pop(refused.key, set())
        reason = str(refused.error)
        if isinstance(refused.error, CapacityError):
            size = sum(self._core.image.inodes[ino].size for ino in files)
            have = format_bytes(prefetch.waves.capacity_bytes)
            reason = f"what its task reads takes {format_bytes(size)} at once, and the IOnodes have {have}"
        for ino in files:
            prefetch.tasks.pop(ino, None)
            self._filling.let_loose(ino)
            if ino in self._core.image.inodes:
                self._filling.failed.setdefault(ino, reason)

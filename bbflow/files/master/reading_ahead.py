"""Files of a directory that are opened one after another: the next ones come before they are asked for."""

from bisect import bisect_left
from collections import OrderedDict
from dataclasses import dataclass

from bbflow.files.inodes import Inode
from bbflow.files.master.core import Core
from bbflow.files.master.filling import Filling

MOST_BYTES = 64 << 20
"""The most that comes ahead of one directory's readers."""
CAPACITY_SHARE = 8
"""Nor more than this part of what the IOnodes hold: what came ahead must not go before it is read."""
DIRECTORIES = 256
"""How many are followed, the latest ones."""
NAMES = 1 << 20
"""Fewer, if they have more entries than this between them."""


@dataclass(slots=True)
class ReadRun:
    """How far a directory's files have been opened, in the order of their names."""

    names: list[str]
    """Its entries, sorted; those that are gone may stay."""
    last: int = -2
    """Which was opened last."""
    window: int = 0
    """How many files behind that one come ahead."""
    reached: int = 0
    """Those before this have been asked for."""

    def position(self, name: str) -> int:
        """Return where a name stands, which may be a new one."""
        at = bisect_left(self.names, name)
        if at == len(self.names) or self.names[at] != name:
            self.names.insert(at, name)
            self.last += at <= self.last
            self.reached += at < self.reached
        return at

    def follow(self, position: int, most: int) -> bool:
        """Take in which is opened now, and with how many behind it at most; return whether it was expected."""
        is_next = self.last < position <= self.last + max(self.window, 1)
        if position != self.last:
            self.window = min(max(2 * self.window, 1), most) if is_next else 0
            self.reached = max(self.reached, position + 1) if is_next else position + 1
        self.last = position
        return is_next


class ReadingAhead:
    """Prefetches files that follow, by name, those just opened: twice as many with each one, up to a bound.

    No program waits for them: they give way as what is prefetched does.

    Parameters
    ----------
    core
        The master's state.
    filling
        Lets files come.
    """

    def __init__(self, core: Core, filling: Filling) -> None:
        self._core, self._filling = core, filling
        self._runs: OrderedDict[int, ReadRun] = OrderedDict()

    def opened(self, inode: Inode, host: str, *, comes: bool) -> None:
        """Take in that a file was opened for reading.

        Parameters
        ----------
        inode
            The file.
        host
            Whose program did.
        comes
            Whether its own bytes are still on their way.
        """
        most = self._core.options.files_ahead
        run = self._run(inode.parent, comes) if most and inode.parent else None
        if run is not None and run.follow(run.position(inode.name), most):
            self._begin(run, inode.parent, host)

    def _run(self, directory: int, comes: bool) -> ReadRun | None:
        """Return the run of a directory; it begins with a file that has to come."""
        run = self._runs.get(directory)
        if run is None:
            if not comes:
                return None
            run = self._runs[directory] = ReadRun(sorted(self._core.image.entries(directory)))
            self._forget()
        self._runs.move_to_end(directory)
        return run

    def _forget(self) -> None:
        """Forget directories in which nothing was opened for the longest time."""
        runs, names = self._runs, sum(len(run.names) for run in self._runs.values())
        while len(runs) > DIRECTORIES or (names > NAMES and len(runs) > 1):
            _, oldest = runs.popitem(last=False)
            names -= len(oldest.names)

    def _begin(self, run: ReadRun, directory: int, host: str) -> None:
        """Fetch files as far as the window and the bytes allow."""
        core = self._core
        left_bytes = min(MOST_BYTES, sum(node.capacity for node in core.nodes.values()) // CAPACITY_SHARE)
        for position in range(run.last + 1, min(run.last + 1 + run.window, len(run.names))):
            inode = core.image.child(directory, run.names[position])
            left_bytes -= inode.size if inode is not None else 0
            if left_bytes < 0:
                return
            if position >= run.reached:
                if inode is not None and not self._start(inode, host):
                    return
                run.reached = position + 1

    def _start(self, inode: Inode, host: str) -> bool:
        """Fetch a file if it isn't there; return whether there is room."""
        if not inode.is_cold or not inode.size:
            return True
        try:
            return self._filling.start(inode, urgent=False, near=host) is None
        except OSError:
            return False  # whoever opens it is told

"""Waves: which files are staged when, and which tasks may run. Events in, actions out; no clock, no threads."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from bbflow.errors import BbflowError, CapacityError, ConfigError, SourceError, nearest
from bbflow.staging.actions import Action, Check, Evict, Ready, Refused, Stage
from bbflow.staging.buffer_room import FileState
from bbflow.staging.files import File, Task, total_bytes
from bbflow.staging.residency import Entry, Residency
from bbflow.units import format_bytes

OVERSIZE = ("error", "direct")


@dataclass(slots=True)
class _Progress:
    """How far a task is."""

    task: Task
    order: int
    admitted: bool = False
    ended: bool = False
    missing: set[str] = field(default_factory=set)
    direct: set[str] = field(default_factory=set)

    @property
    def ready(self) -> Ready:
        return Ready(self.task.key, frozenset(self.direct))


class Waves:
    """Plans prefetching for tasks that come one by one, in program order.

    A wave is as many tasks as there are slots. At most ``slots * (1 + lookahead)`` tasks that are not final
    have their files on the BB: one wave that computes, and `lookahead` waves ahead of it. A task's set of
    files is admitted whole and in program order, so that no set of half-admitted tasks can block itself. A
    file stays while a task that is known and not final uses it; then it may go when room is needed. If
    nothing runs and the next task has no room, files go that only later tasks want; they are staged again.

    Parameters
    ----------
    slots
        Tasks that can run at once.
    capacity_bytes
        Room for files on the BB.
    lookahead
        Waves whose files may lie ahead of the one that computes; with 0, none.
    oversize
        What becomes of a task whose set can't fit: ``error`` refuses it with a `CapacityError`, ``direct``
        lets it read from the source.

    Raises
    ------
    ConfigError
        If a number is out of range, or `oversize` is neither.
    """

    def __init__(self, slots: int, capacity_bytes: int, lookahead: int = 1, oversize: str = "error") -> None:
        if slots < 1 or capacity_bytes < 1 or lookahead < 0:
            raise ConfigError(
                f"waves need a slot, room and no negative lookahead: {slots}, {capacity_bytes}, {lookahead}"
            )
        if oversize not in OVERSIZE:
            raise ConfigError(f"oversize {oversize!r}: {nearest(oversize, OVERSIZE)}")
        self.slots = slots
        self._window = slots * (1 + lookahead)
        self._direct = oversize == "direct"
        self._bb = Residency(capacity_bytes)
        self._tasks: dict[str, _Progress] = {}
        self._queue: list[tuple[int, int, _Progress]] = []
        self._stuck: object = None
        self._writing: set[str] = set()
        self._active = 0
        self._added = 0
        self._taken = 0

    @property
    def capacity_bytes(self) -> int:
        """Room for files."""
        return self._bb.capacity_bytes

    @property
    def used_bytes(self) -> int:
        """Room that is taken or reserved."""
        return self._bb.used_bytes

    def is_admitted(self, key: str) -> bool:
        """Whether a task that isn't final has its files on the BB, or coming."""
        return key in self._tasks and self._tasks[key].admitted

    # Events

    def add(self, task: Task, order: int | None = None) -> list[Action]:
        """Take the next task of the program.

        Parameters
        ----------
        task
            With its sizes.
        order
            Its place in the program, if tasks that come after it were taken earlier: it goes before those that are not
            admitted yet. By default it is the last.

        Raises
        ------
        ConfigError
            If a task of this name is there and not final.
        """
        if task.key in self._tasks:
            raise ConfigError(f"task {task.key!r} exists already: give each task a name of its own")
        progress = _Progress(task, self._added if order is None else order)
        self._added = max(self._added, progress.order + 1)
        self._tasks[task.key] = progress
        for file in (*task.inputs, *task.outputs):
            self._bb.want(file.url, task.key, progress.order)
        # Of two with one order, the one that came first goes first: `_taken` never is the same twice.
        self._taken += 1
        heappush(self._queue, (progress.order, self._taken, progress))
        return self._advance()

    def staged(self, url: str) -> list[Action]:
        """Note that a file is whole on the BB."""
        self._bb.become(url, FileState.HERE)
        return self._arrived(url) + self._advance()

    def failed(self, url: str, error: Exception) -> list[Action]:
        """Note that a file can't be had: tasks that wait for it are refused; a later task tries again."""
        waiting = self._waiting_for(url)
        self._bb.drop(url)
        return self._refuse_all(waiting, error) + self._advance()

    def made(self, file: File) -> list[Action]:
        """Note that a task made a file on the BB, with its true size; it stays until it is released."""
        entry = self._bb.get(file.url)
        if entry is None:
            self._bb.put(Entry(file, FileState.HERE, made=True))
        else:
            self._bb.become(file.url, FileState.HERE, file, made=True)
        return self._arrived(file.url) + self._advance()

    def release(self, url: str) -> list[Action]:
        """Release a file that a task made: it isn't needed, or has been staged out."""
        if url in self._bb:
            self._bb.release(url)
        return self._advance()

    def found(self, file: File) -> list[Action]:
        """Note a whole or partial file that an earlier life left; it takes its full size from now on."""
        if (file.size_bytes or 0) > self._bb.free_bytes or file.url in self._bb:
            return [Evict(file.url)]
        self._bb.put(Entry(file, FileState.FOUND))
        return []

    def expect(self, urls: Iterable[str]) -> None:
        """Note which files tasks will have that come later, in their order: of unused ones they go last."""
        self._bb.expect(urls)

    def resize(self, capacity_bytes: int) -> list[Action]:
        """Change the capacity, since others share the BB: what isn't wanted goes if it doesn't fit."""
        self._bb.resize(max(1, capacity_bytes))
        victims = self._bb.victims(0, (), also_wanted=False)
        return self._evict(list(self._bb.idle) if victims is None else victims) + self._advance()

    def final(self, key: str) -> list[Action]:
        """Note that a task will never run again: it has ended, or isn't wanted any more."""
        if key not in self._tasks:
            return []
        return self._end(key) + self._advance()

    # Decisions

    def _advance(self) -> list[Action]:
        """Admit tasks, in program order, as long as there are places and room."""
        actions: list[Action] = []
        while self._queue and self._active < self._window:
            # Never past the head: small tasks that overtake would keep a large one waiting forever.
            head = self._queue[0][-1]
            situation = self._situation(head)
            # Nothing that it waits for has changed: to look for room costs most, and thousands of events come
            # meanwhile.
            if situation == self._stuck:
                break
            admitted = [] if head.ended else self._admit(head)
            if admitted is None:
                self._stuck = situation
                break
            heappop(self._queue)
            actions += admitted
        return actions

    def _situation(self, head: _Progress) -> object:
        """Return all that a decision about the next task depends on, so that nothing is decided twice.

        A task may have 100,000 files, and as many events come while it waits for room.
        """
        return (head.task.key, head.order, head.ended, self._bb.changes, not self._active, len(self._writing))

    def _admit(self, head: _Progress) -> list[Action] | None:
        """Admit a task, or refuse it; None if it must wait for room."""
        if any(file.url in self._writing for file in head.task.inputs):
            return None  # a task that writes directly has not finished it
        problem = self._overwriting(head.task) or self._contradicting(head.task)
        if problem is not None:
            return self._refuse(head, problem)
        if head.task.set_bytes > self.capacity_bytes or (self._direct and self._unknown(head.task)):
            return self._without_room(head)
        if self._unknown(head.task):
            return self._refuse(head, self._size_error(head.task))
        # A task gets room for all of its files at once, or for none: two tasks that each hold half of what they need,
        # and wait for the other half, would wait forever.
        replaced = self._replaced(head.task)
        urls = {file.url for file in (*head.task.inputs, *head.task.outputs)}
        need_bytes = total_bytes(self._new_files(head.task, replaced)) - sum(
            self._bb[url].size_bytes for url in replaced
        )
        # First what isn't wanted any more; what later tasks want stays as long as anything else may become free.
        victims = self._bb.victims(need_bytes, urls, also_wanted=False)
        if victims is None and not self._active and not self._bb.any_coming:
            # Nothing runs and nothing comes, so nothing will become free by itself: fetching a file twice is the price.
            victims = self._bb.victims(need_bytes, urls, also_wanted=True)
            if victims is None:
                return self._without_room(head)
        return None if victims is None else [*self._evict([*replaced, *victims]), *self._place(head)]

    def _overwriting(self, task: Task) -> BbflowError | None:
        outputs = {file.url for file in task.outputs}
        for url in outputs & {file.url for file in task.inputs}:
            return ConfigError(f"task {task.key!r} has {url} as input and as output: name them differently")
        for url in outputs:
            entry = self._bb.get(url)
            if entry is not None and not entry.may_go and (entry.pins or not entry.made):
                return ConfigError(f"task {task.key!r} would overwrite {url}, which others use: name it differently")
        return None

    def _contradicting(self, task: Task) -> BbflowError | None:
        """Return why a copy that others hold, and so isn't checked any more, may not be what a task wants."""
        for file in task.inputs:
            entry = self._bb.get(file.url)
            if entry is None or not entry.copied or entry.is_doubtful:
                continue
            if file.checksum not in (None, entry.file.checksum):
                return ConfigError(
                    f"task {task.key!r} wants {file.url} with {file.checksum}, but a task before it didn't: give all "
                    "the same checksum"
                )
        return None

    def _unknown(self, task: Task) -> list[str]:
        return [file.url for file in task.inputs if file.size_bytes is None and file.url not in self._bb]

    def _size_error(self, task: Task) -> SourceError:
        unknown = ", ".join(self._unknown(task))
        return SourceError(f"task {task.key!r} needs {unknown}, which no task has made and whose size isn't known")

    def _replaced(self, task: Task) -> list[str]:
        """Return files on the BB that the task is going to make again, or that are another version than it wants."""
        outputs = [file.url for file in task.outputs if file.url in self._bb]
        entries = [(file, self._bb.get(file.url)) for file in task.inputs]
        old = [f.url for f, e in entries if e and e.is_doubtful and f.size_bytes not in (None, e.size_bytes)]
        return list(dict.fromkeys((*outputs, *old)))

    def _new_files(self, task: Task, replaced: list[str]) -> list[File]:
        """Return files of a task that need room."""
        return [f for f in (*task.inputs, *task.outputs) if f.url not in self._bb or f.url in replaced]

    def _evict(self, urls: list[str]) -> list[Action]:
        for url in urls:
            self._bb.drop(url)
        return [Evict(url) for url in urls]

    def _place(self, head: _Progress, direct: bool = False) -> list[Action]:
        """Admit a task: what lies on the BB is held for it, the rest comes, or is read directly."""
        actions: list[Action] = []
        head.admitted = True
        self._active += 1
        for file in dict.fromkeys(head.task.inputs):
            if direct and file.url not in self._bb:
                head.direct.add(file.url)
                continue
            actions += self._hold(head, file)
        for file in dict.fromkeys(head.task.outputs):
            if direct:
                head.direct.add(file.url)
                self._writing.add(file.url)
            elif file.url not in self._bb:
                self._bb.put(Entry(file, FileState.AWAITED))
                self._bb.pin(file.url, head.task.key)
        return actions if head.missing else [*actions, head.ready]

    def _hold(self, head: _Progress, file: File) -> list[Action]:
        """Hold an input for a task, and let it come if it isn't there, or may be out of date."""
        entry = self._bb.get(file.url)
        needed: list[Action] = []
        if entry is None:
            needed = [Stage(file, head.order // self.slots)]
            self._bb.put(Entry(file, FileState.COMING))
        elif entry.is_doubtful:
            kind = Check if entry.state is FileState.UNCHECKED else Stage
            needed = [kind(file, head.order // self.slots)]
            self._bb.become(file.url, FileState.COMING, replace(entry.file, checksum=file.checksum))
        self._bb.pin(file.url, head.task.key)
        if self._bb[file.url].state is not FileState.HERE:
            head.missing.add(file.url)
        return needed

    def _without_room(self, head: _Progress) -> list[Action]:
        if self._direct:
            return [*self._evict(self._replaced(head.task)), *self._place(head, direct=True)]
        held_bytes = sum(self._bb[url].size_bytes for url in self._bb.urls if self._bb[url].made)
        held = f", of which {format_bytes(held_bytes)} are held by files that tasks made" if held_bytes else ""
        error = CapacityError(
            f"task {head.task.key!r} needs {format_bytes(head.task.set_bytes)} on the burst buffer at once, which has "
            f"{format_bytes(self.capacity_bytes)}{held}: give it more room, or let such tasks read directly "
            "(oversize='direct')"
        )
        return self._refuse(head, error)

    def _refuse(self, head: _Progress, error: Exception) -> list[Action]:
        return self._refuse_all([head.task.key], error)

    def _refuse_all(self, keys: Iterable[str], error: Exception) -> list[Action]:
        actions: list[Action] = []
        for key in keys:
            if key in self._tasks:  # else it was refused with one before it, whose output it waited for
                actions += [Refused(key, error), *self._end(key)]
        return actions

    def _waiting_for(self, url: str) -> list[str]:
        entry = self._bb.get(url)
        waiting = [key for key in entry.pins if url in self._tasks[key].missing] if entry else []
        return sorted(waiting, key=lambda key: self._tasks[key].order)

    def _arrived(self, url: str) -> list[Action]:
        actions: list[Action] = []
        for key in self._waiting_for(url):
            self._tasks[key].missing.discard(url)
            if not self._tasks[key].missing:
                actions.append(self._tasks[key].ready)
        return actions

    def _end(self, key: str) -> list[Action]:
        """Forget a task; its outputs that it never made are gone, and whoever waits for them is refused."""
        progress = self._tasks.pop(key)
        progress.ended = True
        self._active -= progress.admitted
        self._writing -= progress.direct
        actions: list[Action] = []
        for file in (*progress.task.inputs, *progress.task.outputs):
            self._bb.leave(file.url, key)
        for file in progress.task.outputs:
            entry = self._bb.get(file.url)
            if entry is not None and entry.state is FileState.AWAITED and progress.admitted and not progress.direct:
                error = SourceError(f"task {key!r} ended without making {file.url}")
                waiting = self._waiting_for(file.url)
                self._bb.drop(file.url)
                actions += self._refuse_all(waiting, error)
        return actions

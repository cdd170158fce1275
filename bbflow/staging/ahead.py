"""Waves of a workflow that is known as a whole, before any of it runs: the same plan that `Waves` makes as tasks come.

What a scheduler is told ahead must hold whichever task ends first. So the plan is made with whole waves that end one
after the other, and what a wave needs is said in terms of waves: those that must be over, and the files that must be
gone, before its own files come.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bbflow.errors import CapacityError, ConfigError
from bbflow.staging.actions import Action, Evict, Refused, Stage
from bbflow.staging.files import File, Task, total_bytes
from bbflow.staging.waves import Waves
from bbflow.units import format_bytes

Parents = Mapping[str, Collection[str]]
"""For a task's key, those of the tasks that must be over before it runs."""


@dataclass(frozen=True, slots=True)
class PlannedWave:
    """Tasks of one dependency level whose files come together."""

    level: int
    """The longest way from a task without parents, which have level 0."""
    tasks: tuple[str, ...]
    """Keys, in the order in which their files come."""
    staged: tuple[tuple[str, ...], ...]
    """URLs that come with this wave, by the task of it that wants them first."""
    over: int
    """As many waves, from the first one, must be over before its files come."""
    gone: tuple[str, ...]
    """URLs of files that must have left the BB before its files come."""


def plan_ahead(
    tasks: Iterable[Task], parents: Parents, slots: int, capacity_bytes: int, lookahead: int = 1
) -> list[PlannedWave]:
    """Plan the waves of a whole workflow.

    A wave has at most `slots` tasks, all of one dependency level, and takes at most a ``1 + lookahead``-th of the
    room, so that the next one can come while it computes; a task that needs more makes a wave of its own. Levels come
    one after the other. If the files that tasks make leave too little room for that, each end of the workflow is
    reached before the next is begun.

    Parameters
    ----------
    tasks
        All tasks. An input that no task makes comes from its source. A file without a size counts as nothing.
    parents
        What each task waits for; also makers of its inputs that aren't named here.
    slots
        Tasks that can run at once.
    capacity_bytes
        Room for files on the BB.
    lookahead
        Waves whose files may lie ahead of the one that computes.

    Returns
    -------
    list of PlannedWave
        In the order in which their files come. A file comes again if there was no room to keep it between its users.

    Raises
    ------
    CapacityError
        If a task's files have no room at once, or not beside those that other tasks made for later ones.
    ConfigError
        If tasks wait for each other in a circle.
    """
    known = {task.key: _sized(task) for task in tasks}
    largest = max(known.values(), key=lambda task: task.set_bytes, default=None)
    if largest is not None and largest.set_bytes > capacity_bytes:
        raise CapacityError(
            f"job {largest.key!r} needs {_unlike(largest.set_bytes, capacity_bytes)} on the burst buffer at once, "
            f"which has {_unlike(capacity_bytes, largest.set_bytes)}: give it more room"
        )
    levels = levels_of(known, _with_makers(known, parents))
    by_level = sorted(known, key=lambda key: (levels[key], natural(key)))
    try:
        return _Rehearsal(known, levels, Waves(slots, capacity_bytes, lookahead), lookahead).waves(by_level)
    except CapacityError:
        # Level by level, all that one level makes waits for the next one; end by end, less of it lies there at a time.
        by_end = _ends_one_by_one(by_level, _with_makers(known, parents))
        return _Rehearsal(known, levels, Waves(slots, capacity_bytes, lookahead), lookahead).waves(by_end)


def levels_of(keys: Collection[str], parents: Parents) -> dict[str, int]:
    """Return the length of the longest way to each task.

    Raises
    ------
    ConfigError
        If tasks wait for each other in a circle.
    """
    levels: dict[str, int] = {}
    for key in _parents_first(keys, parents, within=keys):
        levels[key] = 1 + max((levels[parent] for parent in parents.get(key, ()) if parent in levels), default=-1)
    return levels


def natural(name: str) -> tuple[tuple[int, str | int], ...]:
    """Return a key by which ``job2`` comes before ``job10``."""
    parts = re.split(r"(\d+)", name)
    return tuple((1, int(part)) if part.isdecimal() else (0, part) for part in parts)


def _ends_one_by_one(keys: Sequence[str], parents: Parents) -> list[str]:
    """Order tasks so that what an end of the workflow needs comes together."""
    waited_for = {parent for key in keys for parent in parents[key]}
    return list(_parents_first([key for key in keys if key not in waited_for], parents, within=keys))


def _parents_first(ends: Iterable[str], parents: Parents, within: Collection[str]) -> Iterable[str]:
    """Walk to each end, and before it to its parents, right before it where that is possible."""
    wanted = set(within)
    begun: set[str] = set()
    done: set[str] = set()
    for end in ends:
        ahead = [end]
        while ahead:
            key = ahead[-1]
            if key in done:
                ahead.pop()
                continue
            waiting = [parent for parent in parents.get(key, ()) if parent in wanted and parent not in done]
            if waiting and key in begun:
                raise ConfigError(f"jobs {key!r} and {waiting[0]!r} wait for each other")
            begun.add(key)
            ahead += waiting[::-1]
            if not waiting:
                done.add(key)
                yield ahead.pop()


def _with_makers(tasks: Mapping[str, Task], parents: Parents) -> dict[str, list[str]]:
    makers = {file.url: task.key for task in tasks.values() for file in task.outputs}
    return {
        key: list(
            dict.fromkeys((*parents.get(key, ()), *(makers[file.url] for file in task.inputs if file.url in makers)))
        )
        for key, task in tasks.items()
    }


def _sized(task: Task) -> Task:
    def known(files: Iterable[File]) -> tuple[File, ...]:
        return tuple(replace(file, size_bytes=file.size_bytes or 0) for file in files)

    return Task(task.key, known(task.inputs), known(task.outputs))


def _unlike(size: int, other: int) -> str:
    """Write a size so that it can be told from another one."""
    text = format_bytes(size)
    # Rounded, both could read the same, and the message would contradict itself.
    return f"{size} B" if text == format_bytes(other) else text


class _Rehearsal:
    """Ends the waves of a workflow one after another, and notes what `Waves` wants done meanwhile."""

    def __init__(self, tasks: Mapping[str, Task], levels: Mapping[str, int], waves: Waves, lookahead: int) -> None:
        self._tasks = tasks
        self._levels = levels
        self._waves = waves
        self._share_bytes = waves.capacity_bytes // (1 + lookahead)
        self._planned: list[PlannedWave] = []
        self._queue: list[str] = []
        self._admitted = 0
        self._stages: list[str] = []
        self._evicted: list[str] = []
        self._users: dict[str, int] = {}
        self._made: dict[str, int] = {}

    def waves(self, order: Sequence[str]) -> list[PlannedWave]:
        """Return the waves of tasks that are taken in this order."""
        self._queue = list(order)
        for key in order:
            for file in self._tasks[key].inputs:
                self._users[file.url] = self._users.get(file.url, 0) + 1
        for number, key in enumerate(order):
            self._follow(self._waves.add(self._tasks[key], number))
        self._plan_admitted(over=0)
        over = 0
        while over < len(self._planned):
            self._end([self._tasks[key] for key in self._planned[over].tasks])
            over += 1
            self._plan_admitted(over)
        return self._planned

    def _end(self, tasks: Sequence[Task]) -> None:
        """Make a wave's tasks create their files and be final; what is no longer needed may go.

        What they have made goes last: where it is copied elsewhere first, the next files would wait for that.
        """
        for task in tasks:
            for file in task.outputs:
                self._made[file.url] = file.size_bytes or 0
                self._follow(self._waves.made(file))
            for file in task.inputs:
                self._users[file.url] -= 1
        for task in tasks:
            self._release(task.inputs)
            self._follow(self._waves.final(task.key))
        for task in tasks:
            self._release(task.outputs)

    def _release(self, files: Iterable[File]) -> None:
        for file in files:
            if not self._users.get(file.url):
                self._follow(self._waves.release(file.url))

    def _follow(self, actions: Sequence[Action]) -> None:
        """Note what the plan wants; files come at once, as only their order counts."""
        for action in actions:
            if isinstance(action, Refused):
                raise self._without_room(action.key)
            if isinstance(action, Evict):
                self._evicted.append(action.url)
        for url in [action.file.url for action in actions if isinstance(action, Stage)]:
            self._stages.append(url)
            self._follow(self._waves.staged(url))

    def _without_room(self, key: str) -> CapacityError:
        held_bytes = sum(size for url, size in self._made.items() if self._users.get(url))
        need_bytes, have_bytes = self._tasks[key].set_bytes, self._waves.capacity_bytes
        return CapacityError(
            f"job {key!r} needs {_unlike(need_bytes, have_bytes)} on the burst buffer at once, which has "
            f"{_unlike(have_bytes, need_bytes)}, of which {format_bytes(held_bytes)} are held by files that jobs made "
            "for later ones: give it more room"
        )

    def _plan_admitted(self, over: int) -> None:
        """Part the tasks that were admitted since the last time into waves; the first waits for what went."""
        gone, self._evicted = tuple(dict.fromkeys(self._evicted)), []
        for keys, staged in self._parted():
            self._planned.append(PlannedWave(self._levels[keys[0]], tuple(keys), tuple(staged), over, gone))
            gone = ()
        self._evicted += gone

    def _parted(self) -> list[tuple[list[str], list[tuple[str, ...]]]]:
        parts: list[tuple[list[str], list[tuple[str, ...]]]] = []
        room_bytes = 0
        coming, self._stages = dict.fromkeys(self._stages), []
        while self._admitted < len(self._queue) and self._waves.is_admitted(self._queue[self._admitted]):
            task = self._tasks[self._queue[self._admitted]]
            self._admitted += 1
            new = [file for file in dict.fromkeys(task.inputs) if file.url in coming]
            for file in new:
                del coming[file.url]
            need_bytes = total_bytes((*new, *task.outputs))
            room_bytes -= need_bytes
            if not parts or room_bytes < 0 or self._is_complete(parts[-1][0], task.key):
                parts.append(([], []))
                room_bytes = self._share_bytes - need_bytes
            parts[-1][0].append(task.key)
            parts[-1][1].append(tuple(file.url for file in new))
        return parts

    def _is_complete(self, keys: Sequence[str], next_key: str) -> bool:
        return len(keys) == self._waves.slots or self._levels[keys[0]] != self._levels[next_key]

"""Workflows as graphs of tasks: written by counts, level after level, or read from a plan of `bbflow stage`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from bbflow.errors import ConfigError, nearest
from bbflow.staging.files import File, Task

ALL = "all"


@dataclass(frozen=True, slots=True)
class Level:
    """Equal tasks of a workflow."""

    tasks: int
    """How many; ``workflow.scale`` multiplies what is more than one."""
    compute_s: float
    """Of one task, without reading and writing."""
    input_bytes: int = 0
    """Of a file that each task reads from the file system, beside what others make."""
    output_bytes: int = 0
    """Of the file that each task makes."""
    reads: str = ""
    """Files that each task reads: ``project:2, model:all`` is two neighbours of one level and all of another."""


@dataclass(frozen=True)
class Graph:
    """Tasks in program order, with what they compute."""

    tasks: Sequence[Task]
    """A file that none of them makes lies on the file system."""
    compute_s: Mapping[str, float]
    """By the task's key, without reading and writing."""
    after: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By the task's key, tasks that it waits for, whether or not it reads what they make."""

    @cached_property
    def makers(self) -> Mapping[str, str]:
        """By the URL of a file, the key of the task that makes it."""
        return {file.url: task.key for task in self.tasks for file in task.outputs}

    @cached_property
    def parents(self) -> Mapping[str, tuple[str, ...]]:
        """By a task's key, the tasks that it waits for: those that make its inputs, and those that it comes after."""
        return {
            task.key: tuple(dict.fromkeys([*self._makers_of(task), *self.after.get(task.key, ())]))
            for task in self.tasks
        }

    def _makers_of(self, task: Task) -> list[str]:
        return [self.makers[file.url] for file in task.inputs if file.url in self.makers]

    @cached_property
    def users(self) -> Mapping[str, int]:
        """By the URL of a file, how many tasks read it."""
        counts: dict[str, int] = {}
        for task in self.tasks:
            for file in dict.fromkeys(task.inputs):
                counts[file.url] = counts.get(file.url, 0) + 1
        return counts

    def least_s(self, slots: int) -> float:
        """Return the time that this many slots need at least: the longest chain of tasks, or the work of all."""
        ends_s: dict[str, float] = {}
        for task in self.tasks:
            began_s = max((ends_s[parent] for parent in self.parents[task.key]), default=0.0)
            ends_s[task.key] = began_s + self.compute_s[task.key]
        return max(max(ends_s.values(), default=0.0), sum(self.compute_s.values()) / slots)

    def sources(self, task: Task) -> tuple[File, ...]:
        """Return the inputs of a task that no task makes."""
        return tuple(file for file in dict.fromkeys(task.inputs) if file.url not in self.makers)


def graph_of_levels(levels: Mapping[str, Level], scale: int = 1) -> Graph:
    """Make a workflow of its levels' counts.

    Task i of a level with n tasks that reads k files of one with m tasks has those from ``i m // n`` on: neighbours
    share files, as overlapping images do.

    Parameters
    ----------
    levels
        By name, in program order.
    scale
        Factor of all counts but those of one.

    Raises
    ------
    ConfigError
        If a level reads one that doesn't come before it, or an impossible number of files.
    """
    tasks, compute_s, made = list[Task](), dict[str, float](), dict[str, list[File]]()
    for name, level in levels.items():
        count = level.tasks * (scale if level.tasks > 1 else 1)
        wanted = _reads(name, level.reads, made)
        outputs = [File(f"/{name}-{number}", level.output_bytes) for number in range(count)]
        for number, output in enumerate(outputs):
            inputs = [file for other, files in wanted.items() for file in _part(made[other], files, number, count)]
            if level.input_bytes:
                inputs.append(File(f"/pfs/{name}-{number}", level.input_bytes))
            tasks.append(Task(f"{name}-{number}", tuple(inputs), (output,)))
            compute_s[tasks[-1].key] = level.compute_s
        made[name] = outputs
    return Graph(tasks, compute_s)


def _reads(name: str, text: str, made: Mapping[str, Sequence[File]]) -> dict[str, int]:
    wanted: dict[str, int] = {}
    for word in filter(None, (each.strip() for each in text.split(","))):
        other, _, count = word.partition(":")
        if other not in made:
            raise ConfigError(f"levels.{name}.reads: {other!r} isn't a level before this one; {nearest(other, made)}")
        most = len(made[other])
        if count != ALL and (not count.isdecimal() or not 0 < int(count) <= most):
            raise ConfigError(
                f"levels.{name}.reads: {word!r}: write {other}:N with 1 to {most} files, or {other}:{ALL}"
            )
        wanted[other] = most if count == ALL else int(count)
    return wanted


def _part(files: Sequence[File], wanted: int, number: int, count: int) -> Sequence[File]:
    first = min(number * len(files) // count, len(files) - wanted)
    return files[first : first + wanted]

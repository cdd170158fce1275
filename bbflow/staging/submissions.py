"""Tasks that were submitted, and which of them can be planned now."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from bbflow.staging.files import Task


@dataclass(frozen=True, slots=True)
class Submission:
    """A task whose sizes aren't all known, or that uses what such a task makes."""

    task: Task
    """With its files."""
    order: int
    """Its place in the program, counted from 0."""
    sizes: dict[str, Future[int]]
    """URL of each file whose source is being asked, to its size in bytes."""

    @property
    def is_known(self) -> bool:
        """Whether all sources have answered, or have failed to."""
        return all(size.done() for size in self.sizes.values())


def sort_out(submissions: Sequence[Submission]) -> tuple[list[Submission], list[Submission]]:
    """Part submissions, in program order, into those that can be planned and those that must wait.

    Whoever shares a file with one that waits and makes it, or makes what that one uses, waits too: the order of a
    file's makers and users is the program's.
    """
    plannable: list[Submission] = []
    waiting: list[Submission] = []
    made: set[str] = set()
    used: set[str] = set()
    for submission in submissions:
        inputs, outputs = ({file.url for file in files} for files in (submission.task.inputs, submission.task.outputs))
        if submission.is_known and not (inputs | outputs) & made and not outputs & used:
            plannable.append(submission)
        else:
            waiting.append(submission)
            made, used = made | outputs, used | inputs
    return plannable, waiting

"""Tasks that were submitted, and which of them can be planned now. Events in, tasks out; no clock, no threads."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bbflow.staging.files import Task


@dataclass(slots=True)
class Submission:
    """A task whose sizes aren't all known, or that uses what such a task makes."""

    task: Task
    """With its files."""
    order: int
    """Its place in the program, counted from 0."""
    unknown: set[str]
    """URLs whose sources are being asked for a size."""
    sizes: dict[str, int | Exception] = field(default_factory=dict)
    """URL to what its source has answered: a size in bytes, or why there is none."""

    @property
    def uses(self) -> set[str]:
        """URLs of its inputs."""
        return {file.url for file in self.task.inputs}

    @property
    def makes(self) -> set[str]:
        """URLs of its outputs."""
        return {file.url for file in self.task.outputs}


class Submissions:
    """Plans tasks in program order, except those that must wait for an answer.

    Whoever shares a file with one that waits and makes it, or makes what that one uses, waits too: the order of a
    file's makers and users is the program's. Each event costs as much as it alters, since there may be 100,000 tasks.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, Submission] = {}
        self._asking: dict[str, set[int]] = defaultdict(set)
        self._makers: dict[str, set[int]] = defaultdict(set)
        self._users: dict[str, set[int]] = defaultdict(set)
        self._holding: Counter[int] = Counter()

    def add(self, submission: Submission) -> list[Submission]:
        """Take the next task of the program.

        Returns
        -------
        list of Submission
            The task, if it can be planned now.
        """
        for _ in self._earlier_than(submission):
            self._holding[submission.order] += 1
        self._waiting[submission.order] = submission
        for url in submission.unknown:
            self._asking[url].add(submission.order)
        for url in submission.makes:
            self._makers[url].add(submission.order)
        for url in submission.uses:
            self._users[url].add(submission.order)
        return self._planned([submission.order])

    def answered(self, url: str, answer: int | Exception) -> list[Submission]:
        """Take a source's answer; return the tasks that can be planned now, in program order."""
        asking = sorted(self._asking.pop(url, ()))
        for order in asking:
            self._waiting[order].unknown.discard(url)
            self._waiting[order].sizes[url] = answer
        return self._planned(asking)

    def _planned(self, orders: Iterable[int]) -> list[Submission]:
        planned: list[Submission] = []
        candidates = list(orders)
        for order in candidates:
            if order in self._waiting and not self._waiting[order].unknown and not self._holding[order]:
                planned.append(self._waiting[order])
                candidates += self._leave(order)
        return sorted(planned, key=lambda submission: submission.order)

    def _leave(self, order: int) -> list[int]:
        """Take a task out; give those that wait for nothing earlier any more."""
        submission = self._waiting.pop(order)
        del self._holding[order]
        for url in submission.makes:
            self._makers[url].discard(order)
        for url in submission.uses:
            self._users[url].discard(order)
        freed = []
        for other in self._later_than(submission):
            self._holding[other] -= 1
            if not self._holding[other]:
                freed.append(other)
        for url in submission.makes | submission.uses:
            self._forget(url)
        return freed

    def _earlier_than(self, submission: Submission) -> Iterator[int]:
        """Yield who waits and makes what a new task uses or makes, or uses what it makes: once for each file."""
        for url in submission.makes | submission.uses:
            yield from self._makers.get(url, ())
        for url in submission.makes:
            yield from self._users.get(url, set()) - self._makers.get(url, set())

    def _later_than(self, submission: Submission) -> Iterator[int]:
        """Yield who came later and is held by a task, once for each file that is why."""
        for url in submission.makes | submission.uses:
            others = self._makers.get(url, set())
            if url in submission.makes:
                others = others | self._users.get(url, set())
            yield from (other for other in others if other > submission.order)

    def _forget(self, url: str) -> None:
        for orders in (self._makers, self._users):
            if url in orders and not orders[url]:
                del orders[url]

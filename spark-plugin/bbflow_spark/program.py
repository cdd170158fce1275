"""Which partitions Spark still has to run, and which of them the stager is to know. Events in, decisions out."""

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from bbflow_spark.plans import Partition, PartitionKey, PlannedBlock, StageKey, StagePlan, StageQuestion


@dataclass(slots=True)
class _File:
    """The blocks of one file that partitions still want."""

    users: dict[PlannedBlock, int] = field(default_factory=dict)
    in_order: list[PlannedBlock] = field(default_factory=list)
    is_in_order: bool = False

    def add(self, block: PlannedBlock) -> None:
        self.users[block] = self.users.get(block, 0) + 1
        self.is_in_order = False

    def leave(self, block: PlannedBlock) -> None:
        self.users[block] -= 1
        if not self.users[block]:
            del self.users[block]
            self.is_in_order = False

    def starts(self) -> list[int]:
        """Return where its blocks begin, in order, as `in_order` has them."""
        if not self.is_in_order:
            self.in_order = sorted(self.users, key=lambda block: (block.part.start, block.part.end))
            self.is_in_order = True
        return [block.part.start for block in self.in_order]


@dataclass(slots=True)
class SparkProgram:
    """The partitions of all stages that run, in the order in which their tasks begin.

    A partition is *fed* to the stager when at most `window` others that it knows are not done: more it wouldn't stage
    anyhow, and of files that only later partitions want it is free to let go what it needs room for.
    """

    window: int = 1
    """Partitions that the stager is to know at once."""
    _stages: dict[StageKey, dict[PartitionKey, Partition]] = field(default_factory=dict)
    _waiting: deque[Partition] = field(default_factory=deque)
    _fed: set[PartitionKey] = field(default_factory=set)
    _files: dict[str, _File] = field(default_factory=lambda: defaultdict(_File))

    def plan(self, plan: StagePlan) -> None:
        """Take a stage that was submitted; one that is there already is replaced."""
        self.over(plan.key)
        self._stages[plan.key] = {partition.key: partition for partition in plan.partitions}
        self._waiting += plan.partitions
        for partition in plan.partitions:
            for block in partition.blocks:
                self._files[block.url].add(block)

    def done(self, key: PartitionKey) -> bool:
        """Note that a partition has been read; return whether the stager knows it."""
        partition = self._stages.get(key[:3], {}).pop(key, None)
        if partition is None:
            return False
        for block in partition.blocks:
            file = self._files[block.url]
            file.leave(block)
            if not file.users:
                del self._files[block.url]
        fed = key in self._fed
        self._fed.discard(key)
        return fed

    def over(self, key: StageKey) -> list[PartitionKey]:
        """Note that a stage has ended; give those of its partitions that the stager knows."""
        fed = [partition for partition in list(self._stages.get(key, ())) if self.done(partition)]
        self._stages.pop(key, None)
        return fed

    def end(self, application: str) -> list[PartitionKey]:
        """Note that an application has ended; give those of its partitions that the stager knows."""
        stages = [key for key in self._stages if key[0] == application]
        return [partition for key in stages for partition in self.over(key)]

    def feed(self) -> list[Partition]:
        """Return the partitions that the stager is to know from now on."""
        fed = []
        while self._waiting and len(self._fed) < self.window:
            partition = self._waiting.popleft()
            if self._is_there(partition):
                self._fed.add(partition.key)
                fed.append(partition)
        return fed

    def later(self) -> list[str]:
        """Return the URLs of the blocks of partitions that wait to be fed, in their order."""
        waiting = filter(self._is_there, self._waiting)
        return [block.file.url for partition in waiting for block in partition.blocks]

    def _is_there(self, partition: Partition) -> bool:
        """Whether a partition that waits wasn't done meanwhile."""
        return self.partition(partition.key) is partition

    def partition(self, key: PartitionKey) -> Partition | None:
        """Return a partition that isn't done."""
        return self._stages.get(key[:3], {}).get(key)

    def own(self, question: StageQuestion) -> PlannedBlock | None:
        """Return the block of the asking partition in which it wants to read."""
        partition = self.partition(question.key)
        return _at(partition.blocks, question) if partition else None

    def others(self, question: StageQuestion) -> list[PlannedBlock]:
        """Return blocks of other partitions that tasks want to read in."""
        file = self._files.get(question.url)
        if file is None:
            return []
        last = bisect_right(file.starts(), question.at)
        return [block for block in file.in_order[max(0, last - 2) : last] if question.at < block.part.end]

    def next_start(self, question: StageQuestion) -> int | None:
        """Return where the next block of the file begins; None if there is none."""
        file = self._files.get(question.url)
        starts = file.starts() if file else []
        after = bisect_right(starts, question.at)
        return starts[after] if after < len(starts) else None


def _at(blocks: Iterable[PlannedBlock], question: StageQuestion) -> PlannedBlock | None:
    found = (b for b in blocks if b.url == question.url and b.part.start <= question.at < b.part.end)
    return next(found, None)

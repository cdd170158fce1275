"""What the steps lack: fields that some don't have, times that can't be used, and points of a host that is gone."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from bbflow.transit.folding.shards import Region, Row, ShardKey, overlap

NO_POINTS: Mapping[str, int] = {}


class AttendanceRecord(msgspec.Struct, frozen=True):
    """What a checkpoint keeps of it."""

    steps: int = 0
    """As `Attendance.steps`."""
    absent: Mapping[str, int] = {}
    """Diagnostic to the steps that lacked its variables."""
    points: Mapping[str, int] = {}
    """Diagnostic to which points its field had first."""
    other: Mapping[str, int] = {}
    """Diagnostic to the steps in which its field had others."""
    last: int = -1
    """The last step that is counted."""


class Attendance:
    """Counts the folded steps in which fields were absent, or had other points than at first.

    After a crash the nodes are at different steps, and those that are ahead don't show their parts of steps that they
    are done with. So what was counted when all parts were there stands, and no step is counted again.
    """

    def __init__(self) -> None:
        self.steps = 0
        """Steps that were folded."""
        self._absent, self._other = Counter[str](), Counter[str]()
        self._points: dict[str, int] = {}
        self._last = -1

    def take(self, number: int, absent: Iterable[str], points: Mapping[str, int] = NO_POINTS) -> None:
        """Count a step, unless it is counted.

        Parameters
        ----------
        number
            The step.
        absent
            Diagnostics whose variables aren't in it.
        points
            Diagnostic to which points of its field are in it; without those of which that isn't known.
        """
        if number <= self._last:
            return
        self._last = number
        self.steps += 1
        self._absent.update(absent)
        self._other.update(key for key, own in points.items() if self._points.setdefault(key, own) != own)

    @property
    def record(self) -> AttendanceRecord:
        """What a checkpoint keeps of it."""
        return AttendanceRecord(self.steps, dict(self._absent), dict(self._points), dict(self._other), self._last)

    def restore(self, record: AttendanceRecord) -> None:
        """Go on from what a checkpoint has kept, unless another one's has counted more."""
        if record.last > self._last:
            self.steps, self._last = record.steps, record.last
            self._absent, self._other = Counter(record.absent), Counter(record.other)
            self._points = dict(record.points)

    @property
    def never(self) -> frozenset[str]:
        """Those that were in no step."""
        return frozenset(name for name, count in self._absent.items() if count == self.steps)

    def described(self, unasked: Collection[str] = ()) -> list[str]:
        """Return which fields, or points of them, were in some steps only; those in equally many in one line.

        Parameters
        ----------
        unasked
            Those of which nobody needs to hear.
        """
        seldom: dict[int, list[str]] = {}
        for name in sorted(self._absent.keys() - set(unasked)):
            seldom.setdefault(self.steps - self._absent[name], []).append(name)
        other: dict[int, list[str]] = {}
        for name in sorted(self._other.keys() - set(unasked)):
            other.setdefault(self._other[name], []).append(name)
        return [
            *(self._line(own, count) for count, own in sorted(seldom.items())),
            *(self._line_of_points(own, count) for count, own in sorted(other.items())),
        ]

    def _line(self, names: list[str], count: int) -> str:
        of = ", which its statistics are of" if count else ""
        return (
            f"{_named(names)}: in {count} of {self.steps} steps only{of}; if that is meant, say absent: skip there; "
            "if the program gives it another name in each step, see docs/models.md#schemas"
        )

    def _line_of_points(self, names: list[str], count: int) -> str:
        return (
            f"{_named(names)}: in {count} of {self.steps} steps ranks have written other points than at first, so some "
            "have statistics of some of the steps; if that is meant, say absent: skip there"
        )


def _named(names: list[str]) -> str:
    return repr(names[0]) + (f" and {len(names) - 1} more" if len(names) > 1 else "")


@dataclass(frozen=True, slots=True)
class Loss:
    """Steps that some points of a field lack."""

    node: str
    """The BB node that was lost."""
    diagnostic: str
    """Whose field."""
    start: tuple[int, ...]
    """First index of the points."""
    count: tuple[int, ...]
    """Shape of their region."""
    after: int
    """Last step that is in their state."""
    before: int = -1
    """First step that is in it again; -1 if none is yet."""

    @property
    def region(self) -> Region:
        """First index, and shape."""
        return self.start, self.count

    def __str__(self) -> str:
        ends = zip(self.start, self.count, strict=True)
        where = ", ".join(f"{first}:{first + size}" for first, size in ends)
        last = f"to {self.before - 1}" if self.before >= 0 else "on"
        return f"{self.diagnostic}[{where}] lacks the steps from {self.after + 1} {last}: BB node {self.node} was lost"


@dataclass(frozen=True, slots=True)
class Untimely:
    """Steps that the results lack since their times can't be used."""

    steps: int = 0
    """How many."""
    first: str = ""
    """The first one, and what is wrong with its time."""

    def with_more(self, told: Sequence[str]) -> "Untimely":
        """Count further ones, of which it is told what is wrong."""
        return Untimely(self.steps + len(told), self.first or next(iter(told), ""))

    def described(self, of: int, *, wanted: bool) -> str:
        """Return the message about the steps left out of `of`, with what to do unless that is `wanted`."""
        remedy = "" if wanted else ": let the program write ascending times, or set time: late: skip if this is right"
        return (
            f"{self.steps} of {of} steps were left out, since their times don't ascend or are no dates; the first is "
            f"{self.first}{remedy}"
        )


class LossesRecord(msgspec.Struct, frozen=True):
    """What was lost, as it stands in a checkpoint."""

    nodes: frozenset[str] = frozenset()
    """The nodes that were."""
    parts: tuple[Loss, ...] = ()
    """Points that lack steps."""
    torn: tuple[int, int] | None = None
    """First and last of the steps that are left out."""


class Losses:
    """Keeps what was lost, through checkpoints."""

    def __init__(self) -> None:
        self.parts: list[Loss] = []
        """What was lost."""
        self.nodes: set[str] = set()
        """The nodes that were."""
        self.torn: tuple[int, int] | None = None
        """First and last of the steps that are left out, since their time or a part of them was there alone."""

    def __bool__(self) -> bool:
        return bool(self.nodes or self.torn)

    @property
    def described(self) -> list[str]:
        """Return what was lost."""
        told = sorted(self.nodes - {part.node for part in self.parts})
        before = "was lost before its states were copied: its points lack the steps so far"
        bare = [f"BB node {node} {before}" for node in told]
        # A step that came right after the copy costs nothing.
        return [str(part) for part in self.parts if part.before != part.after + 1] + bare + self._left_out

    @property
    def _left_out(self) -> list[str]:
        if self.torn is None:
            return []
        first, last = self.torn
        return [f"all points lack the steps from {first} to {last}: a BB node lost their time or a part of them"]

    def leave_out(self, steps: Sequence[int]) -> None:
        """Note steps that are left out; those of a loss follow each other."""
        if steps:
            self.torn = (steps[0] if self.torn is None else self.torn[0], steps[-1])

    def lose(
        self, names: Collection[str], safe: Iterable[Row], known: Collection[ShardKey], nodes: Sequence[str]
    ) -> list[Row]:
        """Return the states that go on in place of those of lost nodes.

        Parameters
        ----------
        names
            The nodes.
        safe
            What was copied last.
        known
            Shards that there are.
        nodes
            Those that are left; one of them is said to have the states from now on.
        """
        new = set(names) - self.nodes
        self.nodes |= new
        adopted = []
        for lost, region, state in safe:
            if lost.node in new and (key := _free_key(lost, known, nodes)):
                self.parts.append(Loss(lost.node, lost.diagnostic, *region, state.last_step))
                adopted.append((key, region, state))
        return adopted

    def take(self, number: int, there: Mapping[str, Sequence[Region | None]]) -> None:
        """See which points go on with a step that is folded.

        Parameters
        ----------
        number
            The step.
        there
            Diagnostic to the regions that the step has of it.
        """
        self.parts = [replace(part, before=number) if _goes_on(part, there) else part for part in self.parts]

    @property
    def record(self) -> LossesRecord:
        """What stands of it in a checkpoint."""
        return LossesRecord(frozenset(self.nodes), tuple(self.parts), self.torn)

    def restore(self, record: LossesRecord) -> None:
        """Take it out of a checkpoint."""
        self.nodes, self.parts, self.torn = set(record.nodes), list(record.parts), record.torn


def _goes_on(part: Loss, there: Mapping[str, Sequence[Region | None]]) -> bool:
    regions = there.get(part.diagnostic, ()) if part.before < 0 else ()
    return any(region is not None and overlap(region, part.region) for region in regions)


def _free_key(key: ShardKey, known: Collection[ShardKey], nodes: Sequence[str]) -> ShardKey | None:
    """Return the key under which a state goes on; None if every node that is left has one of its own."""
    keys = (replace(key, node=node) for node in sorted(nodes))
    return next((other for other in keys if other not in known), None)

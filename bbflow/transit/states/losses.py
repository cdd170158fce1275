"""What the steps lack: fields that some don't have, times that can't be used, and points of a host that is gone."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from bbflow.transit.states.shards import Region, Row, ShardKey, overlap


class Attendance(msgspec.Struct, frozen=True):
    """The folded steps in which fields were absent, or had other points than at first; as it stands in checkpoints.

    After a crash the nodes are at different steps, and those that are ahead don't show their parts of steps that they
    are done with. So what was counted when all parts were there stands, and no step is counted again.
    """

    steps: int = 0
    """Steps that were folded."""
    absent: Mapping[str, int] = {}
    """Diagnostic to the steps that lacked its variables."""
    points: Mapping[str, int] = {}
    """Diagnostic to which points its field had first."""
    other: Mapping[str, int] = {}
    """Diagnostic to the steps in which its field had others."""
    last: int = -1
    """The last step that is counted."""

    def after(self, steps: Iterable[tuple[int, Iterable[str], Mapping[str, int]]]) -> "Attendance":
        """Return it after some more steps; those that are counted don't count again.

        Parameters
        ----------
        steps
            Their numbers, the diagnostics whose variables aren't in them, and diagnostic to which points of its field
            are in them, without those that it isn't known of.
        """
        absent, other, known = Counter(self.absent), Counter(self.other), dict(self.points)
        count, last = self.steps, self.last
        for number, lacking, points in steps:
            if number > last:
                last, count = number, count + 1
                absent.update(lacking)
                other.update(key for key, own in points.items() if known.setdefault(key, own) != own)
        return Attendance(count, dict(absent), known, dict(other), last)

    @property
    def never(self) -> frozenset[str]:
        """Those that were in no step."""
        return frozenset(name for name, count in self.absent.items() if count == self.steps)

    def described(self, unasked: Collection[str] = ()) -> list[str]:
        """Return which fields, or points of them, were in some steps only; those in equally many in one line.

        Parameters
        ----------
        unasked
            Those that needn't be reported.
        """
        seldom: dict[int, list[str]] = {}
        for name in sorted(self.absent.keys() - set(unasked)):
            seldom.setdefault(self.steps - self.absent[name], []).append(name)
        other: dict[int, list[str]] = {}
        for name in sorted(self.other.keys() - set(unasked)):
            other.setdefault(self.other[name], []).append(name)
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
        """Count further ones, each with what is wrong."""
        return Untimely(self.steps + len(told), self.first or next(iter(told), ""))

    def described(self, of: int, *, wanted: bool) -> str:
        """Return the message about the steps left out of `of`, with what to do unless that is `wanted`."""
        remedy = "" if wanted else ": let the program write ascending times, or set time: late: skip if this is right"
        return (
            f"{self.steps} of {of} steps were left out, since their times don't ascend or are no dates; the first is "
            f"{self.first}{remedy}"
        )


class Losses(msgspec.Struct, frozen=True):
    """What was lost, as it stands in checkpoints, too."""

    nodes: frozenset[str] = frozenset()
    """The nodes that were."""
    parts: tuple[Loss, ...] = ()
    """Points that lack steps."""
    torn: tuple[int, int] | None = None
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
        which = f"step {first}" if first == last else f"steps from {first} to {last}, or some of these"
        return [f"all points lack {which}: a time or a part was lost with a BB node or a spilled file"]

    def lose(
        self, names: Collection[str], safe: Iterable[Row], known: Collection[ShardKey], nodes: Sequence[str]
    ) -> tuple["Losses", list[Row]]:
        """Return it without some more nodes, and the states that continue in place of theirs.

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
        parts, adopted = [*self.parts], []
        for lost, region, state in safe:
            is_new = lost.node in names and lost.node not in self.nodes
            if is_new and (key := _free_key(lost, known, nodes)):
                parts.append(Loss(lost.node, lost.diagnostic, *region, state.last_step))
                adopted.append((key, region, state))
        return Losses(self.nodes.union(names), tuple(parts), self.torn), adopted

    def after(
        self, steps: Iterable[tuple[int, Mapping[str, Sequence[Region | None]]]], torn: Sequence[int]
    ) -> "Losses":
        """Return it after some more steps, with which points may continue.

        Parameters
        ----------
        steps
            The numbers of those that are folded, and diagnostic to the regions that they have of it.
        torn
            Those that are left out, which follow each other.
        """
        parts = self.parts
        for number, there in steps:
            parts = tuple(replace(part, before=number) if _goes_on(part, there) else part for part in parts)
        left_out = (torn[0] if self.torn is None else self.torn[0], torn[-1]) if torn else self.torn
        return Losses(self.nodes, parts, left_out)


def _goes_on(part: Loss, there: Mapping[str, Sequence[Region | None]]) -> bool:
    regions = there.get(part.diagnostic, ()) if part.before < 0 else ()
    return any(region is not None and overlap(region, part.region) for region in regions)


def _free_key(key: ShardKey, known: Collection[ShardKey], nodes: Sequence[str]) -> ShardKey | None:
    """Return the key under which a state continues; None if every node that is left has one of its own."""
    keys = (replace(key, node=node) for node in sorted(nodes))
    return next((other for other in keys if other not in known), None)

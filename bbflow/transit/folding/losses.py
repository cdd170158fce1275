"""What a host that is gone for good has cost: which points lack which steps."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from bbflow.transit.folding.shards import Region, ShardKey, ShardState, overlap


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
        self, names: Collection[str], safe: Iterable[ShardState], known: Collection[ShardKey], nodes: Sequence[str]
    ) -> list[ShardState]:
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
        for state in safe:
            if state.key.node in new and (key := _free_key(state.key, known, nodes)):
                self.parts.append(Loss(state.key.node, state.key.diagnostic, *state.region, state.last_step))
                adopted.append(replace(state, key=key))
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

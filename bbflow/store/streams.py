"""The state of one stream on one node, as the records of the index make it."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import takewhile

from msgspec import UNSET, UnsetType, structs

from bbflow.reading.wire_types import Attribute, Status
from bbflow.store.entries import (
    AbortRecord,
    AttachRecord,
    CloseRecord,
    CommitRecord,
    DiscardRecord,
    DoneRecord,
    EvictRecord,
    GrantRecord,
    LayoutRecord,
    OfStream,
    OpenRecord,
    RefuseRecord,
    StateRecord,
    StatesRecord,
    StepRecord,
)
from bbflow.store.extents import Extent, align
from bbflow.store.folded_steps import folded_steps
from bbflow.store.ranks import Hold, Needs, Rank
from bbflow.stream.layouts import Layout, Layouts
from bbflow.stream.records import Step, check_fits

ENDED = ("closed", "aborted")
MOST_REFUSED = 8
"""How many refusals are kept; the first ones say why the others came."""


@dataclass(slots=True)
class Cursor:
    """How far one consumer is."""

    step: int = -1
    """Every step up to this one is safe with it."""
    checkpoint: bytes = b""
    """What it wants to find again after a restart."""


@dataclass(slots=True)
class Stream:
    """What the node knows about a stream; what the index holds of it is changed by `apply` only."""

    name: str
    """As the writers opened it."""
    status: Status = "expected"
    """expected (not opened yet), open, closed or aborted."""
    writers: int = 0
    """Ranks of the whole stream."""
    announced: int = 0
    """Ranks that are mapped to this node."""
    ranks: dict[int, Rank] = field(default_factory=dict)
    """Those that have opened it here."""
    needs: Needs = field(default_factory=Needs)
    """What they needed in their last steps."""
    ends: tuple[int, ...] = ()
    """If they may land states instead of steps: the last steps of what lands together, ascending."""
    has_continued: bool = False
    """Whether any step came that counts with a later one only, since ranks have folded values of it."""
    moved: dict[int, str] = field(default_factory=dict)
    """Ranks that came from a node that was lost, and its name."""
    steps: dict[int, Step] = field(default_factory=dict)
    """The steps that are held, oldest first."""
    parts: dict[int, dict[int, Step]] = field(default_factory=dict)
    """Steps that not all ranks have committed: step to rank to its part."""
    base: dict[str, Attribute] = field(default_factory=dict)
    """Attributes as they were before the oldest step that is held."""
    final: dict[str, Attribute] = field(default_factory=dict)
    """Attributes that came with a rank's close."""
    consumers: dict[str, Cursor] = field(default_factory=dict)
    """Who must be past a step before its space is free."""
    epoch: int = 0
    """Grows with each attach."""
    owner: str = ""
    """Whose analysis attached last."""
    last: int = -1
    """Highest step that is settled: landed or discarded, like every one before it."""
    discarded: set[int] = field(default_factory=set)
    """Steps that were dropped whole."""
    refused: list[str] = field(default_factory=list)
    """What the program was refused, each thing once: the stream lacks it."""
    landed_steps: int = 0
    """Steps landed so far, also those that are gone again."""
    landed_bytes: int = 0
    """Their bytes."""
    amended: set[int] = field(default_factory=set)
    """Steps that were shown once without a part that came later; not in the index."""
    holds: dict[int, Hold] = field(default_factory=dict)
    """What each connected reader needs; not in the index."""
    read_through: int = -1
    """Every step up to this one has been passed by all readers that were there; not in the index."""

    dropped: bool = False
    """Whether the node has forgotten it: only its readers and stragglers still know it."""
    layouts: Layouts = field(default_factory=Layouts, compare=False)
    """Those that records of whole steps have named."""
    stale_files: list[str] = field(default_factory=list)
    """Files of spilled blocks no longer needed; not in the index."""

    def apply(self, record: OfStream) -> list[Extent]:
        """Take one record of the index in.

        Returns
        -------
        list of Extent
            Extents no longer needed.

        Raises
        ------
        ProtocolError
            If it says of a step what doesn't fit its layout.
        """
        freed: list[Extent] = []
        match record:
            case OpenRecord():
                self._open(record)
            case GrantRecord():
                self.ranks[record.rank].take(record.extents)
                return []  # and nothing is released: it comes as often as a commit, and no step is passed by it
            case LayoutRecord():
                self.ranks[record.rank].take_layout(record.layout, record.forms)
            case CommitRecord():
                freed = self._commit(record)
            case StepRecord():
                self._land(_step_of(record, self.layouts))
            case DiscardRecord():
                freed = self._discard(record.step)
            case EvictRecord():
                freed = [extent for number in record.steps for extent in self._forget(number)]
            case AttachRecord():
                self.epoch, self.owner = record.epoch, record.owner
                # A consumer that this analysis doesn't have would never move on, and hold all steps.
                self.consumers = {name: self.consumers.get(name, Cursor()) for name in record.consumers}
            case StatesRecord():
                self._expect_states(record)
            case DoneRecord():
                self.consumers[record.consumer] = Cursor(record.step, record.checkpoint)
            case CloseRecord():
                freed = self._close(record)
            case AbortRecord():
                freed = self._abort(record.rank)
            case RefuseRecord():
                self.refused = list(dict.fromkeys([*self.refused, record.why]))[:MOST_REFUSED]
            case StateRecord():
                self._restore(record)
        return freed + self.release()

    def _open(self, record: OpenRecord) -> None:
        if self.status == "expected":
            self.status, self.last = "open", record.settled
        # A rank of a lost node brings further steps of a stream whose own ranks here have closed it.
        elif self.status == "closed" and record.moved_from:
            self.status = "open"
        self.writers, self.announced = record.writers, record.local_writers
        if record.rank in self.ranks:
            self.needs.expect(self.ranks[record.rank], None)
        self.ranks[record.rank] = Rank(record.settled + 1, record.settled, loss_timeout_s=record.loss_timeout_s)
        if record.moved_from:
            self.moved[record.rank] = record.moved_from

    def pass_discarded(self, rank: int, through: int) -> None:
        """Move a rank past the discarded steps up to one; they leave no record of its own."""
        progress = self.ranks[rank]
        if through in self.discarded:  # whenever a rank begins one: to look at all would take longer with each
            progress.passed = max(progress.passed, through)
        else:
            progress.passed = max([progress.passed, *(step for step in self.discarded if step <= through)])

    @property
    def local_writers(self) -> int:
        """Ranks that land on this node."""
        return self.announced + len(self.moved)

    @property
    def most_needed_bytes(self) -> int | None:
        """What all ranks may still ask for in a step, together, at most; None if unknown."""
        return self.needs.bytes if self.needs.ranks >= self.local_writers and not self.ends else None

    def _expect_states(self, record: StatesRecord) -> None:
        self.ends = tuple(memoryview(record.ends).cast("q"))
        for number, size in record.ranks:
            self.ranks[number].state_bytes = size

    def first_with(self, step: int) -> int:
        """Return the first of the steps that can only be folded together with one, since ranks have folded them."""
        # Most streams have none, and to look at each rank's part takes longer than all else for a rank that must wait.
        while self.has_continued and self._continues(step - 1):
            step -= 1
        return step

    def _continues(self, number: int) -> bool:
        whole, parts = self.steps.get(number), self.parts.get(number, {}).values()
        return any(part.layout.continues for part in (*parts, *([] if whole is None else [whole])))

    def _due(self, step: int) -> int:
        """How many ranks bring a part of a step."""
        # Ranks that moved here bring parts from their first step here on.
        return self.announced + sum(self.ranks[rank].first <= step for rank in self.moved)

    def _commit(self, record: CommitRecord) -> list[Extent]:
        rank, number = self.ranks[record.rank], record.step
        layout = rank.take_layout(record.layout, record.forms)
        check_fits(record, layout)
        times = {"began_s": record.began_s, "committed_s": record.committed_s}
        part = Step.of(number, layout, record, attributes=record.attributes, **times)
        earlier = self._folded(rank, record)
        extents = extents_of(part)
        freed = rank.keep(extents)
        rank.committed = number
        self.needs.expect(rank, sum(size for _, size in extents) + _spilled_bytes(part))
        return freed + [extent for own in (*earlier, part) for extent in self._take(record.rank, own)]

    def _folded(self, rank: Rank, record: CommitRecord) -> list[Step]:
        """Return what a rank commits of steps whose values are in the states of the step after them."""
        if isinstance(held := record.held, UnsetType):
            return []
        layout = rank.take_layout(held.layout, held.forms)
        rank.take_layout(record.layout, UNSET)  # that it has named last
        return folded_steps(record, layout)

    def _take(self, rank: int, part: Step) -> list[Extent]:
        """Take in a rank's part of a step; returns its extents if they aren't wanted."""
        number = part.number
        if number in self.discarded or self.status in ENDED:
            self._forget_files([part])
            return extents_of(part)
        if number <= self.last:
            return self._amend(part)
        parts = self.parts.setdefault(number, {})
        parts[rank] = part
        self.has_continued |= part.layout.continues
        if len(parts) == self._due(number):
            # In the ranks' order: it then lies as the step before, whoever has come first.
            self._land(Step.of_parts(number, [part for _, part in sorted(parts.items())]))
            del self.parts[number]
        return []

    def _amend(self, part: Step) -> list[Extent]:
        """Add the part of a rank that moved here when its step had landed without it."""
        if part.number not in self.steps:
            self._forget_files([part])
            return extents_of(part)
        step = self.steps[part.number]
        whole = Step.of_parts(part.number, [step, part])
        self.has_continued |= part.layout.continues
        self.steps[part.number] = replace(whole, began_s=step.began_s, committed_s=step.committed_s)
        self.amended.add(part.number)
        return []

    def _land(self, step: Step) -> None:
        self.steps[step.number] = step
        self.has_continued |= step.layout.continues
        self.last = step.number
        self.landed_steps += 1
        self.landed_bytes += step.bytes
        self._pass_discarded()

    def _discard(self, step: int) -> list[Extent]:
        self.discarded.add(step)
        self._pass_discarded()
        return self._drop_parts([step])

    def _pass_discarded(self) -> None:
        while self.last + 1 in self.discarded:
            self.last += 1

    def _close(self, record: CloseRecord) -> list[Extent]:
        rank = self.ranks[record.rank]
        rank.closed = True
        self.final.update(_by_name(record.attributes))
        freed = rank.keep([])
        if self.status == "open" and sum(rank.closed for rank in self.ranks.values()) == self.local_writers:
            self.status = "aborted" if self.parts else "closed"  # a step that some ranks left out is never whole
            freed += self._drop_parts(list(self.parts))
        return freed

    def _abort(self, rank: int) -> list[Extent]:
        """End the stream; room in which other ranks may still be writing stays theirs until they go too."""
        self.status = "aborted"
        return self._drop_parts(list(self.parts)) + self.ranks[rank].keep([])

    def _drop_parts(self, steps: list[int]) -> list[Extent]:
        parts = [part for step in steps for part in self.parts.pop(step, {}).values()]
        self._forget_files(parts)
        return [extent for part in parts for extent in extents_of(part)]

    def _forget_files(self, parts: Iterable[Step]) -> None:
        self.stale_files += sorted({file for part in parts for file in part.files})

    def release(self) -> list[Extent]:
        """Forget the steps that all consumers are past and no reader needs; return their extents."""
        if not self.consumers and not self.dropped:
            return []
        safe = self.last if self.dropped else min(cursor.step for cursor in self.consumers.values())
        # Steps lie in their order: to look at each of thousands would take longer than all else that a record does.
        passed = [number for number in takewhile(safe.__ge__, self.steps) if not self.is_read(number)]
        return [extent for number in passed for extent in self._forget(number)]

    def is_read(self, step: int) -> bool:
        """Whether a reader needs a step."""
        return any(hold.needs(step) for hold in self.holds.values())

    @property
    def unclaimed(self) -> int:
        """How many steps are held that no analysis has asked for, and no reader has passed or needs."""
        if self.consumers:
            return 0
        return sum(number > self.read_through and not self.is_read(number) for number in self.steps)

    def evictable(self) -> Step | None:
        """Return the oldest step that may go for the sake of a new one: all readers have passed it."""
        if self.consumers:
            return None
        passed = (step for number, step in self.steps.items() if number <= self.read_through)
        return next((step for step in passed if not self.is_read(step.number)), None)

    def base_of(self, after: int) -> dict[str, Attribute]:
        """Return the attributes as they were before the first step above `after`; readers may hold steps up to it."""
        base = dict(self.base)
        for step in takewhile(lambda step: step.number <= after, self.steps.values()):
            _hear(base, step)
        return base

    def _forget(self, number: int) -> list[Extent]:
        step = self.steps.pop(number)
        _hear(self.base, step)
        self._forget_files([step])
        return extents_of(step)

    @property
    def attributes(self) -> dict[str, Attribute]:
        """The newest attributes by name."""
        newest = dict(self.base)
        for step in self.steps.values():
            _hear(newest, step)
        return newest | self.final

    def is_written_anew(self) -> None:
        """Take in that the index is now what `records_of` gave."""
        for rank in self.ranks.values():
            rank.recorded = {rank.layout}

    def _restore(self, record: StateRecord) -> None:
        self.status, self.writers, self.announced = record.status, record.writers, record.announced
        self.epoch, self.owner, self.last = record.epoch, record.owner, record.last
        self.landed_steps, self.landed_bytes = record.landed_steps, record.landed_bytes
        for number, first, committed, expected_bytes, closed, loss_timeout_s in record.ranks:
            self.ranks[number] = Rank(first, committed, closed=closed, loss_timeout_s=loss_timeout_s)
            self.needs.expect(self.ranks[number], expected_bytes)
        self.moved = dict(record.moved)
        self.base, self.final = _by_name(record.base), _by_name(record.final)
        self.discarded, self.refused = set(record.discarded), list(record.refused)
        self.consumers = {name: Cursor(step, data) for name, (step, data) in record.consumers.items()}

    def drop(self) -> list[Extent]:
        """Forget all steps; room where ranks may still be writing, or readers look, is freed when they go."""
        self.dropped = True
        return self._drop_parts(list(self.parts)) + self.release()

    def held_extents(self) -> list[Extent]:
        """All extents that the stream holds."""
        parts = (part for parts in self.parts.values() for part in parts.values())
        held = [extents_of(step) for step in (*self.steps.values(), *parts)]
        granted = [rank.granted for rank in self.ranks.values()]
        return [extent for extents in (*held, *granted) for extent in extents]


def extents_of(step: Step) -> list[Extent]:
    """Return where a step, or a part of one, lies in the pool."""
    return extents_in(step.layout, step.sources)


def extents_in(layout: Layout, sources: bytes) -> list[Extent]:
    """Return where what lies so lies in the pool, by the first bytes of its extents."""
    firsts = struct.iter_unpack("<q", sources)
    return [(first, align(reach)) for (first,), reach in zip(firsts, layout.reach, strict=True)]


def _spilled_bytes(part: Step) -> int:
    return sum(align(form.bytes) for form in part.layout.forms if form.spilled) if part.files else 0


def _hear(known: dict[str, Attribute], step: Step) -> None:
    """Take a step's attributes in. Those of a later one stay: readers hold steps that others have outlived."""
    for item in step.attributes:
        before = known.get(item.name)
        if before is None or before.since is UNSET or before.since <= step.number:
            known[item.name] = item if item.since is not UNSET else structs.replace(item, since=step.number)


def _by_name(attributes: Iterable[Attribute]) -> dict[str, Attribute]:
    return {item.name: item for item in attributes}


def _step_of(record: StepRecord, layouts: Layouts) -> Step:
    layout = layouts.take_of(record)
    check_fits(record, layout)
    times = {"began_s": record.began_s, "committed_s": record.committed_s}
    return Step.of(record.step, layout, record, attributes=record.attributes, ranks=record.ranks, **times)

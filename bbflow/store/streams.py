"""The state of one stream on one node, as the records of the index make it."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from bbflow.layouts import NO_BLOCKS, Known, Layouts
from bbflow.records import Message, Step
from bbflow.store.extents import Extent, align
from bbflow.store.ranks import Hold, Rank

ENDED = ("closed", "aborted")
_SCALARS = ("status", "writers", "announced", "epoch", "owner", "last", "landed_steps", "landed_bytes")
_RANK = ("first", "committed", "expected_bytes", "closed", "loss_timeout_s")


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
    status: str = "expected"
    """expected (nobody opened it yet), open, closed or aborted."""
    writers: int = 0
    """Ranks of the whole stream."""
    announced: int = 0
    """Ranks that are mapped to this node."""
    ranks: dict[int, Rank] = field(default_factory=dict)
    """Those that have opened it here."""
    moved: dict[int, str] = field(default_factory=dict)
    """Ranks that came from a node that was lost, and its name."""
    steps: dict[int, Step] = field(default_factory=dict)
    """The steps that are held, oldest first."""
    parts: dict[int, dict[int, Step]] = field(default_factory=dict)
    """Steps that not all ranks have committed: step to rank to its part."""
    base: dict[str, Message] = field(default_factory=dict)
    """Attributes as they were before the oldest step that is held."""
    final: dict[str, Message] = field(default_factory=dict)
    """Attributes that came with a rank's close."""
    consumers: dict[str, Cursor] = field(default_factory=dict)
    """Who must be past a step before its space is free."""
    epoch: int = 0
    """Grows with each attach."""
    owner: str = ""
    """Whose analysis attached last."""
    last: int = -1
    """Highest step that is settled: landed or discarded, like every one before it."""
    discarded: list[int] = field(default_factory=list)
    """Steps that were dropped whole."""
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
    """Files of spilled blocks that nobody needs any more; not in the index."""

    def apply(self, record: Message) -> list[Extent]:
        """Take one record of the index in.

        Returns
        -------
        list of Extent
            Extents that nobody needs any more.
        """
        freed: list[Extent] = []
        match record["record"]:
            case "open":
                self._open(record)
            case "grant":
                self.ranks[record["rank"]].granted += _extents(record)
            case "layout":
                self.ranks[record["rank"]].take_layout(record)
            case "commit":
                freed = self._commit(record)
            case "step":
                self._land(Step.from_wire(record, self.layouts.take(record)))
            case "discard":
                freed = self._discard(record["step"])
            case "evict":
                freed = [extent for number in record["steps"] for extent in self._forget(number)]
            case "attach":
                self.epoch, self.owner = record["epoch"], record.get("owner", "")
                self.consumers = {name: self.consumers.get(name, Cursor()) for name in record["consumers"]}
            case "done":
                self.consumers[record["consumer"]] = Cursor(record["step"], record["checkpoint"])
            case "close":
                freed = self._close(record)
            case "abort":
                freed = self._abort(record["rank"])
            case "state":
                self._restore(record)
        return freed + self.release()

    def _open(self, record: Message) -> None:
        first = record["settled"] + 1
        if self.status == "expected":
            self.status, self.last = "open", record["settled"]
        self.writers, self.announced = record["writers"], record["local_writers"]
        self.ranks[record["rank"]] = Rank(first, record["settled"], loss_timeout_s=record["loss_timeout_s"])
        if record["moved_from"]:
            self.moved[record["rank"]] = record["moved_from"]

    @property
    def local_writers(self) -> int:
        """Ranks that land on this node."""
        return self.announced + len(self.moved)

    def _due(self, step: int) -> int:
        """How many ranks bring a part of a step."""
        return self.announced + sum(self.ranks[rank].first <= step for rank in self.moved)

    def _commit(self, record: Message) -> list[Extent]:
        rank, number = self.ranks[record["rank"]], record["step"]
        part = Step.from_wire(record, rank.take_layout(record))
        extents = extents_of(part)
        freed = rank.keep(extents)
        rank.committed, rank.expected_bytes = number, sum(size for _, size in extents) + _spilled_bytes(part)
        if number in self.discarded or self.status in ENDED:
            self._forget_files([part])
            return freed + extents
        if number <= self.last:
            return freed + self._amend(part)
        parts = self.parts.setdefault(number, {})
        parts[record["rank"]] = part
        if len(parts) == self._due(number):
            self._land(Step.of_parts(number, [part for _, part in sorted(parts.items())]))
            del self.parts[number]
        return freed

    def _amend(self, part: Step) -> list[Extent]:
        """Add the part of a rank that moved here when its step had landed without it."""
        if part.number not in self.steps:
            self._forget_files([part])
            return extents_of(part)
        step = self.steps[part.number]
        whole = Step.of_parts(part.number, [step, part])
        self.steps[part.number] = replace(whole, began_s=step.began_s, committed_s=step.committed_s)
        self.amended.add(part.number)
        return []

    def _land(self, step: Step) -> None:
        self.steps[step.number] = step
        self.last = step.number
        self.landed_steps += 1
        self.landed_bytes += step.bytes
        self._pass_discarded()

    def _discard(self, step: int) -> list[Extent]:
        self.discarded.append(step)
        self._pass_discarded()
        return self._drop_parts([step])

    def _pass_discarded(self) -> None:
        while self.last + 1 in self.discarded:
            self.last += 1

    def _close(self, record: Message) -> list[Extent]:
        rank = self.ranks[record["rank"]]
        rank.closed = True
        self.final.update({item["name"]: item for item in record["attributes"]})
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
        """Forget the steps that all consumers are past and no reader needs; give their extents."""
        if not self.consumers and not self.dropped:
            return []
        safe = self.last if self.dropped else min(cursor.step for cursor in self.consumers.values())
        passed = [number for number in self.steps if number <= safe and not self.is_read(number)]
        return [extent for number in passed for extent in self._forget(number)]

    def is_read(self, step: int) -> bool:
        """Whether a reader needs a step."""
        return any(hold.needs(step) for hold in self.holds.values())

    def evictable(self) -> Step | None:
        """Give the oldest step that may go for the sake of a new one: all readers have passed it."""
        if self.consumers:
            return None
        passed = (step for number, step in self.steps.items() if number <= self.read_through)
        return next((step for step in passed if not self.is_read(step.number)), None)

    def _forget(self, number: int) -> list[Extent]:
        step = self.steps.pop(number)
        self.base.update({item["name"]: item for item in step.attributes})
        self._forget_files([step])
        return extents_of(step)

    @property
    def attributes(self) -> dict[str, Message]:
        """The newest attributes by name."""
        newest = dict(self.base)
        for step in self.steps.values():
            newest.update({item["name"]: item for item in step.attributes})
        return newest | self.final

    def to_records(self) -> list[Message]:
        """Give the fewest records that make this state anew: what a compacted index holds."""
        stream, known = {"stream": self.name}, Known()
        steps = [{"record": "step"} | stream | step.to_wire(known) for step in self.steps.values()]
        named = [(number, rank) for number, rank in self.ranks.items() if rank.layout != NO_BLOCKS]
        state = {name: getattr(self, name) for name in _SCALARS} | {
            "ranks": [[number, *(getattr(rank, name) for name in _RANK)] for number, rank in self.ranks.items()],
            "moved": list(self.moved.items()),
            "base": list(self.base.values()),
            "final": list(self.final.values()),
            "discarded": self.discarded,
            "consumers": {name: [cursor.step, cursor.checkpoint] for name, cursor in self.consumers.items()},
        }
        layouts = [{"record": "layout", "rank": number} | stream | rank.last_layout() for number, rank in named]
        return [*steps, {"record": "state"} | stream | state, *self._open_records(), *layouts]

    def _open_records(self) -> list[Message]:
        """Give records of what is in the open steps."""
        records: list[Message] = []
        for step, parts in self.parts.items():
            for number, part in parts.items():
                where = {"stream": self.name, "rank": number, "step": step}
                records += [
                    {"record": "grant", "extents": extents_of(part)} | where,
                    {"record": "commit"} | where | part.to_wire(Known()),
                ]
        for number, rank in self.ranks.items():
            where = {"stream": self.name, "rank": number, "step": rank.committed + 1}
            records += [{"record": "grant", "extents": rank.granted} | where] if rank.granted else []
        return records

    def is_written_anew(self) -> None:
        """Take in that the index is now what `to_records` gave."""
        for rank in self.ranks.values():
            rank.recorded = {rank.layout}

    def _restore(self, record: Message) -> None:
        for name in _SCALARS:
            setattr(self, name, record.get(name, ""))
        for number, *values in record["ranks"]:
            self.ranks[number] = Rank(**dict(zip(_RANK, values, strict=True)))
        self.moved = dict(record["moved"])
        self.base = {item["name"]: item for item in record["base"]}
        self.final = {item["name"]: item for item in record["final"]}
        self.discarded = record["discarded"]
        self.consumers = {name: Cursor(step, data) for name, (step, data) in record["consumers"].items()}

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
    """Give where a step, or a part of one, lies in the pool."""
    firsts = struct.iter_unpack("<q", step.sources)
    return [(first, align(reach)) for (first,), reach in zip(firsts, step.layout.reach, strict=True)]


def _spilled_bytes(part: Step) -> int:
    return sum(align(form.bytes) for form in part.layout.forms if form.spilled) if part.files else 0


def _extents(record: Message) -> list[Extent]:
    return [(offset, size) for offset, size in record["extents"]]

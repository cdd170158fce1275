"""The state of one stream on one node, as the records of the index make it."""

from dataclasses import dataclass, field
from typing import Any

from bbflow.records import Message, Step
from bbflow.store.extents import Extent

ENDED = ("closed", "aborted")
_SCALARS = ("status", "writers", "local_writers", "epoch", "last", "landed_steps", "landed_bytes")


@dataclass(slots=True)
class Cursor:
    """How far one consumer is."""

    step: int = -1
    """Every step up to this one is safe with it."""
    checkpoint: bytes = b""
    """What it wants to find again after a restart."""


@dataclass(slots=True)
class Stream:
    """What the node knows about a stream; changed by `apply` only."""

    name: str
    """As the writers opened it."""
    status: str = "expected"
    """expected (nobody opened it yet), open, closed or aborted."""
    writers: int = 0
    """Ranks of the whole stream."""
    local_writers: int = 0
    """Ranks that land on this node."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """Name to value, the newest."""
    steps: dict[int, Step] = field(default_factory=dict)
    """The steps that are held, oldest first."""
    extents: dict[int, list[Extent]] = field(default_factory=dict)
    """Where each held step lies in the pool."""
    consumers: dict[str, Cursor] = field(default_factory=dict)
    """Who must be past a step before its space is free."""
    epoch: int = 0
    """Grows with each attach."""
    last: int = -1
    """Highest step that is settled: landed or discarded."""
    discarded: list[int] = field(default_factory=list)
    """Steps that were dropped whole for lack of room."""
    landed_steps: int = 0
    """Steps landed so far, also those that are gone again."""
    landed_bytes: int = 0
    """Their bytes."""

    def apply(self, record: Message) -> list[Extent]:
        """Take one record of the index in.

        Returns
        -------
        list of Extent
            Extents that nobody needs any more.
        """
        match record["record"]:
            case "open":
                self.status = "open"
                self.writers, self.local_writers = record["writers"], record["local_writers"]
            case "attributes":
                self.attributes.update({item["name"]: item["value"] for item in record["attributes"]})
            case "step":
                self._land(Step.from_wire(record), [tuple(extent) for extent in record["extents"]])
            case "discard":
                self.discarded.append(record["step"])
                self.last = record["step"]
            case "attach":
                self.epoch = record["epoch"]
                self.consumers = {
                    name: self.consumers.get(name, Cursor()) for name in record["consumers"]
                }  # fmt: skip
            case "done":
                self.consumers[record["consumer"]] = Cursor(record["step"], record["checkpoint"])
            case "end":
                self.status = record["status"]
            case "state":
                self._restore(record)
        return self._release()

    def _land(self, step: Step, extents: list[Extent]) -> None:
        self.steps[step.number] = step
        self.extents[step.number] = extents
        self.last = step.number
        self.landed_steps += 1
        self.landed_bytes += step.bytes

    def _release(self) -> list[Extent]:
        if not self.consumers:
            return []
        safe = min(cursor.step for cursor in self.consumers.values())
        freed: list[Extent] = []
        for number in [number for number in self.steps if number <= safe]:
            del self.steps[number]
            freed += self.extents.pop(number)
        return freed

    def to_records(self) -> list[Message]:
        """Give the fewest records that make this state anew: what a compacted index holds."""
        steps = [
            {"record": "step", "stream": self.name, "extents": self.extents[number]} | step.to_wire()
            for number, step in self.steps.items()
        ]
        state = {name: getattr(self, name) for name in _SCALARS} | {
            "attributes": self.attributes,
            "discarded": self.discarded,
            "consumers": {name: [cursor.step, cursor.checkpoint] for name, cursor in self.consumers.items()},
        }
        return [*steps, {"record": "state", "stream": self.name} | state]

    def _restore(self, record: Message) -> None:
        for name in _SCALARS:
            setattr(self, name, record[name])
        self.attributes, self.discarded = record["attributes"], record["discarded"]
        self.consumers = {name: Cursor(step, data) for name, (step, data) in record["consumers"].items()}

    def held_extents(self) -> list[Extent]:
        """All extents that the stream holds."""
        return [extent for extents in self.extents.values() for extent in extents]

"""Plain facts about what one node must hold, kept beside the real one."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from bbflow.net.frames import encode
from bbflow.store.extents import align

IDLE, WAITING, INSIDE, GONE = "idle", "waiting", "inside", "gone"


@dataclass(frozen=True)
class Place:
    """Where a block's bytes are, and which."""

    offset: int
    size: int
    token: bytes
    file: Path | None = None

    @property
    def content(self):
        return self.token * (self.size // len(self.token))

    def write(self, pool):
        if self.file:
            self.file.write_bytes(bytes(self.offset) + self.content)
        else:
            pool[self.offset : self.offset + self.size] = self.content

    def is_intact(self, pool):
        if self.file:
            return self.file.read_bytes()[self.offset :] == self.content
        return pool[self.offset : self.offset + self.size] == self.content

    def block(self):
        what = {"name": "v", "type": "int8_t", "kind": "LocalArray", "count": [self.size]}
        where = {"offset": self.offset, "bytes": self.size}
        return what | where | ({"file": str(self.file)} if self.file else {})


@dataclass
class Writer:
    """What one rank knows of itself."""

    state: str = GONE
    step: int = 0
    """The one that it is in, or begins next."""
    grants: list = field(default_factory=list)
    spills: bool = False
    request: dict | None = None
    """What it waits for."""
    offer: str = ""
    """Name of its connection's offers."""
    offered: list = field(default_factory=list)
    """What it was offered, as it believes; the node may have it back."""
    is_away: bool = False
    """Whether its connection broke; `state` is as it was then."""
    sent: dict | None = None
    """Its last commit, which may have to be sent again."""
    told: dict = field(default_factory=dict)
    """Forms of layouts that it has told its node of, by number."""
    places: tuple = ()
    """Where the blocks of that one are."""

    def lose(self):
        """Take in that the connection is gone, with what was said and offered over it."""
        self.is_away, self.told, self.offered = self.state != GONE, {}, []

    @property
    def is_here(self):
        return self.state != GONE and not self.is_away


@dataclass
class Held:
    """Steps that are kept, and for whom."""

    steps: dict = field(default_factory=dict)
    """Step to its places."""
    parts: dict = field(default_factory=dict)
    """Step to rank to places, of steps that not all ranks have committed."""
    cursors: dict = field(default_factory=dict)
    """Consumer to the step that it is past."""
    readers: dict = field(default_factory=dict)
    """Peer to the step that it has passed and the steps that it has pinned."""
    read_through: int = -1
    spent: set = field(default_factory=set)
    """Steps that only readers needed at some time: an agent started again doesn't know of readers."""

    def is_read(self, step):
        return any(step > passed or step in pins for passed, pins in self.readers.values())

    def release(self):
        """Forget what all consumers are past and no reader needs."""
        if not self.cursors:
            return
        for step in [step for step in self.steps if step <= min(self.cursors.values())]:
            self.spent.add(step)
            if not self.is_read(step):
                del self.steps[step]

    def evictable(self):
        """Steps that may go for the sake of new ones, oldest first."""
        if self.cursors:
            return []
        return [step for step in sorted(self.steps) if step <= self.read_through and not self.is_read(step)]

    def passed(self):
        if self.readers:
            self.read_through = max(self.read_through, min(passed for passed, _ in self.readers.values()))
        self.release()

    def places(self):
        """All that must be unchanged."""
        parts = (places for parts in self.parts.values() for places in parts.values())
        return [place for places in (*self.steps.values(), *parts) for place in places]

    def pool_bytes(self):
        return sum(align(place.size) for place in self.places() if not place.file)


class Death(BaseException):
    """The agent's process ends here."""


def die_at(store, whole, share):
    """Kill the agent while it writes its next record but `whole`, with a share of it written."""
    index, left = store.index, [whole]
    real = index.append

    def append(record):
        if left[0] == 0:
            frame = encode(record)
            os.write(index._descriptor, frame[: int(len(frame) * share)])
            raise Death
        left[0] -= 1
        real(record)

    index.append = append

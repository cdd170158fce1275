"""What the writer ranks of a stream have on one node, and what its readers hold there."""

from dataclasses import dataclass, field

from bbflow.records import Block, Message
from bbflow.store.extents import Extent


@dataclass(slots=True)
class Rank:
    """One writer rank."""

    first: int = 0
    """First step that it brings to this node; above 0 if it came from a node that was lost."""
    committed: int = -1
    """Last step that it has behind it, committed or discarded."""
    granted: list[Extent] = field(default_factory=list)
    """Room for the step after that one."""
    expected_bytes: int | None = None
    """What it needed in its last landed step; None before the first."""
    closed: bool = False
    """Whether it has written all its steps."""
    loss_timeout_s: float = 0.0
    """How long it may be away before it counts as lost."""

    @property
    def granted_bytes(self) -> int:
        """Bytes that it holds in its open step."""
        return sum([size for _, size in self.granted])

    def outstanding_bytes(self, step: int) -> int | None:
        """Bytes that it may still ask for in `step`; None if nobody can know."""
        if self.committed >= step:
            return 0
        if self.expected_bytes is None:
            return None
        held = self.granted_bytes if self.granted and self.committed + 1 == step else 0
        return max(self.expected_bytes - held, 0)

    def keep(self, extents: list[Extent]) -> list[Extent]:
        """Give up all granted room but these first parts of it; returns what is given up."""
        kept = dict(extents)
        rest = [(offset + kept.get(offset, 0), size - kept.get(offset, 0)) for offset, size in self.granted]
        self.granted = []
        return [extent for extent in rest if extent[1]]


@dataclass(slots=True)
class Part:
    """What one rank has committed of a step that other ranks have not."""

    blocks: list[Block]
    """Its blocks."""
    extents: list[Extent]
    """Where they lie."""
    attributes: list[Message]
    """Attributes that came with it."""
    began_s: float
    """When it began (seconds since the epoch)."""
    committed_s: float
    """When it was committed."""


@dataclass(slots=True)
class Hold:
    """What one reader still needs."""

    passed: int
    """It needs the steps above this one."""
    pins: set[int] = field(default_factory=set)
    """And these."""
    follows: bool = True
    """Whether it goes through all steps; otherwise it needs what it has pinned only."""

    def needs(self, step: int) -> bool:
        """Whether a step must stay for it."""
        return (self.follows and step > self.passed) or step in self.pins

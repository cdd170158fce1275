"""What the writer ranks of a stream have on one node, and what its readers hold there."""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from msgspec import UnsetType

from bbflow.reading.wire_types import Row
from bbflow.store.extents import Extent
from bbflow.stream.layouts import NO_BLOCKS, Layout, Layouts


@dataclass(slots=True)
class Rank:
    """One writer rank."""

    first: int = 0
    """First step that it brings to this node; above 0 if it came from a node that was lost."""
    committed: int = -1
    """Last step that it has committed, as the index tells."""
    passed: int = field(default=-1, compare=False)
    """Last discarded step that it has passed without a word; not in the index."""
    granted: list[Extent] = field(default_factory=list)
    """Room for the step after that one."""
    offered: list[Extent] = field(default_factory=list, compare=False)
    """What of it the rank has without having asked, if it takes it: no record tells of it."""
    expected_bytes: int | None = None
    """What it needed in its last landed step; None before the first."""
    state_bytes: int = 0
    """What the states take that it may land instead of steps."""
    closed: bool = False
    """Whether it has written all its steps."""
    loss_timeout_s: float = 0.0
    """How long it may be away before it counts as lost."""
    layouts: Layouts = field(default_factory=Layouts, compare=False)
    """Those that it has named in its commits."""
    layout: int = field(default=NO_BLOCKS, compare=False)
    """Number of the one that it has named last."""
    recorded: set[int] = field(default_factory=set, compare=False)
    """Numbers of those whose forms the index holds since it was rewritten; not in the index."""

    @property
    def settled(self) -> int:
        """Last step that it has behind it, committed or discarded."""
        return max(self.committed, self.passed)

    @property
    def granted_bytes(self) -> int:
        """Bytes that it holds in its open step."""
        return sum([size for _, size in self.granted])

    @property
    def has_folded(self) -> bool:
        """Whether it landed a state last."""
        return self.layout != NO_BLOCKS and self.layouts[self.layout].has_folded

    def outstanding_bytes(self, step: int) -> int | None:
        """Bytes that it may still ask for in `step`; None if that is unknown."""
        if self.settled >= step:
            return 0
        if self.expected_bytes is None:
            return None
        held = self.granted_bytes if self.granted and self.settled + 1 == step else 0
        return max(self.expected_bytes - held, self.state_bytes - held, 0)

    def needs_through(self, step: int, ends: Sequence[int]) -> list[int] | None:
        """Return the bytes that it may ask for before others can continue without it; None if that is unknown.

        Parameters
        ----------
        step
            How far they are.
        ends
            Last steps of what lands together: if theirs is another landing, it may need all steps of its own first.
        """
        at = bisect_left(ends, self.settled + 1)
        end = ends[at] if at < len(ends) and ends[at] <= step else self.settled + 1
        need = self.outstanding_bytes(step)
        further = 0 if self.has_folded or not need else max(end - self.settled - 1, 0)
        return None if need is None else [need, *[self.expected_bytes or 0] * further]

    def offer(self, extent: Extent) -> None:
        """Offer it room that it has not asked for, and that no record tells of."""
        self.granted.append(extent)
        self.offered.append(extent)

    def take(self, extents: Collection[Extent]) -> None:
        """Take in what a record grants, which may be what was offered before."""
        self.granted += [extent for extent in extents if extent not in self.granted]
        self.offered = [extent for extent in self.offered if extent not in extents]

    def keep(self, extents: list[Extent]) -> list[Extent]:
        """Release all granted room but these first parts of it; returns what is released."""
        kept = dict(extents)
        rest = [(offset + kept.get(offset, 0), size - kept.get(offset, 0)) for offset, size in self.granted]
        self.granted, self.offered = [], []
        return [extent for extent in rest if extent[1]]

    def take_layout(self, number: int, forms: tuple[Row, ...] | UnsetType) -> Layout:
        """Take in which layout a record names."""
        if not isinstance(forms, UnsetType):
            self.recorded.add(number)
        self.layout = number
        return self.layouts.take(number, forms)


@dataclass(slots=True)
class Needs:
    """What the ranks of a stream needed in their last steps, together."""

    ranks: int = 0
    """How many have landed a step."""
    bytes: int = 0
    """What those steps took."""

    def expect(self, rank: Rank, size: int | None) -> None:
        """Note how much a rank needs in its next step; None if unknown."""
        self.ranks += (size is not None) - (rank.expected_bytes is not None)
        self.bytes += (size or 0) - (rank.expected_bytes or 0)
        rank.expected_bytes = size


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

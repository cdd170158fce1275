"""What an agent answers (FORMAT.md), checked once where it comes in."""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from bbflow.reading.rank_plan import RankPlan
from bbflow.reading.wire_types import Attribute, Count, Moment, Row, Settled, Status, Value
from bbflow.store.extents import Extent
from bbflow.stream.layouts import Known, Layout
from bbflow.stream.records import Step, check_fits


class ShownStep(Struct, frozen=True, kw_only=True):
    """A step in a reply of `watch`."""

    step: int
    layout: int
    forms: tuple[Row, ...] | UnsetType = UNSET
    sources: bytes
    files: tuple[str, ...]
    values: tuple[Value, ...]
    extremes: bytes = b""
    """Empty if they weren't asked for."""
    attributes: tuple[Attribute, ...]
    ranks: Count
    began_s: Moment
    committed_s: Moment

    @classmethod
    def of(cls, step: Step, known: Known, *, extremes: bool) -> "ShownStep":
        """Show a step.

        Parameters
        ----------
        step
            Which.
        known
            Layouts that the other side has already.
        extremes
            Whether it wants minima and maxima.
        """
        told = step.told(known)
        return cls(step=step.number, ranks=step.ranks, **(told if extremes else told | {"extremes": b""}))

    def taken(self, layout: Layout) -> Step:
        """Return the step.

        Raises
        ------
        ProtocolError
            If it doesn't fit the layout that it names.
        """
        check_fits(self, layout)
        times = {"began_s": self.began_s, "committed_s": self.committed_s}
        return Step.of(self.step, layout, self, attributes=self.attributes, ranks=self.ranks, **times)


class Shown(Struct, frozen=True, kw_only=True):
    """The reply of `watch` (FORMAT.md, 'Analysis and agent')."""

    ok: bool = True
    change: int
    status: Status
    writers: Count
    local_writers: Count
    base: tuple[Attribute, ...]
    """As they were before the oldest step that is kept."""
    attributes: tuple[Attribute, ...]
    """The newest."""
    steps: tuple[ShownStep, ...]
    more: bool
    """Whether there are more steps than these."""
    last: int
    """Highest step up to which all that is settled was told."""
    discarded: tuple[Count, ...]
    moved: tuple[tuple[Count, str, Settled], ...]
    """Ranks that came from a node that was lost, its name, and their first step here."""
    refused: tuple[str, ...] = ()
    """What the program was refused, and the stream lacks."""
    file: str = ""
    """Absolute path of the file that its ranks here name; empty if it isn't known."""


class FabricWay(Struct, frozen=True, kw_only=True):
    """How the pool is written or read by libfabric."""

    provider: str
    """libfabric's, the same on both hosts."""
    address: bytes
    """The node's endpoint for this connection, as that provider writes it."""
    scratch: bytes
    """Base and key of bytes that count for nothing: there the other side tries whether it gets here."""


class FabricReply(Struct, frozen=True, kw_only=True):
    """Whether a reader may read by libfabric."""

    ok: bool = True
    fabric: FabricWay | UnsetType = UNSET
    """How, if it may."""
    fabric_error: str = ""
    """Else why not."""


class OpenReply(Struct, frozen=True, kw_only=True):
    """A rank is in."""

    ok: bool = True
    pool: str
    """Path of the memory that blocks go into."""
    capacity: int
    """Bytes."""
    committed: int
    """The last step that is settled for this rank."""
    extents: Sequence[Extent]
    """What it was given for the step after that, before it was interrupted."""
    offer: str
    """Name of the file that stands for an offer; none over TCP."""
    fabric: FabricWay | UnsetType = UNSET
    """How the rank writes the pool by libfabric, if it may."""
    keys: bytes | UnsetType = UNSET
    """Then, base and key of each extent."""
    fabric_error: str | UnsetType = UNSET
    """Why it may not, if it has asked."""
    plan: RankPlan | UnsetType = UNSET
    """What the rank may fold itself, if anything."""


class RoomReply(Struct, frozen=True, kw_only=True):
    """What a rank may do with its blocks."""

    ok: bool = True
    status: Literal["ok", "discard", "spill", "later", "land"] = "ok"
    extents: Sequence[Extent] = ()
    """Where they go; with `spill` they go to a file, with `discard` nowhere. With `later` nothing is offered; with
    `land` nothing more is to be held."""
    keys: bytes | UnsetType = UNSET
    """Base and key of each, for who writes them by libfabric."""
    plan: RankPlan | UnsetType | None = UNSET
    """What the rank may fold itself from now on, where that is news."""


class SyncReply(Struct, frozen=True, kw_only=True):
    """All bytes so far have come."""

    ok: bool = True
    bad: Sequence[int]
    """Where they came in damaged, and are to be sent again."""


class AttachReply(Struct, frozen=True, kw_only=True):
    """An analysis has the stream."""

    ok: bool = True
    epoch: int
    """The number of this take-over."""
    cursors: Mapping[str, tuple[int, bytes]]
    """By consumer: the last step that it is done with, and its checkpoint."""


class DropReply(Struct, frozen=True, kw_only=True):
    """A stream is forgotten, or its analysis has something to hear before."""

    ok: bool = True
    refused: tuple[str, ...] = ()
    """What the program was refused; the stream isn't forgotten if it is more than the analysis knew."""


class JoinReply(Struct, frozen=True, kw_only=True):
    """A reader has joined a stream."""

    ok: bool = True
    oldest: int
    """The first step that is kept for it."""


class PinReply(Struct, frozen=True, kw_only=True):
    """A reader holds steps."""

    ok: bool = True
    pinned: Sequence[int]
    """Which; the others have gone."""


class StreamStatus(Struct, frozen=True, kw_only=True):
    """A stream, in the reply of `status`."""

    status: str
    writers: int
    local_writers: int
    ranks: Sequence[tuple[int, str]]
    """Each with how its blocks come (shm, tcp, fabric), or whether it is closed or away."""
    moved: Sequence[tuple[int, str]]
    """Ranks that came from a node that was lost, and its name."""
    written: int
    """Steps that a rank has begun."""
    landed: int
    """Steps that are whole."""
    landed_bytes: int
    held: int
    """Steps that are kept."""
    unclaimed: int
    """Those of them that no analysis has asked for, and no reader has passed or needs."""
    discarded: int
    readers: int
    waiting: int
    """Requests for room without an answer yet."""
    waited_s: float
    """The longest that one rank has waited, in sum."""
    consumers: Mapping[str, int]
    """The last step that each is done with."""
    late: int = 0
    """Steps that the analysis has left out for their times, as far as it has said since the node was started."""


class StatusReply(Struct, frozen=True, kw_only=True):
    """How a node is."""

    ok: bool = True
    name: str
    host: str
    capacity: int
    """Bytes."""
    free: int
    """Bytes."""
    streams: Mapping[str, StreamStatus]

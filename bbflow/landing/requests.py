"""What peers may ask of a node (FORMAT.md, 'Requests'): checked once, where it comes in."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from bbflow.net.frames import MAX_PAYLOAD_BYTES, parser
from bbflow.reading.rank_plan import RankPlan
from bbflow.reading.wire_types import (
    Attribute,
    Check,
    Count,
    FilePath,
    Name,
    Number,
    Row,
    Seconds,
    Settled,
    Span,
    Value,
    Whole,
)
from bbflow.store.entries import FoldedSteps

# Bounds on what one message may make a node keep.
MOST_CONSUMERS = 64
LONGEST_WHY = 4096
MOST_PROVIDERS = 16
MOST_STEPS = 1 << 16
"""How many are pinned by one request, at most."""

# Writers.


class OpenRequest(Struct, frozen=True, tag_field="op", tag="open", kw_only=True):
    """A rank opens a stream, or comes back to it."""

    stream: Name
    rank: Number
    writers: Number
    local_writers: Number
    policy: Literal["Block", "Discard", "Spill"]
    transport: Literal["shm", "tcp"]
    open_timeout_s: Span
    loss_timeout_s: Span
    settled: Settled
    resume: bool
    moved_from: Name
    host: Name = ""
    """Where the process runs."""
    pid: Number = 0
    """Its id there."""
    file: FilePath = ""
    """Absolute path of the file that the program names; empty if it isn't known, or need not be."""
    fabric: Annotated[tuple[Name, ...], Meta(max_length=MOST_PROVIDERS)] = ()
    """Providers of libfabric by which its host can write the pool, the best first."""


class BeginRequest(Struct, frozen=True, tag_field="op", tag="begin", kw_only=True):
    """A rank wants to begin a step."""

    step: Settled
    bytes: Count


class ReserveRequest(Struct, frozen=True, tag_field="op", tag="reserve", kw_only=True):
    """A rank needs more room in its step."""

    step: Settled
    bytes: Count


class DataRequest(Struct, frozen=True, tag_field="op", tag="data", kw_only=True):
    """Raw bytes follow."""

    offset: Count
    bytes: Annotated[int, Meta(gt=0, le=MAX_PAYLOAD_BYTES)]
    check: Check


class LandedRequest(Struct, frozen=True, tag_field="op", tag="landed", kw_only=True):
    """A rank has written bytes of the pool by libfabric, and asks for a look at them."""

    offset: Count
    bytes: Annotated[int, Meta(gt=0, le=MAX_PAYLOAD_BYTES)]
    check: Check


class SyncRequest(Struct, frozen=True, tag_field="op", tag="sync", kw_only=True):
    """A rank asks which of its bytes came in damaged."""


class CommitRequest(Struct, frozen=True, tag_field="op", tag="commit", kw_only=True):
    """A rank has written its part of a step."""

    step: Settled
    layout: Settled
    forms: tuple[Row, ...] | UnsetType = UNSET
    sources: bytes
    files: tuple[FilePath, ...]
    values: tuple[Value, ...]
    extremes: bytes
    attributes: tuple[Attribute, ...]
    open_s: Seconds
    """How long it had the step open."""
    waited_s: Seconds
    held: FoldedSteps | UnsetType = UNSET
    """The steps before it that are committed with it."""
    ahead_bytes: Count = 0
    """What its next step will need: room that it is offered until then; 0 if it wants none."""


class HoldRequest(Struct, frozen=True, tag_field="op", tag="hold", kw_only=True):
    """A rank would fold a step into what it holds, and land it later."""

    step: Settled


class SkipRequest(Struct, frozen=True, tag_field="op", tag="skip", kw_only=True):
    """A rank can't bring a step."""

    step: Settled


class CloseRequest(Struct, frozen=True, tag_field="op", tag="close", kw_only=True):
    """A rank has written all its steps."""

    attributes: tuple[Attribute, ...] | None = None


class AbortRequest(Struct, frozen=True, tag_field="op", tag="abort", kw_only=True):
    """A rank ends before its time."""


class RefuseRequest(Struct, frozen=True, tag_field="op", tag="refuse", kw_only=True):
    """A program was refused something of a stream, and may not have looked."""

    stream: Name
    rank: Number
    why: Annotated[str, Meta(max_length=LONGEST_WHY)]


# Analyses.


class AttachRequest(Struct, frozen=True, tag_field="op", tag="attach", kw_only=True):
    """An analysis takes a stream over."""

    stream: Name
    consumers: Annotated[tuple[Name, ...], Meta(max_length=MOST_CONSUMERS)]
    owner: FilePath = ""
    take_over: bool = False


class WatchRequest(Struct, frozen=True, tag_field="op", tag="watch", kw_only=True):
    """Someone wants to hear of a stream's next change."""

    stream: Name
    after: Settled
    change: Whole
    limit: Count
    timeout_s: Span = 0.0
    extremes: bool = False
    epoch: Count | None = None


class DoneRequest(Struct, frozen=True, tag_field="op", tag="done", kw_only=True):
    """Steps are safe with a consumer."""

    stream: Name
    consumer: Name
    step: Whole
    checkpoint: bytes
    epoch: Count | None = None
    late: Count = 0
    """Of the steps up to there, this many were left out for their times."""


class PlanRequest(Struct, frozen=True, tag_field="op", tag="plan", kw_only=True):
    """An analysis lets ranks fold, or not any more."""

    stream: Name
    epoch: Count
    plan: RankPlan | None


class DropRequest(Struct, frozen=True, tag_field="op", tag="drop", kw_only=True):
    """A stream that has ended is to be forgotten."""

    stream: Name
    epoch: Count | None = None
    left: bool = False
    """Whether it may be open here: its ranks have moved to other nodes, or one of those knows that it was aborted."""
    known: tuple[str, ...] | None = None
    """What the program was refused, as far as the analysis knows: the node drops it only if that is all."""


class GiveUpRequest(Struct, frozen=True, tag_field="op", tag="give_up", kw_only=True):
    """Ranks that have not opened the stream never will: the program has ended, or others have waited for too long."""

    stream: Name
    missing: Number = 0
    """How many, on all nodes, if the program continues; the node says whether its ranks have waited for long enough."""


class StatusRequest(Struct, frozen=True, tag_field="op", tag="status", kw_only=True):
    """Someone asks how the node stands."""


class StopRequest(Struct, frozen=True, tag_field="op", tag="stop", kw_only=True):
    """The node is to end."""

    force: bool = False


# Readers.


class JoinRequest(Struct, frozen=True, tag_field="op", tag="join", kw_only=True):
    """A reader wants steps to stay."""

    stream: Name
    after: Settled
    follow: bool = True


class PassRequest(Struct, frozen=True, tag_field="op", tag="pass", kw_only=True):
    """A reader needs nothing up to a step any more."""

    step: Whole


class PinRequest(Struct, frozen=True, tag_field="op", tag="pin", kw_only=True):
    """A reader needs some steps whatever is passed."""

    steps: Annotated[tuple[Settled, ...], Meta(max_length=MOST_STEPS)]


class UnpinRequest(Struct, frozen=True, tag_field="op", tag="unpin", kw_only=True):
    """It doesn't any more."""

    steps: Annotated[tuple[Settled, ...], Meta(max_length=MOST_STEPS)]


class FabricRequest(Struct, frozen=True, tag_field="op", tag="fabric", kw_only=True):
    """A reader wants to read the pool by libfabric."""

    providers: Annotated[tuple[Name, ...], Meta(max_length=MOST_PROVIDERS)]
    """Those that its host has, the best first."""


class GetRequest(Struct, frozen=True, tag_field="op", tag="get", kw_only=True):
    """A reader on another host wants a part of the pool."""

    step: Count
    offset: Count
    bytes: Annotated[int, Meta(ge=0, le=MAX_PAYLOAD_BYTES)]
    by_key: bool = False
    """Whether it reads them by libfabric."""


RoomRequest = BeginRequest | ReserveRequest
"""What is answered when there is room."""
Request = (
    OpenRequest | RoomRequest | DataRequest | LandedRequest | SyncRequest | CommitRequest | HoldRequest | SkipRequest
    | CloseRequest | AbortRequest | RefuseRequest | AttachRequest | WatchRequest | DoneRequest | PlanRequest
    | DropRequest | GiveUpRequest | StatusRequest | StopRequest | JoinRequest | PassRequest | PinRequest | UnpinRequest
    | GetRequest | FabricRequest
)  # fmt: skip
parse_request = parser(Request, "a request")
"""Takes one in out of its frame; whoever sent what isn't one must be cut off."""

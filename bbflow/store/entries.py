"""The records of the index (FORMAT.md, 'Index'): checked once, where they are read, or made."""

from msgspec import UNSET, Struct, UnsetType

from bbflow.errors import DamagedError, ProtocolError
from bbflow.net.frames import parser
from bbflow.reading.wire_types import (
    PAGE_BYTES,
    Attribute,
    Content,
    Count,
    FilePath,
    Moment,
    Name,
    Number,
    Place,
    Row,
    Settled,
    Span,
    Status,
    Value,
    Whole,
)


class FormatRecord(Struct, frozen=True, tag_field="record", tag="format", kw_only=True):
    """The first one."""

    version: Count
    """Of the format."""
    capacity: Count
    """Bytes of the pool."""


class OpenRecord(Struct, frozen=True, tag_field="record", tag="open", kw_only=True):
    """A rank has opened a stream."""

    stream: Name
    rank: Number
    writers: Number
    """Ranks of the whole stream."""
    local_writers: Number
    """Ranks that are mapped to this node."""
    moved_from: Name
    """The node that was lost; else empty."""
    settled: Settled
    """Last step that the rank has behind it."""
    loss_timeout_s: Span
    """How long it may be away."""


class GrantRecord(Struct, frozen=True, tag_field="record", tag="grant", kw_only=True):
    """A rank got room for its open step."""

    stream: Name
    rank: Number
    step: Count
    extents: tuple[tuple[Place, Place], ...]
    """First byte and length of each."""


class FoldedSteps(Struct, frozen=True, kw_only=True):
    """Steps that a rank commits with the one in which their states are (FORMAT.md, 'Plan'): all of them lie alike."""

    layout: Settled
    forms: tuple[Row, ...] | UnsetType = UNSET
    steps: tuple[tuple[tuple[Value, ...], tuple[Attribute, ...]], ...]
    """Single values and attributes of each, oldest first."""


class CommitRecord(Struct, frozen=True, tag_field="record", tag="commit", kw_only=True):
    """A rank has committed its part of a step."""

    stream: Name
    rank: Number
    step: Count
    layout: Settled
    sources: bytes
    files: tuple[FilePath, ...]
    values: tuple[Value, ...]
    extremes: bytes
    forms: tuple[Row, ...] | UnsetType = UNSET
    attributes: tuple[Attribute, ...]
    began_s: Moment
    """When the step's first rank began it (seconds since the epoch)."""
    committed_s: Moment
    """When the rank committed its part."""
    held: FoldedSteps | UnsetType = UNSET
    """The steps before it that are committed with it."""


class LayoutRecord(Struct, frozen=True, tag_field="record", tag="layout", kw_only=True):
    """What a rank's later commits may name, in an index that was rewritten."""

    stream: Name
    rank: Number
    layout: Settled
    forms: tuple[Row, ...]


class StepRecord(Struct, frozen=True, tag_field="record", tag="step", kw_only=True):
    """A step that is visible, in an index that was rewritten."""

    stream: Name
    step: Count
    layout: Settled
    forms: tuple[Row, ...] | UnsetType = UNSET
    sources: bytes
    files: tuple[FilePath, ...]
    values: tuple[Value, ...]
    extremes: bytes
    attributes: tuple[Attribute, ...]
    ranks: Number
    """How many have a part in it here."""
    began_s: Moment
    committed_s: Moment


class DiscardRecord(Struct, frozen=True, tag_field="record", tag="discard", kw_only=True):
    """A step is dropped whole."""

    stream: Name
    step: Count


class EvictRecord(Struct, frozen=True, tag_field="record", tag="evict", kw_only=True):
    """Steps that were read have made room."""

    stream: Name
    steps: tuple[Count, ...]


class AttachRecord(Struct, frozen=True, tag_field="record", tag="attach", kw_only=True, omit_defaults=True):
    """An analysis has taken a stream over."""

    stream: Name
    consumers: tuple[Name, ...]
    epoch: Count
    owner: FilePath = ""
    """Whose analysis it is."""


class StatesRecord(Struct, frozen=True, tag_field="record", tag="states", kw_only=True):
    """Ranks may land states instead of steps (FORMAT.md, 'Plan'): their room stays free, also after a restart."""

    stream: Name
    ends: bytes
    """Last steps of what lands together, ascending: a table."""
    ranks: tuple[tuple[Number, Count], ...]
    """Bytes of the states of each."""


class DoneRecord(Struct, frozen=True, tag_field="record", tag="done", kw_only=True):
    """Every step up to this one is safe with a consumer."""

    step: Whole
    stream: Name
    consumer: Name
    checkpoint: bytes
    """What it wants to find again."""


class CloseRecord(Struct, frozen=True, tag_field="record", tag="close", kw_only=True):
    """A rank has written all its steps."""

    stream: Name
    rank: Number
    attributes: tuple[Attribute, ...]


class AbortRecord(Struct, frozen=True, tag_field="record", tag="abort", kw_only=True):
    """A rank is gone before its end."""

    stream: Name
    rank: Number


class RefuseRecord(Struct, frozen=True, tag_field="record", tag="refuse", kw_only=True):
    """The program was refused something: what it has written isn't all."""

    stream: Name
    why: str


class DropRecord(Struct, frozen=True, tag_field="record", tag="drop", kw_only=True):
    """The node has forgotten a stream."""

    stream: Name


RankRow = tuple[Number, Count, Settled, Count | None, bool, Span]
"""A rank's number, first step, last committed one, expected bytes, whether it has closed, and its loss timeout."""


class StateRecord(Struct, frozen=True, tag_field="record", tag="state", kw_only=True):
    """Everything else that counts of a stream at once, in an index that was rewritten."""

    stream: Name
    status: Status
    writers: Number
    announced: Number
    epoch: Count
    owner: FilePath = ""
    last: Settled
    landed_steps: Count
    landed_bytes: Count
    ranks: tuple[RankRow, ...]
    moved: tuple[tuple[Number, Name], ...]
    base: tuple[Attribute, ...]
    final: tuple[Attribute, ...]
    discarded: tuple[Count, ...]
    consumers: dict[Name, tuple[Whole, bytes]]
    refused: tuple[str, ...] = ()


OfStream = (
    OpenRecord | GrantRecord | CommitRecord | LayoutRecord | StepRecord | DiscardRecord | EvictRecord
    | AttachRecord | StatesRecord | DoneRecord | CloseRecord | AbortRecord | RefuseRecord | DropRecord | StateRecord
)  # fmt: skip
"""A record of one stream."""
Record = FormatRecord | OfStream
_parse = parser(Record, "a record")


def parse_record(payload: bytes) -> Record:
    """Take a record in out of its frame.

    Raises
    ------
    ProtocolError
        If it doesn't have the form of its kind.
    """
    try:
        record: Record = _parse(payload)
    except DamagedError as error:  # its checksum was right: it is no torn tail, which could be cut off
        raise ProtocolError(str(error)) from None
    if isinstance(record, CommitRecord | StepRecord):
        check_sources(record)
    return record


def check_sources(content: Content) -> None:
    """Refuse a step whose extents begin where none can.

    Raises
    ------
    ProtocolError
        If one does, or it isn't a table.
    """
    is_table = len(content.sources) % 8 == 0
    if not is_table or any(place < 0 or place % PAGE_BYTES for place in memoryview(content.sources).cast("q")):
        raise ProtocolError("a step with sources that are no extents")

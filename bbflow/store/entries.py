"""The records of the index (FORMAT.md, 'Index'): checked once, where they are read, or made."""

import numpy as np
from msgspec import UNSET, Struct, UnsetType

from bbflow.errors import DamagedError, ProtocolError
from bbflow.net.frames import parser
from bbflow.reading.wire_types import PAGE_BYTES, Attribute, Content, Count, Finite, Place, Row, Settled, Status, Value


class FormatRecord(Struct, frozen=True, tag_field="record", tag="format", kw_only=True):
    """The first one."""

    version: Count
    """Of the format."""
    capacity: Count
    """Bytes of the pool."""


class OpenRecord(Struct, frozen=True, tag_field="record", tag="open", kw_only=True):
    """A rank has opened a stream."""

    stream: str
    rank: Count
    writers: Count
    """Ranks of the whole stream."""
    local_writers: Count
    """Ranks that are mapped to this node."""
    moved_from: str
    """The node that was lost; else empty."""
    settled: Settled
    """Last step that the rank has behind it."""
    loss_timeout_s: Finite
    """How long it may be away."""


class GrantRecord(Struct, frozen=True, tag_field="record", tag="grant", kw_only=True):
    """A rank got room for its open step."""

    stream: str
    rank: Count
    step: Count
    extents: tuple[tuple[Place, Place], ...]
    """First byte and length of each."""


class CommitRecord(Struct, frozen=True, tag_field="record", tag="commit", kw_only=True):
    """A rank has committed its part of a step."""

    stream: str
    rank: Count
    step: Count
    layout: int
    sources: bytes
    files: tuple[str, ...]
    values: tuple[Value, ...]
    extremes: bytes
    forms: tuple[Row, ...] | UnsetType = UNSET
    attributes: tuple[Attribute, ...]
    began_s: Finite
    """When the step's first rank began it (seconds since the epoch)."""
    committed_s: Finite
    """When the rank committed its part."""


class LayoutRecord(Struct, frozen=True, tag_field="record", tag="layout", kw_only=True):
    """What a rank's later commits may name, in an index that was written anew."""

    stream: str
    rank: Count
    layout: int
    forms: tuple[Row, ...]


class StepRecord(Struct, frozen=True, tag_field="record", tag="step", kw_only=True):
    """A step that is visible, in an index that was written anew."""

    stream: str
    step: Count
    layout: int
    forms: tuple[Row, ...] | UnsetType = UNSET
    sources: bytes
    files: tuple[str, ...]
    values: tuple[Value, ...]
    extremes: bytes
    attributes: tuple[Attribute, ...]
    ranks: Count
    """How many have a part in it here."""
    began_s: Finite
    committed_s: Finite


class DiscardRecord(Struct, frozen=True, tag_field="record", tag="discard", kw_only=True):
    """A step is dropped whole."""

    stream: str
    step: Count


class EvictRecord(Struct, frozen=True, tag_field="record", tag="evict", kw_only=True):
    """Steps that were read have made room."""

    stream: str
    steps: tuple[Count, ...]


class AttachRecord(Struct, frozen=True, tag_field="record", tag="attach", kw_only=True, omit_defaults=True):
    """An analysis has taken a stream over."""

    stream: str
    consumers: tuple[str, ...]
    epoch: Count
    owner: str = ""
    """Whose analysis it is."""


class DoneRecord(Struct, frozen=True, tag_field="record", tag="done", kw_only=True):
    """Every step up to this one is safe with a consumer."""

    step: int
    stream: str
    consumer: str
    checkpoint: bytes
    """What it wants to find again."""


class CloseRecord(Struct, frozen=True, tag_field="record", tag="close", kw_only=True):
    """A rank has written all its steps."""

    stream: str
    rank: Count
    attributes: tuple[Attribute, ...]


class AbortRecord(Struct, frozen=True, tag_field="record", tag="abort", kw_only=True):
    """A rank is gone before its end."""

    stream: str
    rank: Count


class DropRecord(Struct, frozen=True, tag_field="record", tag="drop", kw_only=True):
    """The node has forgotten a stream."""

    stream: str


RankRow = tuple[Count, Count, Settled, Count | None, bool, Finite]
"""A rank's number, first step, last committed one, expected bytes, whether it has closed, and its loss timeout."""


class StateRecord(Struct, frozen=True, tag_field="record", tag="state", kw_only=True):
    """Everything else that counts of a stream at once, in an index that was written anew."""

    stream: str
    status: Status
    writers: Count
    announced: Count
    epoch: Count
    owner: str = ""
    last: Settled
    landed_steps: Count
    landed_bytes: Count
    ranks: tuple[RankRow, ...]
    moved: tuple[tuple[Count, str], ...]
    base: tuple[Attribute, ...]
    final: tuple[Attribute, ...]
    discarded: tuple[Count, ...]
    consumers: dict[str, tuple[int, bytes]]


OfStream = (
    OpenRecord | GrantRecord | CommitRecord | LayoutRecord | StepRecord | DiscardRecord | EvictRecord
    | AttachRecord | DoneRecord | CloseRecord | AbortRecord | DropRecord | StateRecord
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
        If one does, or it is no table.
    """
    places = np.frombuffer(content.sources, "<i8") if len(content.sources) % 8 == 0 else None
    if places is None or (places < 0).any() or (places % PAGE_BYTES).any():
        raise ProtocolError("a step with sources that are no extents")

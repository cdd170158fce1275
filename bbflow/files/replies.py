"""What a master and an IOnode answer (FORMAT.md): made by them, and checked once where it comes in at a client."""

import errno

from msgspec import UNSET, Struct, UnsetType

from bbflow.files.commands import IonodeTold
from bbflow.files.wire import Attr, Pairs, Sizes, Whole
from bbflow.net.frames import parser
from bbflow.reading.wire_types import Count


class FileReply(Struct, frozen=True, kw_only=True):
    """It is done."""

    ok: bool = True
    seq: Whole | UnsetType = UNSET
    """Number of the master's last change when this was so; an IOnode says none."""


class FileRefusal(FileReply, frozen=True, kw_only=True):
    """It isn't, and why."""

    ok: bool = False
    errno: Whole = errno.EIO
    """Linux' number."""
    error: str = "refused without a reason"


# Sessions.


class SessionOptions(Struct, frozen=True, kw_only=True):
    """How a master keeps files, as far as it concerns clients."""

    piece_bytes: Whole
    replicas: Whole
    wait_s: float
    storage: str
    """URL of the shared storage; empty for none."""


class SessionReply(FileReply, frozen=True, kw_only=True):
    """A session has begun, or continues."""

    session: str
    """Its name."""
    lease_s: float
    root: Attr
    nodes: tuple[IonodeTold, ...]
    handles: tuple[Whole, ...]
    """Those that live on."""
    options: SessionOptions


class NodesReply(FileReply, frozen=True, kw_only=True):
    """Where the IOnodes are."""

    nodes: tuple[IonodeTold, ...]


class ForgetNotice(Struct, frozen=True, tag_field="op", tag="forget", kw_only=True):
    """No reply: what a client must forget before someone else's change is answered."""

    seq: Whole
    inos: tuple[Whole, ...]
    """Attributes and bytes."""
    names: tuple[tuple[Whole, str, Whole], ...]
    """Directory, name, inode."""
    directories: tuple[Whole, ...]
    """Complete lists."""


# Names and attributes.


class AttrReply(FileReply, frozen=True, kw_only=True):
    """What an inode is now."""

    attr: Attr


class ListReply(FileReply, frozen=True, kw_only=True):
    """What a directory has, or the next part of it."""

    entries: tuple[tuple[str, Attr], ...]
    more: bool


class ReadlinkReply(FileReply, frozen=True, kw_only=True):
    """Where a symbolic link points to."""

    target: str


# Open files.


class OpenFileReply(FileReply, frozen=True, kw_only=True):
    """A file is open for reading."""

    attr: Attr
    handle: Whole
    pieces: Pairs
    piece_bytes: Whole
    ring: tuple[str, ...]
    replicas: Whole
    cold: bool
    """Whether its bytes are still on their way."""


class OpenToWriteReply(OpenFileReply, frozen=True, kw_only=True):
    """A file is open for writing."""

    version: Whole
    """What is written now has this number."""
    append: bool
    """Whether it may continue behind the last piece."""
    granted: Sizes
    """Room that came along, by node."""
    created: bool | UnsetType = UNSET
    """Whether it is new; `create` alone says so."""


class CommitReply(FileReply, frozen=True, kw_only=True):
    """A version counts."""

    attr: Attr
    version: Whole
    append: bool
    granted: Sizes
    spent: Sizes
    """Room that is the file's now."""


class GrantReply(FileReply, frozen=True, kw_only=True):
    """There is room."""

    granted: Sizes


class Given(Struct, frozen=True, kw_only=True):
    """What any reply gives its session, and takes: all that must be known of one that wasn't taken."""

    handle: Whole = 0
    granted: Sizes = {}
    spent: Sizes = {}


class ConflictReply(FileReply, frozen=True, kw_only=True):
    """Which lock is in the way of another one."""

    kind: str
    """`r` or `w`; `u` if none is."""
    start: Whole | UnsetType = UNSET
    end: Whole | UnsetType = UNSET
    pid: Whole | UnsetType = UNSET


# The whole.


class StatfsReply(FileReply, frozen=True, kw_only=True):
    """How full it is."""

    capacity: Whole
    free: Whole
    files: Count


Writing = tuple[str, str, Whole]
"""A file's path, and the host and process number of who has it open for writing; 0 if that is unknown."""


class FlushReply(FileReply, frozen=True, kw_only=True):
    """What was written back."""

    written: Whole
    """How many files."""
    left: Whole
    """How many are not."""
    failed: tuple[tuple[str, str], ...]
    """Those that the storage refused so far, and why."""
    writing: tuple[Writing, ...] = ()
    """Those that are open for writing."""


class PrefetchReply(FileReply, frozen=True, kw_only=True):
    """Files are coming."""

    files: Count


class EvictReply(FileReply, frozen=True, kw_only=True):
    """Bytes went from memory."""

    bytes: Count


class IonodeStatus(Struct, frozen=True, kw_only=True):
    """How an IOnode is."""

    name: str
    host: str
    up: bool
    lost: bool = False
    """Whether it has been away for so long that its bytes count as lost."""
    capacity: Whole
    placed_bytes: Whole
    granted_bytes: Whole
    free_bytes: Whole
    """Below zero while it may hold less than it does."""
    pieces: Count


class OverviewReply(FileReply, frozen=True, kw_only=True):
    """How a master is."""

    subtree: str
    storage: str
    """URL of the shared storage; empty for none."""
    write_back: str
    """When files are written back."""
    nodes: tuple[IonodeStatus, ...]
    sessions: Count
    open: Count
    """Files that are open."""
    files: dict[str, tuple[Count, Count]]
    """By state, and "coming" or "moving": how many, and their bytes."""
    oldest_dirty_s: float
    """How long the oldest has waited to be written back."""
    written_bytes: Count
    removing: Count
    """Objects that are to go."""
    prefetching: Count
    """Files that are still to come."""
    failed: tuple[tuple[str, str, Count], ...]
    """Not written back: path, why, attempts."""
    unread: tuple[tuple[str, str], ...]
    """Not read: path and why."""
    lost: tuple[str, ...]
    """Paths of files whose bytes went with their node, or with what someone did to their object."""
    writing: tuple[Writing, ...] = ()
    """Files that are open for writing."""
    conflicts: tuple[str, ...] = ()
    """Paths of files that are kept beside what someone else has written in the shared storage."""
    weakness: str = ""
    """What the shared storage can't check in the instant in which it changes; empty if it can."""
    replicas: Count = 1
    """Copies that each file in memory is to have."""
    thin: Count = 0
    """Files that have fewer, and are in no shared storage."""


class UsageReply(FileReply, frozen=True, kw_only=True):
    """How full an IOnode is."""

    capacity: Whole
    used: Whole


parse_verdict = parser(FileRefusal, "a reply")
"""Takes of any reply in whether it is a refusal."""
parse_given = parser(Given, "a reply")
"""Takes of any reply in what it gives."""

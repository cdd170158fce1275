"""What clients may ask of a master (FORMAT.md, 'Client and master'): checked once, where it comes in."""

from typing import Annotated

from msgspec import Meta, Struct

from bbflow.files.commands import CapacityNotice, CommandAnswer, JoinIonode
from bbflow.files.wire import Pairs, Sizes, Whole
from bbflow.net.frames import parser
from bbflow.reading.wire_types import Count, Span

Slot = Annotated[int, Meta(ge=0, lt=4096)]
"""More requests than these no client has under way at once."""


class ClientRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What every request may have; by itself, none in particular."""

    uid: Whole | None = None
    """User of the program that it is for; the session's own if absent. Only root's sessions speak for others."""
    gid: Whole | None = None
    """Its group."""
    groups: tuple[Whole, ...] = ()
    """Its further groups."""
    slot: Slot | None = None
    """Which one, if it is to count once however often it is sent."""
    number: Whole = 0
    """Grows with each request of its slot."""
    abandoned: bool = False
    """Whether the reply of the slot's last request was not taken."""


class EntryRequest(ClientRequest, frozen=True, kw_only=True):
    """What is about a name in a directory."""

    parent: Whole
    """The directory's inode."""
    name: str
    """The name; or a path from there."""


class InodeRequest(ClientRequest, frozen=True, kw_only=True):
    """What is about an inode."""

    ino: Whole
    """Its number."""


class PathRequest(ClientRequest, frozen=True, kw_only=True):
    """What is about a file, or a directory and all below it."""

    path: str
    """From the master's root."""


# Sessions.


class SessionRequest(Struct, frozen=True, tag_field="op", tag="session", kw_only=True, omit_defaults=True):
    """A client begins a session, or comes back to it."""

    host: str
    pid: Whole = 0
    uid: Whole
    gid: Whole
    groups: tuple[Whole, ...] = ()
    resume: str = ""
    """The session that it comes back to."""
    handles: tuple[tuple[Whole, Whole, Whole, bool | Whole], ...] = ()
    """What it has open: handle, inode, version, whether for writing."""
    room: Sizes = {}
    """All room that it has, written or not, by node."""
    slots: Pairs = ()
    """Requests without a reply: slot and number."""


class JoinSessionRequest(Struct, frozen=True, tag_field="op", tag="join", kw_only=True):
    """A connection is another one of a session."""

    session: str
    listen: bool = False
    """Whether it is told on this one what to forget."""


class ForgotMessage(Struct, frozen=True, tag_field="op", tag="forgot", kw_only=True):
    """A client has forgotten what it was told to."""

    seq: Whole


class ByeRequest(ClientRequest, frozen=True, tag_field="op", tag="bye", kw_only=True):
    """A session ends."""


class PingRequest(ClientRequest, frozen=True, tag_field="op", tag="ping", kw_only=True):
    """A client lets its lease continue."""


class NodesRequest(ClientRequest, frozen=True, tag_field="op", tag="nodes", kw_only=True):
    """A client asks where the IOnodes are."""


# Names and attributes.


class LookupRequest(EntryRequest, frozen=True, tag_field="op", tag="lookup", kw_only=True):
    """Ask what has a name."""

    wait_s: Span = 0.0


class StatRequest(InodeRequest, frozen=True, tag_field="op", tag="stat", kw_only=True):
    """Ask for an inode's attributes."""


class ListRequest(InodeRequest, frozen=True, tag_field="op", tag="list", kw_only=True):
    """Ask what is in a directory."""

    after: str = ""
    """The last name that is known already."""
    limit: Whole = 10_000


class ReadlinkRequest(InodeRequest, frozen=True, tag_field="op", tag="readlink", kw_only=True):
    """Ask where a symbolic link points to."""


class MkdirRequest(EntryRequest, frozen=True, tag_field="op", tag="mkdir", kw_only=True):
    """Make a directory."""

    mode: Whole
    parents: bool = False
    """Those above it, too; and it may be there."""


class SymlinkRequest(EntryRequest, frozen=True, tag_field="op", tag="symlink", kw_only=True):
    """Make a symbolic link."""

    target: str


class UnlinkRequest(EntryRequest, frozen=True, tag_field="op", tag="unlink", kw_only=True):
    """Remove what isn't a directory."""


class RmdirRequest(EntryRequest, frozen=True, tag_field="op", tag="rmdir", kw_only=True):
    """Remove an empty directory."""


class RenameRequest(EntryRequest, frozen=True, tag_field="op", tag="rename", kw_only=True):
    """Rename something."""

    to_parent: Whole
    to_name: str
    flags: str = ""


class SetattrRequest(InodeRequest, frozen=True, tag_field="op", tag="setattr", kw_only=True):
    """Change attributes: those that are given."""

    mode: Whole | None = None
    owner: Whole | None = None
    group: Whole | None = None
    atime_ns: Whole | None = None
    mtime_ns: Whole | None = None
    size: Whole | None = None


# Open files.


class OpenFileRequest(InodeRequest, frozen=True, tag_field="op", tag="open", kw_only=True):
    """Open a file that is there."""

    write: bool = False
    truncate: bool = False
    wait_s: Span | None = None
    pid: Whole = 0
    """The program on the client's host that opens it."""


class CreateRequest(EntryRequest, frozen=True, tag_field="op", tag="create", kw_only=True):
    """Make a file, and open it for writing."""

    mode: Whole
    exclusive: bool = False
    truncate: bool = False
    wait_s: Span | None = None
    pid: Whole = 0
    """The program on the client's host that opens it."""


class CommitFileRequest(ClientRequest, frozen=True, tag_field="op", tag="commit", kw_only=True):
    """Commit a version."""

    handle: Whole
    size: Whole
    pieces: Pairs
    mtime_ns: Whole | None = None
    sync: bool = False


class CloseFileRequest(ClientRequest, frozen=True, tag_field="op", tag="close", kw_only=True):
    """Close a file; there is no reply."""

    handle: Whole
    room: Sizes = {}
    """Given back, by node."""
    dirty: bool = False
    """Whether pieces were written that no commit has."""


class GrantRequest(ClientRequest, frozen=True, tag_field="op", tag="room", kw_only=True):
    """A client needs room on an IOnode."""

    node: str
    bytes: Whole
    wish: Whole = 0
    """How much it may be if there is plenty."""


class LockRequest(InodeRequest, frozen=True, tag_field="op", tag="lock", kw_only=True):
    """Lock, unlock or test a range of a file."""

    owner: str
    kind: str
    start: Whole
    end: Whole
    pid: Whole = 0
    wait_s: Span = 0.0
    test: bool = False


# The whole.


class StatfsRequest(ClientRequest, frozen=True, tag_field="op", tag="statfs", kw_only=True):
    """Ask how full it is."""


class OverviewRequest(ClientRequest, frozen=True, tag_field="op", tag="status", kw_only=True):
    """Ask how the master is."""


class FlushRequest(PathRequest, frozen=True, tag_field="op", tag="flush", kw_only=True):
    """Write back, and say when that is done."""

    wait_s: Span = -1.0


class PrefetchRequest(ClientRequest, frozen=True, tag_field="op", tag="prefetch", kw_only=True):
    """Bring files into memory."""

    tasks: tuple[tuple[str, ...], ...]
    """Paths that each of them reads."""
    at_once: Count = 0
    """Tasks that run at once; 0: each file may come as soon as there is room."""
    lookahead: Count = 1
    """Waves of tasks that may lie ahead of the one that runs."""


class RefreshRequest(PathRequest, frozen=True, tag_field="op", tag="refresh", kw_only=True):
    """Look at the shared storage again."""


class EvictRequest(PathRequest, frozen=True, tag_field="op", tag="evict", kw_only=True):
    """Evict clean files from memory."""


class ShutdownRequest(ClientRequest, frozen=True, tag_field="op", tag="shutdown", kw_only=True):
    """End the master and its IOnodes."""

    force: bool = False


Asked = (
    ByeRequest | PingRequest | NodesRequest
    | LookupRequest | StatRequest | ListRequest | ReadlinkRequest
    | MkdirRequest | SymlinkRequest | UnlinkRequest | RmdirRequest | RenameRequest | SetattrRequest
    | OpenFileRequest | CreateRequest | CommitFileRequest | CloseFileRequest | GrantRequest | LockRequest
    | StatfsRequest | OverviewRequest | FlushRequest | PrefetchRequest | RefreshRequest | EvictRequest | ShutdownRequest
)  # fmt: skip
"""What a session asks."""
Heard = Asked | SessionRequest | JoinSessionRequest | ForgotMessage | JoinIonode | CapacityNotice | CommandAnswer
"""What a master hears."""
parse_heard = parser(Heard, "a request")
"""Takes it in."""

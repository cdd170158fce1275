"""What a master and its IOnodes say to each other (FORMAT.md, 'Master and IOnode'): checked once, where it comes in."""

import errno

from msgspec import Struct

from bbflow.files.wire import Keys, Pairs, Seen, Sizes, Whole
from bbflow.net.frames import parser

CHANGED, TAKEN = errno.ESTALE, errno.ENOTUNIQ
"""Why an object wasn't written, moved or removed: it isn't what the master knows of it, or another has its name."""
STOPPED = errno.ECANCELED
"""Why an object wasn't written: the upload was stopped before any attempt could have changed what is there."""

# From an IOnode.


class IonodeAddress(Struct, frozen=True, kw_only=True):
    """How to reach an IOnode."""

    name: str
    """Unique under its master."""
    host: str
    """``gethostname()`` of its host."""
    socket: str
    """Path of its Unix socket, on that host."""
    directory: str
    """Its directory, on that host."""
    tcp: str
    """``host:port`` for other hosts."""
    tls: str
    """PEM file with the authorities that its certificate is checked against; empty without TLS."""


class JoinIonode(IonodeAddress, frozen=True, tag_field="op", tag="ionode", kw_only=True):
    """An IOnode comes, and tells what it has, in parts."""

    capacity: Whole
    """Bytes that may lie there now."""
    most: Whole
    """Bytes that ever may."""
    keys: Keys
    """What lies there."""
    last: bool = False
    """Whether it is the last part."""
    verifier: str = ""
    """Another one once what lay there is gone; empty if it doesn't tell."""
    busy: Sizes = {}
    """With the last one: the tasks that it is still at, by object."""


class CapacityNotice(Struct, frozen=True, tag_field="op", tag="capacity", kw_only=True):
    """An IOnode may hold more than before, or less, since its node's streams want less, or more."""

    bytes: Whole


class CommandAnswer(Struct, frozen=True, tag_field="op", tag="task", kw_only=True):
    """What an IOnode says to a command; some of it belongs to some commands only."""

    task: Whole = 0
    """The command's number; 0 if no IOnode has said it, since the one that was asked is away."""
    done: bool = True
    """Whether it is the last one; with `error`, an attempt has failed and there will be another."""
    errno: Whole | None = None
    """Why it failed; None if it didn't."""
    error: str = ""
    """In words."""
    facts: tuple[Whole, str] | None = None
    """Size and version of the object, as it is now."""
    keys: Keys = ()
    """Piece files that are there."""
    objects: tuple[tuple[str, Whole, str, float], ...] = ()
    """What a directory has: path below it, size, version and time of change."""
    directories: tuple[str, ...] = ()
    """Names of the directories there."""
    weakness: str = ""
    """What the shared storage can't check in the instant in which it changes; of `upload`, `move` and `delete`."""


# From the master.


class IonodeTold(IonodeAddress, frozen=True, kw_only=True):
    """An IOnode, as clients and other IOnodes are told of it."""

    up: bool
    """Whether it is there now."""


class NodesNotice(Struct, frozen=True, tag_field="op", tag="nodes", kw_only=True):
    """Which IOnodes there are."""

    nodes: tuple[IonodeTold, ...]


class FitsNotice(Struct, frozen=True, tag_field="op", tag="fits", kw_only=True):
    """What lies on an IOnode, and what may be written there, is no more than the capacity that it told last."""

    bytes: Whole


class Command(Struct, frozen=True, kw_only=True):
    """What an IOnode is to do."""

    task: Whole = 0
    """Its number."""


class FillCommand(Command, frozen=True, tag_field="op", tag="fill", kw_only=True):
    """Fetch a piece from the shared storage."""

    path: str
    """The object."""
    key: str
    start: Whole
    """Where the piece begins in the object."""
    bytes: Whole
    facts: tuple[Whole, str]
    """What the object must be: size and version."""
    urgent: bool


class ScanCommand(Command, frozen=True, tag_field="op", tag="scan", kw_only=True):
    """List what the shared storage has in a directory."""

    path: str
    below: bool
    """Everything below it, too."""


class DiscardCommand(Command, frozen=True, tag_field="op", tag="discard", kw_only=True):
    """Release what was written and never committed."""

    version: Whole
    cut: Keys
    """Piece files that end there from now on."""


class FetchCommand(Command, frozen=True, tag_field="op", tag="fetch", kw_only=True):
    """Copy a piece from another IOnode."""

    key: str
    bytes: Whole
    node: IonodeAddress


class HaveCommand(Command, frozen=True, tag_field="op", tag="have", kw_only=True):
    """List which of these piece files are there."""

    keys: tuple[str, ...]


class DropCommand(Command, frozen=True, tag_field="op", tag="drop", kw_only=True):
    """Remove piece files."""

    keys: tuple[str, ...]


class UploadCommand(Command, frozen=True, tag_field="op", tag="upload", kw_only=True):
    """Write a version to the shared storage."""

    path: str
    size: Whole
    pieces: Pairs
    piece_bytes: Whole
    ring: tuple[str, ...]
    replicas: Whole
    over: Seen
    """What is to be there by that name."""
    unsure: bool = False
    """Whether an earlier upload of the file may be there, too: what isn't `over` is kept beside then."""


class StopCommand(Command, frozen=True, tag_field="op", tag="stop", kw_only=True):
    """Abandon an upload: the file has gone."""

    upload: Whole
    """The task that it is."""


class MoveCommand(Command, frozen=True, tag_field="op", tag="move", kw_only=True):
    """Rename an object."""

    path: str
    to: str
    facts: tuple[Whole, str]
    """What the object must be; it may have the other name already."""
    over: Seen
    """What is to be there by the other name."""


class DeleteCommand(Command, frozen=True, tag_field="op", tag="delete", kw_only=True):
    """Remove an object."""

    path: str
    facts: Seen
    """What it must be; None if unknown: it is kept beside then."""


class EndCommand(Command, frozen=True, tag_field="op", tag="end", kw_only=True):
    """End, and keep nothing."""


AT_OBJECTS = (UploadCommand, MoveCommand, DeleteCommand)
"""Commands that an IOnode continues with while it is away from its master."""
parse_told = parser(
    NodesNotice | FitsNotice | FillCommand | ScanCommand | DiscardCommand | FetchCommand | HaveCommand | DropCommand
    | UploadCommand | StopCommand | MoveCommand | DeleteCommand | EndCommand,
    "a command",
)  # fmt: skip
"""Takes in what a master says to an IOnode that has joined."""

"""The records that change a master's namespace and what it knows of its clients, and what they are about.

Each says what is so from now on, not how it came: an inode, or an open file, is now this. Those that are `Stored` are
what the database has; one of these that counts twice does no harm.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from msgspec import Struct

from bbflow.files.inodes import Inode, Pieces, Striping
from bbflow.files.master.awaited_events import Event
from bbflow.files.wire import Seen


class Handle(Struct, frozen=True, gc=False):
    """A file that a session has open, or the master itself while an IOnode writes it back."""

    number: int
    """Its number."""
    session: str
    """Whose it is; empty for the master's own."""
    ino: int
    """Which file."""
    version: int
    """The number that it writes; 0 for reading."""
    pieces: Pieces
    """What it may read: the version as it was opened, or as it was last committed by it."""
    striping: Striping
    """Where the pieces lie that it reads, or writes: the file's own once they are committed."""
    is_cut_off: bool = False
    """Whether the bytes that it continues from are gone meanwhile."""
    verifiers: tuple[str, ...] = ()
    """Those of the ring's nodes when it was opened, or last committed: what is written now lies there with them."""
    pid: int = 0
    """The program on the session's host that opened it for writing; unknown after a restart."""


class ObjectTransfer(Struct, frozen=True, gc=False):
    """What an IOnode was told to do to an object: it outlives the master, and may still be under way then."""

    path: str
    """Which object it makes or removes."""
    node: str
    """The IOnode."""
    source: str = ""
    """The object's name before, where it is moved."""
    task: int = 0
    """What the IOnode calls it."""
    ino: int = 0
    """The file that is written or moved; 0 for an object that is removed."""
    version: int = 0
    """Which version of it is written."""

    @property
    def objects(self) -> set[str]:
        """All objects that it is about."""
        return {self.path, self.source} - {""}


class Hidden(Struct, frozen=True):
    """An object that can't be opened, since the namespace can't have its name."""

    directory: str
    """Where it was seen."""
    reason: str
    """Why."""


class Lock(Struct, frozen=True, gc=False):
    """A range of a file that a session holds (`fcntl`, and `flock` as one of the whole file)."""

    session: str
    """Whose client."""
    owner: str
    """Which process there, as the client says."""
    kind: str
    """`r` or `w`; `u` for one that is let go."""
    start: int
    """First byte."""
    end: int
    """Behind the last byte."""
    pid: int
    """For `F_GETLK`."""

    def is_of(self, other: "Lock") -> bool:
        """Whether two have the same owner."""
        return (self.session, self.owner) == (other.session, other.owner)

    def conflicts(self, other: "Lock") -> bool:
        """Whether two can't be held at once."""
        if self.is_of(other) or "w" not in (self.kind, other.kind):
            return False
        return self.start < other.end and other.start < self.end


class Record(Struct, frozen=True, tag=True, gc=False):
    """Something that is so from now on; of this master's process only."""

    is_of_client: ClassVar[bool] = False
    """Whether `Sessions` takes it in, not `Namespace`."""


class Stored(Record, frozen=True):
    """Something that is so from now on, also for the next master."""


class InodeRecord(Stored, frozen=True):
    """An inode is now this; one whose number is new is new."""

    inode: Inode


class TouchRecord(Stored, frozen=True):
    """A directory is now this, since names in it have changed: stored before long, as each name is stored by itself."""

    inode: Inode


class ForgetRecord(Stored, frozen=True):
    """An inode is gone, with its name if it still has one."""

    ino: int


class HandleRecord(Stored, frozen=True):
    """An open file is now this; only one for writing is stored, as its client continues with it."""

    handle: Handle


class ClosedRecord(Stored, frozen=True):
    """An open file is closed."""

    handle: Handle


class DoomRecord(Stored, frozen=True):
    """An object must go, if it is still what it was; an unknown one is kept under a name that says so."""

    path: str
    facts: Seen


class SpareRecord(Stored, frozen=True):
    """An object need not go any more."""

    path: str


class TransferRecord(Stored, frozen=True):
    """An IOnode is told to do something to an object: what is there is not known now."""

    transfer: ObjectTransfer


class TransferredRecord(Stored, frozen=True):
    """Nothing is under way any more at the objects of a transfer."""

    transfer: ObjectTransfer


class LocksRecord(Stored, frozen=True):
    """An owner holds these locks on a file."""

    ino: int
    session: str
    owner: str
    locks: tuple[Lock, ...]


class SessionRecord(Stored, frozen=True):
    """A client has a session."""

    is_of_client = True

    session: str
    """Its name."""
    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    """Further groups; not stored, as who comes back tells them again."""


class SessionEndRecord(Stored, frozen=True):
    """A session is over, and its replies won't be asked for again."""

    is_of_client = True

    session: str


class ReplyRecord(Stored, frozen=True):
    """The last request in a slot of a session was answered so, for who asks it again."""

    is_of_client = True

    session: str
    slot: int
    number: int
    """The request's."""
    reply: bytes
    """As it goes out."""


class GivenRecord(Record, frozen=True):
    """As `ReplyRecord`, of a request that has changed nothing which a next master must know."""

    is_of_client = True

    session: str
    slot: int
    number: int
    reply: bytes


class SeenRecord(Record, frozen=True):
    """The shared storage was looked at for a directory, or a file's object was written, moved or found there."""

    ino: int
    at_s: float
    """When; 0 if it is to be looked at again."""


class UsedRecord(Record, frozen=True):
    """A file is used now, as one that is opened is."""

    ino: int


class VanishedRecord(Record, frozen=True):
    """An object is gone, which looks at the shared storage that are under way may have seen still."""

    path: str


class LookRecord(Record, frozen=True):
    """A look at the shared storage begins, or is over."""

    begins: bool


class HideRecord(Record, frozen=True):
    """An object can't be shown; a name that ends in ``/`` stands for all below."""

    path: str
    hidden: Hidden


class ShowRecord(Record, frozen=True):
    """An object is hidden no more."""

    path: str


Followed = tuple[Sequence[Event], Iterable[str]]
"""What has happened by a record; and piece files that a file, or its handle, doesn't need any more: others may."""
NOTHING: Followed = ((), ())

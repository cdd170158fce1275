"""What happens that requests wait for, each kind with the thing that it happens to."""

from msgspec import Struct


class Event(Struct, frozen=True, gc=False):
    """Something has happened; equal ones are one."""


class NamedEvent(Event, frozen=True):
    """A directory has a new name."""

    directory: int


class ClosedEvent(Event, frozen=True):
    """A file was committed or closed, or is gone."""

    ino: int


class SeenEvent(Event, frozen=True):
    """IOnodes have said what they have of what is to be committed, or will not."""

    handle: int


class UnnamedEvent(Event, frozen=True):
    """A file that is open has no name any more."""

    ino: int


class CleanEvent(Event, frozen=True):
    """A file is not to be written back any more: it is, or never will be."""

    ino: int


class NodeEvent(Event, frozen=True):
    """An IOnode is up."""

    node: str


class AnyNodeEvent(Event, frozen=True):
    """Some IOnode is up."""


class RoomEvent(Event, frozen=True):
    """An IOnode has more room, or may have it."""

    node: str


class FillBegunEvent(Event, frozen=True):
    """The IOnodes know that a file's bytes are to come, or will not."""

    ino: int


class FilledEvent(Event, frozen=True):
    """A file's bytes have come from the shared storage, or will not."""

    ino: int


class ScannedEvent(Event, frozen=True):
    """A directory was looked at in the shared storage."""

    directory: int


class TransferredEvent(Event, frozen=True):
    """Something was written to the shared storage, moved or removed there, or was not."""


class StorageEvent(Event, frozen=True):
    """Something else may go to the shared storage now."""


class GraceEvent(Event, frozen=True):
    """Clients of the master before this one have come back, or are gone."""


class UnlockedEvent(Event, frozen=True):
    """The locks of a file have changed."""

    ino: int

"""Files that tasks make on a burst buffer: who has room there, and which go when room is needed. Pure decisions."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from bbflow.staging.buffer_room import FileState, first_enough


@dataclass(eq=False, slots=True, kw_only=True)
class Making:
    """One making of a file on the burst buffer."""

    url: str
    """Its own place, where it goes when it is staged out."""
    is_result: bool
    """Whether it is staged out as soon as it is written."""
    state: FileState = FileState.AWAITED
    """How far it is: awaited, here, leaving or gone."""
    version: tuple[int, int] = (0, 0)
    """Bytes of the file and its time of modification in nanoseconds, once it is written."""
    readers: int = 0
    """Tasks and transfers that hold it."""
    reserved_bytes: int = 0
    """Room that its task needs while it runs."""
    is_clean: bool = False
    """Whether it lies in its own place too."""
    is_superseded: bool = False
    """Whether the file is made again elsewhere, so that this one won't be read."""
    is_stuck: bool = False
    """Whether it could not be copied to its own place."""

    @property
    def size_bytes(self) -> int:
        """Of the file, once it is written."""
        return self.version[0]

    @property
    def is_there(self) -> bool:
        """Whether the burst buffer has the whole file."""
        return self.state in (FileState.HERE, FileState.LEAVING)

    @property
    def may_go(self) -> bool:
        """Whether it isn't held, and nothing is lost once it is copied."""
        return self.state is FileState.HERE and not self.readers and (self.is_clean or not self.is_stuck)

    @property
    def room_bytes(self) -> int:
        """What it takes, or may take before its task has ended."""
        return self.reserved_bytes if self.state is FileState.AWAITED else self.size_bytes


M = TypeVar("M", bound=Making)


def taken_bytes(makings: Iterable[Making]) -> int:
    """Return what makings take, those included that running tasks may need."""
    return sum(making.room_bytes for making in makings)


def has_room(makings: Iterable[Making], making: Making, capacity_bytes: int) -> bool:
    """Whether a task that starts now may write here; what it isn't known to need is a single free byte.

    Parameters
    ----------
    makings
        All of them, the one in question included.
    making
        What it would write, with the room that is reserved for it.
    capacity_bytes
        What all may take.
    """
    others_bytes = taken_bytes(makings) - making.reserved_bytes
    return others_bytes + max(making.reserved_bytes, 1) <= capacity_bytes


def excess_bytes(makings: Iterable[Making], capacity_bytes: int) -> int:
    """Return how many bytes what stays, and what is being made, exceeds the capacity by; negative if there is room."""
    return (
        sum(making.room_bytes for making in makings if making.state in (FileState.HERE, FileState.AWAITED))
        - capacity_bytes
    )


def victims(makings: Iterable[M], capacity_bytes: int) -> list[M]:
    """Choose what goes so that the rest fits: in the order given, oldest first.

    Parameters
    ----------
    makings
        All of them, the oldest first.
    capacity_bytes
        What may stay.

    Returns
    -------
    list of Making
        As many as are needed, or all that may go if they aren't enough.
    """
    makings = list(makings)
    going = (making for making in makings if making.may_go)
    return first_enough(going, excess_bytes(makings, capacity_bytes), lambda making: making.size_bytes)[0]

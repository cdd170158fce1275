"""One making of a file on the burst buffer, and which of them go when room is needed."""

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any


class State(Enum):
    """How far a making is."""

    AWAITED = "its task has not ended"
    HERE = "whole"
    LEAVING = "whole, and being copied to its own place to make room"
    GONE = "not on the burst buffer"


@dataclass(eq=False, slots=True)
class Place:
    """One making of a file on the burst buffer."""

    url: str
    """Its own place, where it goes when it is staged out."""
    path: Path
    """On the burst buffer."""
    writer: Future[Any]
    """The task that makes it."""
    is_result: bool
    """Whether it is staged out as soon as it is written."""
    written: Future[None] = field(default_factory=Future)
    """Done when the task is final; the task's error if it failed."""
    staged_out: Future[None] = field(default_factory=Future)
    """Done when a result is in its own place."""
    state: State = State.AWAITED
    """How far it is."""
    version: tuple[int, int] = (0, 0)
    """Bytes of the file and its time of modification in nanoseconds, once it is written."""
    readers: int = 0
    """Tasks and transfers that hold it."""
    is_stream: bool = False
    """Whether it is standard output or error: a result of a task that failed too."""
    reserved_bytes: int = 0
    """Room that its task needs while it runs."""
    is_clean: bool = False
    """Whether it lies in its own place too."""
    is_superseded: bool = False
    """Whether the file is made anew elsewhere, so that nobody comes to read this one."""
    is_stuck: bool = False
    """Whether it could not be copied to its own place."""

    @property
    def size_bytes(self) -> int:
        """Of the file, once it is written."""
        return self.version[0]

    @property
    def is_there(self) -> bool:
        """Whether the burst buffer has the whole file."""
        return self.state in (State.HERE, State.LEAVING)

    @property
    def may_go(self) -> bool:
        """Whether nobody holds it, and nothing is lost once it is copied."""
        return self.state is State.HERE and not self.readers and (self.is_clean or not self.is_stuck)

    @property
    def room_bytes(self) -> int:
        """What it takes, or may take before its task has ended."""
        return self.reserved_bytes if self.state is State.AWAITED else self.size_bytes


def excess_bytes(places: Iterable[Place], capacity_bytes: int) -> int:
    """Give by how many bytes what stays, and what is being made, is above the capacity; below zero if there is room."""
    return sum(place.room_bytes for place in places if place.state in (State.HERE, State.AWAITED)) - capacity_bytes


def victims(places: Iterable[Place], capacity_bytes: int) -> list[Place]:
    """Choose what goes so that the rest fits: in the order given, oldest first.

    Parameters
    ----------
    places
        All of them, the oldest first.
    capacity_bytes
        What may stay.

    Returns
    -------
    list of Place
        As many as are needed, or all that may go if they aren't enough.
    """
    places = list(places)
    over_bytes = excess_bytes(places, capacity_bytes)
    chosen = []
    for place in places:
        if over_bytes <= 0:
            break
        if place.may_go:
            chosen.append(place)
            over_bytes -= place.size_bytes
    return chosen

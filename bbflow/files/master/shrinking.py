"""IOnodes that may hold less than before, since streams want their room: files go until the rest fits."""

from collections.abc import Callable, Iterable

from bbflow.files.commands import FitsNotice
from bbflow.files.master.core import Core
from bbflow.files.master.events import AnyNodeEvent, ClosedEvent, Event, FilledEvent, RoomEvent, TransferredEvent
from bbflow.files.master.room import Node

EVENTS = (RoomEvent, TransferredEvent, ClosedEvent, FilledEvent, AnyNodeEvent)
"""What may let more files go."""


class Shrinking:
    """Lets files go until what lies on a node fits what it may hold.

    Parameters
    ----------
    core
        The master's state.
    make_room
        Lets files go from a node until this many bytes come free.
    """

    def __init__(self, core: Core, make_room: Callable[[Node, int], None]) -> None:
        self._core, self._make_room = core, make_room
        self._unsettled: set[str] = set()

    def may_hold(self, node: Node, capacity: int) -> None:
        """Take in what a node may hold from now on; it is told when nothing more lies there, nor will."""
        node.may_hold(capacity)
        self._unsettled.discard(node.name)
        if capacity < node.most_bytes:
            self._unsettled.add(node.name)
        self._core.happened(RoomEvent(node.name))

    def take(self, events: Iterable[Event]) -> None:
        """Take in what has happened: let files go from nodes that hold too much, and tell those that don't."""
        if not self._unsettled or not any(isinstance(event, EVENTS) for event in events):
            return
        for name in sorted(self._unsettled):
            node = self._core.nodes[name]
            if node.free_bytes < 0:
                self._make_room(node, 0)
                continue
            self._unsettled.discard(name)
            if node.peer is not None:
                self._core.send(node.peer, FitsNotice(bytes=node.capacity))

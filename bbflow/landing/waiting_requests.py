"""Requests that wait for their reply, kept so that many of them cost no more than one."""

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from bbflow.landing.replies import RoomReply
from bbflow.landing.requests import RoomRequest
from bbflow.net.verdicts import RefusedReply

Answers = dict[type, Callable[[int, Any], Struct | None]]
"""What answers each kind of request of a peer; None for no reply."""
RoomAnswer = RoomReply | RefusedReply


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request without a reply yet."""

    peer: int
    """Who waits."""
    asked: RoomRequest
    """What was asked."""
    alike: Hashable
    """Of requests with an equal one, none can be answered if the first can't."""


class Queues:
    """Waiting requests, in one queue for those that are alike."""

    def __init__(self) -> None:
        self._queues: dict[Hashable, deque[Waiting]] = {}

    def __iter__(self) -> Iterator[Waiting]:
        return (waiting for queue in self._queues.values() for waiting in queue)

    def __bool__(self) -> bool:
        return bool(self._queues)

    def has_alike(self, waiting: Waiting) -> bool:
        """Whether requests wait already that must be answered before this one."""
        return waiting.alike in self._queues

    def add(self, waiting: Waiting) -> None:
        """Queue a request behind those that are alike."""
        self._queues.setdefault(waiting.alike, deque()).append(waiting)

    def remove(self, peer: int) -> None:
        """Forget what a peer has asked."""
        for alike, queue in self._queues.items():
            self._queues[alike] = deque(waiting for waiting in queue if waiting.peer != peer)
        self._forget_empty()

    def answer(
        self, attempt: Callable[[Waiting], RoomAnswer | None], *, each: bool = False
    ) -> list[tuple[int, RoomAnswer]]:
        """Iterate over the requests, oldest first among those that are alike.

        Parameters
        ----------
        attempt
            Gives a request's reply; None while it must wait.
        each
            Try all of them; otherwise one that must wait stands for all that are alike.

        Returns
        -------
        list of (int, RoomReply or RefusedReply)
            Replies and the peers that they are for, which no longer wait.
        """
        replies: list[tuple[int, RoomAnswer]] = []
        for queue in self._queues.values():
            for _ in range(len(queue)):
                waiting = queue.popleft()
                reply = attempt(waiting)
                if reply is not None:
                    replies.append((waiting.peer, reply))
                elif each:
                    queue.append(waiting)
                else:
                    queue.appendleft(waiting)
                    break
        self._forget_empty()
        return replies

    def _forget_empty(self) -> None:
        self._queues = {alike: queue for alike, queue in self._queues.items() if queue}

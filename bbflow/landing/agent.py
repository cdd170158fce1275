"""The agent's decisions: messages of peers go in, replies come out; no socket and no clock of its own."""

from dataclasses import dataclass

from msgspec import Struct

from bbflow.errors import CapacityError, ProtocolError, StreamError
from bbflow.landing.analysis_requests import Analysing, Told, show
from bbflow.landing.connections import WriterConnections
from bbflow.landing.fabric import FabricGates
from bbflow.landing.reading import Reading
from bbflow.landing.replies import RoomReply, Shown, StatusReply, StreamStatus
from bbflow.landing.requests import (
    BeginRequest,
    CommitRequest,
    DropRequest,
    FabricRequest,
    GetRequest,
    HoldRequest,
    JoinRequest,
    PassRequest,
    PinRequest,
    Request,
    ReserveRequest,
    RoomRequest,
    StatusRequest,
    StopRequest,
    SyncRequest,
    UnpinRequest,
    WatchRequest,
)
from bbflow.landing.waiting_requests import Answers, Queues, RoomAnswer, Waiting
from bbflow.landing.writers import Clock
from bbflow.net.verdicts import DoneReply, RefusedReply
from bbflow.store.node import NodeStore
from bbflow.store.streams import Stream

Reply = tuple[int, Struct]
"""For whom, and what: one of `replies`."""
POOL_S = 0.05
"""How often an agent looks whether files have left the room that its pool is to have."""
WAITING_S = 1.0
"""How often it looks whether the pool is still there while ranks wait for room in it."""
QUIET = (
    SyncRequest, HoldRequest, PinRequest, UnpinRequest, GetRequest, FabricRequest, JoinRequest, PassRequest,
    StatusRequest,
)  # fmt: skip
"""Requests after which nothing that a `watch` shows has changed."""


@dataclass(frozen=True, slots=True)
class OpenWatch:
    """A `watch` without a reply yet."""

    peer: int
    """Who waits."""
    asked: WatchRequest
    """What was asked."""
    deadline_s: float
    """When a reply is due at the latest."""


class Agent:
    """One BB node's agent.

    Parameters
    ----------
    store
        What the node keeps.
    name, host
        As they stand in the contact file.
    clock
        Gives seconds since the epoch.
    gates
        What other hosts may write and read by libfabric; None if nothing.
    """

    def __init__(self, store: NodeStore, name: str, host: str, clock: Clock, gates: FabricGates | None = None) -> None:
        self._store = store
        self._name, self._host = name, host
        self._clock = clock
        self._change = 0
        self._looked_s = 0.0
        self._waiting = Queues()
        self._watchers: list[OpenWatch] = []
        self._told: dict[int, Told] = {}
        self._analysing = Analysing(store)
        self._writing = WriterConnections(store, clock, self._analysing, gates)
        self._reading = Reading(store, gates)
        self._answers: Answers = {
            **self._writing.answers,
            **self._reading.answers,
            **self._analysing.answers,
            StatusRequest: self._status,
            StopRequest: self._stop,
        }
        self.check_target = self._writing.check_target
        self.landed = self._writing.landed
        self.stopped = False
        """Whether someone asked it to end."""

    def handle(self, peer: int, asked: Request) -> list[Reply]:
        """Take a request of a peer in.

        Returns
        -------
        list of (int, Struct)
            Replies, for this peer and for others whose waiting ended with it.

        Raises
        ------
        ProtocolError
            If the request is not allowed: the peer must be cut off.
        """
        if isinstance(asked, BeginRequest | ReserveRequest):
            return self._admit(peer, asked)
        if isinstance(asked, WatchRequest):
            return self._watch(peer, asked)
        reply = self._ask(peer, asked)
        if isinstance(asked, DropRequest):
            self._writing.forget_dropped()
        is_partial = isinstance(asked, CommitRequest) and self._writing.is_partial(peer, asked.step)
        # Watchers see whole steps alone: a commit that others must complete would wake them for nothing.
        if not is_partial and not isinstance(asked, QUIET):
            self._change += 1
        replies = ([(peer, reply)] if reply is not None else []) + self._settle()
        # Behind those who wait: what is offered is what they leave.
        if isinstance(asked, CommitRequest) and asked.ahead_bytes:
            replies.append((peer, self._offer(peer, asked)))
        return replies

    def _watch(self, peer: int, asked: WatchRequest) -> list[Reply]:
        try:
            self._analysing.check(asked)
        except StreamError as error:
            return [(peer, RefusedReply(error=str(error)))]
        self._watchers.append(OpenWatch(peer, asked, self._clock() + asked.timeout_s))
        return self._show()

    def _offer(self, peer: int, asked: CommitRequest) -> RoomReply:
        """Offer a rank room for its next step, unless others wait for room."""
        return RoomReply(status="later") if self._waiting else self._writing.offer(peer, asked)

    def _admit(self, peer: int, asked: RoomRequest) -> list[Reply]:
        """Answer a request for room, or let it wait behind those that are alike."""
        waiting = Waiting(peer, asked, self._writing.alike(peer, asked))
        is_first = not self._waiting.has_alike(waiting)
        self._waiting.add(waiting)
        # Behind one like it, it waits for the same.
        return self._settle() if is_first else []

    def _ask(self, peer: int, asked: Request) -> Struct | None:
        answer = self._answers.get(type(asked))
        if answer is None:
            raise ProtocolError(f"{type(asked).__name__} is nothing that an agent answers")
        try:
            return answer(peer, asked)
        except (CapacityError, StreamError) as error:
            if isinstance(asked, CommitRequest):  # it has no reply: the writer learns of it when it is cut off
                raise ProtocolError(str(error)) from None
            return RefusedReply(error=str(error))

    def disconnect(self, peer: int, *, by_itself: bool = True) -> list[Reply]:
        """Take in that a peer's connection is gone.

        Parameters
        ----------
        peer
            Whose.
        by_itself
            Whether the peer has ended; otherwise the network broke, and it may come back.
        """
        # First: what its end frees must not be given to what it has asked.
        self._waiting.remove(peer)
        self._watchers = [watcher for watcher in self._watchers if watcher.peer != peer]
        self._told.pop(peer, None)
        self._analysing.disconnect(peer)
        wrote, read = self._writing.disconnect(peer, by_itself=by_itself), self._reading.disconnect(peer)
        self._change += wrote
        return self._settle() if wrote or read else []

    def expire(self) -> list[Reply]:
        """Do what is due by the clock: answer watchers, give up on ranks that don't come back.

        Raises
        ------
        NodeError
            If the pool is gone: who waits for room in it would wait forever.
        """
        self._store.check_pool()
        lost, is_impatient = self._writing.expire(), self._writing.is_impatient()
        self._change += lost
        is_waiting = self._store.is_unsettled
        self._looked_s = self._clock()
        self._store.settle_pool(self._looked_s)
        return self._settle(each=is_impatient or is_waiting) if lost or is_impatient or is_waiting else self._show()

    def next_deadline_s(self) -> float | None:
        """When `expire` has something to do, in seconds since the epoch."""
        pool_s = [self._looked_s + POOL_S] if self._store.is_unsettled else []
        pool_s += [self._looked_s + WAITING_S] if self._waiting else []
        watchers_s = (watcher.deadline_s for watcher in self._watchers)
        return min([*watchers_s, *self._writing.deadlines_s(), *pool_s], default=None)

    def _settle(self, *, each: bool = False) -> list[Reply]:
        """Answer every waiting request that can be answered; one answer may make room for the next.

        What was offered to ranks that don't wait makes room for those that do.
        """
        replies: list[Reply] = []
        while self._waiting:
            answered = self._waiting.answer(self._try, each=each)
            if not answered and not self._writing.take_back_an_offer():
                break
            replies += answered
        return replies + self._show()

    def _try(self, waiting: Waiting) -> RoomAnswer | None:
        try:
            reply = self._writing.admit(waiting.peer, waiting.asked)
        except (CapacityError, StreamError, ProtocolError) as error:  # another peer may be served now: it must not pay
            return RefusedReply(error=str(error))
        if reply is not None and reply.status == "discard":
            self._change += 1
        return reply

    def _show(self) -> list[Reply]:
        """Answer the watchers that have not seen the last change, or have waited for long enough."""
        now_s = self._clock()
        due = [item for item in self._watchers if item.asked.change != self._change or now_s >= item.deadline_s]
        if not due:
            return []
        self._watchers = [watcher for watcher in self._watchers if watcher not in due]
        return [(watcher.peer, self._view(watcher)) for watcher in due]

    def _view(self, watcher: OpenWatch) -> Shown:
        name = watcher.asked.stream
        told = self._told.setdefault(watcher.peer, Told())
        writers = self._writing.of(name)
        stream = self._store.streams.get(name) or Stream(name)
        return show(stream, watcher.asked, self._change, told, writers.file if writers else "")

    def _status(self, peer: int, asked: StatusRequest) -> StatusReply:
        return StatusReply(
            name=self._name,
            host=self._host,
            capacity=self._store.extents.capacity,
            free=self._store.free_bytes,
            streams={name: self._describe(stream) for name, stream in self._store.streams.items()},
        )

    def _describe(self, stream: Stream) -> StreamStatus:
        writers = self._writing.of(stream.name)
        offered = self._writing.offered(stream.name)
        begun = [
            rank.settled + 1 + bool(rank.granted and number not in offered) for number, rank in stream.ranks.items()
        ]
        transports = self._writing.transports(stream.name)
        return StreamStatus(
            status=stream.status,
            writers=stream.writers,
            local_writers=stream.local_writers,
            ranks=[
                (number, transports.get(number, "closed" if rank.closed else "away"))
                for number, rank in sorted(stream.ranks.items())
            ],
            moved=list(stream.moved.items()),
            written=max(begun, default=stream.last + 1),
            landed=stream.landed_steps,
            landed_bytes=stream.landed_bytes,
            held=len(stream.steps),
            unclaimed=stream.unclaimed,
            discarded=len(stream.discarded),
            readers=len(stream.holds),
            waiting=self._writing.count(stream.name, [w.peer for w in self._waiting]),
            waited_s=writers.waited_s if writers else 0.0,
            consumers={name: cursor.step for name, cursor in stream.consumers.items()},
            late=self._analysing.late.get(stream.name, 0),
        )

    def _stop(self, peer: int, asked: StopRequest) -> DoneReply:
        held = {stream.name: len(stream.steps) for stream in self._store.streams.values() if stream.steps}
        if held and not asked.force:
            raise StreamError(
                f"node {self._name} still holds steps that were not folded and drained ({held}): "
                "fold them first, or force it"
            )
        self.stopped = True
        return DoneReply()

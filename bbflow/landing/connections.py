"""What writers ask of a node: from open to close, and coming back after a break."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from bbflow.errors import NodeError, ProtocolError, StreamError, printable
from bbflow.host.log import log
from bbflow.landing.analysis_requests import Analysing
from bbflow.landing.fabric import FabricGate, FabricGates
from bbflow.landing.replies import OpenReply, RoomReply, SyncReply
from bbflow.landing.requests import (
    AbortRequest,
    BeginRequest,
    CloseRequest,
    CommitRequest,
    GiveUpRequest,
    HoldRequest,
    OpenRequest,
    RefuseRequest,
    RoomRequest,
    SkipRequest,
    SyncRequest,
)
from bbflow.landing.waiting_requests import Answers
from bbflow.landing.writers import Clock, Writers
from bbflow.net.verdicts import DoneReply
from bbflow.store.entries import DropRecord, RefuseRecord
from bbflow.store.extents import Extent
from bbflow.store.node import NodeStore
from bbflow.store.streams import ENDED, MOST_REFUSED

RankKey = tuple[str, int]


@dataclass(slots=True)
class WriterPeer:
    """A connection that has opened a stream for writing."""

    stream: str
    """The stream."""
    writers: Writers
    """Its writers; those of an earlier run of the same name, if the stream was dropped since."""
    rank: int
    """Its rank."""
    transport: str
    """shm, tcp or fabric."""
    offer: str
    """Name of the offers to it; none over TCP."""
    gate: FabricGate | None = None
    """What it may write of the pool by libfabric."""
    plan: int = 0
    """Number of the plan that it was told of last."""
    bad: list[int] = field(default_factory=list)
    """Where bytes came in damaged since the last `sync`."""

    def revoke(self) -> None:
        """Keep it from writing what it was given: that may be others' in a moment."""
        if self.gate:
            self.gate.revoke()

    def close_gate(self) -> None:
        """Do the same for good."""
        if self.gate:
            self.gate.close()
            self.gate = None


UNAWARE_S = 30.0
"""How long after a node a rank may notice that the network between them is gone (Socket.cpp), and move to another node.

A node that gave it up before would abort a stream that continues elsewhere.
"""


@dataclass(frozen=True, slots=True)
class Away:
    """A rank whose connection broke, and which may come back."""

    writers: Writers
    """The writers that it belongs to."""
    until_s: float
    """When it counts as lost (seconds since the epoch)."""
    offer: str = ""
    """Name of the offers to the connection that it had."""


class WriterConnections:
    """The writers of one node, those that are here and those that are away.

    Parameters
    ----------
    store
        What the node keeps; ranks of its open streams are away at first.
    clock
        Gives seconds since the epoch.
    analysing
        Who follows the streams, and what their ranks may fold.
    gates
        What ranks of other hosts may write by libfabric; None if nothing.
    """

    def __init__(self, store: NodeStore, clock: Clock, analysing: Analysing, gates: FabricGates | None = None) -> None:
        self._store, self._clock, self._analysing, self._gates = store, clock, analysing, gates
        self._writers: dict[str, Writers] = {}
        self._offers = store.offers
        self._peers: dict[int, WriterPeer] = {}
        self._away: dict[RankKey, Away] = {}
        for name, stream in store.streams.items():
            self._writers[name] = Writers(store, name, clock)
            for rank in stream.ranks:
                self._miss(name, self._writers[name], rank)
        self.answers: Answers = {
            OpenRequest: self._open,
            SyncRequest: self._sync,
            CommitRequest: self._commit,
            HoldRequest: self._hold,
            SkipRequest: self._skip,
            CloseRequest: self._close,
            AbortRequest: self._abort,
            RefuseRequest: self._refuse,
            GiveUpRequest: self._give_up,
        }
        """What answers at once."""

    def of(self, stream: str) -> Writers | None:
        """Return the writers of a stream, if any has opened it since the node was started."""
        writers = self._writers.get(stream)
        return None if writers is None or writers.is_stale else writers

    def forget_dropped(self) -> None:
        """Forget the writers of streams that were dropped; connections that they still have know them."""
        self._writers = {name: writers for name, writers in self._writers.items() if not writers.is_stale}

    def transports(self, stream: str) -> dict[int, str]:
        """Return for each rank of a stream that is here how its blocks come."""
        return {peer.rank: peer.transport for peer in self._peers.values() if peer.stream == stream}

    def count(self, stream: str, peers: Iterable[int]) -> int:
        """Return how many of some peers write a stream."""
        return sum(peer in self._peers and self._peers[peer].stream == stream for peer in peers)

    def _peer(self, peer: int) -> WriterPeer:
        try:
            return self._peers[peer]
        except KeyError:
            raise ProtocolError("a peer that has not opened a stream wrote") from None

    def _open(self, peer: int, asked: OpenRequest) -> OpenReply:
        if peer in self._peers:
            raise ProtocolError("a connection opened two streams")
        name, rank = asked.stream, asked.rank
        stream = self._store.streams.get(name)
        is_over = stream is not None and stream.status in ENDED and not stream.steps and not stream.consumers
        # A stream that has ended, and of which nothing is needed any more, makes way for one of its name.
        if is_over and not asked.resume:
            self._store.record(DropRecord(stream=name))
        writers = self.of(name) or Writers(self._store, name, self._clock)
        progress = writers.open(asked, is_followed=self._analysing.is_followed(name))
        self._writers[name] = writers
        self._take_up(name, rank)
        offer = self._offers.new_name() if asked.transport == "shm" else ""
        gate, why_none = self._open_gate(asked.fabric)
        told = self._analysing.plan_of(name)
        # A plan counts from some step on: a rank that is still far from it is told later.
        is_due = progress.settled + 2 >= told.since
        transport = "fabric" if gate else asked.transport
        self._peers[peer] = WriterPeer(name, writers, rank, transport, offer, gate, told.number if is_due else 0)
        return OpenReply(
            pool=str(self._store.directory / "pool"),
            capacity=self._store.extents.capacity,
            committed=progress.settled,
            extents=progress.granted,
            offer=offer,
            plan=told.plan if told.plan is not None and is_due else UNSET,
            fabric=gate.way if gate else UNSET,
            keys=_keys_for(gate, progress.granted),
            fabric_error=why_none or UNSET,
        )

    def _open_gate(self, providers: Sequence[str]) -> tuple[FabricGate | None, str]:
        """Return how a rank may write by libfabric; if it may not although it asks, why."""
        if self._gates is None or not providers:
            return None, ""
        try:
            return self._gates.open(providers), ""
        except NodeError as error:
            return None, str(error)

    def _take_up(self, stream: str, rank: int) -> None:
        """Forget an older connection of a rank that has come back, perhaps before its break was noticed."""
        own = {key: peer for key, peer in self._peers.items() if (peer.stream, peer.rank) == (stream, rank)}
        for key, peer in own.items():
            if not peer.writers.is_stale:  # else it is a straggler of a dropped stream, and still has its room
                # What it hasn't taken first: what is left then is taken, and must be in the index before its link goes.
                self._take_back_from(peer)
                self._confirm(peer, rank)
                peer.close_gate()
                del self._peers[key]
        if away := self._away.get((stream, rank)):
            self._confirm(away, rank)
            del self._away[stream, rank]

    def _confirm(self, gone: WriterPeer | Away, rank: int) -> None:
        """Note in the index the room that a rank has taken, instead of the link of a connection that is gone."""
        gone.writers.confirm(rank)
        self._offers.forget(gone.offer)

    def offer(self, peer: int, asked: CommitRequest) -> RoomReply:
        """Return a rank room for the step after the one that it commits, unless others need it."""
        writer = self._peer(peer)
        return self._with_plan(writer, self._offer_to(writer, asked))

    def _with_plan(self, writer: WriterPeer, reply: RoomReply) -> RoomReply:
        """Return a reply with what the rank may fold itself, if it hasn't heard of that."""
        told, writers = self._analysing.plan_of(writer.stream), writer.writers
        if told.number == writer.plan or writers.is_stale or writers.settled(writer.rank) + 2 < told.since:
            return reply
        writer.plan = told.number
        return replace(reply, plan=told.plan)

    def _offer_to(self, writer: WriterPeer, asked: CommitRequest) -> RoomReply:
        offer = writer.writers.offer(writer.rank, asked.step + 1, asked.ahead_bytes) if writer.offer else None
        if offer is None:
            return RoomReply(status="later")
        if not self._offers.make(writer.offer, offer):
            writer.writers.withdraw(writer.rank)
            return RoomReply(status="later")
        return RoomReply(extents=[offer.extent])

    def take_back_an_offer(self) -> bool:
        """Withdraw the first offer that isn't taken; false if there is none."""
        return self._offers.stand and any(map(self._take_back_from, self._peers.values()))

    def _take_back_from(self, writer: WriterPeer) -> bool:
        """Withdraw what a rank is offered; false if it has taken it, as the link tells, or there is nothing."""
        is_back = self._offers.take_back(writer.offer)
        if is_back:
            writer.writers.withdraw(writer.rank)
        return is_back

    def _part_from(self, writer: WriterPeer) -> None:
        """End what a rank was let do that needs no room any more."""
        writer.close_gate()
        self._take_back_from(writer)
        self._offers.forget(writer.offer)

    def offered(self, stream: str) -> set[int]:
        """Return the ranks that are offered room for a step that they have not begun."""
        own = (peer for peer in self._peers.values() if peer.stream == stream)
        return {peer.rank for peer in own if self._offers.stands(peer.offer)}

    def admit(self, peer: int, asked: RoomRequest) -> RoomReply | None:
        """Return a rank the room that it asks for; None while it must wait.

        Raises
        ------
        CapacityError
            If the step can't ever fit.
        ProtocolError, StreamError
            If it must not ask, or its stream has ended.
        """
        writer = self._peer(peer)
        if isinstance(asked, BeginRequest):
            self._take_back_from(writer)  # it has asked again, so it has not taken it
            reply = writer.writers.begin(writer.rank, asked.step, asked.bytes)
        else:
            reply = writer.writers.reserve(writer.rank, asked.step, asked.bytes)
        return reply and self._with_plan(writer, replace(reply, keys=_keys_for(writer.gate, reply.extents)))

    def alike(self, peer: int, asked: RoomRequest) -> Hashable:
        """Return what requests for room have in common if one that can't be answered means that none can."""
        writer = self._peers.get(peer)
        if writer is None or not isinstance(asked, BeginRequest):
            return peer
        return writer.writers.alike(writer.rank, asked.step, asked.bytes) or peer

    def is_partial(self, peer: int, step: int) -> bool:
        """Whether other ranks still have to commit a step that a peer has committed."""
        writer = self._peers.get(peer)
        stream = self._store.streams.get(writer.stream) if writer else None
        return stream is not None and step in stream.parts

    def is_impatient(self) -> bool:
        """Whether a rank has waited for long enough for ranks that have not opened its stream."""
        now_s = self._clock()
        return any(end_s <= now_s for end_s in self._patience_ends_s())

    def check_target(self, peer: int, offset: int, size: int) -> None:
        """Refuse bytes that don't belong where the peer sends them.

        Raises
        ------
        ProtocolError
            If they don't.
        """
        writer = self._peer(peer)
        if not writer.writers.holds(writer.rank, offset, size):
            raise ProtocolError(f"rank {writer.rank} sent {size} bytes to {offset}, which it was not given")

    def landed(self, peer: int, offset: int, *, intact: bool) -> None:
        """Take in that bytes have come in over TCP."""
        bad = self._peer(peer).bad
        if not intact and offset not in bad:
            bad.append(offset)

    def _sync(self, peer: int, asked: SyncRequest) -> SyncReply:
        writer = self._peer(peer)
        bad, writer.bad = writer.bad, []
        return SyncReply(bad=bad)

    def _commit(self, peer: int, asked: CommitRequest) -> None:
        writer = self._peer(peer)
        if writer.bad:
            # It should have asked which these are, and sent them again.
            raise ProtocolError(f"rank {writer.rank} committed a step of which bytes came in damaged")
        # First: what is committed is shown, and must not change any more.
        writer.revoke()
        writer.writers.commit(writer.rank, asked)
        told = self._analysing.plan_of(writer.stream)
        if told.plan is None and told.number == writer.plan:
            writer.writers.end_states(writer.rank)

    def _hold(self, peer: int, asked: HoldRequest) -> RoomReply:
        writer = self._peer(peer)
        return self._with_plan(writer, writer.writers.hold(writer.rank, asked.step))

    def _skip(self, peer: int, asked: SkipRequest) -> DoneReply:
        writer = self._peer(peer)
        writer.revoke()
        writer.writers.skip(writer.rank, asked.step)
        return DoneReply()

    def _close(self, peer: int, asked: CloseRequest) -> DoneReply:
        writer = self._peer(peer)
        self._part_from(writer)
        writer.writers.close(writer.rank, asked.attributes or ())
        del self._peers[peer]
        return DoneReply()

    def _abort(self, peer: int, asked: AbortRequest) -> None:
        writer = self._peer(peer)
        del self._peers[peer]
        self._part_from(writer)
        writer.writers.abort(writer.rank)

    def _refuse(self, peer: int, asked: RefuseRequest) -> DoneReply:
        stream = self._store.streams.get(asked.stream)
        if stream is None:
            raise StreamError(f"there is no stream {asked.stream!r} on this node")
        # What follows from a rank's loss is refused to all others: the loss is said already.
        if stream.status != "aborted" and len(stream.refused) < MOST_REFUSED:
            self._store.record(RefuseRecord(stream=asked.stream, why=printable(asked.why)))
        return DoneReply()

    def _give_up(self, peer: int, asked: GiveUpRequest) -> DoneReply:
        if writers := self.of(asked.stream):
            writers.give_up(asked.missing)
        return DoneReply()

    def disconnect(self, peer: int, *, by_itself: bool) -> bool:
        """Take in that a connection is gone; return whether a writer's."""
        writer = self._peers.pop(peer, None)
        if writer is None:
            return False
        if by_itself:
            # First: once it has closed others get its room.
            self._part_from(writer)
            writer.writers.abort(writer.rank)
        else:
            writer.close_gate()
            self._take_back_from(writer)
            unaware_s = 0.0 if writer.transport == "shm" else UNAWARE_S
            self._miss(writer.stream, writer.writers, writer.rank, unaware_s, writer.offer)
        return True

    def _miss(self, stream: str, writers: Writers, rank: int, unaware_s: float = 0.0, offer: str = "") -> None:
        timeout_s = writers.lost_after_s(rank)
        if timeout_s is not None:
            self._away[stream, rank] = Away(writers, self._clock() + timeout_s + unaware_s, offer)

    def expire(self) -> bool:
        """Give up on the ranks that were away, or have not come, for too long; return whether there was one."""
        now_s = self._clock()
        lost = {key: away for key, away in self._away.items() if away.until_s <= now_s}
        for (_, rank), away in lost.items():
            self._offers.forget(away.offer)
            away.writers.abort(rank)
        self._away = {key: away for key, away in self._away.items() if key not in lost}
        given_up = [writers for writers, end_s in self._given_up_s() if end_s <= now_s]
        for writers in given_up:
            writers.give_up()
        return bool(lost or given_up)

    def deadlines_s(self) -> list[float]:
        """When something is decided by the clock alone, in seconds since the epoch."""
        now_s = self._clock()
        return [
            *(away.until_s for away in self._away.values()),
            *(end_s for _, end_s in self._given_up_s()),
            *(end_s for end_s in self._patience_ends_s() if end_s > now_s),
        ]

    def _given_up_s(self) -> list[tuple[Writers, float]]:
        ends_s = ((writers, writers.given_up_s()) for writers in self._writers.values())
        return [(writers, end_s) for writers, end_s in ends_s if end_s is not None]

    def _patience_ends_s(self) -> list[float]:
        return [end_s for writers in self._writers.values() for end_s in writers.patience_ends_s()]


def _keys_for(gate: FabricGate | None, extents: Sequence[Extent]) -> bytes | UnsetType:
    """Open extents to a rank that writes by libfabric; without keys it will come back, and in the end go by TCP."""
    if gate is None or not extents:
        return UNSET
    try:
        return gate.grant(extents)
    except NodeError as error:
        log(f"bbflow node: {error}")
        return UNSET

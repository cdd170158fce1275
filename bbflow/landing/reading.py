"""What readers ask of a node: they hold steps as long as they are connected."""

from dataclasses import dataclass

from bbflow.errors import NodeError, ProtocolError, StreamError
from bbflow.host.log import log
from bbflow.landing.fabric import FabricGate, FabricGates
from bbflow.landing.replies import FabricReply, JoinReply, PinReply
from bbflow.landing.requests import FabricRequest, GetRequest, JoinRequest, PassRequest, PinRequest, UnpinRequest
from bbflow.landing.waiting_requests import Answers
from bbflow.net.verdicts import DoneReply, PoolPart
from bbflow.store.node import NodeStore
from bbflow.store.ranks import Hold
from bbflow.store.streams import Stream


@dataclass(slots=True)
class ReaderPeer:
    """A connection that has joined a stream."""

    stream: Stream
    """The stream, also when it was dropped meanwhile."""
    hold: Hold
    """What it needs."""
    gate: FabricGate | None = None
    """What it may read by libfabric."""


class Reading:
    """The readers of one node.

    Parameters
    ----------
    store
        What the node keeps.
    gates
        What other hosts may read by libfabric; None if nothing.
    """

    def __init__(self, store: NodeStore, gates: FabricGates | None = None) -> None:
        self._store, self._gates = store, gates
        self._peers: dict[int, ReaderPeer] = {}
        self.answers: Answers = {
            JoinRequest: self._join,
            PassRequest: self._pass,
            PinRequest: self._pin,
            UnpinRequest: self._unpin,
            GetRequest: self._get,
            FabricRequest: self._open_gate,
        }
        """What answers at once."""

    def _peer(self, peer: int) -> ReaderPeer:
        """Return a reader that asks for something: it has read by then what lay open to it, which may go now."""
        try:
            reader = self._peers[peer]
        except KeyError:
            raise ProtocolError("a peer that has not joined a stream read") from None
        if reader.gate:
            reader.gate.revoke()
        return reader

    def _join(self, peer: int, asked: JoinRequest) -> JoinReply:
        if peer in self._peers:
            raise ProtocolError("a connection joined two streams")
        name, after = asked.stream, asked.after
        stream = self._store.streams.get(name)
        if stream is None:
            raise StreamError(f"there is no stream {name!r} on this node yet")
        hold = Hold(after, follows=asked.follow)
        stream.holds[peer] = hold
        self._peers[peer] = ReaderPeer(stream, hold)
        kept = (number for number in stream.steps if number > after)
        return JoinReply(oldest=min(kept, default=max(stream.last, after) + 1))

    def _pass(self, peer: int, asked: PassRequest) -> DoneReply:
        reader = self._peer(peer)
        reader.hold.passed = max(reader.hold.passed, asked.step)
        self._release(reader.stream)
        return DoneReply()

    def _pin(self, peer: int, asked: PinRequest) -> PinReply:
        reader = self._peer(peer)
        pinned = [step for step in asked.steps if step in reader.stream.steps]
        reader.hold.pins.update(pinned)
        return PinReply(pinned=pinned)

    def _unpin(self, peer: int, asked: UnpinRequest) -> DoneReply:
        reader = self._peer(peer)
        reader.hold.pins.difference_update(asked.steps)
        self._release(reader.stream)
        return DoneReply()

    def _get(self, peer: int, asked: GetRequest) -> PoolPart:
        reader, step = self._peer(peer), asked.step
        offset, size = asked.offset, asked.bytes
        kept = reader.stream.steps.get(step)
        if kept is None or not reader.hold.needs(step):
            raise StreamError(f"step {step} of stream {reader.stream.name!r} is not held for this reader")
        begins = kept.layout.offsets(kept.sources)
        # Bytes of blocks alone: what lies around them may be another stream's.
        inside = (begins <= offset) & (offset + size <= begins + kept.layout.lengths.tolist())
        if size <= 0 or not inside.any():
            raise StreamError(f"{size} bytes at {offset} are in no block of step {step}")
        return PoolPart(offset, size, _key_for(reader.gate, offset, size) if asked.by_key else b"")

    def _open_gate(self, peer: int, asked: FabricRequest) -> FabricReply:
        reader = self._peer(peer)
        if reader.gate:
            raise ProtocolError("a reader asked twice for libfabric")
        if self._gates is None or not asked.providers:
            return FabricReply(fabric_error="neither side has a provider")
        try:
            reader.gate = self._gates.open(asked.providers)
        except NodeError as error:
            return FabricReply(fabric_error=str(error))
        return FabricReply(fabric=reader.gate.way)

    def disconnect(self, peer: int) -> bool:
        """Take in that a connection is gone; return whether a reader's."""
        reader = self._peers.pop(peer, None)
        if reader is None:
            return False
        if reader.gate:
            reader.gate.close()
        del reader.stream.holds[peer]
        self._release(reader.stream)
        return True

    def _release(self, stream: Stream) -> None:
        if passed := [hold.passed for hold in stream.holds.values() if hold.follows]:
            stream.read_through = max(stream.read_through, min(passed))
        self._store.release(stream)


def _key_for(gate: FabricGate | None, offset: int, size: int) -> bytes:
    """Open a part of the pool to a reader; without a key it gets the bytes over TCP."""
    try:
        return gate.show(offset, size) if gate else b""
    except NodeError as error:
        log(f"bbflow node: {error}")
        return b""

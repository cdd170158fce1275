"""What readers ask of a node: they hold steps as long as they are connected."""

from dataclasses import dataclass

from bbflow.errors import ProtocolError, StreamError
from bbflow.landing.replies import JoinReply, PinReply
from bbflow.landing.requests import GetRequest, JoinRequest, PassRequest, PinRequest, UnpinRequest
from bbflow.landing.waiting import Answers
from bbflow.net.verdicts import DoneReply, PoolPart
from bbflow.store.node import NodeStore
from bbflow.store.ranks import Hold
from bbflow.store.streams import Stream


@dataclass(frozen=True, slots=True)
class ReaderPeer:
    """A connection that has joined a stream."""

    stream: Stream
    """The stream, also when it was dropped meanwhile."""
    hold: Hold
    """What it needs."""


class Reading:
    """The readers of one node.

    Parameters
    ----------
    store
        What the node keeps.
    """

    def __init__(self, store: NodeStore) -> None:
        self._store = store
        self._peers: dict[int, ReaderPeer] = {}
        self.answers: Answers = {
            JoinRequest: self._join,
            PassRequest: self._pass,
            PinRequest: self._pin,
            UnpinRequest: self._unpin,
            GetRequest: self._get,
        }
        """What answers at once."""

    def _peer(self, peer: int) -> ReaderPeer:
        try:
            return self._peers[peer]
        except KeyError:
            raise ProtocolError("a peer that has not joined a stream read") from None

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
        inside = (begins <= offset) & (offset + size <= begins + kept.layout.lengths.tolist())
        if size <= 0 or not inside.any():
            raise StreamError(f"{size} bytes at {offset} lie in no block of step {step}")
        return PoolPart(offset, size)

    def disconnect(self, peer: int) -> bool:
        """Take in that a connection is gone; return whether a reader's."""
        reader = self._peers.pop(peer, None)
        if reader is None:
            return False
        del reader.stream.holds[peer]
        self._release(reader.stream)
        return True

    def _release(self, stream: Stream) -> None:
        if passed := [hold.passed for hold in stream.holds.values() if hold.follows]:
            stream.read_through = max(stream.read_through, min(passed))
        self._store.release(stream)

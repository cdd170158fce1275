"""The agent's decisions: messages of peers go in, replies come out; no socket and no clock of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bbflow.errors import BbflowError, CapacityError, ProtocolError, StreamError
from bbflow.landing.writers import Writers
from bbflow.records import Message
from bbflow.store.node import NodeStore
from bbflow.store.streams import ENDED, Stream

PROTOCOL_VERSION = 1
Reply = tuple[int, Message]


@dataclass(slots=True)
class WriterPeer:
    """A connection that has opened a stream for writing."""

    stream: str
    """The stream."""
    writers: Writers
    """Its writers; those of an earlier run of the same name, if the stream was dropped since."""
    rank: int
    """Its rank."""
    may_discard: bool
    """Whether its policy is Discard."""


@dataclass(slots=True)
class Waiting:
    """A request without a reply yet."""

    peer: int
    """Who waits."""
    message: Message
    """What was asked."""
    deadline_s: float | None = None
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
    """

    def __init__(self, store: NodeStore, name: str, host: str, clock: Callable[[], float]) -> None:
        self._store = store
        self._identity = {"name": name, "host": host}
        self._clock = clock
        self._change = 0
        self._writers: dict[str, Writers] = {}
        self._peers: dict[int, WriterPeer] = {}
        self._waiting: list[Waiting] = []
        self.stopped = False
        """Whether someone asked it to end."""

    def handle(self, peer: int, message: Message) -> list[Reply]:
        """Take a message of a peer in.

        Returns
        -------
        list of (int, dict)
            Replies, for this peer and for others whose waiting ended with it.

        Raises
        ------
        ProtocolError
            If the message is not allowed: the peer must be cut off.
        """
        op = message.get("op")
        if op in ("begin", "reserve"):
            self._waiting.append(Waiting(peer, message))
            return self._settle()
        if op == "watch":
            if missing := {"stream", "after", "change", "limit"} - message.keys():
                raise ProtocolError(f"request 'watch' without {', '.join(sorted(missing))}")
            deadline_s = self._clock() + float(message.get("timeout_s", 0.0))
            self._waiting.append(Waiting(peer, message, deadline_s))
            return self._settle()
        request = self._REQUESTS.get(str(op))
        if request is None:
            raise ProtocolError(f"unknown request {op!r}")
        try:
            reply = request(self, peer, message)
        except CapacityError as error:
            if op == "commit":  # it has no reply: the writer learns of it when it is cut off
                raise ProtocolError(str(error)) from None
            reply = {"ok": False, "error": str(error)}
        except StreamError as error:
            reply = {"ok": False, "error": str(error)}
        except KeyError as error:
            raise ProtocolError(f"request {op!r} without {error}") from None
        except (TypeError, ValueError, AttributeError) as error:
            raise ProtocolError(f"request {op!r} with a value of a wrong type ({error})") from None
        return ([(peer, reply)] if reply is not None else []) + self._settle()

    def disconnect(self, peer: int) -> list[Reply]:
        """Take in that a peer's connection is gone."""
        self._waiting = [waiting for waiting in self._waiting if waiting.peer != peer]
        writer = self._peers.pop(peer, None)
        if writer is None:
            return []
        writer.writers.abort(writer.rank)
        self._changed()
        return self._settle()

    def expire(self) -> list[Reply]:
        """Answer the watchers whose time is up."""
        return self._settle()

    def next_deadline_s(self) -> float | None:
        """When `expire` has something to do, in seconds since the epoch."""
        return min((w.deadline_s for w in self._waiting if w.deadline_s is not None), default=None)

    def _settle(self) -> list[Reply]:
        """Answer every waiting request that can be answered; one answer may make room for the next."""
        replies: list[Reply] = []
        progress = True
        while progress:
            progress = False
            for waiting in list(self._waiting):
                reply = self._try(waiting)
                if reply is not None:
                    self._waiting.remove(waiting)
                    replies.append((waiting.peer, reply))
                    progress = True
        return replies

    def _try(self, waiting: Waiting) -> Message | None:
        message = waiting.message
        try:
            if message["op"] == "watch":
                return self._watch(waiting)
            peer = self._writer(waiting.peer)
            if message["op"] == "reserve":
                return peer.writers.reserve(peer.rank, message["step"], message["bytes"])
            reply = peer.writers.begin(peer.rank, message["step"], message["bytes"], peer.may_discard)
            if reply is not None and reply["status"] == "discard":
                self._changed()
            return reply
        except KeyError as error:
            raise ProtocolError(f"request {message['op']!r} without {error}") from None
        except TypeError as error:
            raise ProtocolError(f"request {message['op']!r} with a value of a wrong type ({error})") from None
        except BbflowError as error:
            return {"ok": False, "error": str(error)}

    def _writer(self, peer: int) -> WriterPeer:
        try:
            return self._peers[peer]
        except KeyError:
            raise ProtocolError("a peer that has not opened a stream wrote") from None

    def _changed(self) -> None:
        self._change += 1

    def _stream(self, name: str) -> Stream:
        try:
            return self._store.streams[name]
        except KeyError:
            known = ", ".join(self._store.streams) or "none"
            raise StreamError(f"there is no stream {name!r} on this node (there are: {known})") from None

    # Requests of writers

    def _open(self, peer: int, message: Message) -> Message:
        if message["version"] != PROTOCOL_VERSION:
            raise StreamError(f"the engine speaks version {message['version']}, the node {PROTOCOL_VERSION}")
        if peer in self._peers:
            raise ProtocolError("a connection opened two streams")
        name = message["stream"]
        stream = self._store.streams.get(name)
        if stream is not None and stream.status in ENDED and not stream.steps and not stream.consumers:
            self._forget(name)
        writers = self._writers.setdefault(name, Writers(self._store, name, self._clock))
        writers.open(message["rank"], message["writers"], message["local_writers"])
        self._peers[peer] = WriterPeer(name, writers, message["rank"], message["policy"] == "Discard")
        self._changed()
        pool = str(self._store.directory / "pool")
        return {"ok": True, "pool": pool, "capacity": self._store.extents.capacity}

    def _commit(self, peer: int, message: Message) -> None:
        writer = self._writer(peer)
        writer.writers.commit(writer.rank, message)
        self._changed()

    def _close(self, peer: int, message: Message) -> Message:
        writer = self._writer(peer)
        del self._peers[peer]
        writer.writers.close(writer.rank)
        self._changed()
        return {"ok": True}

    def _abort(self, peer: int, message: Message) -> None:
        writer = self._writer(peer)
        del self._peers[peer]
        writer.writers.abort(writer.rank)
        self._changed()

    # Requests of the analysis

    def _attach(self, peer: int, message: Message) -> Message:
        name, consumers = message["stream"], [str(consumer) for consumer in message["consumers"]]
        known = self._store.streams.get(name)
        epoch = known.epoch + 1 if known else 1
        self._store.record({"record": "attach", "stream": name, "consumers": consumers, "epoch": epoch})
        self._changed()
        cursors = self._store.streams[name].consumers
        return {
            "ok": True,
            "epoch": epoch,
            "cursors": {key: [cursor.step, cursor.checkpoint] for key, cursor in cursors.items()},
        }

    def _watch(self, waiting: Waiting) -> Message | None:
        message = waiting.message
        overdue = waiting.deadline_s is not None and self._clock() >= waiting.deadline_s
        if message["change"] == self._change and not overdue:
            return None
        stream = self._store.streams.get(message["stream"]) or Stream(message["stream"])
        newer = [step for number, step in stream.steps.items() if number > message["after"]]
        return {
            "ok": True,
            "change": self._change,
            "status": stream.status,
            "writers": stream.writers,
            "local_writers": stream.local_writers,
            "attributes": stream.attributes,
            "steps": [step.to_wire() for step in newer[: message["limit"]]],
            "last": stream.last,
            "discarded": stream.discarded,
        }

    def _done(self, peer: int, message: Message) -> Message:
        stream = self._held(message)
        if message["consumer"] not in stream.consumers:
            raise StreamError(f"{message['consumer']!r} is not attached to stream {stream.name!r}")
        kept = {key: message[key] for key in ("stream", "consumer", "checkpoint")}
        self._store.record({"record": "done", "step": int(message["step"])} | kept)
        return {"ok": True}

    def _drop(self, peer: int, message: Message) -> Message:
        stream = self._held(message)
        if stream.status == "open":
            raise StreamError(f"stream {stream.name!r} is still being written")
        self._forget(stream.name)
        self._changed()
        return {"ok": True}

    def _held(self, message: Message) -> Stream:
        stream = self._stream(message["stream"])
        if message.get("epoch", stream.epoch) != stream.epoch:
            raise StreamError(f"another analysis has taken over stream {stream.name!r}: this one must end")
        return stream

    def _forget(self, name: str) -> None:
        self._store.record({"record": "drop", "stream": name})
        self._writers.pop(name, None)

    def _status(self, peer: int, message: Message) -> Message:
        return {
            "ok": True,
            **self._identity,
            "capacity": self._store.extents.capacity,
            "free": self._store.extents.free_bytes,
            "streams": {name: self._describe(stream) for name, stream in self._store.streams.items()},
        }

    def _describe(self, stream: Stream) -> dict[str, Any]:
        writers = self._writers.get(stream.name)
        return {
            "status": stream.status,
            "writers": stream.writers,
            "local_writers": stream.local_writers,
            "written": writers.current_step + 1 if writers else stream.last + 1,
            "landed": stream.landed_steps,
            "landed_bytes": stream.landed_bytes,
            "held": len(stream.steps),
            "discarded": len(stream.discarded),
            "waited_s": writers.waited_s if writers else 0.0,
            "consumers": {name: cursor.step for name, cursor in stream.consumers.items()},
        }

    def _stop(self, peer: int, message: Message) -> Message:
        held = {stream.name: len(stream.steps) for stream in self._store.streams.values() if stream.steps}
        if held and not message.get("force", False):
            raise StreamError(
                f"node {self._identity['name']} still holds steps that were not folded and drained ({held}): "
                "fold them first, or force it"
            )
        self.stopped = True
        return {"ok": True}

    _REQUESTS = {  # noqa: RUF012 - a table of methods, never changed
        "open": _open,
        "commit": _commit,
        "close": _close,
        "abort": _abort,
        "attach": _attach,
        "done": _done,
        "drop": _drop,
        "status": _status,
        "stop": _stop,
    }

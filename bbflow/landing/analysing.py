"""What an analysis asks of a node: to follow a stream, and to say what is safe with it."""

from collections.abc import Callable

from bbflow.errors import ProtocolError, StreamError
from bbflow.layouts import Known
from bbflow.records import Message, Step
from bbflow.store.check import is_number
from bbflow.store.node import NodeStore
from bbflow.store.streams import Stream

Request = Callable[[int, Message], Message | None]
MAX_SHOWN_BYTES = 24 << 20
"""About so much one reply brings at most, if it brings more than one step: a frame has its limit."""
FORM_BYTES = 128
"""About what one form takes."""


def check_watch(message: Message) -> None:
    """Refuse a `watch` that lacks something, or has it wrong.

    Raises
    ------
    ProtocolError
        If it does.
    """
    if missing := {"stream", "after", "change", "limit"} - message.keys():
        raise ProtocolError(f"request 'watch' without {', '.join(sorted(missing))}")
    integers = [message[key] for key in ("after", "change", "limit")]
    is_right = isinstance(message["stream"], str) and all(type(number) is int for number in integers)
    if not is_right or message["limit"] < 0 or not is_number(message.get("timeout_s", 0.0)):
        raise ProtocolError("request 'watch' with a value of a wrong type")


def show(stream: Stream, message: Message, change: int, known: Known) -> Message:
    """Give the reply of a `watch`.

    Parameters
    ----------
    stream
        What is watched.
    message
        What was asked.
    change
        The node's.
    known
        Layouts that this peer has been told of.
    """
    wants_extremes = bool(message.get("extremes", False))
    newer = [step for number, step in stream.steps.items() if number > message["after"] or number in stream.amended]
    shown: list[Message] = []
    room = MAX_SHOWN_BYTES
    for step in newer[: message["limit"]]:
        room -= _size(step, known, extremes=wants_extremes)
        if room < 0 and shown:
            break
        shown.append(step.to_wire(known, extremes=wants_extremes))
    more = len(shown) < len(newer)
    return {
        "ok": True,
        "change": change,
        "status": stream.status,
        "writers": stream.writers,
        "local_writers": stream.local_writers,
        "base": list(stream.base.values()),
        "attributes": list(stream.attributes.values()),
        "steps": shown,
        "more": more,
        "last": max([message["after"], *(step["step"] for step in shown)]) if more else stream.last,
        "discarded": stream.discarded,
        "moved": [[rank, node, stream.ranks[rank].first] for rank, node in stream.moved.items()],
    }


def _size(step: Step, known: Known, *, extremes: bool) -> int:
    """Say about how many bytes a step takes in a reply, beside its attributes."""
    layout = step.layout
    forms = 0 if layout in known else FORM_BYTES * len(layout.forms)
    return len(step.sources) + forms + (len(step.extremes) if extremes else 0) + FORM_BYTES * len(step.values)


class Analysing:
    """The analyses of one node's streams.

    Parameters
    ----------
    store
        What the node keeps.
    """

    def __init__(self, store: NodeStore) -> None:
        self._store = store
        self._attached: dict[str, set[int]] = {}
        self.requests: dict[str, Request] = {"attach": self._attach, "done": self._done, "drop": self._drop}
        """What is answered at once."""

    def _attach(self, peer: int, message: Message) -> Message:
        name, consumers = message["stream"], [str(consumer) for consumer in message["consumers"]]
        owner = str(message.get("owner", ""))
        known = self._store.streams.get(name)
        if known and known.owner != owner:
            self._check_owner(known, take_over=bool(message.get("take_over", False)))
            self._attached.pop(name, None)
        epoch = known.epoch + 1 if known else 1
        record = {"record": "attach", "stream": name, "consumers": consumers, "epoch": epoch}
        self._store.record(record | ({"owner": owner} if owner else {}))
        self._attached.setdefault(name, set()).add(peer)
        cursors = self._store.streams[name].consumers
        return {
            "ok": True,
            "epoch": epoch,
            "cursors": {key: [cursor.step, cursor.checkpoint] for key, cursor in cursors.items()},
        }

    def _check_owner(self, stream: Stream, *, take_over: bool) -> None:
        # Who is gone before anybody has opened the stream has left nothing to take over.
        is_left = stream.status == "expected" and not self._attached.get(stream.name)
        if stream.owner and not take_over and not is_left:
            raise StreamError(
                f"stream {stream.name!r} belongs to the analysis into {stream.owner}: give yours another name (the "
                "engine's parameter Stream, and 'stream' in the configuration), or say --take-over"
            )

    def disconnect(self, peer: int) -> None:
        """Take in that a peer's connection is gone."""
        for peers in self._attached.values():
            peers.discard(peer)

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
        self._store.record({"record": "drop", "stream": stream.name})
        self._attached.pop(stream.name, None)
        return {"ok": True}

    def _held(self, message: Message) -> Stream:
        name = message["stream"]
        if name not in self._store.streams:
            known = ", ".join(self._store.streams) or "none"
            raise StreamError(f"there is no stream {name!r} on this node (there are: {known})")
        stream = self._store.streams[name]
        if message.get("epoch", stream.epoch) != stream.epoch:
            raise StreamError(f"another analysis has taken over stream {stream.name!r}: this one must end")
        return stream

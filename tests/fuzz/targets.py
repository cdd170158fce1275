"""What is fuzzed: each takes bytes, and whatever it raises is a bug."""

import contextlib
import tempfile
from pathlib import Path

from agents import ATTRIBUTE, KEPT, MEMORY, OPEN, PAGE, content_of, converse
from dice import Dice
from live import live_agent, live_master
from master import talk

from bbflow.errors import ConfigError, ProtocolError
from bbflow.landing.requests import DataRequest, parse_request
from bbflow.net.frames import MAX_PAYLOAD_BYTES, FrameReader, encode, pack
from bbflow.net.handshake import NodeHandshake, WelcomeReply, parse_handshake
from bbflow.store.entries import AttachRecord
from bbflow.store.index import LENGTH, length_file
from bbflow.store.node import NodeStore

KEY = "ab" * 32
RANK = {"stream": "a", "rank": 0}
TIMES = {"began_s": 1.0, "committed_s": 2.0}
RECORDS = [
    {"record": "format", "version": 3, "capacity": 8 * PAGE},
    {"record": "open"} | RANK | {key: OPEN[key] for key in ("moved_from", "settled", "loss_timeout_s")}
    | {"writers": 1, "local_writers": 1},
    {"record": "attach", "stream": "a", "consumers": ["fold"], "epoch": 1},
    {"record": "grant", "step": 0, "extents": [[0, PAGE]]} | RANK,
    {"record": "commit", "step": 0, "attributes": [ATTRIBUTE]} | RANK | TIMES | content_of([(0, PAGE)], 0),
    {"record": "commit", "step": 1, "attributes": [ATTRIBUTE]} | RANK | TIMES
    | {key: value for key, value in content_of([(PAGE, PAGE)], 0).items() if key in KEPT},
    {"record": "discard", "stream": "a", "step": 1},
    {"record": "step", "stream": "a", "step": 2, "ranks": 1, "attributes": []} | TIMES
    | content_of([(2 * PAGE, PAGE)], 0),
    {"record": "evict", "stream": "a", "steps": [0]},
    {"record": "done", "stream": "a", "consumer": "fold", "step": 0, "checkpoint": b"c"},
    {"record": "close", "attributes": [ATTRIBUTE]} | RANK,
    {"record": "abort"} | RANK,
    {"record": "state", "stream": "b", "status": "open", "writers": 1, "announced": 1, "epoch": 1, "last": 0,
     "landed_steps": 1, "landed_bytes": 1, "ranks": [[0, 0, 0, 4096, False, 1.0]], "moved": [[0, "bb1"]],
     "base": [ATTRIBUTE], "final": [ATTRIBUTE], "discarded": [1], "consumers": {"fold": [0, b"c"]}},
    {"record": "drop", "stream": "a"},
]  # fmt: skip
"""One of each."""


def frames(data):
    """Bytes of a peer: messages or one error, however they are cut."""
    reader = FrameReader(4096)
    with contextlib.suppress(ProtocolError):
        for at in range(0, len(data), 7):
            for message in reader.feed(data[at : at + 7]):
                assert list(FrameReader().feed(encode(message))) == [message] or message != message


def handshake(data):
    """Messages of a peer without the key, which is never let in."""
    dice = Dice(data)
    node = NodeHandshake(KEY, WelcomeReply(name="bb0", host="h"))
    messages = [
        {"op": "hello", "versions": [5, 5], "nonce": "0" * 32},
        {"op": "prove", "proof": "0" * 64},
    ]
    with contextlib.suppress(ProtocolError):
        while dice:
            node.answer(parse_handshake(pack(dice.mutate(dice.of(messages)))))
    assert not node.done


def agent(data):
    """Requests of peers that have proved themselves."""
    converse(Dice(data))


def master(data):
    """Requests of clients and answers of IOnodes, for files."""
    talk(Dice(data))


def index(data):
    """An index whose checksums are right and whose content is not: a clear error, or a node that works."""
    dice = Dice(data)
    with tempfile.TemporaryDirectory(prefix="bbflow-fuzz-", dir=MEMORY) as folder:
        path = Path(folder)
        NodeStore(path, 8 * PAGE).close()
        chosen = [RECORDS[0], *(dice.of(RECORDS) for _ in range(dice.throw(12)))]
        whole = b"".join(encode(dice.mutate(record)) for record in chosen)
        (path / "index").write_bytes(whole)
        length_file(path / "index").write_bytes(LENGTH.pack(len(whole)))
        with contextlib.suppress(ProtocolError, ConfigError):
            store = NodeStore(path, 8 * PAGE)
            store.record(AttachRecord(stream="new", consumers=(), epoch=1))
            store.close()


def data(data):
    """What is said ahead of raw bytes: a place and a size that can be, or a refusal."""
    message = Dice(data).mutate({"op": "data", "offset": 64, "bytes": 128, "check": b"7"})
    with contextlib.suppress(ProtocolError):
        told = parse_request(pack(message))
        if isinstance(told, DataRequest):
            assert told.offset >= 0
            assert 0 < told.bytes <= MAX_PAYLOAD_BYTES


def server(data):
    """Requests of peers that have proved themselves, through the loop of a node's agent."""
    live_agent(Dice(data))


def files_server(data):
    """The same of a master of files."""
    live_master(Dice(data))


TARGETS = {target.__name__: target for target in (frames, handshake, data, agent, index, master, server, files_server)}

"""What is fuzzed: each target takes damaged input, and fails if anything but a clear refusal comes of it."""

import shutil
import tempfile
from pathlib import Path

from peers import ANALYSIS, LOSS_S, OPEN, PAGE, STREAM, Bench

from bbflow.errors import BbflowError, ProtocolError
from bbflow.landing.handshake import NodeHandshake, new_key, prove
from bbflow.landing.link import raw_target
from bbflow.records import Block
from bbflow.store.frames import FrameReader, encode
from bbflow.store.node import NodeStore

MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
PAGES = 16
WRITER, READER = 1, 2
BLOCK = {
    "name": "v", "type": "uint8_t", "kind": "GlobalArray", "shape": [PAGE], "start": [0], "count": [PAGE],
    "offset": 0, "bytes": PAGE, "min": 1, "max": 2,
}  # fmt: skip
COMMIT = {"op": "commit", "step": 0, "blocks": [BLOCK], "attributes": [], "waited_s": 0.5}
ATTRIBUTE = {"name": "n", "type": "int32_t", "value": 3}
WATCH = {"op": "watch", "stream": STREAM, "after": -1, "change": -1, "timeout_s": 0.0, "limit": 9}
CONVERSATION = (
    (WRITER, {"op": "open", "stream": STREAM, "rank": 0, "writers": 1, "local_writers": 1, "policy": "Block"} | OPEN),
    (WRITER, {"op": "begin", "step": 0, "bytes": PAGE}),
    (WRITER, {"op": "reserve", "step": 0, "bytes": 3 * PAGE}),
    (WRITER, {"op": "sync"}),
    (WRITER, COMMIT | {"attributes": [ATTRIBUTE]}),
    (ANALYSIS, {"op": "attach", "stream": STREAM, "consumers": ["fold"]}),
    (READER, {"op": "join", "stream": STREAM, "after": -1, "follow": True}),
    (READER, {"op": "pin", "steps": [0]}),
    (READER, {"op": "get", "step": 0, "offset": 0, "bytes": 8}),
    (ANALYSIS, WATCH),
    (WRITER, {"op": "begin", "step": 1, "bytes": PAGE}),
    (WRITER, {"op": "skip", "step": 1}),
    (READER, {"op": "pass", "step": 0}),
    (READER, {"op": "unpin", "steps": [0]}),
    (ANALYSIS, {"op": "done", "stream": STREAM, "consumer": "fold", "epoch": 1, "step": 0, "checkpoint": b"c"}),
    (ANALYSIS, {"op": "status"}),
    (WRITER, {"op": "close", "steps": 2, "attributes": [ATTRIBUTE]}),
    (ANALYSIS, {"op": "drop", "stream": STREAM, "epoch": 1}),
)
"""A run that uses every request."""


class NewFolder:
    """A folder in memory that goes with its block."""

    def __enter__(self):
        self.path = Path(tempfile.mkdtemp(dir=MEMORY, prefix="bbflow-fuzz-"))
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path)


def read_frames(data):
    """Bytes as they come from a socket: messages, or a refusal."""
    reader = FrameReader()
    try:
        messages = [message for part in (data[:7], data[7:]) for message in reader.feed(part)]
    except ProtocolError:
        return
    assert all(isinstance(message, dict) for message in messages)


def shake_hands(messages):
    """Messages of a peer that doesn't know the key: it never gets in."""
    handshake = NodeHandshake(new_key(), {"name": "bb0"})
    try:
        for message in messages:
            handshake.answer(message)
    except ProtocolError:
        pass
    assert not handshake.done


def announce_data(message):
    """A `data` message: a place and a size that can be, or a refusal."""
    try:
        offset, size, _ = raw_target(message)
    except ProtocolError:
        return
    assert offset >= 0
    assert 0 < size <= 1 << 26


def talk_to_an_agent(conversation):
    """Messages of peers: each is answered or refused, and every page of the pool is free or held once."""
    with NewFolder() as folder:
        bench = Bench(folder / "node", PAGES)
        try:
            for peer, message in conversation:
                _say(bench, peer, message)
                check_pool(bench.store)
            bench.wait(2 * LOSS_S)
            check_pool(bench.store)
        finally:
            bench.store.close()
        reopen(folder / "node")


def _say(bench, peer, message):
    try:
        for _, reply in bench.agent.handle(peer, message):
            encode(reply | {"checked": True})
    except ProtocolError:
        bench.hang_up(peer)


def reopen(directory):
    """Start a node on a directory: it carries on, or says that its index is damaged."""
    try:
        store = NodeStore(directory, PAGES * PAGE)
    except BbflowError:
        return
    try:
        check_pool(store)
    finally:
        store.close()


def check_pool(store):
    """Every byte is free or held once, and every block lies within what its step holds."""
    held = [extent for stream in store.streams.values() for extent in stream.held_extents()]
    at = 0
    for offset, size in sorted([*store.extents._free, *held]):
        assert (offset, size > 0) == (at, True), "a page is held twice, or lost"
        at += size
    assert at == store.extents.capacity
    for stream in store.streams.values():
        for number, step in stream.steps.items():
            assert all(_lies_in(block, stream.extents[number]) for block in step.blocks)


def _lies_in(block: Block, extents):
    return (
        not block.bytes
        or block.file
        or any(offset <= block.offset and block.offset + block.bytes <= offset + size for offset, size in extents)
    )


def index_of_a_run():
    """The records that the conversation leaves, whole."""
    with NewFolder() as folder:
        bench = Bench(folder / "node", PAGES)
        for peer, message in CONVERSATION[:-2]:
            _say(bench, peer, message)
        bench.store.close()
        return list(FrameReader().feed((folder / "node" / "index").read_bytes()))


def read_index(data):
    """An index file of any bytes."""
    with NewFolder() as folder:
        node = folder / "node"
        NodeStore(node, PAGES * PAGE).close()
        (node / "index").write_bytes(data)
        reopen(node)


HELLO = {"op": "hello", "versions": [2, 2], "nonce": "ab" * 16}
PROVE = {"op": "prove", "proof": prove("00" * 32, "peer", "ab" * 16, "cd" * 16)}
DATA = {"op": "data", "offset": 64, "bytes": 128, "crc": 7}

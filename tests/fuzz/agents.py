"""Conversations of three peers with an agent, of which two say wrong things now and then."""

import os
import struct
import tempfile
from pathlib import Path

from bbflow.errors import ProtocolError
from bbflow.landing.agent import Agent
from bbflow.landing.requests import parse_request
from bbflow.net.frames import FrameReader, encode
from bbflow.store.extents import ALIGNMENT_BYTES as PAGE
from bbflow.store.extents import Extents
from bbflow.store.node import NodeStore
from bbflow.store.streams import extents_of

PAGES = 8
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
BYSTANDER = 9
OPEN = {
    "op": "open", "stream": "weather", "writers": 2, "local_writers": 2, "policy": "Block", "transport": "shm",
    "host": "h", "pid": 1, "open_timeout_s": 1.0, "loss_timeout_s": 5.0, "settled": -1, "resume": False,
    "moved_from": "",
}  # fmt: skip
KEPT = ("layout", "sources", "files", "values", "extremes")
"""What a commit says when its layout is known."""
SPENT = {"open_s": 0.1, "waited_s": 0.5}
ATTRIBUTE = {"name": "n", "type": "int32_t", "value": 3}


def content_of(places, rank):
    """What a commit says of a block in each of some extents, and of a single value."""
    rows = [
        ["v", "int8_t", "LocalArray", [], [], [size], rank, at, 0, size, False] for at, (_, size) in enumerate(places)
    ]
    return {
        "layout": len(places) % 3,
        "forms": [*rows, ["t", "double", "GlobalValue", [], [], [], rank, 0, 0, 0, False]],
        "sources": struct.pack(f"<{len(places)}q", *(offset for offset, _ in places)),
        "files": [],
        "values": [0.5],
        "extremes": bytes(16 * (len(places) + 1)),
    }


class Conversation:
    """One agent in a directory, and who talks with it."""

    def __init__(self, directory):
        self.now_s = 100.0
        self.directory = directory
        self.store = NodeStore(directory, PAGES * PAGE)
        self.agent = Agent(self.store, "bb0", "here", lambda: self.now_s)
        self.step = [0, 0]
        self.extents = [[], []]
        assert self.handle(BYSTANDER, OPEN | {"stream": "good", "rank": 0, "writers": 1, "local_writers": 1})

    def handle(self, peer, message):
        (asked,) = FrameReader(decode=parse_request).feed(encode(message))
        for to, reply in self.agent.handle(peer, asked):
            encode(reply)
            if to in (0, 1) and isinstance(reply, dict) and reply.get("extents"):
                self.extents[to] = reply["extents"]
        return True

    def say(self, peer, message):
        """Send what may be wrong; who says what is not allowed is cut off."""
        try:
            self.handle(peer, message)
        except ProtocolError:
            self.agent.disconnect(peer)
            self.extents[peer] = []

    def turn(self, dice):
        peer = dice.throw(2)
        message = self.message(peer, dice)
        self.say(peer, dice.mutate(message))
        if message["op"] == "commit":
            self.step[peer], self.extents[peer] = self.step[peer] + 1, []

    def pass_time(self, seconds):
        deadline_s = self.agent.next_deadline_s()
        assert deadline_s is None or deadline_s == deadline_s
        self.now_s += seconds
        self.agent.expire()

    def message(self, peer, dice):
        """Return a message that is right, or would be in another state."""
        step = self.step[peer]
        places = [tuple(extent) for extent in self.extents[peer]]
        content = content_of(places, peer)
        reader = {
            "stream": "weather",
            "after": -1,
            "follow": True,
            "step": step - 1,
            "steps": [step - 1],
            "offset": 0,
            "bytes": 64,
        }
        analysis = {"stream": "weather", "consumer": "fold", "epoch": 1, "checkpoint": b"c"}
        return dice.of([
            OPEN | {"rank": peer},
            OPEN | {"rank": peer, "resume": True, "settled": step - 1},
            OPEN | {"rank": peer, "policy": "Discard"},
            OPEN | {"rank": peer, "policy": "Spill"},
            {"op": "begin", "step": step, "bytes": PAGE},
            {"op": "begin", "step": step, "bytes": 3 * PAGE},
            {"op": "reserve", "step": step, "bytes": PAGE},
            {"op": "commit", "step": step, "attributes": [ATTRIBUTE]} | SPENT | content,
            {"op": "commit", "step": step, "attributes": []} | SPENT | {key: content[key] for key in KEPT},
            {"op": "commit", "step": step, "attributes": [], "ahead_bytes": PAGE} | SPENT | content,
            {"op": "hold", "step": step},
            {"op": "skip", "step": step},
            {"op": "sync"},
            {"op": "close", "steps": step, "attributes": [ATTRIBUTE]},
            {"op": "abort"},
            {"op": "attach", "stream": "weather", "consumers": ["fold"]},
            {"op": "watch", "stream": "weather", "after": -1, "change": -1, "timeout_s": 1.0, "limit": 9},
            {"op": "watch", "stream": "weather", "after": -1, "change": self.agent._change, "timeout_s": 1, "limit": 9},
            {"op": "done", "step": step - 1} | analysis,
            {"op": "drop", "stream": "weather", "epoch": 1},
            *({"op": op} | reader for op in ("join", "pass", "pin", "unpin", "get")),
            {"op": "stop", "force": False},
        ])  # fmt: skip

    def check(self):
        """The node serves others, nothing has leaked, and another agent can carry on from its index."""
        assert self.handle(BYSTANDER, {"op": "status"})
        for peer in (0, 1):
            self.agent.disconnect(peer)
        self.now_s += 1e10
        self.agent.expire()
        assert self.handle(BYSTANDER, {"op": "begin", "step": 0, "bytes": 0})
        assert self.handle(BYSTANDER, {"op": "commit", "step": 0, "attributes": []} | SPENT | content_of([], 0))
        self.check_extents(self.store)
        self.store.close()
        again = NodeStore(self.directory, PAGES * PAGE)
        assert list(again.streams) == list(self.store.streams)
        assert list(again.streams["good"].steps) == [0]
        self.check_extents(again)
        again.close()

    @staticmethod
    def check_extents(store):
        pool = Extents(PAGES * PAGE)
        for stream in store.streams.values():
            for extent in stream.held_extents():
                pool.take_at(extent)
            assert all(lies_in(block, extents_of(step)) for step in stream.steps.values() for block in step.blocks)
        assert pool.free_bytes == store.extents.free_bytes


def lies_in(block, extents):
    """Whether a block has its place in what its step holds."""
    end = block.offset + block.bytes
    return (
        not block.bytes or block.file or any(start <= block.offset and end <= start + size for start, size in extents)
    )


def converse(dice):
    """Hold one conversation."""
    with tempfile.TemporaryDirectory(prefix="bbflow-fuzz-", dir=MEMORY) as folder:
        conversation = Conversation(Path(folder) / "n")
        while dice:
            conversation.turn(dice)
            assert conversation.handle(BYSTANDER, {"op": "status"})
            conversation.pass_time(dice.throw(4))
        conversation.check()

"""Peers of an agent that speak in messages, without sockets."""

import resource
import struct
from contextlib import contextmanager

from msgspec import convert

from bbflow.landing.agent import Agent
from bbflow.landing.replies import ShownStep
from bbflow.landing.requests import parse_request
from bbflow.net.frames import FrameReader, decode_map, encode, pack
from bbflow.store.entries import parse_record
from bbflow.store.extents import ALIGNMENT_BYTES as PAGE
from bbflow.store.node import NodeStore
from bbflow.stream.layouts import Layouts
from testsupport.clocks import Clock

STREAM = "weather"
ANALYSIS = 1000
LOSS_S = 30.0
OPEN = {
    "transport": "shm",
    "host": "here",
    "pid": 1,
    "open_timeout_s": 10.0,
    "loss_timeout_s": LOSS_S,
    "settled": -1,
    "resume": False,
    "moved_from": "",
}
"""What a rank says when it opens a stream for the first time, beside who it is."""


class Bench:
    """One agent and what it last said to each peer."""

    def __init__(self, directory, pages=16, room=None, **limits):
        self.directory, self.limits = directory, limits
        self.clock = Clock(100.0)
        self.replies = {}
        self.ranks = {}
        self.layouts = Layouts()
        self.room = room
        self.store = NodeStore(directory, pages * PAGE, room, **limits)
        self.agent = Agent(self.store, "bb0", "here", self.clock)

    def reopen(self):
        """End the agent without a word and start another on the same directory."""
        self.store.close()
        self.__init__(self.directory, room=self.room, **self.limits)

    def say(self, peer, op, **keys):
        """Send a message; return the peer's reply, None while it waits."""
        self.replies.pop(peer, None)
        self.hear(peer, {"op": op, **keys})
        return self.replies.get(peer)

    def hear(self, peer, message):
        """Take a message in as it comes over the wire."""
        (asked,) = FrameReader(decode=parse_request).feed(encode(message))
        self._take(self.agent.handle(peer, asked))

    def hang_up(self, peer, by_itself=True):
        self._take(self.agent.disconnect(peer, by_itself=by_itself))

    def expire(self):
        self._take(self.agent.expire())

    def wait(self, seconds):
        """Wait for some time."""
        self.clock.now_s += seconds
        self.expire()

    def _take(self, replies):
        self.replies |= {peer: as_map(reply) for peer, reply in replies}

    def open(self, rank=0, writers=1, policy="Block", stream=STREAM, peer=None, **more):
        keys = {"stream": stream, "rank": rank, "writers": writers, "local_writers": writers, "policy": policy}
        peer = rank if peer is None else peer
        self.ranks[peer] = rank
        return self.say(peer, "open", **OPEN | keys | more)

    def begin(self, rank, step, pages=0):
        return self.say(rank, "begin", step=step, bytes=pages * PAGE)

    def reserve(self, rank, step, pages):
        return self.say(rank, "reserve", step=step, bytes=pages * PAGE)

    def commit(self, rank, step, *extents, attributes=(), ahead=0):
        """Commit a step; the reply is what is offered for the next one, if some pages are asked for."""
        content = content_of([block(offset, size) for offset, size in extents], self.ranks.get(rank, rank))
        spent = {"waited_s": 0.5, "open_s": 0.0, "ahead_bytes": ahead * PAGE}
        return self.say(rank, "commit", step=step, attributes=list(attributes), **spent, **content)

    def land(self, step, pages=1, rank=0):
        """Write a whole step of one writer."""
        extents = self.begin(rank, step, pages)["extents"]
        self.commit(rank, step, *extents)
        return extents

    def attach(self, *consumers, stream=STREAM):
        return self.say(ANALYSIS, "attach", stream=stream, consumers=list(consumers))

    def done(self, step, epoch, consumer="fold", checkpoint=b"c"):
        keys = {"consumer": consumer, "epoch": epoch, "step": step, "checkpoint": checkpoint}
        return self.say(ANALYSIS, "done", stream=STREAM, **keys)

    def watch(self, after=-1, change=-1, timeout_s=0.0, limit=1000, peer=ANALYSIS):
        keys = {"after": after, "change": change, "timeout_s": timeout_s, "limit": limit}
        reply = self.say(peer, "watch", stream=STREAM, **keys)
        for step in reply["steps"] if reply and peer == ANALYSIS else ():
            self.layouts.take_of(shown_step(step))
        return reply

    def blocks(self, step):
        """Return the blocks of a step that a `watch` of the analysis has shown."""
        told = shown_step(step)
        return told.taken(self.layouts.find(told.layout, told.forms)).blocks

    def free_pages(self):
        return self.say(ANALYSIS, "status")["free"] // PAGE


@contextmanager
def full_file_system(bench):
    """Keep the index from growing."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (bench.directory / "index").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def as_map(reply):
    """Return a reply as a client has it."""
    return reply if isinstance(reply, dict) else decode_map(pack(reply))


def steps_of(reply):
    """Numbers of the steps that a `watch` shows."""
    return [step["step"] for step in reply["steps"]]


def shown_step(step):
    """Return a step of a `watch` reply as its readers take it in."""
    return convert(step, ShownStep)


def record_of(record):
    """Return a record as it comes out of an index."""
    return parse_record(pack(record))


def block(offset, size):
    return {"name": "v", "type": "int8_t", "kind": "LocalArray", "count": [size], "offset": offset, "bytes": size}


def content_of(blocks, rank=0, layout=0):
    """What a commit says of blocks, each alone in its extent or one of a file's; all forms come with it."""
    files = list(dict.fromkeys(item["file"] for item in blocks if "file" in item))
    placed = [item for item in blocks if item.get("bytes") and "file" not in item]
    return {
        "layout": layout,
        "forms": [_form_of(item, rank, files, placed) for item in blocks],
        "sources": struct.pack(f"<{len(placed)}q", *(item["offset"] for item in placed)),
        "files": files,
        "values": [item.get("value", 0) for item in blocks if not item.get("bytes")],
        "extremes": struct.pack("<qq", 1, 0) * len(blocks),
    }


def _form_of(item, rank, files, placed):
    spilled = "file" in item
    what = [item["name"], item["type"], item["kind"], *(item.get(key, []) for key in ("shape", "start", "count"))]
    extent = files.index(item["file"]) if spilled else placed.index(item) if item in placed else 0
    return [*what, rank, extent, item["offset"] if spilled else 0, item.get("bytes", 0), spilled]

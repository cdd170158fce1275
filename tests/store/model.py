"""Writers of a stream as the engine behaves: they come back after a break, and send again what got no reply."""

import itertools

from peers import PAGE

IDLE, WAITING, INSIDE, AWAY, GONE = "idle", "waiting", "inside", "away", "gone"
PEERS = itertools.count(10_000)


class Writer:
    """One rank; `settled`, `extents` and the rest are what a real engine remembers."""

    def __init__(self, bench, rank, writers, policy, folder):
        self.bench, self.rank, self.writers, self.policy, self.folder = bench, rank, writers, policy, folder
        self.settled, self.extents, self.spills = -1, [], False
        self.request, self.sent = None, None
        self.acknowledged = {}
        self.is_inside = False
        self.state = AWAY
        self.connect(resume=False)

    @property
    def step(self):
        """The step that it is in, or begins next."""
        return self.settled + 1

    def connect(self, resume=True):
        self.peer = next(PEERS)
        keys = {"policy": self.policy, "peer": self.peer, "settled": self.settled, "resume": resume}
        reply = self.bench.open(self.rank, self.writers, **keys)
        if not reply["ok"]:
            assert resume
            assert "has ended as aborted" in reply["error"]
            self.lose()
            return
        self._catch_up(reply)

    def _catch_up(self, reply):
        """Take in how far the agent is, and send again what it has not seen."""
        committed, held = reply["committed"], [tuple(extent) for extent in reply["extents"]]
        assert self.settled - 1 <= committed <= self.settled
        self.state = INSIDE if self.is_inside else IDLE
        if committed < self.settled:
            assert self.sent["step"] == self.settled
            self.bench.say(self.peer, "commit", **self.sent)
        elif self.is_inside or self.request:
            assert set(self.extents) <= set(held), "room that was granted is not the rank's any more"
        if self.sent and self.sent["step"] == self.settled:
            self.acknowledged[self.settled] = self.sent
        if self.request:
            self.ask(*self.request)

    def ask(self, op, pages):
        """Ask for room, as `begin` or `reserve`."""
        self.request, self.state = (op, pages), WAITING
        self.bench.say(self.peer, op, step=self.step, bytes=pages * PAGE)

    def hear(self):
        """Take in a reply that came meanwhile."""
        reply = self.bench.replies.pop(self.peer, None)
        if self.state != WAITING or reply is None:
            return
        self.request = None
        if not reply["ok"]:
            assert any(
                reason in reply["error"]
                for reason in (
                    "or more on one BB node",
                    "was aborted",
                    "has closed the stream before",
                    "did not open it within",
                )
            ), reply
            self.bench.say(self.peer, "abort")
            self.lose()
        elif reply["status"] == "discard":
            self.state, self.settled, self.extents = IDLE, self.step, []
        else:
            self.state, self.is_inside = INSIDE, True
            self.spills = self.spills or reply["status"] == "spill"
            new = [tuple(extent) for extent in reply["extents"]]
            self.extents += [extent for extent in new if extent not in self.extents]

    def lose(self):
        self.state, self.extents, self.request, self.is_inside = GONE, [], None, False

    def write(self, share):
        """Copy a pattern into a share of its room; give the commit of what it wrote."""
        pool = self.bench.store.pool()
        blocks = []
        for offset, size in self.extents:
            if used := int(size * share):
                pool[offset : offset + used] = pattern(self.rank, self.step, used)
                blocks.append(block(offset, used))
        if self.spills:
            file = self.folder / f"{self.step}.{self.rank}.spill"
            file.write_bytes(pattern(self.rank, self.step, PAGE))
            blocks.append(block(0, PAGE) | {"file": str(file)})
        return {"step": self.step, "blocks": blocks, "attributes": [], "waited_s": 0.0}

    def send(self, commit, arrives=True):
        """Commit a step; it may never arrive."""
        self.sent, self.settled = commit, self.step
        self.extents, self.spills, self.is_inside, self.state = [], False, False, IDLE
        self.bench.say(self.peer, "commit", **commit)
        if arrives:
            self.acknowledged[self.settled] = commit

    def leave(self):
        """Have its connection broken by the network, or by the agent's end."""
        if self.state != GONE:
            self.state = AWAY


def block(offset, size):
    return {"name": "v", "type": "uint8_t", "kind": "LocalArray", "count": [size], "offset": offset, "bytes": size}


def pattern(rank, step, size):
    """Bytes that no other rank and step has."""
    return bytes([(37 * step + 101 * rank + 11) % 251 + 1]) * size

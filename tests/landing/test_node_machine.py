"""A node's whole life in any order: land, fold, crash, reopen, drop."""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from peers import ANALYSIS, LOSS_S, PAGE, STREAM, Bench

from bbflow.store.extents import align

RANKS = 2
PAGES = 12
IDLE, WAITING, INSIDE, GONE = "idle", "waiting", "inside", "gone"


class NodeMachine(RuleBasedStateMachine):
    """Keeps a plain model of what one node must hold, and compares."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.bench = Bench(Path(self.folder.name), PAGES)
        self.landed = {}
        self.forget()

    def forget(self):
        self.status = "expected"
        self.state = [GONE] * RANKS
        self.step = [0] * RANKS
        self.grants = [[] for _ in range(RANKS)]
        self.committed = {}
        self.landed.clear()
        self.epoch = None
        self.safe = -1

    def teardown(self):
        self.bench.store.close()
        self.folder.cleanup()

    def collect(self):
        """Take in what the agent said to waiting ranks meanwhile."""
        for rank, state in enumerate(self.state):
            reply = self.bench.replies.pop(rank, None)
            if state != WAITING or reply is None:
                continue
            if reply["ok"]:
                self.grants[rank] += [tuple(extent) for extent in reply["extents"]]
                self.state[rank] = INSIDE
            else:
                self.lose(rank)

    def lose(self, rank):
        self.state[rank], self.grants[rank] = GONE, []
        self.end("aborted")
        self.bench.hang_up(rank)

    def end(self, status):
        if self.status == "open":
            self.status = status
            self.committed.clear()

    @precondition(lambda self: self.status == "expected")
    @rule()
    def open(self):
        for rank in range(RANKS):
            assert self.bench.open(rank, writers=RANKS)["ok"]
        self.state, self.status = [IDLE] * RANKS, "open"

    @rule()
    def attach(self):
        reply = self.bench.attach("fold")
        cursor, checkpoint = reply["cursors"]["fold"]
        assert cursor == self.safe
        assert checkpoint == (b"" if cursor < 0 else b"%d" % cursor)
        self.epoch = reply["epoch"]

    @rule(rank=st.integers(0, RANKS - 1), pages=st.integers(0, 7))
    def begin(self, rank, pages):
        if self.state[rank] == IDLE:
            self.bench.begin(rank, self.step[rank], pages)
            self.replied_or_waits(rank)

    @rule(rank=st.integers(0, RANKS - 1), pages=st.integers(1, 5))
    def reserve(self, rank, pages):
        if self.state[rank] == INSIDE:
            self.bench.reserve(rank, self.step[rank], pages)
            self.replied_or_waits(rank)

    def replied_or_waits(self, rank):
        self.state[rank] = WAITING
        self.collect()

    @rule(rank=st.integers(0, RANKS - 1), share=st.sampled_from([0.0, 0.3, 1.0]))
    def commit(self, rank, share):
        if self.state[rank] != INSIDE:
            return
        step = self.step[rank]
        used = [(offset, int(size * share)) for offset, size in self.grants[rank]]
        self.bench.commit(rank, step, *(extent for extent in used if extent[1]))
        self.state[rank], self.grants[rank], self.step[rank] = IDLE, [], step + 1
        if self.status == "open":
            parts = self.committed.setdefault(step, [])
            parts.append(sum(align(size) for _, size in used))
            if len(parts) == RANKS:
                self.landed[step] = sum(self.committed.pop(step))
        self.collect()

    @rule(rank=st.integers(0, RANKS - 1))
    def close(self, rank):
        if self.state[rank] == IDLE:
            assert self.bench.say(rank, "close", steps=self.step[rank])["ok"]
            self.state[rank] = GONE
            if self.state == [GONE] * RANKS:
                self.end("closed")
            self.collect()

    @rule(rank=st.integers(0, RANKS - 1))
    def vanish(self, rank):
        if self.state[rank] != GONE:
            self.lose(rank)
            self.collect()

    @precondition(lambda self: self.epoch is not None and self.landed)
    @rule(data=st.data())
    def done(self, data):
        step = data.draw(st.sampled_from(sorted(self.landed)))
        assert self.bench.done(step, self.epoch, checkpoint=b"%d" % step)["ok"]
        self.safe = step
        for number in [number for number in self.landed if number <= step]:
            del self.landed[number]
        self.collect()

    @rule()
    def crash_and_reopen(self):
        self.bench.reopen()
        self.bench.wait(LOSS_S)
        self.state = [GONE] * RANKS
        self.grants = [[] for _ in range(RANKS)]
        self.end("aborted")

    @precondition(lambda self: self.status in ("closed", "aborted") and self.state == [GONE] * RANKS)
    @rule()
    def drop(self):
        assert self.bench.say(ANALYSIS, "drop", stream=STREAM)["ok"]
        self.forget()

    @invariant()
    def what_is_free_and_what_is_held_make_the_capacity(self):
        granted = sum(size for grants in self.grants for _, size in grants)
        committed = sum(sum(parts) for parts in self.committed.values())
        held = granted + committed + sum(self.landed.values())
        assert self.bench.free_pages() * PAGE + held == PAGES * PAGE

    @invariant()
    def every_committed_step_is_there_once_until_it_is_done(self):
        reply = self.bench.watch()
        assert [step["step"] for step in reply["steps"]] == sorted(self.landed)
        assert reply["status"] == self.status


TestNodeMachine = NodeMachine.TestCase
TestNodeMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

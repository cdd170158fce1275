"""A node's whole life in any order: land, fold, read, break off, crash, come back, drop."""

import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from machine_readers import ReadersMachine
from machine_writers import ranks, some_rank
from model import GONE, IDLE, INSIDE, WAITING, Death, die_at

from bbflow.store import node as node_module
from bbflow.store.extents import Extents
from bbflow.store.ranks import Needs
from testsupport.peers import ANALYSIS, PAGE, STREAM, Bench

pytestmark = pytest.mark.timeout(600)  # a search

PAGES = 12
whole_records = st.integers(0, 2)
shares = st.floats(0, 1)


class NodeMachine(ReadersMachine):
    """Compares one node with a plain model of what it must hold, and lets its agent die."""

    @initialize(compact_bytes=st.sampled_from([1, 2000, 1 << 20]))
    def start(self, compact_bytes):
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(node_module, "COMPACT_BYTES", compact_bytes)
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self.temporary.name)
        self.bench = Bench(self.folder / "node", PAGES)
        self.forget()

    def teardown(self):
        try:
            self.nobody_waits_for_ever()
        finally:
            self.bench.store.close()
            self.temporary.cleanup()
            self.patch.undo()

    @rule()
    def crash(self):
        self.reopen()
        self.adopt()

    def reopen(self):
        for writer in self.writers:
            writer.lose()
        self.bench.reopen()

    def adopt(self):
        """Take in what was decided but not said, and that an agent started again knows of no reader."""
        kept = {step["step"] for step in self.bench.watch()["steps"]}
        for step in self.held.spent - kept:
            self.held.steps.pop(step, None)
        self.collect()
        self.held.readers.clear()
        self.held.read_through = -1

    def die_in(self, peer, message, whole, share):
        """Kill the agent while it takes a message in: no one gets a reply."""
        die_at(self.bench.store, whole, share)
        with contextlib.suppress(Death):
            self.bench.hear(peer, message)
        self.reopen()

    @some_rank(IDLE)
    @rule(rank=ranks, pages=st.integers(1, 7), whole=whole_records, share=shares)
    def crash_in_a_begin(self, rank, pages, whole, share):
        writer = self.writers[rank]
        if self.is_in(rank, IDLE):
            writer.request = {"op": "begin", "step": writer.step, "bytes": pages * PAGE}
            writer.state = WAITING
            self.die_in(rank, writer.request, whole, share)
            self.adopt()

    @some_rank(INSIDE)
    @rule(rank=ranks, whole=whole_records, share=shares, ahead=st.integers(0, 7))
    def crash_in_a_commit(self, rank, whole, share, ahead):
        writer = self.writers[rank]
        if self.is_in(rank, INSIDE):
            self.fill(rank, 1.0)
            self.die_in(rank, writer.sent | {"ahead_bytes": ahead * PAGE}, whole, share)
            if self.bench.store.streams[STREAM].ranks[rank].committed == writer.sent["step"]:
                self.committed(rank)
            self.adopt()

    @some_rank(IDLE)
    @rule(rank=ranks, whole=whole_records, share=shares)
    def crash_in_a_close(self, rank, whole, share):
        writer = self.writers[rank]
        if self.is_in(rank, IDLE):
            self.die_in(rank, {"op": "close", "steps": writer.step}, whole, share)
            if self.bench.store.streams[STREAM].ranks[rank].closed:
                self.closed(rank)
                writer.state, writer.is_away = IDLE, True  # it doesn't know
            self.adopt()
            self.come_back(rank)
            self.close(rank)

    @precondition(lambda self: self.held.cursors)
    @rule(data=st.data(), whole=whole_records, share=shares)
    def crash_in_a_done(self, data, whole, share):
        consumer = data.draw(st.sampled_from(sorted(self.held.cursors)))
        if not (ahead := self.ahead_of(consumer)):
            return
        step = data.draw(st.sampled_from(ahead))
        what = {"consumer": consumer, "epoch": self.epoch, "step": step, "checkpoint": b"%d" % step}
        self.die_in(ANALYSIS, {"op": "done", "stream": STREAM} | what, whole, share)
        cursor = self.bench.store.streams[STREAM].consumers[consumer].step
        assert cursor in (self.held.cursors[consumer], step)
        self.held.cursors[consumer] = cursor
        self.held.release()
        self.adopt()

    @precondition(lambda self: self.status in ("closed", "aborted") and not any(w.state != GONE for w in self.writers))
    @rule()
    def drop(self):
        assert self.bench.say(ANALYSIS, "drop", stream=STREAM)["ok"]
        for reader in self.held.readers:
            self.bench.hang_up(reader)
        self.forget()

    @rule()
    def nobody_waits_for_ever(self):
        """When all others have done their part, every rank comes to its end."""
        for reader in list(self.held.readers):
            self.leave(reader)
        self.attach(["fold"])
        steps = [writer.step + (writer.state in (INSIDE, WAITING)) for writer in self.writers if writer.state != GONE]
        for _ in range(4 * max(steps, default=0) + 8):
            for rank in range(len(self.writers)):
                self.go_on(rank, max(steps, default=0))
            for step in self.ahead_of("fold"):
                self.done_with("fold", step)
        assert [writer.state for writer in self.writers] == [GONE] * len(self.writers)

    def go_on(self, rank, steps):
        writer = self.writers[rank]
        self.come_back(rank)
        if writer.state == INSIDE:
            self.commit(rank, 1.0, 0)
        elif writer.state == IDLE and writer.step >= steps:
            self.close(rank)
        elif writer.state == IDLE:
            expected = self.bench.store.streams[STREAM].ranks[rank].expected_bytes
            self.begin(rank, (expected or PAGE) // PAGE)

    @invariant()
    def no_extent_is_held_twice_and_none_is_lost(self):
        pool, streams = Extents(PAGES * PAGE), self.bench.store.streams.values()
        for extent in (extent for stream in streams for extent in stream.held_extents()):
            pool.take_at(extent)
        assert pool.free_bytes == self.bench.free_pages() * PAGE
        if not any(writer.is_away for writer in self.writers):
            granted = sum(size for writer in self.writers for _, size in [*writer.grants, *self.standing(writer)])
            assert pool.capacity - pool.free_bytes == granted + self.held.pool_bytes()

    def standing(self, writer):
        """Return what a rank is offered and the node has not taken back."""
        link = self.folder / "node" / "offers" / writer.offer
        return writer.offered if writer.offered and link.is_symlink() else []

    @invariant()
    def what_ranks_need_together_is_what_each_needs(self):
        for stream in self.bench.store.streams.values():
            sizes = [rank.expected_bytes for rank in stream.ranks.values() if rank.expected_bytes is not None]
            assert stream.needs == Needs(len(sizes), sum(sizes))

    @invariant()
    def every_committed_step_is_there_once_until_it_may_go(self):
        reply = self.bench.watch()
        assert [step["step"] for step in reply["steps"]] == sorted(self.held.steps)
        assert reply["status"] == self.status

    @invariant()
    def what_is_kept_is_as_it_was_written(self):
        pool = self.bench.store.pool()
        assert all(place.is_intact(pool) for place in self.held.places())

    @invariant()
    def no_file_stays_that_nobody_needs(self):
        files = set(self.folder.glob("*.spill"))
        needed = {place.file for place in self.held.places()}
        may_be = {place.file for writer in self.writers for place in writer.places} | self.unsettled_files
        assert files <= needed | may_be


TestNodeMachine = NodeMachine.TestCase
TestNodeMachine.settings = settings(stateful_step_count=40)

"""A node's whole life in any order: reserve, land, commit, fold, read, evict, crash, reopen, drop."""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from model import AWAY, GONE, IDLE, INSIDE, PEERS, WAITING, Writer, pattern
from peers import ANALYSIS, LOSS_S, PAGE, STREAM, Bench

from bbflow.records import Block
from bbflow.store import node as node_module
from bbflow.store.ranks import Hold

RANKS = 2
PAGES = 12
TURNS = 60
MEMORY = Path("/dev/shm")

ranks = st.integers(0, RANKS - 1)
steps = st.integers(0, 8)


class StoreMachine(RuleBasedStateMachine):
    """Keeps a plain model of what one node must hold, and compares."""

    def __init__(self):
        super().__init__()
        self.compact_bytes, node_module.COMPACT_BYTES = node_module.COMPACT_BYTES, 2048
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None, prefix="bbflow-machine-")
        self.bench = Bench(Path(self.folder.name) / "node", PAGES)
        self.forget()

    def forget(self):
        self.writers, self.readers = {}, {}
        self.ended = False
        self.epoch, self.safe = None, -1
        self.read_through = -1
        self.visible = []
        self.gone = set()

    def teardown(self):
        try:
            self.finish()
        finally:
            self.bench.store.close()
            self.folder.cleanup()
            node_module.COMPACT_BYTES = self.compact_bytes

    # What is true

    @property
    def landed(self):
        """Steps that every rank's commit of has arrived."""
        if len(self.writers) < RANKS:
            return set()
        return set.intersection(*(set(writer.acknowledged) for writer in self.writers.values())) - self.discarded

    @property
    def discarded(self):
        return set(self.shown["discarded"])

    def may_go(self, step):
        if any(hold.needs(step) for hold in self.readers.values()):
            return False
        return step <= (self.read_through if self.epoch is None else self.safe)

    def look(self):
        """Let writers take in what they were told, and see what the node shows now."""
        for writer in self.writers.values():
            writer.hear()
        self.shown = self.bench.watch()
        self.ended = self.shown["status"] in ("closed", "aborted")

    def is_(self, rank, *states):
        return rank in self.writers and self.writers[rank].state in states

    # Writers

    @rule(rank=ranks, policy=st.sampled_from(["Block", "Block", "Discard", "Spill"]))
    def open(self, rank, policy):
        self.look()
        if rank not in self.writers and not self.ended:
            others = [writer.policy for writer in self.writers.values()]
            folder = Path(self.folder.name)
            self.writers[rank] = Writer(self.bench, rank, RANKS, [*others, policy][0], folder)

    @rule(rank=ranks, pages=st.integers(0, 7))
    def begin(self, rank, pages):
        if self.is_(rank, IDLE):
            self.writers[rank].ask("begin", pages)

    @rule(rank=ranks, pages=st.integers(1, 5))
    def reserve(self, rank, pages):
        if self.is_(rank, INSIDE):
            self.writers[rank].ask("reserve", pages)

    @rule(rank=ranks, share=st.sampled_from([0.0, 0.3, 1.0, 1.0]))
    def commit(self, rank, share):
        if self.is_(rank, INSIDE):
            self.writers[rank].send(self.writers[rank].write(share))

    @rule(rank=ranks)
    def close(self, rank):
        if self.is_(rank, IDLE):
            writer = self.writers[rank]
            assert self.bench.say(writer.peer, "close", steps=writer.step)["ok"]
            writer.lose()

    @rule(rank=ranks)
    def vanish(self, rank):
        if self.is_(rank, IDLE, WAITING, INSIDE):
            self.bench.hang_up(self.writers[rank].peer)
            self.writers[rank].lose()

    @rule(rank=ranks)
    def break_off(self, rank):
        if self.is_(rank, IDLE, WAITING, INSIDE):
            self.bench.hang_up(self.writers[rank].peer, by_itself=False)
            self.writers[rank].leave()

    @rule(rank=ranks)
    def come_back(self, rank):
        if self.is_(rank, AWAY):
            self.writers[rank].connect()

    @rule()
    def wait_in_vain(self):
        self.bench.wait(LOSS_S)
        for writer in self.writers.values():
            if writer.state == AWAY:
                writer.lose()

    # The analysis

    @rule()
    def attach(self):
        reply = self.bench.attach("fold")
        cursor, checkpoint = reply["cursors"]["fold"]
        assert cursor == self.safe
        assert checkpoint == (b"" if cursor < 0 else b"%d" % cursor)
        self.epoch = reply["epoch"]

    @precondition(lambda self: self.epoch is not None and self.visible)
    @rule(data=st.data())
    def done(self, data):
        step = data.draw(st.sampled_from(self.visible))
        assert self.bench.done(step, self.epoch, checkpoint=b"%d" % step)["ok"]
        self.safe = step

    @precondition(lambda self: self.epoch is not None)
    @rule()
    def a_late_analysis_is_refused(self):
        assert "taken over" in self.bench.done(0, self.epoch - 1)["error"]

    # Readers

    @precondition(lambda self: self.writers and len(self.readers) < 2)
    @rule(after=st.integers(-1, 4), follow=st.booleans())
    def join(self, after, follow):
        peer = next(PEERS)
        if self.bench.say(peer, "join", stream=STREAM, after=after, follow=follow)["ok"]:
            self.readers[peer] = Hold(after, follows=follow)

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), step=steps)
    def pass_(self, data, step):
        peer = data.draw(st.sampled_from(sorted(self.readers)))
        hold = self.readers[peer]
        hold.passed = max(hold.passed, step)
        self.all_passed()
        assert self.bench.say(peer, "pass", step=step)["ok"]

    @precondition(lambda self: self.readers and self.visible)
    @rule(data=st.data())
    def pin(self, data):
        peer = data.draw(st.sampled_from(sorted(self.readers)))
        step = data.draw(st.sampled_from(self.visible))
        assert self.bench.say(peer, "pin", steps=[step, 1000])["pinned"] == [step]
        self.readers[peer].pins.add(step)

    @precondition(lambda self: any(hold.pins for hold in self.readers.values()))
    @rule(data=st.data())
    def unpin(self, data):
        peer = data.draw(st.sampled_from(sorted(peer for peer, hold in self.readers.items() if hold.pins)))
        step = data.draw(st.sampled_from(sorted(self.readers[peer].pins)))
        self.readers[peer].pins.remove(step)
        self.all_passed()
        self.bench.say(peer, "unpin", steps=[step])

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def leave(self, data):
        peer = data.draw(st.sampled_from(sorted(self.readers)))
        del self.readers[peer]
        self.all_passed()
        self.bench.hang_up(peer)

    def all_passed(self):
        """What all readers that follow have passed may go for the sake of new steps."""
        passed = [hold.passed for hold in self.readers.values() if hold.follows]
        self.read_through = max([self.read_through, *([min(passed)] if passed else [])])

    # Crashes

    @rule()
    def crash_and_reopen(self):
        self.bench.reopen()
        self.after_a_crash()

    @rule(rank=ranks, pages=st.integers(0, 7), data=st.data())
    def crash_in_the_middle_of_a_request(self, rank, pages, data):
        """The agent dies while it writes what a request makes it record; nobody has seen a reply."""
        before = self.index_bytes()
        if self.is_(rank, IDLE):
            self.writers[rank].ask("begin", pages)
        elif self.is_(rank, INSIDE):
            self.writers[rank].send(self.writers[rank].write(1.0), arrives=False)
        else:
            return
        self.tear(before, data)

    @precondition(lambda self: self.epoch is not None and self.visible)
    @rule(data=st.data())
    def crash_in_the_middle_of_a_checkpoint(self, data):
        before, step = self.index_bytes(), data.draw(st.sampled_from(self.visible))
        self.bench.done(step, self.epoch, checkpoint=b"%d" % step)
        self.tear(before, data)
        cursor, checkpoint = self.bench.attach("fold")["cursors"]["fold"]
        self.epoch += 1
        assert cursor in (self.safe, step)
        assert checkpoint == (b"" if cursor < 0 else b"%d" % cursor)
        self.safe = cursor

    def index_bytes(self):
        self.look()
        index = self.bench.directory / "index"
        return index.stat().st_ino, index.stat().st_size

    def tear(self, before, data):
        """Cut the index off somewhere in what was written last, unless it was written anew meanwhile."""
        (inode, size), index = before, self.bench.directory / "index"
        now = index.stat()
        self.bench.store.close()
        self.gone -= {step for step in self.gone if not self.may_go(step)}
        if now.st_ino == inode and now.st_size > size:
            cut = data.draw(st.integers(size, now.st_size))
            with index.open("rb+") as file:
                file.truncate(cut)
        self.bench.__init__(self.bench.directory)
        self.gone &= self.landed_before_the_crash()
        self.after_a_crash()

    def landed_before_the_crash(self):
        """Steps that went for good; one whose eviction was torn is back."""
        return self.gone - {step["step"] for step in self.bench.watch()["steps"]}

    def after_a_crash(self):
        self.readers.clear()
        self.read_through = -1
        self.bench.replies.clear()
        for writer in self.writers.values():
            writer.leave()

    @precondition(lambda self: self.ended and all(writer.state == GONE for writer in self.writers.values()))
    @rule()
    def drop(self):
        for peer in self.readers:
            self.bench.hang_up(peer)
        assert self.bench.say(ANALYSIS, "drop", stream=STREAM)["ok"]
        self.forget()

    # What always holds

    @invariant()
    def every_byte_of_the_pool_is_free_or_held_once(self):
        self.look()
        store = self.bench.store
        held = [extent for stream in store.streams.values() for extent in stream.held_extents()]
        at = 0
        for offset, size in sorted([*store.extents._free, *held]):
            assert offset == at
            at += size
        assert at == PAGES * PAGE

    @invariant()
    def every_committed_step_is_there_once_unless_it_may_go(self):
        self.look()
        self.visible = [step["step"] for step in self.shown["steps"]]
        assert self.visible == sorted(set(self.visible))
        assert set(self.visible) <= self.landed
        missing = self.landed - set(self.visible) - self.gone
        assert all(self.may_go(step) for step in missing), missing
        assert not self.gone & set(self.visible)
        self.gone |= missing
        if self.epoch is not None:
            assert not any(self.may_go(step) for step in self.visible)

    @invariant()
    def the_bytes_of_kept_steps_are_what_was_written(self):
        pool = self.bench.store.pool()
        for step in self.shown["steps"]:
            assert step["ranks"] == RANKS
            for message in step["blocks"]:
                block = Block.from_wire(message)
                written = pattern(block.rank, step["step"], block.bytes)
                found = Path(block.file).read_bytes() if block.file else pool[block.offset :][: block.bytes]
                assert found == written

    # The end

    def finish(self):
        """Whatever has happened: once the analysis keeps up, every rank comes to its end, and nothing stays."""
        if not self.writers:
            return
        for peer in list(self.readers):
            self.bench.hang_up(peer)
        self.readers.clear()
        self.look()
        for rank in range(RANKS):
            self.open(rank, "Block")
        self.attach()
        for _ in range(TURNS):
            self.keep_up()
            if all(writer.state == GONE for writer in self.writers.values()):
                break
        else:
            raise AssertionError(f"no end: {[(w.state, w.step, w.request) for w in self.writers.values()]}")
        self.keep_up()
        self.wait_in_vain()  # a rank that came back too late leaves its room when it counts as lost
        assert self.ended or len(self.writers) < RANKS
        assert self.bench.free_pages() == PAGES
        assert not list(Path(self.folder.name).glob("*.spill")) or self.shown["status"] == "aborted"

    def keep_up(self):
        self.look()
        last = max(writer.settled for writer in self.writers.values())
        for rank, writer in self.writers.items():
            self.come_back(rank)
            if writer.state == INSIDE:
                self.commit(rank, 1.0)
            elif writer.state == IDLE and writer.settled < last and not self.ended:
                self.begin(rank, 0)
            elif writer.state == IDLE and (self.ended or self.all_settled(last)):
                self.close(rank)
        self.look()
        if self.shown["last"] > self.safe:
            assert self.bench.done(self.shown["last"], self.epoch, checkpoint=b"%d" % self.shown["last"])["ok"]
            self.safe = self.shown["last"]

    def all_settled(self, step):
        return all(
            writer.state == GONE or (writer.state == IDLE and writer.settled == step)
            for writer in self.writers.values()
        )


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)

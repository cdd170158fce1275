"""The writers' part of a node's life: what they do, and what the agent tells them."""

from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from model import GONE, IDLE, INSIDE, WAITING, Held, Place, Writer

from testsupport.peers import LOSS_S, PAGE, STREAM, Bench, content_of

RANKS = 2
ranks = st.integers(0, RANKS - 1)


def some_rank(state):
    """Only where a rank is in a state."""
    return precondition(lambda self: any(self.is_in(rank, state) for rank in range(RANKS)))


def some_writer(is_so):
    return precondition(lambda self: any(is_so(writer) for writer in self.writers))


class WritersMachine(RuleBasedStateMachine):
    """Ranks that write one stream, and what must be held of it."""

    bench: Bench
    folder: Path
    life = 0

    def forget(self):
        """Begin with a stream that nobody knows."""
        self.life += 1
        self.status, self.policy, self.epoch = "expected", "Block", None
        self.writers = [Writer() for _ in range(RANKS)]
        self.held = Held()
        self.discarded, self.settled = set(), set()
        self.unsettled_files = set()

    def collect(self):
        """Take in what the agent said to waiting ranks meanwhile, and what it gave up for them."""
        for rank, writer in enumerate(self.writers):
            reply = self.bench.replies.pop(rank, None)
            if writer.state == WAITING and writer.is_here and reply is not None:
                self.answered(rank, reply)
        self.take_in_discards()
        self.take_in_evictions()

    def answered(self, rank, reply):
        writer = self.writers[rank]
        if not reply["ok"]:
            assert self.status == "aborted" or "capacity" in reply["error"] or "has closed" in reply["error"], reply
            self.vanish(rank)
        elif reply["status"] == "discard":
            writer.state, writer.step, writer.grants = IDLE, writer.step + 1, []
        else:
            extents = [tuple(extent) for extent in reply["extents"]]
            assert writer.request["op"] == "reserve" or set(writer.grants) <= set(extents)
            writer.state, writer.spills = INSIDE, reply["status"] == "spill"
            self.grant(writer, extents)

    def grant(self, writer, extents):
        """Scribble over new room: whatever else lies there is seen to be damaged."""
        for offset, size in set(extents) - set(writer.grants):
            self.bench.store.pool()[offset : offset + size] = b"\xee" * size
            writer.grants.append((offset, size))

    def take_in_discards(self):
        for step in set(self.bench.watch()["discarded"]) - self.discarded:
            assert self.policy == "Discard"
            assert step not in self.settled
            self.discarded.add(step)
            self.held.parts.pop(step, None)

    def take_in_evictions(self):
        kept = {step["step"] for step in self.bench.watch()["steps"]}
        gone = [step for step in sorted(self.held.steps) if step not in kept]
        assert gone == self.held.evictable()[: len(gone)]
        for step in gone:
            del self.held.steps[step]

    def end(self, status):
        if self.status == "open":
            self.status = status
            self.held.parts.clear()

    @precondition(lambda self: self.status == "expected")
    @rule(policy=st.sampled_from(["Block", "Block", "Discard", "Spill"]))
    def open(self, policy):
        for rank, writer in enumerate(self.writers):
            reply = self.bench.open(rank, writers=RANKS, policy=policy)
            assert reply["ok"]
            writer.state, writer.offer = IDLE, reply["offer"]
        self.status, self.policy = "open", policy

    def is_in(self, rank, state):
        return self.writers[rank].state == state and self.writers[rank].is_here

    @some_rank(IDLE)
    @rule(rank=ranks, pages=st.integers(0, 7))
    def begin(self, rank, pages):
        if self.is_in(rank, IDLE):
            self.ask(rank, {"op": "begin", "step": self.writers[rank].step, "bytes": pages * PAGE})

    @some_writer(lambda writer: writer.offered)
    @rule(rank=ranks)
    def take_the_offer(self, rank):
        writer = self.writers[rank]
        if self.is_in(rank, IDLE) and writer.offered:
            offered, writer.offered = writer.offered, []
            if self.take(writer):
                writer.state, writer.spills = INSIDE, False
                self.grant(writer, offered)
            else:
                self.begin(rank, 1)

    def take(self, writer):
        """Rename an offer's link; false if it is gone."""
        link = self.folder / "node" / "offers" / writer.offer
        if is_there := link.is_symlink():
            link.rename(f"{link}.taken")
        return is_there

    @some_rank(INSIDE)
    @rule(rank=ranks, pages=st.integers(1, 5))
    def reserve(self, rank, pages):
        if self.is_in(rank, INSIDE) and not self.writers[rank].spills:
            self.ask(rank, {"op": "reserve", "step": self.writers[rank].step, "bytes": pages * PAGE})

    def ask(self, rank, request):
        self.writers[rank].offered = []
        self.writers[rank].request, self.writers[rank].state = request, WAITING
        self.bench.say(rank, **request)
        self.collect()

    @some_rank(INSIDE)
    @rule(rank=ranks, share=st.sampled_from([0.0, 0.3, 1.0]), ahead=st.integers(0, 7))
    def commit(self, rank, share, ahead):
        if self.is_in(rank, INSIDE):
            self.fill(rank, share)
            reply = self.bench.say(rank, **self.without_known_forms(self.writers[rank]), ahead_bytes=ahead * PAGE)
            self.committed(rank)
            self.take_in_offer(rank, reply if ahead else None)
            self.collect()

    def take_in_offer(self, rank, reply):
        """Take in what a rank is offered for its next step, if it has asked for something."""
        if reply is not None:
            assert reply["ok"]
            assert self.policy == "Block" or reply["status"] == "later"
            self.writers[rank].offered = [tuple(extent) for extent in reply["extents"]]

    def fill(self, rank, share):
        """Write a rank's blocks and make its commit."""
        writer = self.writers[rank]
        token = b"%02d%02d%04d" % (self.life % 100, rank, writer.step)
        used = [(offset, int(size * share) // 8 * 8) for offset, size in writer.grants]
        places = [Place(offset, size, token) for offset, size in used if size]
        if writer.spills and share:
            places.append(Place(64, PAGE, token, self.folder / f"{STREAM}.{writer.step}.{rank}.spill"))
        for place in places:
            place.write(self.bench.store.pool())
        blocks = [place.block() for place in places]
        content = content_of(blocks, rank, layout=len(blocks) % 3)
        writer.sent = {"op": "commit", "step": writer.step, "attributes": [], "open_s": 0.0, "waited_s": 0.0} | content
        writer.places, writer.grants, writer.spills = tuple(places), [], False
        writer.state, writer.step = IDLE, writer.step + 1

    def without_known_forms(self, writer):
        """Return a rank's commit as it is sent, without forms that its node knows over this connection."""
        number, forms = writer.sent["layout"], writer.sent["forms"]
        if writer.told.get(number) == forms:
            return {key: value for key, value in writer.sent.items() if key != "forms"}
        writer.told[number] = forms
        return writer.sent

    def committed(self, rank):
        """Take in that the agent has a rank's last commit."""
        step = self.writers[rank].sent["step"]
        if self.status != "open" or step in self.discarded:
            return
        parts = self.held.parts.setdefault(step, {})
        parts[rank] = self.writers[rank].places
        if len(parts) == RANKS:
            self.held.steps[step] = [place for _, places in sorted(parts.items()) for place in places]
            del self.held.parts[step]
            self.settled.add(step)
            self.held.release()

    @some_rank(IDLE)
    @rule(rank=ranks, early=st.sampled_from([False, False, False, True]))
    def close(self, rank, early=True):
        if self.is_in(rank, IDLE) and (early or self.writers[rank].step == max(writer.step for writer in self.writers)):
            assert self.bench.say(rank, "close", steps=self.writers[rank].step)["ok"]
            self.closed(rank)
            self.collect()

    def closed(self, rank):
        self.writers[rank].state = GONE
        if all(writer.state == GONE for writer in self.writers):
            self.end("aborted" if self.held.parts else "closed")

    @some_writer(lambda writer: writer.is_here)
    @rule(rank=ranks)
    def vanish(self, rank):
        if self.writers[rank].is_here:
            self.bench.hang_up(rank)
            self.abandon(rank)
            self.collect()

    def abandon(self, rank):
        """Take in that a rank is lost; a file of which it didn't learn whether the agent knows it stays."""
        writer = self.writers[rank]
        self.unsettled_files |= {place.file for place in writer.places}
        self.writers[rank] = Writer(step=writer.step)
        self.end("aborted")

    @some_writer(lambda writer: writer.is_here)
    @rule(rank=ranks)
    def lose_the_connection(self, rank):
        if self.writers[rank].is_here:
            self.bench.hang_up(rank, by_itself=False)
            self.writers[rank].lose()
            self.collect()

    @some_writer(lambda writer: writer.is_away)
    @rule(rank=ranks)
    def come_back(self, rank):
        writer = self.writers[rank]
        if not writer.is_away:
            return
        reply = self.bench.open(rank, writers=RANKS, policy=self.policy, resume=True, settled=writer.step - 1)
        if reply["ok"]:
            writer.is_away, writer.offer = False, reply["offer"]
            self.carry_on(rank, reply)
        else:
            assert self.status in ("closed", "aborted")
            self.time_passes()  # until then its room stays its own
        self.collect()

    def carry_on(self, rank, reply):
        """Send again what the agent lacks."""
        writer = self.writers[rank]
        if reply["committed"] < writer.step - 1:
            assert reply["committed"] == writer.sent["step"] - 1 == writer.step - 2
            self.bench.say(rank, **self.without_known_forms(writer))
            self.committed(rank)
            return
        extents = [tuple(extent) for extent in reply["extents"]]
        assert set(writer.grants) <= set(extents)
        has_more = len(extents) > len(writer.grants)
        self.grant(writer, extents)
        if writer.state == WAITING and writer.request["op"] == "reserve" and has_more:
            writer.state = INSIDE
        elif writer.state == WAITING:
            self.ask(rank, writer.request)

    @some_writer(lambda writer: writer.is_away)
    @rule()
    def time_passes(self):
        self.bench.wait(LOSS_S)
        for rank, writer in enumerate(self.writers):
            if writer.is_away:
                self.abandon(rank)
        self.collect()

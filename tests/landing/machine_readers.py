"""The part of consumers and readers in a node's life."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from machine_writers import WritersMachine

from testsupport.peers import STREAM

READERS = (2000, 2001)
readers = st.sampled_from(READERS)
steps = st.integers(0, 8)


class ReadersMachine(WritersMachine):
    """Who follows the stream that is written."""

    @rule(names=st.sampled_from([["fold"], ["drain"], ["fold", "drain"]]))
    def attach(self, names):
        reply = self.bench.attach(*names)
        self.held.cursors = {name: self.held.cursors.get(name, -1) for name in names}
        self.epoch = reply["epoch"]
        for name, (cursor, checkpoint) in reply["cursors"].items():
            assert cursor == self.held.cursors[name]
            assert checkpoint == (b"" if cursor < 0 else b"%d" % cursor)
        self.held.release()
        self.collect()

    def ahead_of(self, consumer):
        """Steps that a consumer could be done with next."""
        return [step for step in sorted(self.settled) if step > self.held.cursors[consumer]]

    @precondition(lambda self: self.held.cursors)
    @rule(data=st.data())
    def done(self, data):
        consumer = data.draw(st.sampled_from(sorted(self.held.cursors)))
        if ahead := self.ahead_of(consumer):
            self.done_with(consumer, data.draw(st.sampled_from(ahead)))

    def done_with(self, consumer, step):
        assert self.bench.done(step, self.epoch, consumer, checkpoint=b"%d" % step)["ok"]
        self.held.cursors[consumer] = step
        self.held.release()
        self.collect()

    @precondition(lambda self: self.status != "expected")
    @rule(reader=readers, after=st.integers(-1, 3))
    def join(self, reader, after):
        if reader not in self.held.readers:
            reply = self.bench.say(reader, "join", stream=STREAM, after=after)
            kept = [step for step in self.held.steps if step > after]
            assert reply["oldest"] == min(kept, default=max(self.bench.watch()["last"], after) + 1)
            self.held.readers[reader] = (after, set())

    @precondition(lambda self: self.held.readers)
    @rule(reader=readers, step=steps)
    def pass_steps(self, reader, step):
        if reader in self.held.readers:
            assert self.bench.say(reader, "pass", step=step)["ok"]
            passed, pins = self.held.readers[reader]
            self.held.readers[reader] = (max(passed, step), pins)
            self.held.passed()
            self.collect()

    @precondition(lambda self: self.held.readers)
    @rule(reader=readers, step=steps)
    def pin(self, reader, step):
        if reader in self.held.readers:
            pinned = self.bench.say(reader, "pin", steps=[step])["pinned"]
            assert pinned == [kept for kept in self.held.steps if kept == step]
            self.held.readers[reader][1].update(pinned)

    @precondition(lambda self: self.held.readers)
    @rule(reader=readers, step=steps)
    def unpin(self, reader, step):
        if reader in self.held.readers:
            assert self.bench.say(reader, "unpin", steps=[step])["ok"]
            self.held.readers[reader][1].discard(step)
            self.held.passed()
            self.collect()

    @precondition(lambda self: self.held.readers)
    @rule(reader=readers)
    def leave(self, reader):
        if reader in self.held.readers:
            self.bench.hang_up(reader)
            del self.held.readers[reader]
            self.held.passed()
            self.collect()

"""Readers of a node: what they hold, and what goes when they have passed."""

import pytest

from bbflow.errors import ProtocolError
from bbflow.store.streams import extents_of
from testsupport.peers import ANALYSIS, STREAM, steps_of

READER = 2000


def join(bench, after=-1, peer=READER):
    return bench.say(peer, "join", stream=STREAM, after=after)


@pytest.fixture
def written(bench):
    """Four steps of four pages, which fill the pool."""
    bench.open()
    for step in range(4):
        bench.land(step, pages=4)
    return bench


def test_a_late_reader_begins_at_the_oldest_step_that_is_kept(written):
    assert join(written)["oldest"] == 0
    assert join(written, after=1, peer=READER + 1)["oldest"] == 2
    assert join(written, after=9, peer=READER + 2)["oldest"] == 10


def test_a_stream_that_is_not_there_yet_can_not_be_joined(bench):
    assert "there is no stream" in join(bench)["error"]


def test_steps_that_all_readers_have_passed_stay_until_their_room_is_needed(written):
    join(written)
    assert written.begin(0, 4, 4) is None
    written.say(READER, "pass", step=1)
    assert written.replies[0]["ok"]
    assert steps_of(written.watch()) == [1, 2, 3]


def test_a_slow_reader_holds_back_what_a_fast_one_has_passed(written):
    join(written)
    join(written, peer=READER + 1)
    written.say(READER, "pass", step=3)
    assert written.begin(0, 4, 4) is None
    written.say(READER + 1, "pass", step=0)
    assert written.replies[0]["ok"]


def test_a_reader_that_is_gone_holds_nothing(written):
    join(written)
    join(written, peer=READER + 1)
    written.say(READER, "pass", step=3)
    assert written.begin(0, 4, 4) is None
    written.hang_up(READER + 1)
    assert written.replies[0]["ok"]


def test_without_a_reader_and_an_analysis_every_step_is_kept(written):
    assert written.begin(0, 4, 4) is None
    join(written)
    written.hang_up(READER)
    assert 0 not in written.replies


def test_what_the_analysis_is_done_with_stays_for_a_reader_that_needs_it(written):
    epoch = written.attach("fold")["epoch"]
    join(written, after=0)
    written.done(3, epoch)
    assert steps_of(written.watch()) == [1, 2, 3]
    written.say(READER, "pass", step=2)
    assert steps_of(written.watch()) == [3]
    written.hang_up(READER)
    assert steps_of(written.watch()) == []
    assert written.free_pages() == 16


def test_a_pinned_step_stays_whatever_is_passed(written):
    epoch = written.attach("fold")["epoch"]
    join(written)
    assert written.say(READER, "pin", steps=[1, 2, 7])["pinned"] == [1, 2]
    written.say(READER, "pass", step=3)
    written.done(3, epoch)
    assert steps_of(written.watch()) == [1, 2]
    written.say(READER, "unpin", steps=[1])
    assert steps_of(written.watch()) == [2]


def test_what_a_reader_looks_at_outlives_its_dropped_stream(written):
    join(written)
    written.say(READER, "pin", steps=[1])
    written.say(READER, "pass", step=2)
    written.say(0, "close", steps=4)
    written.say(ANALYSIS, "drop", stream=STREAM)
    assert written.free_pages() == 8
    assert "weather" not in written.store.streams
    written.open(peer=5)
    written.begin(5, 0, 8)
    ((offset, size),) = extents_of(written.agent._reading._peers[READER].stream.steps[1])
    assert written.say(READER, "get", step=1, offset=offset, bytes=size)["size"] == size
    written.say(READER, "unpin", steps=[1])
    assert written.free_pages() == 4
    written.hang_up(READER)
    assert written.free_pages() == 8


def test_attributes_of_steps_that_are_gone_are_the_base_of_those_that_are_kept(bench):
    bench.open()
    epoch = bench.attach("fold")["epoch"]
    for step in range(3):
        bench.begin(0, step)
        bench.commit(0, step, attributes=[{"name": "n", "type": "int32_t", "value": step}])
    bench.done(0, epoch)
    reply = bench.watch()
    assert [item["value"] for item in reply["base"]] == [0]
    assert [[item["value"] for item in step["attributes"]] for step in reply["steps"]] == [[1], [2]]
    bench.say(0, "close", steps=3, attributes=[{"name": "n", "type": "int32_t", "value": 9}])
    assert [item["value"] for item in bench.watch()["attributes"]] == [9]


def test_the_base_says_since_when_attributes_hold(bench):
    """What was told before to a node that is lost has held since then."""
    bench.open()
    epoch = bench.attach("fold")["epoch"]
    for step in range(3):
        bench.begin(0, step)
        own = {"name": f"own{step}", "type": "int32_t", "value": step}
        bench.commit(0, step, attributes=[own, {"name": "lost", "type": "int32_t", "value": 7, "since": 0}])
    for act in (lambda: bench.done(1, epoch), bench.reopen):
        act()
        assert {item["name"]: item["since"] for item in bench.watch()["base"]} == {"own0": 0, "own1": 1, "lost": 0}


def test_what_a_reader_holds_back_is_told_to_an_analysis_that_goes_on_behind_it(bench):
    """It is told of no step that is done with, and needs what came with them; what is newer counts."""
    bench.open()
    for step in range(3):
        bench.begin(0, step)
        named = {"own": 7.0, "n": 0.0} if step == 0 else {"n": float(step)}
        attributes = [{"name": name, "type": "double", "value": value} for name, value in named.items()]
        bench.commit(0, step, attributes=attributes)
    join(bench, after=9)
    assert bench.say(READER, "pin", steps=[0])["pinned"] == [0]
    bench.done(1, bench.attach("fold")["epoch"])
    for act in (lambda: None, lambda: bench.say(READER, "unpin", steps=[0]), bench.reopen):
        act()
        reply = bench.watch(after=1)
        assert {item["name"]: item["value"] for item in reply["base"]} == {"own": 7.0, "n": 1.0}
        assert {item["name"]: item["value"] for item in reply["attributes"]} == {"own": 7.0, "n": 2.0}
    assert steps_of(bench.watch()) == [2]


def test_bytes_are_given_out_of_the_blocks_of_a_held_step_only(written):
    join(written, after=1)
    ((offset, size),) = extents_of(written.store.streams[STREAM].steps[2])
    ((older, _),) = extents_of(written.store.streams[STREAM].steps[1])
    reply = written.say(READER, "get", step=2, offset=offset + 8, bytes=size - 8)
    assert (reply["offset"], reply["size"]) == (offset + 8, size - 8)
    for step, start, count in (
        (2, offset, size + 1),
        (2, offset - 1, 1),
        (2, offset, 0),
        (1, older, 1),
        (8, offset, 1),
    ):
        assert not written.say(READER, "get", step=step, offset=start, bytes=count)["ok"]


@pytest.mark.parametrize("op", ["pass", "pin", "unpin", "get"])
def test_who_has_not_joined_can_not_read(written, op):
    with pytest.raises(ProtocolError, match="has not joined"):
        written.hear(READER, {"op": op, "step": 0, "steps": [], "offset": 0, "bytes": 1})


@pytest.mark.parametrize("after", [-2, 2**64 - 1])
def test_a_reader_can_not_join_after_a_step_that_no_message_can_hold(written, after):
    with pytest.raises(ProtocolError, match="Expected `int`"):
        join(written, after=after)


def test_a_reader_that_does_not_follow_holds_its_pins_only_and_is_not_asked_for_what_all_have_passed(written):
    join(written)
    written.say(READER + 1, "join", stream=STREAM, after=-1, follow=False)
    assert written.say(READER + 1, "pin", steps=[0])["pinned"] == [0]
    assert written.begin(0, 4, 4) is None
    written.say(READER, "pass", step=1)
    assert steps_of(written.watch()) == [0, 2, 3]
    written.commit(0, 4, *written.replies[0]["extents"])
    written.hang_up(READER)
    assert written.begin(0, 5, 4) is None
    written.hang_up(READER + 1)
    assert steps_of(written.watch()) == [2, 3, 4]

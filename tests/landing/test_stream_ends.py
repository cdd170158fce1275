"""Streams that are aborted, dropped, or written again: what stays, and what comes back."""

from testsupport.peers import ANALYSIS, STREAM, steps_of


def test_a_rank_that_is_gone_aborts_the_stream_and_keeps_what_was_committed(bench):
    for rank in (0, 1):
        bench.open(rank, writers=2)
    for rank in (0, 1):
        bench.commit(rank, 0, *bench.begin(rank, 0, 2)["extents"])
    for rank in (0, 1):
        bench.begin(rank, 1, 2)
    bench.hang_up(0)
    reply = bench.watch()
    assert (steps_of(reply), reply["status"]) == ([0], "aborted")
    assert "aborted" in bench.reserve(1, 1, 1)["error"]


def test_a_rank_that_comes_after_the_abort_learns_why(bench):
    bench.attach("fold")
    bench.open(0, writers=2)
    bench.hang_up(0)
    assert "aborted before rank 1 had opened it" in bench.open(1, writers=2)["error"]


def test_a_commit_after_the_abort_lands_nothing_and_leaks_nothing(bench):
    for rank in (0, 1):
        bench.open(rank, writers=2)
    first, second = (bench.begin(rank, 0, 2)["extents"] for rank in (0, 1))
    bench.commit(0, 0, *first)
    bench.hang_up(0)
    bench.commit(1, 0, *second)
    bench.hang_up(1)
    assert steps_of(bench.watch()) == []
    assert bench.free_pages() == 16


def test_a_straggler_of_a_dropped_stream_does_not_hurt_the_next_one(bench):
    for rank in (0, 1):
        bench.open(rank, writers=2)
    bench.begin(1, 0, 2)
    bench.hang_up(0)
    assert bench.say(ANALYSIS, "drop", stream=STREAM)["ok"]
    assert bench.open(0, peer=50)["ok"]
    bench.begin(50, 0, 1)
    bench.hang_up(1)
    assert bench.watch()["status"] == "open"
    assert bench.free_pages() == 15


def test_room_of_a_rank_that_was_away_when_its_stream_was_dropped_comes_back(bench):
    bench.open()
    bench.begin(0, 0, 2)
    bench.hang_up(0, by_itself=False)
    assert bench.say(ANALYSIS, "drop", stream=STREAM, left=True)["ok"]
    assert bench.open()["ok"]
    assert bench.free_pages() == 16


def test_an_agent_keeps_nothing_of_streams_that_were_dropped(bench):
    for stream in ("a", "b"):
        bench.open(stream=stream)
        bench.land(0)
        bench.say(0, "close", steps=1)
        assert bench.say(ANALYSIS, "drop", stream=stream)["ok"]
    assert not bench.store.streams
    assert not bench.agent._writing._writers


def test_a_stream_that_is_written_can_not_be_dropped(bench):
    bench.open()
    assert "still being written" in bench.say(ANALYSIS, "drop", stream=STREAM)["error"]
    assert "there is no stream 'climat'" in bench.say(ANALYSIS, "drop", stream="climat")["error"]
    assert bench.say(ANALYSIS, "drop", stream=STREAM, left=True)["ok"], "its rank is said to write elsewhere now"


def test_a_stream_that_holds_steps_is_not_written_over(bench):
    bench.open()
    bench.land(0)
    bench.say(0, "close", steps=1)
    assert "written before" in bench.open(peer=3)["error"]
    bench.say(ANALYSIS, "drop", stream=STREAM)
    assert bench.open(peer=4)["ok"]

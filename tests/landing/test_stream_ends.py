"""Streams that are aborted, dropped, or written again: what stays, and what comes back."""

from testsupport.peers import ANALYSIS, STREAM, steps_of

READER = 2000


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


def close(bench, rank):
    assert bench.say(rank, "close", steps=1)["ok"]


def open_two_of_four(bench):
    """Ranks 0 and 2 write a step and close the stream; 1 and 3 never come."""
    for rank in (0, 2):
        bench.open(rank, writers=4)
        bench.land(0, rank=rank)


def test_ranks_that_never_come_abort_a_stream_when_the_others_have_closed_it_and_waited(bench):
    bench.attach("fold")
    open_two_of_four(bench)
    close(bench, 0)
    bench.wait(60.0)
    assert bench.watch()["status"] == "open"
    close(bench, 2)
    bench.expire()
    reply = bench.watch()
    assert (reply["status"], steps_of(reply)) == ("aborted", [])
    assert bench.free_pages() == 16
    assert "OpenTimeoutSecs was over" in bench.open(1, writers=4)["error"]


def test_a_rank_that_comes_within_the_others_patience_is_waited_for(bench):
    open_two_of_four(bench)
    for rank in (0, 2):
        close(bench, rank)
    bench.wait(9.0)
    for rank in (1, 3):
        bench.open(rank, writers=4)
    bench.wait(60.0)
    for rank in (1, 3):
        bench.land(0, rank=rank)
        close(bench, rank)
    reply = bench.watch()
    assert (reply["status"], steps_of(reply)) == ("closed", [0])


def test_an_agent_that_was_started_again_gives_up_on_ranks_that_never_come_too(bench):
    open_two_of_four(bench)
    for rank in (0, 2):
        close(bench, rank)
    bench.reopen()
    bench.wait(59.0)
    assert bench.watch()["status"] == "open"
    bench.wait(2.0)
    assert bench.watch()["status"] == "aborted"


def test_who_knows_that_the_program_has_ended_need_not_wait(bench):
    open_two_of_four(bench)
    close(bench, 0)
    assert "rank 2 still writes" in bench.say(ANALYSIS, "give_up", stream=STREAM)["error"]
    close(bench, 2)
    for _ in range(2):
        assert bench.say(ANALYSIS, "give_up", stream=STREAM)["ok"]
        assert bench.watch()["status"] == "aborted"
    bench.reopen()
    assert bench.watch()["status"] == "aborted"


def test_ranks_that_all_closed_here_may_lack_others_on_another_node(bench):
    bench.attach("fold")
    assert bench.say(ANALYSIS, "give_up", stream=STREAM)["ok"]
    assert bench.watch()["status"] == "expected"
    bench.open(0, writers=2, local_writers=1)
    bench.land(0)
    close(bench, 0)
    assert bench.watch()["status"] == "closed"
    assert bench.say(ANALYSIS, "give_up", stream=STREAM)["ok"]
    reply = bench.watch()
    assert (reply["status"], steps_of(reply)) == ("aborted", [0])


def unclaimed(bench):
    return bench.say(ANALYSIS, "status")["streams"][STREAM]["unclaimed"]


def test_a_status_tells_the_steps_that_nobody_has_asked_for(bench):
    bench.open()
    for step in range(4):
        bench.land(step)
    assert unclaimed(bench) == 4
    bench.say(READER, "join", stream=STREAM, after=-1, follow=True)
    assert unclaimed(bench) == 0
    bench.say(READER, "pass", step=1)
    bench.hang_up(READER)
    assert unclaimed(bench) == 2
    bench.attach("fold")
    assert unclaimed(bench) == 0


def test_ranks_that_wait_for_room_are_told_when_others_have_not_come_to_other_nodes(bench):
    """Without these no step becomes whole, and nothing would ever be freed."""
    for rank in (0, 2):
        bench.open(rank, writers=4, local_writers=2)
        bench.land(0, 8, rank=rank)
    assert bench.begin(0, 1, 8) is None
    assert "still writes" in bench.say(ANALYSIS, "give_up", stream=STREAM, missing=2)["error"]
    bench.wait(10.0)
    assert bench.say(ANALYSIS, "give_up", stream=STREAM, missing=2)["ok"]
    for told in (bench.replies[0]["error"], bench.begin(2, 1, 8)["error"], *bench.watch()["refused"]):
        assert "2 of the 4 ranks of stream 'weather' did not open it within OpenTimeoutSecs=10" in told
    assert bench.watch()["status"] == "aborted"

import pytest

from bbflow.errors import ProtocolError
from bbflow.landing.analysis_requests import Told, show
from bbflow.landing.requests import WatchRequest
from testsupport.peers import ANALYSIS, LOSS_S, PAGE, STREAM, content_of, full_file_system, steps_of


def test_a_step_is_visible_when_all_ranks_have_committed_it(bench):
    for rank in (0, 1):
        assert bench.open(rank, writers=2)["ok"]
    for rank in (0, 1):
        extents = bench.begin(rank, 0, 1)["extents"]
        assert steps_of(bench.watch()) == []
        bench.commit(rank, 0, *extents)
    reply = bench.watch()
    assert steps_of(reply) == [0]
    assert [block.name for block in bench.blocks(reply["steps"][0])] == ["v", "v"]
    assert (reply["steps"][0]["began_s"], reply["last"], reply["status"]) == (100.0, 0, "open")


def test_space_goes_when_the_last_consumer_is_past_a_step(bench):
    bench.open()
    epoch = bench.attach("fold", "drain")["epoch"]
    bench.land(0, pages=4)
    assert bench.free_pages() == 12
    assert bench.done(0, epoch, "fold")["ok"]
    assert bench.free_pages() == 12
    assert bench.done(0, epoch, "drain")["ok"]
    assert bench.free_pages() == 16


def test_without_a_consumer_steps_are_kept(bench):
    bench.open()
    bench.land(0)
    bench.land(1)
    bench.say(0, "close", steps=2)
    reply = bench.watch()
    assert (steps_of(reply), reply["status"]) == ([0, 1], "closed")


def test_a_writer_waits_for_room_and_gets_it_when_a_step_is_done(bench):
    bench.open()
    epoch = bench.attach("fold")["epoch"]
    bench.land(0, pages=10)
    assert bench.begin(0, 1, 10) is None
    bench.done(0, epoch)
    assert bench.replies[0]["extents"] == [[0, 10 * PAGE]]


def test_room_that_a_step_did_not_use_comes_back_at_its_commit(bench):
    bench.open()
    ((offset, _),) = bench.begin(0, 0, 8)["extents"]
    bench.commit(0, 0, (offset, PAGE + 1))
    assert bench.free_pages() == 14


def test_a_step_without_blocks_lands_and_takes_no_room(bench):
    bench.open()
    bench.begin(0, 0)
    bench.commit(0, 0)
    assert steps_of(bench.watch()) == [0]
    assert bench.free_pages() == 16


def test_attributes_are_kept_and_the_newest_count(bench):
    bench.open()
    for step, units in enumerate(["K", "degC"]):
        bench.begin(0, step)
        bench.commit(0, step, attributes=[{"name": "v/units", "type": "string", "value": units}])
    assert [item["value"] for item in bench.watch()["attributes"]] == ["degC"]


def test_discard_drops_a_step_whole_and_for_all_ranks(bench):
    for rank in (0, 1):
        bench.open(rank, writers=2, policy="Discard")
    for rank in (0, 1):
        bench.commit(rank, 0, *bench.begin(rank, 0, 5)["extents"])
    assert bench.begin(0, 1, 5)["status"] == "discard"
    bench.attach("fold")
    bench.done(0, 1)
    assert bench.free_pages() == 16
    assert bench.begin(1, 1, 5)["status"] == "discard", "room came, but the step was dropped for the other rank"
    assert bench.begin(0, 2, 5)["status"] == "ok"
    assert bench.begin(1, 2, 5)["status"] == "ok"
    reply = bench.watch()
    assert (reply["discarded"], reply["last"]) == ([1], 1)


class Unwalked(set):
    def __iter__(self):
        raise AssertionError("all of them were looked at")


def test_discarding_a_step_needs_no_look_at_all_that_were_discarded_before(bench):
    bench.open(policy="Discard")
    bench.land(0, pages=9)
    bench.store.streams[STREAM].discarded = discarded = Unwalked()
    assert [bench.begin(0, step, 9)["status"] for step in range(1, 4)] == ["discard"] * 3
    assert len(discarded) == 3


def test_a_takeover_makes_the_old_analysis_void(bench):
    bench.open()
    old = bench.attach("fold")["epoch"]
    bench.land(0)
    bench.done(0, old, checkpoint=b"first")
    reply = bench.attach("fold")
    assert reply["epoch"] > old
    assert reply["cursors"] == {"fold": [0, b"first"]}
    bench.land(1)
    refused = bench.done(1, old)
    assert not refused["ok"]
    assert "taken over" in refused["error"]
    assert steps_of(bench.watch()) == [1]


def test_a_cursor_of_nobody_is_refused(bench):
    bench.open()
    epoch = bench.attach("fold")["epoch"]
    assert "not attached" in bench.done(0, epoch, consumer="other")["error"]


def test_a_watch_waits_for_a_change(bench):
    bench.open()
    change = bench.watch()["change"]
    assert bench.watch(change=change, timeout_s=5.0) is None
    bench.land(0)
    assert bench.replies[ANALYSIS]["change"] > change


def test_a_watch_is_answered_when_its_time_is_up(bench):
    change = bench.watch()["change"]
    assert bench.watch(change=change, timeout_s=5.0) is None
    assert bench.agent.next_deadline_s() == 105.0
    bench.clock.now_s = 104.9
    bench.expire()
    assert ANALYSIS not in bench.replies
    bench.clock.now_s = 105.0
    bench.expire()
    assert bench.replies[ANALYSIS]["status"] == "expected"
    assert bench.agent.next_deadline_s() is None


def test_each_rank_waits_for_the_others_as_long_as_it_said(bench):
    bench.open(0, writers=3, open_timeout_s=5.0)
    bench.wait(2.0)
    bench.open(1, writers=3, open_timeout_s=5.0)
    deadlines_s = []
    for _ in range(2):
        deadlines_s.append(bench.agent.next_deadline_s())
        bench.wait(deadlines_s[-1] - bench.clock.now_s)
    assert deadlines_s == [105.0, 107.0]
    assert bench.agent.next_deadline_s() is None


def test_a_watch_gives_the_oldest_steps_first_and_no_more_than_its_limit(bench):
    bench.open()
    for step in range(5):
        bench.land(step)
    part = bench.watch(after=0, limit=2)
    assert (steps_of(part), part["more"], part["last"]) == ([1, 2], True, 2)
    whole = bench.watch(after=2)
    assert (whole["more"], whole["last"]) == (False, steps_of(whole)[-1])


def test_a_watch_gives_no_more_steps_than_a_frame_holds_with_their_attributes(bench):
    bench.open()
    for step in range(3):
        bench.begin(0, step)
        bench.commit(0, step, attributes=[{"name": "a", "type": "string", "value": "x" * 2000}])
    asked = WatchRequest(stream=STREAM, after=-1, change=-1, limit=99)
    part = show(bench.store.streams[STREAM], asked, 0, Told(), most_bytes=5000)
    assert ([step.step for step in part.steps], part.more) == ([0, 1], True)


@pytest.mark.parametrize(
    "message",
    [
        {"op": "fly"},
        {},
        {"op": "watch", "stream": STREAM},
        {"op": "open", "stream": STREAM},
        {"op": "commit", "step": 0, "layout": 0},
        {"op": "attach", "stream": STREAM, "consumers": 5},
    ],
)
def test_a_message_that_the_format_does_not_know_cuts_its_peer_off(bench, message):
    with pytest.raises(ProtocolError):
        bench.hear(5, message)
    bench.hang_up(5)
    assert bench.open()["ok"]


def test_a_damaged_request_of_one_peer_does_not_hurt_another(bench):
    bench.open()
    with pytest.raises(ProtocolError, match="Expected `int`, got `str`"):
        bench.hear(0, {"op": "begin", "step": 0, "bytes": "many"})
    bench.hang_up(0)
    assert bench.say(7, "status")["ok"]


@pytest.mark.parametrize("place", [(PAGE, PAGE), (2 * PAGE, PAGE), (0, 3 * PAGE), (-64, 64)])
def test_a_block_outside_of_the_grant_is_refused(bench, place):
    bench.open()
    bench.open(stream="other", peer=9)
    bench.begin(9, 0, 1)
    ((offset, _),) = bench.begin(0, 0, 1)["extents"]
    with pytest.raises(ProtocolError, match="outside"):
        bench.commit(0, 0, (offset + place[0], place[1]))
    bench.hang_up(0)
    assert bench.watch()["status"] == "aborted"
    assert bench.free_pages() == 15


@pytest.mark.parametrize("attributes", [[{"name": "a"}], [5], 5])
def test_a_damaged_attribute_does_not_reach_the_index(bench, attributes):
    bench.open()
    bench.begin(0, 0)
    with pytest.raises(ProtocolError):
        bench.say(0, "commit", step=0, attributes=attributes, open_s=0.0, waited_s=0.0, **content_of([]))
    bench.hang_up(0)
    bench.reopen()
    assert bench.watch()["status"] == "aborted"


def test_a_block_whose_length_is_not_its_shape_is_refused(bench):
    bench.open()
    ((offset, _),) = bench.begin(0, 0, 1)["extents"]
    block = {"name": "v", "type": "double", "kind": "LocalArray", "count": [4], "offset": offset, "bytes": 31}
    with pytest.raises(ProtocolError, match="can't be 31 bytes"):
        bench.say(0, "commit", step=0, attributes=[], open_s=0.0, waited_s=0.0, **content_of([block]))


@pytest.mark.parametrize("step", [1, 5, -1])
def test_steps_come_in_order(bench, step):
    bench.open()
    assert "began step" in bench.begin(0, step)["error"]


def test_a_peer_that_has_opened_nothing_gets_no_room(bench):
    assert "has not opened a stream" in bench.begin(0, 0, 1)["error"]
    assert bench.free_pages() == 16


@pytest.mark.parametrize(
    ("rank", "writers", "says"),
    [(0, 2, "has opened stream"), (2, 2, "can't be"), (1, 3, "has 3 writers")],
)
def test_ranks_that_do_not_fit_together_are_refused(bench, rank, writers, says):
    bench.open(0, writers=2)
    assert says in bench.open(rank, writers=writers, peer=8)["error"]


def test_a_node_that_holds_steps_stops_only_by_force(bench):
    bench.open()
    bench.land(0)
    assert "still holds steps" in bench.say(ANALYSIS, "stop", force=False)["error"]
    assert not bench.agent.stopped
    assert bench.say(ANALYSIS, "stop", force=True)["ok"]
    assert bench.agent.stopped


def test_a_restarted_agent_has_every_committed_step_and_the_cursors(bench):
    bench.open()
    epoch = bench.attach("fold")["epoch"]
    for step in range(3):
        bench.land(step, pages=2)
    bench.done(0, epoch, checkpoint=b"kept")
    bench.begin(0, 3, 2)
    bench.reopen()
    reply = bench.watch()
    assert (steps_of(reply), reply["status"]) == ([1, 2], "open")
    assert bench.free_pages() == 10
    assert bench.attach("fold")["cursors"] == {"fold": [0, b"kept"]}


def test_a_full_file_system_ends_the_stream_and_loses_nothing_committed(bench):
    bench.open()
    epoch = bench.attach("fold")["epoch"]
    bench.land(0)
    extents = bench.begin(0, 1, 2)["extents"]
    with full_file_system(bench):
        assert "free some of its file system" in bench.done(0, epoch)["error"]
        with pytest.raises(ProtocolError, match="free some of its file system"):
            bench.commit(0, 1, *extents)
        bench.hang_up(0)
    reply = bench.watch()
    assert (steps_of(reply), reply["status"]) == ([0], "aborted")
    assert bench.free_pages() == 15
    bench.reopen()
    bench.wait(LOSS_S)
    assert (steps_of(bench.watch()), bench.watch()["status"]) == ([0], "aborted")
    assert bench.free_pages() == 15


def test_a_close_that_the_index_has_no_room_for_ends_as_aborted(bench):
    bench.open()
    bench.land(0)
    with full_file_system(bench):
        assert "free some of its file system" in bench.say(0, "close", steps=1)["error"]
        bench.hang_up(0)
        assert bench.watch()["status"] == "aborted"


def test_a_step_that_a_rank_will_not_bring_any_more_is_refused_to_the_others(bench):
    for rank in (0, 1):
        bench.open(rank, writers=2)
    bench.commit(0, 0, *bench.begin(0, 0, 2)["extents"])
    assert bench.begin(0, 1, 2) is None
    bench.say(1, "close", steps=0)
    assert "rank 1 of stream 'weather' has closed it before step 1" in bench.replies[0]["error"]
    bench.say(0, "close", steps=1)
    assert (bench.watch()["status"], steps_of(bench.watch())) == ("aborted", [])
    assert bench.free_pages() == 16


def test_a_rank_more_than_should_land_here_is_refused(bench):
    for rank in (0, 1):
        bench.open(rank, writers=3, local_writers=2)
    assert "rank 2 is one more than the 2 ranks" in bench.open(2, writers=3, local_writers=2)["error"]


@pytest.mark.parametrize("wrong", [{"settled": None}, {"loss_timeout_s": "long"}, {"open_timeout_s": float("nan")}])
def test_an_open_with_a_wrong_value_leaves_nothing(bench, wrong):
    with pytest.raises(ProtocolError):
        bench.open(**wrong)
    bench.hang_up(0)
    bench.reopen()
    assert bench.say(7, "status")["streams"] == {}


@pytest.mark.parametrize("wrong", [{"timeout_s": None}, {"after": "now"}, {"limit": -1}])
def test_a_watch_with_a_wrong_value_is_refused_to_its_sender(bench, wrong):
    with pytest.raises(ProtocolError, match="the format doesn't know: Expected"):
        bench.watch(**wrong)


@pytest.mark.parametrize("size", [0.5, None, 1 << 63])
def test_a_size_that_is_none_takes_no_room(bench, size):
    bench.open()
    with pytest.raises(ProtocolError, match="Expected `int`"):
        bench.say(0, "begin", step=0, bytes=size)
    assert bench.free_pages() == 16


def test_what_a_program_was_refused_stays_with_the_stream_until_that_is_dropped(bench):
    bench.open()
    bench.land(0)
    for why in ("a block isn't in its shape", "a block isn't in its shape", "no\nforged line"):
        assert bench.say(7, "refuse", stream=STREAM, rank=0, why=why)["ok"]
    assert "there is no stream 'other'" in bench.say(7, "refuse", stream="other", rank=0, why="x")["error"]
    bench.reopen()
    bench.store.compact()
    bench.reopen()
    assert list(bench.watch()["refused"]) == ["a block isn't in its shape", "no\\nforged line"]
    known = ["a block isn't in its shape"]
    refused = list(bench.say(7, "drop", stream=STREAM, left=True, known=known)["refused"])
    assert refused == list(bench.watch()["refused"]), "it was forgotten before its analysis had heard all"
    assert not bench.say(7, "drop", stream=STREAM, left=True, known=refused)["refused"]
    bench.open(peer=8)
    assert not bench.watch()["refused"]


def test_another_process_that_would_be_the_same_rank_is_told_who_that_is(bench):
    """Groups of ranks that open files in turn, each with a communicator of its own."""
    bench.open(file="/out/a.bp", pid=11)
    said = bench.open(file="/out/b.bp", pid=12, peer=8)["error"]
    assert "is process 11 on here as '/out/a.bp', which may open its next file later" in said
    assert "streams of their own" in said
    assert "has opened stream 'weather' already as '/out/a.bp'" in bench.open(file="/out/b.bp", pid=11, peer=9)["error"]


def test_a_second_open_names_what_makes_one_stream_of_many_files_where_an_analysis_follows_it(bench):
    bench.attach("fold")
    bench.open()
    bench.land(0)
    bench.say(0, "close", steps=1, attributes=[])
    said = bench.open(peer=8)["error"]
    assert "KeepOpen=yes" in said
    assert "'select'" in said
    assert "drop" not in said
    bench.hang_up(ANALYSIS)
    assert "bbflow drop weather" in bench.open(peer=8)["error"]

"""Writers that break off and come back, agents that are started again, nodes that take over from others."""

import pytest

from bbflow.errors import ProtocolError
from bbflow.landing.connections import UNAWARE_S
from testsupport.peers import ANALYSIS, LOSS_S, PAGE, STREAM, content_of, steps_of


def come_back(bench, settled, rank=0, writers=1, peer=50):
    return bench.open(rank, writers, peer=peer, settled=settled, resume=True)


def test_a_rank_carries_on_in_its_open_step_with_an_agent_that_was_started_again(bench):
    bench.open()
    bench.land(0)
    extents = bench.begin(0, 1, 3)["extents"]
    bench.reopen()
    reply = come_back(bench, settled=0)
    assert (reply["committed"], reply["extents"]) == (0, extents)
    bench.commit(50, 1, *extents)
    assert steps_of(bench.watch()) == [0, 1]
    assert bench.free_pages() == 12


def test_an_agent_tells_a_rank_which_commit_it_has_not_seen(bench):
    bench.open()
    bench.land(0)
    extents = bench.begin(0, 1, 1)["extents"]
    bench.reopen()
    assert come_back(bench, settled=1)["committed"] == 0
    bench.commit(50, 1, *extents)
    assert bench.begin(50, 2, 1)["ok"]


def test_a_commit_that_the_agent_has_seen_is_not_asked_for_again(bench):
    bench.open()
    bench.land(0)
    bench.reopen()
    reply = come_back(bench, settled=0)
    assert (reply["committed"], reply["extents"]) == (0, [])


def test_a_part_of_a_step_that_one_rank_committed_survives_the_agent(bench):
    for rank in (0, 1):
        bench.open(rank, writers=2)
    first, second = (bench.begin(rank, 0, 2)["extents"] for rank in (0, 1))
    bench.commit(0, 0, *first)
    bench.reopen()
    assert steps_of(bench.watch()) == []
    assert come_back(bench, 0, rank=0, writers=2, peer=50)["committed"] == 0
    assert come_back(bench, -1, rank=1, writers=2, peer=51)["extents"] == second
    bench.commit(51, 0, *second)
    (step,) = bench.watch()["steps"]
    assert (step["ranks"], [block.rank for block in bench.blocks(step)]) == (2, [0, 1])


def test_a_request_for_room_is_answered_with_the_room_that_was_given_already(bench):
    bench.open()
    extents = bench.begin(0, 0, 2)["extents"]
    bench.reopen()
    come_back(bench, settled=-1)
    assert bench.begin(50, 0, 2)["extents"] == extents
    assert bench.free_pages() == 14


def test_a_discarded_step_is_not_brought_again_after_a_break(bench):
    bench.open(policy="Discard")
    for step in range(4):
        bench.commit(0, step, *bench.begin(0, step, 4)["extents"])
    assert bench.begin(0, 4, 4)["status"] == "discard"
    bench.hang_up(0, by_itself=False)
    assert come_back(bench, settled=4)["committed"] == 4


def test_a_rank_that_does_not_come_back_in_time_aborts_the_stream(bench):
    bench.open()
    bench.land(0)
    bench.begin(0, 1, 3)
    bench.hang_up(0, by_itself=False)
    assert bench.agent.next_deadline_s() == bench.clock.now_s + LOSS_S
    bench.wait(LOSS_S - 1)
    assert bench.watch()["status"] == "open"
    bench.wait(1)
    assert (steps_of(bench.watch()), bench.watch()["status"]) == ([0], "aborted")
    assert bench.free_pages() == 15
    assert "has ended as aborted" in come_back(bench, settled=0)["error"]


def test_a_rank_on_another_host_has_the_time_to_notice_the_break_and_to_move(bench):
    bench.open(transport="tcp")
    bench.hang_up(0, by_itself=False)
    bench.wait(LOSS_S + UNAWARE_S - 1)
    assert bench.watch()["status"] == "open"
    bench.wait(1)
    assert bench.watch()["status"] == "aborted"


def test_a_rank_that_came_back_before_its_break_was_seen_is_not_lost_with_the_old_connection(bench):
    bench.open()
    bench.land(0)
    assert come_back(bench, settled=0)["ok"]
    bench.hang_up(0)
    bench.wait(2 * LOSS_S)
    assert bench.watch()["status"] == "open"
    assert bench.begin(50, 1, 1)["ok"]


def test_ranks_that_closed_before_a_restart_need_not_come_back(bench):
    for rank in (0, 1):
        bench.open(rank, writers=2)
    bench.say(0, "close", steps=0)
    bench.reopen()
    come_back(bench, -1, rank=1, writers=2)
    bench.wait(2 * LOSS_S)
    assert bench.watch()["status"] == "open"
    bench.say(50, "close", steps=0)
    assert bench.watch()["status"] == "closed"


def test_a_rank_from_a_lost_node_adds_its_part_from_the_step_on_that_it_brings(bench):
    bench.open(0, writers=2, local_writers=1)
    bench.land(0)
    bench.land(1)
    moved = {"settled": 1, "moved_from": "bb7", "local_writers": 1}
    assert bench.open(1, writers=2, peer=60, **moved)["committed"] == 1
    bench.commit(0, 2, *bench.begin(0, 2, 1)["extents"])
    reply = bench.watch()
    assert (steps_of(reply), reply["local_writers"], reply["moved"]) == ([0, 1], 2, [[1, "bb7", 2]])
    bench.commit(60, 2, *bench.begin(60, 2, 1)["extents"])
    assert [step["ranks"] for step in bench.watch()["steps"]] == [1, 1, 2]


def test_a_node_that_had_no_rank_begins_with_the_first_step_of_the_one_that_moved(bench):
    bench.open(3, writers=4, local_writers=0, peer=60, settled=6, moved_from="bb7")
    assert bench.watch()["last"] == 6
    bench.commit(60, 7, *bench.begin(60, 7, 1)["extents"])
    reply = bench.watch()
    assert (steps_of(reply), reply["last"]) == ([7], 7)


def test_a_part_that_comes_when_its_step_has_landed_without_it_joins_it(bench):
    bench.open(0, writers=2, local_writers=1)
    bench.land(0)
    bench.land(1)
    seen = bench.watch()["change"]
    bench.open(1, writers=2, peer=60, settled=0, moved_from="bb7", local_writers=1)
    bench.commit(60, 1, *bench.begin(60, 1, 2)["extents"])
    (step,) = bench.watch(after=1, change=seen)["steps"]
    assert (step["step"], step["ranks"], [block.rank for block in bench.blocks(step)]) == (1, 2, [0, 1])
    epoch = bench.attach("fold")["epoch"]
    bench.done(1, epoch)
    assert bench.free_pages() == 16


def test_a_rank_from_a_lost_node_comes_to_a_stream_that_the_ranks_there_have_closed(bench):
    """It took longer to miss its node than they to write their last steps, and was refused."""
    bench.attach("fold")
    bench.open(0, writers=2, local_writers=1)
    for step in range(3):
        bench.land(step)
    bench.say(0, "close", steps=3)
    assert bench.watch()["status"] == "closed"
    bench.open(1, writers=2, peer=60, settled=0, moved_from="bb7", local_writers=1)
    assert bench.watch()["status"] == "open"
    for step in (1, 2):
        bench.commit(60, step, *bench.begin(60, step, 1)["extents"])
    bench.say(60, "close", steps=3)
    reply = bench.watch()
    assert (reply["status"], [step["ranks"] for step in reply["steps"]]) == ("closed", [1, 2, 2])


def test_a_rank_of_no_lost_node_is_refused_a_stream_that_is_closed(bench):
    bench.attach("fold")
    bench.open(0, writers=2, local_writers=1)
    bench.land(0)
    bench.say(0, "close", steps=1)
    assert "was closed by the program" in bench.open(1, writers=2, peer=60, local_writers=1)["error"]


def test_parts_that_come_late_to_many_steps_are_told_once_and_keep_no_step_back(bench):
    bench.open(0, writers=2, local_writers=1)
    for step in range(5):
        bench.land(step)
    bench.open(1, writers=2, peer=60, settled=-1, moved_from="bb7", local_writers=1)
    for step in range(4):
        bench.commit(60, step)
    told, after = [], 3
    while (reply := bench.watch(after=after, limit=2))["steps"]:
        told += steps_of(reply)
        after = max(after, *steps_of(reply))
    assert (told, reply["more"]) == ([0, 1, 2, 3, 4], False)
    bench.commit(60, 4)
    assert [(step["step"], step["ranks"]) for step in bench.watch(after=4)["steps"]] == [(4, 2)]


def test_a_step_that_a_rank_can_not_bring_is_discarded_for_all(bench):
    for rank in (0, 1):
        bench.open(rank, writers=2)
    first, _ = (bench.begin(rank, 0, 2)["extents"] for rank in (0, 1))
    bench.commit(0, 0, *first)
    assert bench.say(1, "skip", step=0)["ok"]
    reply = bench.watch()
    assert (reply["discarded"], reply["last"], bench.free_pages()) == ([0], 0, 16)
    for rank in (0, 1):
        bench.commit(rank, 1, *bench.begin(rank, 1, 1)["extents"])
    assert steps_of(bench.watch()) == [1]


def test_a_step_is_not_settled_before_an_older_one_that_a_slow_rank_still_writes(bench):
    for rank in (0, 1):
        bench.open(rank, writers=2, policy="Discard")
    for rank in (0, 1):
        bench.commit(rank, 0, *bench.begin(rank, 0, 3)["extents"])
    slow = bench.begin(1, 1, 3)["extents"]
    bench.commit(0, 1, *bench.begin(0, 1, 3)["extents"])
    assert bench.begin(0, 2, 3)["status"] == "discard"
    assert bench.watch()["last"] == 0
    bench.commit(1, 1, *slow)
    assert (steps_of(bench.watch()), bench.watch()["last"]) == ([0, 1], 2)


def test_ranks_that_never_come_are_named_and_not_waited_for_without_end(bench):
    bench.open(0, writers=3)
    bench.land(0)
    assert bench.begin(0, 1, 1) is None
    bench.wait(10.0)
    assert "2 of the 3 ranks of stream 'weather' that should land on this node" in bench.replies[0]["error"]
    assert "set RanksPerNode" in bench.replies[0]["error"]


def test_a_step_of_one_stream_leaves_another_the_room_for_its_next_step(bench):
    bench.open(0)
    bench.open(stream="other", peer=9)
    for step in range(2):
        bench.land(step, pages=4)
    bench.commit(9, 0, *bench.begin(9, 0, 3)["extents"])
    assert bench.begin(0, 2, 4) is None
    assert bench.begin(9, 1, 3)["ok"]


def test_bytes_over_tcp_land_in_the_step_s_own_room_only(bench):
    bench.open(transport="tcp")
    ((offset, size),) = bench.begin(0, 0, 2)["extents"]
    bench.agent.check_target(0, offset + 64, size - 64)
    for wrong in ((offset + size, 1), (offset - 1, 2), (offset, size + 1)):
        with pytest.raises(ProtocolError, match="which it was not given"):
            bench.agent.check_target(0, *wrong)
    with pytest.raises(ProtocolError, match="has not opened"):
        bench.agent.check_target(7, offset, 1)


def test_damaged_bytes_are_named_once_and_must_come_again_before_the_commit(bench):
    bench.open(transport="tcp")
    ((offset, size),) = bench.begin(0, 0, 1)["extents"]
    bench.agent.landed(0, offset, intact=False)
    assert bench.say(0, "sync")["bad"] == [offset]
    bench.agent.landed(0, offset, intact=True)
    assert bench.say(0, "sync")["bad"] == []
    bench.agent.landed(0, offset, intact=False)
    with pytest.raises(ProtocolError, match="came in damaged"):
        bench.commit(0, 0, (offset, size))


def test_a_step_without_room_goes_to_the_pfs_for_all_ranks_and_its_files_go_with_it(bench, tmp_path):
    for rank in (0, 1):
        bench.open(rank, writers=2, policy="Spill")
    for step in range(2):
        for rank in (0, 1):
            bench.commit(rank, step, *bench.begin(rank, step, 4)["extents"])
    spilled = [tmp_path / f"{STREAM}.2.{rank}.spill" for rank in (0, 1)]
    for rank, file in enumerate(spilled):
        assert bench.begin(rank, 2, 4)["status"] == "spill"
        file.write_bytes(bytes(PAGE))
        block = {"name": "v", "type": "int8_t", "kind": "LocalArray", "count": [PAGE], "offset": 0, "bytes": PAGE}
        content = content_of([block | {"file": str(file)}], rank)
        bench.say(rank, "commit", step=2, attributes=[], open_s=0.0, waited_s=0.0, **content)
    assert steps_of(bench.watch()) == [0, 1, 2]
    epoch = bench.attach("fold")["epoch"]
    bench.done(1, epoch)
    assert all(file.exists() for file in spilled)
    bench.done(2, epoch)
    assert not any(file.exists() for file in spilled)
    assert bench.begin(0, 3, 4)["status"] == "ok"


def test_a_step_above_the_capacity_is_spilled_and_no_error(bench):
    bench.open(policy="Spill")
    bench.begin(0, 0)
    assert bench.reserve(0, 0, 17)["status"] == "spill"


def test_a_dropped_stream_leaves_a_straggler_its_room_until_it_goes(bench):
    for rank in (0, 1):
        bench.open(rank, writers=2)
    bench.begin(1, 0, 2)
    bench.hang_up(0)
    bench.say(ANALYSIS, "drop", stream=STREAM)
    assert bench.free_pages() == 14
    bench.hang_up(1)
    assert bench.free_pages() == 16


def test_a_rank_gets_more_room_in_its_open_step_from_an_agent_that_was_started_again(bench):
    bench.open()
    bench.begin(0, 0)
    bench.reopen()
    assert come_back(bench, settled=-1)["ok"]
    assert bench.reserve(50, 0, 2)["status"] == "ok"


def test_an_agent_started_again_leaves_the_files_of_a_stream_that_has_the_name_of_a_dropped_one(bench, tmp_path):
    file = tmp_path / f"{STREAM}.0.0.spill"
    spill_a_step(bench, file)
    bench.say(ANALYSIS, "drop", stream=STREAM)
    assert not file.exists()
    spill_a_step(bench, file)
    bench.reopen()
    assert file.read_bytes() == b"data"


@pytest.mark.parametrize("name", ["thesis.tex", f"{STREAM}.spill", f"{STREAM}.0.0.spill.old", "other.0.0.spill"])
def test_a_file_that_a_rank_names_but_no_rank_spills_to_stays(bench, tmp_path, name):
    spill_a_step(bench, tmp_path / name)
    bench.say(ANALYSIS, "drop", stream=STREAM)
    assert (tmp_path / name).read_bytes() == b"data"


def spill_a_step(bench, file):
    file.write_bytes(b"data")
    block = {"name": "v", "type": "int8_t", "kind": "LocalArray", "count": [4], "offset": 0, "bytes": 4}
    content = content_of([block | {"file": str(file)}])
    bench.open(policy="Spill")
    bench.begin(0, 0)
    bench.say(0, "commit", step=0, attributes=[], open_s=0.0, waited_s=0.0, **content)
    bench.say(0, "close", steps=1)

"""Steps that a rank has folded land together: by one commit, which is there whole or not at all."""

import itertools
import math
import mmap
import struct

import numpy as np
import pytest
from msgspec import convert, msgpack, structs

from bbflow.errors import ProtocolError, StreamError
from bbflow.landing.replies import Shown
from bbflow.reading.rank_plan import RankPlan
from bbflow.reading.wire_types import Row
from bbflow.store.block_values import values_at
from bbflow.stream.folded import state_places
from bbflow.stream.layouts import BlockForm, Layout, Layouts
from bbflow.transit.folding.batches import next_landing, whole_landings
from bbflow.view.stream import News, StreamView
from testsupport.indexes import plant_index
from testsupport.peers import ANALYSIS, PAGE, STREAM, shown_step, steps_of

FIELDS = 0b000111
BYTES = state_places(FIELDS, 4, 100)[1]
OTHERS = itertools.count(ANALYSIS + 1)
VALUE = ["time", "double", "GlobalValue", [], [], [], 0, 0, 0, 0, False]
PLAN = RankPlan(
    time="time", first=3, begins=3.0, interval=1.0, tolerance=0.1, ends=np.array([9], "<i8").tobytes(),
    variables=(("v", "float", FIELDS, b"", None),), wanted=(),
)  # fmt: skip


def form(rank, size, folded):
    return ["v", "float", "GlobalArray", [200], [100 * rank], [100], rank, 0, 0, size, False, folded]


def land(bench, first, last, rank=0, **changes):
    """Land some of a rank's steps with the state of all of them."""
    ((offset, _),) = bench.begin(rank, first, 1)["extents"]
    held = {"layout": 0, "forms": [form(rank, 0, -1), [*VALUE[:6], rank, *VALUE[7:]]]}
    held["steps"] = [[[float(step)], []] for step in range(first, last)]
    content = {
        "layout": 1, "forms": [form(rank, BYTES, FIELDS), [*VALUE[:6], rank, *VALUE[7:]]],
        "sources": struct.pack("<q", offset), "files": [], "values": [float(last)], "extremes": b"",
    }  # fmt: skip
    spent = {"waited_s": 0.0, "open_s": 0.0, "attributes": []}
    return bench.say(rank, "commit", step=last, **{"held": held, **spent, **content, **changes})


def view_of(bench):
    """Return the stream as an analysis sees it that has just come."""
    view = StreamView(["bb0"], {"bb0": -1})
    view.update("bb0", News.of(convert(bench.watch(peer=next(OTHERS)), Shown), Layouts()))
    return view


def times(bench):
    return [shown_step(step).values[0] for step in bench.watch()["steps"]]


def test_all_of_them_are_there_with_one_commit(bench):
    bench.open()
    land(bench, 0, 4)
    land(bench, 5, 5)
    assert steps_of(bench.watch()) == [0, 1, 2, 3, 4, 5]
    assert times(bench) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert bench.free_pages() == 14


def test_an_agent_that_is_started_again_has_all_or_none_of_them(bench):
    bench.open()
    land(bench, 0, 4)
    index = (bench.directory / "index").read_bytes()
    bench.reopen()
    assert times(bench) == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert bench.open(resume=True, settled=-1)["committed"] == 4
    bench.store.close()
    plant_index(bench.directory, index[:-1], 0)
    bench.__init__(bench.directory)
    assert steps_of(bench.watch()) == []
    assert bench.open(resume=True, settled=-1)["committed"] == -1


def test_an_index_that_is_written_anew_has_them_too(bench):
    bench.open(0, writers=2)
    bench.open(1, writers=2)
    land(bench, 0, 4)
    land(bench, 0, 4, rank=1)
    land(bench, 5, 7)
    bench.store.compact()
    land(bench, 8, 9)
    bench.reopen()
    assert steps_of(bench.watch()) == [0, 1, 2, 3, 4]
    assert bench.open(1, writers=2, resume=True)["committed"] == 4
    land(bench, 5, 9, rank=1)
    assert times(bench) == [float(step) for step in range(10)]


def test_a_step_counts_with_the_last_that_any_rank_has_folded_with_it(bench):
    """One rank lands step by step, and dies; another has folded what comes, too: all of that is without the former."""
    bench.open(0, writers=2)
    bench.open(1, writers=2)
    land(bench, 0, 2)
    land(bench, 0, 2, rank=1)
    for step in (3, 4):
        land(bench, step, step, rank=1)
    land(bench, 3, 6)
    assert steps_of(bench.watch()) == [0, 1, 2, 3, 4]
    assert view_of(bench).frontier == 2
    bench.hang_up(1)
    view = view_of(bench)
    assert (view.status, view.ended, view.steps_after(-1)) == ("aborted", True, [0, 1, 2])


def test_the_room_of_dropped_states_comes_back(bench):
    bench.open(0, writers=2)
    bench.open(1, writers=2)
    land(bench, 0, 4)
    assert bench.free_pages() == 15
    bench.hang_up(1)
    bench.hang_up(0)
    assert bench.free_pages() == 16
    assert steps_of(bench.watch()) == []


def test_a_step_that_others_have_discarded_is_dropped_from_what_lands(bench):
    bench.open(0, writers=2)
    bench.open(1, writers=2)
    for step in range(5):
        bench.begin(1, step, 1)
        bench.say(1, "skip", step=step)
    assert bench.begin(0, 0, 1)["status"] == "discard"


@pytest.mark.parametrize("lost", [3, 4])
def test_steps_that_lack_one_of_their_landing_are_refused(bench, lost):
    """A rank can't bring a step that another has folded with its neighbours: no state is without it."""
    bench.open(0, writers=2)
    bench.open(1, writers=2)
    land(bench, 0, 0)
    for step in range(7):
        if step == lost:
            bench.begin(1, step, 1)
            bench.say(1, "skip", step=step)
        else:
            land(bench, step, step, rank=1)
    land(bench, 1, 4)
    land(bench, 5, 6)
    view, landing = view_of(bench), None
    numbers, _ = whole_landings(view, -1, 256, math.inf)
    assert numbers == [step for step in range(7) if step != lost]
    for number in numbers[:lost]:
        landing = next_landing(landing, number, {"bb0": view.step("bb0", number)}, {})
    with pytest.raises(StreamError, match="one was discarded"):
        next_landing(landing, lost + 1, {"bb0": view.step("bb0", lost + 1)}, {})


def test_steps_whose_state_was_discarded_are_refused(bench):
    bench.open(0, writers=2)
    bench.open(1, writers=2)
    land(bench, 0, 0)
    for step in range(4):
        land(bench, step, step, rank=1)
    bench.begin(1, 4, 1)
    bench.say(1, "skip", step=4)
    land(bench, 1, 4)
    with pytest.raises(StreamError, match="one was discarded"):
        whole_landings(view_of(bench), -1, 256, math.inf)


WAITING, SINGLE = form(0, 0, -1), VALUE


@pytest.mark.parametrize(
    "held",
    [
        {"layout": 0, "forms": [WAITING, SINGLE], "steps": [[[], []]] * 4},
        {"layout": 0, "forms": [SINGLE], "steps": [[[0.0], []]] * 4},
        {"layout": 0, "forms": [form(0, 400, 0), SINGLE], "steps": [[[0.0], []]] * 4},
        {"layout": 0, "forms": [form(1, 0, -1), SINGLE], "steps": [[[0.0], []]] * 4},
        {"layout": 0, "forms": [WAITING, SINGLE], "steps": [[[0.0], []]] * 3},
        {"layout": 7, "steps": [[[0.0], []]] * 4},
    ],
    ids=["no values", "nothing folded", "blocks", "another rank", "too few", "unknown layout"],
)
def test_what_can_not_be_is_refused(bench, held):
    bench.open()
    with pytest.raises(ProtocolError):
        land(bench, 0, 4, held=held)
    assert steps_of(bench.watch()) == []


@pytest.mark.parametrize("size", [BYTES - 64, BYTES + 64, 400])
def test_a_state_has_the_bytes_that_its_accumulators_need(bench, size):
    bench.open()
    with pytest.raises(ProtocolError):
        land(bench, 0, 4, forms=[form(0, size, FIELDS), VALUE])


def tell(bench, plan, epoch):
    return bench.say(ANALYSIS, "plan", stream=STREAM, epoch=epoch, plan=msgpack.decode(msgpack.encode(plan)))


def test_ranks_are_told_once_what_they_may_fold(bench):
    bench.open()
    epoch = bench.attach("fold")["epoch"]
    assert "plan" not in bench.begin(0, 0, 1)
    assert tell(bench, PLAN, epoch)["ok"]
    bench.commit(0, 0)
    told = bench.begin(0, 1)["plan"]
    assert (told["first"], told["variables"]) == (3, [["v", "float", FIELDS, b"", None]])
    bench.commit(0, 1)
    assert "plan" not in bench.begin(0, 2)


def test_a_rank_that_is_behind_lands_what_others_have_landed(bench):
    bench.open(0, writers=2)
    bench.open(1, writers=2)
    epoch = bench.attach("fold")["epoch"]
    for rank in (0, 1):
        land(bench, 0, 0, rank)
    for step in (1, 2, 3):
        land(bench, step, step)
    tell(bench, PLAN, epoch)
    assert "plan" in bench.begin(0, 4, 1)
    for step in (1, 2, 3):
        assert "plan" not in bench.begin(1, step, 1)
        bench.commit(1, step)
    assert "plan" in bench.begin(1, 4, 1)


def land_large(bench, step, rank):
    """Land a rank's step of two pages; False if it must wait for room."""
    reply = bench.begin(rank, step, 2)
    if reply is not None:
        spent = {"waited_s": 0.0, "open_s": 0.0, "attributes": [], "files": [], "extremes": b""}
        forms = [["v", "float", "GlobalArray", [4000], [2000 * rank], [2000], rank, 0, 0, 8000, False]]
        sources = struct.pack("<q", reply["extents"][0][0])
        bench.say(rank, "commit", step=step, layout=0, forms=forms, sources=sources, values=[], **spent)
    return reply is not None


def begin_two(bench):
    """Open two ranks' stream, let both land its first step, and return the epoch of the analysis."""
    bench.open(0, writers=2)
    bench.open(1, writers=2)
    epoch = bench.attach("fold")["epoch"]
    assert land_large(bench, 0, 0)
    assert land_large(bench, 0, 1)
    return epoch


def test_room_for_the_states_of_ranks_behind_stays_free(bench):
    """These take eight pages, of which there are sixteen."""
    epoch = begin_two(bench)
    tell(bench, PLAN, epoch)
    assert [land_large(bench, step, 0) for step in (1, 2, 3)] == [True, True, False]
    assert bench.begin(1, 1, 8)["extents"]


def test_it_is_free_for_all_once_the_last_states_have_landed_after_a_plan(bench):
    epoch = begin_two(bench)
    tell(bench, PLAN, epoch)
    assert "plan" in bench.say(0, "hold", step=1)
    assert "plan" in bench.say(1, "hold", step=1)
    tell(bench, None, epoch)
    assert [land_large(bench, step, 0) for step in (1, 2, 3)] == [True, True, False]  # eight pages for rank 1
    assert bench.say(1, "hold", step=2)["plan"] is None
    assert land_large(bench, 1, 1)
    assert 0 in bench.replies  # it has had room since
    bench.reopen()
    assert bench.store.streams[STREAM].ends == ()
    assert not any(rank.state_bytes for rank in bench.store.streams[STREAM].ranks.values())


def test_it_stays_free_when_the_agent_is_started_again(bench):
    epoch = begin_two(bench)
    tell(bench, PLAN, epoch)
    for _ in range(2):
        bench.reopen()
        assert bench.open(1, writers=2, resume=True, settled=0)["committed"] == 0
        bench.store.compact()
    bench.open(0, writers=2, resume=True, settled=0)
    assert [land_large(bench, step, 0) for step in (1, 2, 3)] == [True, True, False]
    assert bench.begin(1, 1, 8)["extents"]


def test_who_is_ahead_leaves_room_for_all_steps_that_must_land_together(bench):
    """Rank 1 may need two pages for each of steps 1 to 3; rank 0, which lands steps as they are as well, waits then."""
    epoch = begin_two(bench)
    bench.done(0, epoch)
    tell(bench, structs.replace(PLAN, ends=np.array([3, 9], "<i8").tobytes(), variables=()), epoch)
    assert [land_large(bench, step, 0) for step in (1, 2, 3, 4, 5, 6)] == [True, True, True, True, True, False]
    assert [land_large(bench, step, 1) for step in (1, 2, 3)] == [True, True, True]


def test_steps_that_never_fit_together_are_refused(bench):
    """Rank 0 has folded what comes to step 9, so that all of it stays until rank 1 has landed it, too."""
    bench.open(0, writers=2)
    bench.open(1, writers=2)
    land(bench, 0, 9)
    assert all(land_large(bench, step, 1) for step in range(7))
    assert "let fewer than steps 0 to 7 land together (fold: land_states_every)" in bench.begin(1, 7, 2)["error"]


def hold(bench, rank, step):
    return bench.say(rank, "hold", step=step)["status"]


def test_a_rank_holds_no_step_where_others_that_land_theirs_would_have_no_room(bench):
    """Rank 0 lands two pages with each step; rank 1 needs eight of sixteen for its states, and may be in a barrier."""
    epoch = begin_two(bench)
    tell(bench, structs.replace(PLAN, first=1), epoch)
    bench.done(0, epoch)
    assert hold(bench, 1, 1) == "ok"
    assert land_large(bench, 1, 0)
    assert hold(bench, 1, 2) == "ok"
    assert land_large(bench, 2, 0)
    assert hold(bench, 1, 3) == "ok"
    assert land_large(bench, 3, 0)
    assert hold(bench, 1, 4) == "land"
    assert land_large(bench, 4, 0)
    land(bench, 1, 3, rank=1)
    bench.done(3, epoch)
    assert hold(bench, 1, 4) == "ok"


def test_a_rank_that_runs_ahead_leaves_room_for_what_others_must_land_until_there(bench):
    epoch = begin_two(bench)
    tell(bench, structs.replace(PLAN, first=1), epoch)
    bench.done(0, epoch)
    assert land_large(bench, 1, 0)
    assert [hold(bench, 1, step) for step in (2, 3, 4, 1 << 60)] == ["ok", "ok", "land", "land"]


def test_ranks_hold_steps_in_a_full_pool_if_whole_ones_will_go_or_all_hold(bench):
    bench.open(0, writers=2)
    bench.open(1, writers=2)
    epoch = bench.attach("fold")["epoch"]
    assert all(land_large(bench, step, rank) for step in range(3) for rank in (0, 1))
    tell(bench, structs.replace(PLAN, first=3), epoch)
    assert land_large(bench, 3, 0)
    assert bench.free_pages() == 2
    assert hold(bench, 1, 3) == "ok"
    bench.done(2, epoch)
    assert bench.free_pages() == 14
    assert hold(bench, 1, 4) == "ok"


def test_who_may_hold_hears_of_an_end_of_the_stream_and_of_a_new_plan(bench):
    bench.open(0, writers=2)
    bench.open(1, writers=2)
    epoch = bench.attach("fold")["epoch"]
    tell(bench, structs.replace(PLAN, first=0), epoch)
    assert bench.say(1, "hold", step=0)["plan"]["first"] == 0
    bench.hang_up(0)
    assert "another of its ranks is gone" in bench.say(1, "hold", step=1)["error"]


def test_an_offer_brings_the_plan(bench):
    bench.open()
    epoch = bench.attach("fold")["epoch"]
    extents = bench.begin(0, 0, 1)["extents"]
    tell(bench, PLAN, epoch)
    assert bench.commit(0, 0, *extents, ahead=1)["plan"]["first"] == 3


def test_another_analysis_ends_a_plan(bench):
    bench.open()
    tell(bench, PLAN, bench.attach("fold")["epoch"])
    assert bench.begin(0, 0)["plan"]["first"] == 3
    bench.attach("fold")
    bench.commit(0, 0)
    assert bench.begin(0, 1)["plan"] is None
    assert not tell(bench, PLAN, 1)["ok"]


def test_a_rank_that_comes_back_is_told_again(bench):
    bench.open()
    epoch = bench.attach("fold")["epoch"]
    bench.hang_up(0, by_itself=False)
    tell(bench, PLAN, epoch)
    assert bench.open(resume=True)["plan"]["first"] == 3
    bench.reopen()
    assert "plan" not in bench.open(resume=True)
    tell(bench, PLAN, bench.attach("fold")["epoch"])  # the one before has ended with the agent
    assert bench.begin(0, 0)["plan"]["first"] == 3


@pytest.mark.parametrize("folded", [-1, FIELDS])
def test_no_state_is_read_as_values(folded):
    block = BlockForm.from_wire(convert(form(0, BYTES if folded > 0 else 0, folded), Row))
    with pytest.raises(StreamError, match="v can't be read: its ranks have folded it"):
        values_at(mmap.mmap(-1, BYTES), 0, block)


def test_a_block_that_was_put_again_has_one_state():
    blocks = [BlockForm.from_wire(convert(form(rank, 400, 0), Row)) for rank in (0, 0, 1)]
    assert Layout.of(tuple(blocks)).state_bytes({("v", "float"): FIELDS}) == 2 * BYTES


def test_state_places_are_aligned_and_apart():
    places, size = state_places(0b111111, 2, 33)
    assert places == {"count": 0, "shift": 192, "first": 320, "second": 640, "min": 960, "max": 1088}
    assert size == 1216
    assert PAGE % 64 == 0

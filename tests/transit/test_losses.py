from copy import deepcopy
from pathlib import Path

import pytest
from shards import at_once

from bbflow.stream.records import Layout, Step
from bbflow.transit.driver.safe import CopyWork, SafeCopies, copy_states, read_safe_copy
from bbflow.transit.spans.slots import BASE, OUTER
from bbflow.transit.states.checkpoints import Checkpoint
from bbflow.transit.states.losses import Losses
from bbflow.transit.states.shards import ShardKey, ShardState, StatePlace
from bbflow.transit.states.tables import CountedStates, States
from bbflow.transit.states.written import pack, unpack
from bbflow.view.consumers import Forsaken
from bbflow.view.stream import Arrival, News, StreamView


def state(node, start, last_step, **more):
    key = ShardKey(node, "tas", (start,), (4,))
    return key, ((start,), (4,)), ShardState(dtype="<f4", last_step=last_step, **more)


def test_states_of_a_lost_node_go_on_elsewhere_and_what_they_lack_is_said():
    losses, ((key, _, adopted),) = Losses().lose(["b"], [state("a", 0, 7), state("b", 4, 5)], [], ["a"])
    assert (key.node, adopted.last_step) == ("a", 5)
    assert losses.described == ["tas[4:8] lacks the steps from 6 on: BB node b was lost"]
    there = [(9, {"tas": [((0,), (4,))]}), (10, {"tas": [((0,), (4,)), ((4,), (4,))]})]
    assert losses.after(there, ()).described == ["tas[4:8] lacks the steps from 6 to 9: BB node b was lost"]


def test_a_node_is_lost_once_also_for_an_analysis_that_is_started_again():
    losses, _ = Losses().lose(["b"], [state("b", 4, 5)], [], ["a"])
    assert restarted(losses).lose(["b"], [state("b", 4, 5)], [], ["a"]) == (losses, [])


def test_points_that_go_on_with_the_step_after_the_copy_lack_nothing():
    losses, _ = Losses().lose(["b"], [state("b", 4, 5)], [], ["a"])
    assert losses.after([(6, {"tas": [((4,), (4,))]})], ()).described == []


def test_steps_whose_time_was_lost_are_said_also_by_an_analysis_that_is_started_again():
    losses, _ = Losses().lose(["b"], [], [], ["a"])
    for steps in ((7, 8), (), (9,)):
        losses = losses.after((), steps)
    told = restarted(losses).described
    assert any(line.startswith("all points lack steps from 7 to 9, or some of these: ") for line in told)


def restarted(losses):
    """What an analysis that carries on has of it."""
    return unpack(pack(Checkpoint(losses=losses)), Checkpoint, "the checkpoint").losses


def test_a_node_without_a_copy_is_named():
    losses, _ = Losses().lose(["b"], [], [], ["a"])
    assert losses
    assert "BB node b was lost before its states were copied" in losses.described[0]


def test_a_safe_copy_that_is_torn_leaves_the_one_before(tmp_path):
    now, counted = [0.0], CountedStates()
    copies = SafeCopies(tmp_path, 10.0, lambda: now[0])
    file = tmp_path / "state"
    assert not copies.is_due
    now[0] = 10.0
    assert copies.is_due
    for content in (b"one", b"two"):
        file.write_bytes(content)
        kept = state("a", 0, 1, files={BASE[OUTER]: StatePlace(str(file), 0)})
        counted.put(*States.of([kept]))
        copies.keep(counted, {"time/units": "days"}, at_once)
    assert not copies.is_due

    def broken(node, function, work):
        copy_states(CopyWork((), work.directory))
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        copies.keep(counted, {}, broken)
    found = read_safe_copy(tmp_path)
    ((path, _),) = found.states[0][2].files.values()
    assert Path(path).read_bytes() == b"two"
    assert found.attributes == {"time/units": "days"}


def test_a_safe_copy_has_each_state_of_a_lane(tmp_path):
    file, counted = tmp_path / "state", CountedStates()
    file.write_bytes(b"both")
    both = [state("a", first, 1, files={BASE[OUTER]: StatePlace(str(file), 2 * first)}) for first in (0, 1)]
    counted.put(*States.of(both))
    assert SafeCopies(tmp_path, 10.0).keep(counted, {}, at_once) == 1
    for (key, _, kept), (copied, _, state_there) in zip(both, read_safe_copy(tmp_path).states, strict=True):
        (place,) = state_there.files.values()
        assert (copied, place.offset) == (key, kept.files[BASE[OUTER]].offset)
        assert Path(place.path).read_bytes() == b"both"


def test_without_a_safe_copy_there_is_nothing(tmp_path):
    assert read_safe_copy(tmp_path).states == ()


def reply(status="open", writers=2, local=1, steps=(), last=-1, moved=(), discarded=(), *, more=False):
    told = tuple(Step(number, Layout.of(()), ranks=ranks) for number, ranks in steps)
    arrivals = tuple(Arrival(*move) for move in moved)
    return News(status, writers, local, told, last, more, discarded=frozenset(discarded), arrivals=arrivals)


def test_one_nodes_word_for_an_aborted_stream_is_not_its_end():
    view = StreamView(["a", "b"], {"a": -1, "b": -1})
    view.update("b", reply("aborted", steps=[(0, 1)], last=0))
    assert not view.ended
    view.update("a", reply("aborted", steps=[(0, 1)], last=0))
    assert view.ended
    assert view.steps_after(-1) == [0]


def test_where_ranks_are_on_no_node_no_step_is_whole_and_the_stream_is_forsaken_once_the_others_have_closed_it():
    view = StreamView(["a", "b"], {"a": -1, "b": -1})
    view.update("a", reply("closed", steps=[(0, 1), (1, 1)], last=1))
    assert not view.is_forsaken
    view.update("b", reply("expected", writers=0, local=0))
    assert (view.is_forsaken, view.ended) == (True, False)
    view.update("a", reply("aborted", steps=[(0, 1), (1, 1)], last=1))
    assert (view.is_forsaken, view.ended, view.frontier, view.held_after(-1)) == (False, True, -1, [])


class Nodes:
    """Stands for connections to them."""

    given_up = 0

    def give_up(self):
        self.given_up += 1


def test_a_forsaken_stream_is_given_up_after_a_minute():
    view, nodes, now = StreamView(["a", "b"], {"a": -1, "b": -1}), Nodes(), [0.0]
    forsaken = Forsaken(view, nodes, clock=lambda: now[0])
    view.update("a", reply("closed", last=0))
    view.update("b", reply("expected", writers=0, local=0))
    for now[0], expected in ((0.0, 0), (59.0, 0), (60.0, 1)):
        forsaken.look()
        assert nodes.given_up == expected
    view.update("b", reply("open"))
    forsaken.look()
    view.update("b", reply("expected", writers=0, local=0))
    forsaken.look()
    assert nodes.given_up == 1


def test_a_node_may_not_know_yet_that_a_rank_of_another_has_aborted_the_stream():
    view = StreamView(["a", "b"], {"a": -1, "b": -1})
    view.update("a", reply(steps=[(0, 1)], last=0))
    view.update("b", reply(steps=[(0, 1)], last=0))
    assert (view.ended, view.unaware) == (False, [])
    view.update("b", reply("aborted", last=0))
    assert (view.ended, view.unaware) == (True, ["a", "b"])


def test_steps_that_a_node_has_lost_its_part_of_are_told_from_those_that_were_dropped():
    view = StreamView(["a", "b"], {"a": -1, "b": -1})
    view.update("a", reply(steps=[(0, 1), (1, 1), (3, 1)], last=3, discarded=[2]))
    view.update("b", reply(steps=[(3, 1)], last=3))
    assert (view.torn_after(-1, view.steps_after(-1), view.frontier), view.steps_after(-1)) == ([0, 1], [3])
    view.update("a", reply(steps=[(4, 1), (5, 1)], last=5, discarded=[2]))
    view.update("b", reply(steps=[(5, 1)], last=5))
    assert (view.steps_after(-1, 1), view.torn_after(-1, [3], 3)) == ([3], [0, 1])
    assert (view.steps_after(3), view.torn_after(3, [5], view.frontier)) == ([5], [4])
    assert [view.settled_after(-1, most) for most in (2, 4, 9)] == [
        ([0, 1], [0, 1, 4]),
        ([0, 1, 3, 4], [0, 1, 4]),
        ([0, 1, 3, 4, 5], [0, 1, 4]),
    ]
    assert view.settled_after(-1, 1) == ([0], [0, 1])


def test_a_node_that_its_ranks_have_left_is_waited_for_as_long_as_it_has_more_to_tell():
    view = StreamView(["a", "b"], {"a": -1, "b": -1})
    view.update("a", reply(local=2, steps=[(0, 1), (1, 1), (2, 2)], last=2, moved=[[1, "b", 2]]))
    view.update("b", reply(steps=[(0, 1)], last=0, more=True))
    assert view.steps_after(-1) == [0]
    view.update("b", reply(steps=[(1, 1)], last=1))
    assert (view.steps_after(0), view.unaware) == ([1, 2], ["b"])
    assert view.torn_after(-1, view.steps_after(-1), view.frontier) == []


def test_without_a_node_the_others_steps_count_once_its_ranks_have_come():
    view = StreamView(["a"], {"a": -1}, whole=False)
    view.update("a", reply(steps=[(0, 1), (1, 1)], last=1))
    assert view.steps_after(-1) == []
    view.update("a", reply(local=2, steps=[(0, 1), (1, 1), (2, 2)], last=2, moved=[[1, "b", 2]]))
    assert view.steps_after(-1) == [0, 1, 2]
    assert [view.is_whole(number) for number in (0, 1, 2)] == [False, False, True]


def test_without_a_node_what_the_others_have_closed_is_the_end_only_once_its_ranks_have_come_or_were_given_up():
    """All others were folded without these, and the stream was forgotten: what they still wrote had no analysis."""
    view = StreamView(["a", "c"], {"a": -1, "c": -1}, whole=False)
    view.update("a", reply("closed", writers=3, steps=[(0, 1), (1, 1)], last=1))
    view.update("c", reply("closed", writers=3, steps=[(0, 1), (1, 1)], last=1))
    assert (view.is_forsaken, view.ended, view.steps_after(-1)) == (True, False, [])
    came, given_up = deepcopy(view), view
    came.update("c", reply("open", writers=3, local=2, steps=[(1, 2)], last=1, moved=[[1, "b", 1]]))
    assert (came.is_forsaken, came.ended, came.steps_after(-1)) == (False, False, [0, 1])
    came.update("c", reply("closed", writers=3, local=2, last=1, moved=[[1, "b", 1]]))
    assert (came.status, came.ended) == ("closed", True)
    for node in ("a", "c"):
        given_up.update(node, reply("aborted", writers=3, last=1))
    assert (given_up.is_forsaken, given_up.ended, given_up.steps_after(-1)) == (False, True, [0, 1])

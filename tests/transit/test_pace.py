"""When a batch begins."""

import struct

from bbflow.stream.records import BlockForm, Layout, Step
from bbflow.transit.driver.stage import LONGEST_S, NODE_S, SHARE, Pace
from bbflow.view.stream import News, StreamView

CAPACITY = 80


def test_the_first_step_waits_for_no_other_and_the_next_ones_do() -> None:
    pace = Pace(CAPACITY, 8)
    assert pace.wait_s(0, 0, 1, 5.0) == 0
    assert 0.0 < pace.wait_s(1, 2, 2, 5.0) <= LONGEST_S + 1e-9
    assert pace.wait_s(1, 9, 9, 5.0 + 1.5 * LONGEST_S) == 0


def test_batches_for_more_nodes_are_further_apart_so_that_none_costs_more_of_the_drivers_time():
    pace = Pace(CAPACITY, 1_000)
    assert pace.wait_s(0, 0, 1, 5.0) == 0
    assert pace.wait_s(1, 8, 8, 5.0 + 999 * NODE_S) > 0
    assert pace.wait_s(1, 9, 9, 5.0 + 1_001 * NODE_S) == 0


def test_steps_that_a_batch_left_over_have_waited_already() -> None:
    pace = Pace(CAPACITY, 8)
    assert pace.wait_s(0, 7, 8, 5.0) == 0
    assert pace.wait_s(3, 8, 6, 5.0) == 0
    assert pace.wait_s(9, 9, 1, 5.0) > 0


def test_nothing_waits_while_room_is_scarce_or_when_no_other_step_can_come() -> None:
    for last, ready_bytes, is_full in ((4, CAPACITY // SHARE, False), (1, 1, True)):
        pace = Pace(CAPACITY, 8)
        assert pace.wait_s(0, 0, 1, 5.0) == 0
        assert pace.wait_s(1, last, ready_bytes, 5.0, is_full=is_full) == 0


def test_what_counts_is_the_room_that_steps_take_on_the_fullest_node() -> None:
    forms = [BlockForm("v", "float", "GlobalArray", (12,), (4 * rank,), (4,), rank, bytes=16) for rank in range(3)]
    view = StreamView(["a", "b"], {"a": -1, "b": -1})
    layouts = {"a": Layout.of(tuple(forms[:2])), "b": Layout.of(tuple(forms[2:]))}
    for node, layout in layouts.items():
        sources = struct.pack("<q", 0) * len(layout.forms)
        step = Step(0, layout, sources, ranks=len(layout.forms))
        view.update(node, News("open", 3, len(layout.forms), (step,), 0))
    assert (view.frontier, view.bytes_of(0), view.room_of(0)) == (0, 48, 8192)

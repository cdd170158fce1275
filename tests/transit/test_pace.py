"""When a batch begins."""

import struct

from bbflow.stream.records import BlockForm, Layout, Step
from bbflow.transit.driver.pace import LONGEST_S, NODE_S, SHARE, Pace, ReadySteps
from bbflow.view.stream import News, StreamView

CAPACITY = 80


def begun(pace: Pace, ready: ReadySteps, now_s: float) -> bool:
    if pace.wait_s(ready, now_s):
        return False
    pace.begin(ready, now_s)
    return True


def test_the_first_step_waits_for_no_other_and_the_next_ones_do() -> None:
    pace = Pace(CAPACITY, 8)
    assert begun(pace, ReadySteps(0, 0, 1, full=False), 5.0)
    assert 0.0 < pace.wait_s(ReadySteps(1, 2, 2, full=False), 5.0) <= LONGEST_S + 1e-9
    assert begun(pace, ReadySteps(1, 9, 9, full=False), 5.0 + 1.5 * LONGEST_S)


def test_batches_for_more_nodes_are_further_apart_so_that_none_costs_more_of_the_drivers_time():
    pace = Pace(CAPACITY, 1_000)
    assert begun(pace, ReadySteps(0, 0, 1, full=False), 5.0)
    assert not begun(pace, ReadySteps(1, 8, 8, full=False), 5.0 + 999 * NODE_S)
    assert begun(pace, ReadySteps(1, 9, 9, full=False), 5.0 + 1_001 * NODE_S)


def test_steps_that_a_batch_left_over_have_waited_already() -> None:
    pace = Pace(CAPACITY, 8)
    assert begun(pace, ReadySteps(0, 7, 8, full=False), 5.0)
    assert begun(pace, ReadySteps(3, 8, 6, full=False), 5.0)
    assert not begun(pace, ReadySteps(9, 9, 1, full=False), 5.0)


def test_nothing_waits_while_room_is_scarce_or_when_no_other_step_can_come() -> None:
    for ready in (ReadySteps(1, 4, CAPACITY // SHARE, full=False), ReadySteps(1, 1, 1, full=True)):
        pace = Pace(CAPACITY, 8)
        assert begun(pace, ReadySteps(0, 0, 1, full=False), 5.0)
        assert begun(pace, ready, 5.0)


def test_what_counts_is_the_room_that_steps_take_on_the_fullest_node() -> None:
    forms = [BlockForm("v", "float", "GlobalArray", (12,), (4 * rank,), (4,), rank, bytes=16) for rank in range(3)]
    view = StreamView(["a", "b"], {"a": -1, "b": -1})
    layouts = {"a": Layout.of(tuple(forms[:2])), "b": Layout.of(tuple(forms[2:]))}
    for node, layout in layouts.items():
        sources = struct.pack("<q", 0) * len(layout.forms)
        step = Step(0, layout, sources, ranks=len(layout.forms))
        view.update(node, News("open", 3, len(layout.forms), (step,), 0))
    assert (view.frontier, view.bytes_of(0), view.room_of(0)) == (0, 48, 8192)

import json
from dataclasses import replace

import pytest

from bbflow.report.page import movement_figures
from bbflow.report.run_events import Events, EventSpan, SpanEnd, parse_events
from bbflow.report.summary import covered_steps, summarise


def landed(step, size=100):
    return EventSpan("simulation", float(step), step + 0.5, size, step, step)


def work(node, first, last, size=0):
    return EventSpan(node, 10.0, 11.0, size, first, last)


def test_a_step_is_folded_when_every_node_has_folded_it():
    spans = [work("bb0", 0, 5), work("bb1", 0, 3)]
    assert covered_steps(spans, range(6)) == {0, 1, 2, 3}


def test_a_step_that_was_folded_twice_counts_once():
    assert len(covered_steps([work("bb0", 0, 5), work("bb0", 2, 5)], range(6))) == 6


def test_a_discarded_step_inside_a_batch_does_not_count():
    assert covered_steps([work("bb0", 0, 3)], [0, 1, 3]) == {0, 1, 3}


def test_data_movement_saved_is_taken_against_writing_every_raw_step():
    events = Events(
        landed=tuple(landed(step) for step in range(10)),
        drains=(work("bb0", 0, 9, 200),),
        publishes=(EventSpan("month", 1.0, 2.0, 50),),
    )
    summary = summarise(events, None)
    assert summary.saved == pytest.approx(0.75)
    assert (summary.landed_bytes, summary.drained_bytes, summary.results_bytes) == (1000, 200, 50)


def test_what_a_drain_stored_counts_as_moved_and_the_page_says_what_it_saved():
    batch = {"event": "drain", "node": "bb0", "started_s": 1, "ended_s": 2, "first_step": 0, "last_step": 1}
    batch |= {"bytes": 4 << 20, "stored_bytes": 1 << 20, "repeated_bytes": 2 << 20}
    old = batch | {"bytes": 1 << 20}
    del old["stored_bytes"], old["repeated_bytes"]
    events = parse_events(map(json.dumps, (batch, old)))
    summary = summarise(replace(events, landed=(landed(0, 8 << 20),)), None)
    assert (summary.drained_bytes, summary.chosen_bytes, summary.saved) == (2 << 20, 5 << 20, 0.75)
    (figure,) = (figure for figure in movement_figures(summary) if figure.name.startswith("Drained"))
    assert figure.value == "2 MiB"
    assert figure.remark == "25 % of the landed, stored of 5 MiB, 2 MiB of repeats stored once"


def test_waiting_is_a_share_of_the_time_from_the_first_event_to_the_end():
    events = Events(landed=(landed(0),), end=SpanEnd("complete", 2.0, 0, 1, 8.0))
    assert summarise(events, "running").waited_share == pytest.approx(0.25)
    assert summarise(events, "running").status == "complete"


def test_nothing_known_stays_unknown():
    summary = summarise(Events(), None)
    assert (summary.status, summary.saved, summary.waited_share) == ("unknown", None, None)


def test_lines_that_are_no_event_are_counted():
    lines = [
        json.dumps({"event": "landed", "step": 0, "began_s": 1, "committed_s": 2, "bytes": 3}),
        json.dumps({"event": "landed", "step": 1}),
        json.dumps({"event": "of a later version"}),
        json.dumps([1, 2]),
        "null",
        "",
        '{"event": "lan',
    ]
    events = parse_events(lines)
    assert len(events.landed) == 1
    assert events.unreadable == 4

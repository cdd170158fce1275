"""What is said of the states' size before they are made holds, and what has no room is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
import streams

from bbflow.errors import CapacityError, ConfigError
from bbflow.operators.configured import parse_diagnostics
from bbflow.transit.driver.state_files import StateFiles
from bbflow.transit.states.footprint import Footprint, StateRoom, bytes_per_point, room_for
from bbflow.transit.states.state_layouts import states_of

TIME = {"time/units": "days since 2001-01-01", "time/calendar": "360_day"}


def diagnostic(windows, **changes):
    (found,) = parse_diagnostics({"tas": {"operators": ["mean"], "windows": windows} | changes}, []).values()
    return found


@pytest.mark.parametrize(
    ("windows", "states"),
    [
        (["run"], 1),
        (["month", "run"], 2),  # the base is the month
        (["month", "year", "run"], 3),
        (["month", "week"], 3),  # weeks and months end at other times
        ([{"running": {"days": 5}}], 6),
    ],
)
def test_each_window_beside_the_finest_keeps_a_state(windows, states):
    assert states_of(diagnostic(windows)) == {"outer": states}


def test_each_and_transforms_keep_states_of_their_own():
    nested = diagnostic(["run"], each={"day": "max"})
    assert states_of(nested) == {"outer": 1, "each": 1}


NEEDS = {
    "bb0": [
        Footprint("tas", 100, np.dtype("f4"), 2 << 20, 3 << 20, 1 << 20),
        Footprint("pr", 100, np.dtype("f4"), 1 << 20, 1 << 20, 1 << 19),
    ]
}


def test_states_above_their_capacity_or_what_is_free_are_refused_with_the_largest_field():
    assert room_for(NEEDS, None, {"bb0": 3 << 20}, "x").bytes == {"bb0": 3 << 20}
    with pytest.raises(ConfigError, match=r"up to 3 MiB on BB node bb0 \(the most for tas: 20.5 KiB .*x is 1 MiB"):
        room_for(NEEDS, 1 << 20, {"bb0": 1 << 30}, "x")
    with pytest.raises(CapacityError, match="but 1 MiB are free there"):
        room_for(NEEDS, None, {"bb0": 1 << 20}, "x")


def test_batches_are_folded_ahead_of_publication_where_that_has_room():
    assert room_for(NEEDS, None, {"bb0": 4 << 20}, "x") == StateRoom({"bb0": 4 << 20}, ahead=True, spans=1)
    assert not room_for(NEEDS, None, {"bb0": 3 << 20}, "x").ahead
    assert not room_for(NEEDS, 3 << 20, {"bb0": 1 << 30}, "x").ahead


def test_a_task_folds_as_many_spans_as_have_room_on_all_nodes():
    spans = [room_for(NEEDS, None, {"bb0": free << 19}, "x", 9).spans for free in (8, 10, 11, 14, 99)]
    assert spans == [1, 1, 2, 3, 9]
    assert room_for(NEEDS, 11 << 19, {"bb0": 99 << 19}, "x", 9) == StateRoom({"bb0": 11 << 19}, ahead=True, spans=2)


@pytest.fixture
def fold(tmp_path, monkeypatch):
    """Fold some fields; gives the states' size as it was said, and as it was before they were removed."""

    def run(operators, windows, count=1, shape=(40, 50), batch_steps=1, **nodes):
        fields = {f"v{n}": np.random.default_rng(n).normal(size=(70, *shape)).astype("f4") for n in range(count)}
        streams.store(tmp_path, fields, np.arange(70), TIME)
        held = []
        remove = StateFiles.remove

        def measured(own):
            files = [path for node in own._run.nodes.values() for path in Path(node.state_directory).iterdir()]
            held.append(sum(path.stat().st_blocks * 512 for path in files))
            remove(own)

        monkeypatch.setattr(StateFiles, "remove", measured)
        operators = dict.fromkeys(fields, operators)
        workers = {"processes": 0, "threads": 1, "batch_steps": batch_steps}
        config = {"operators": operators, "windows": windows, "nodes": nodes, "workers": workers}
        streams.analyse(tmp_path, config, ranks=2)
        events = map(json.loads, (tmp_path / "out" / "events.jsonl").read_text().splitlines())
        (said,) = [event["bytes"] for event in events if event["event"] == "states"]
        return sum(said.values()), sum(held)

    return run


@pytest.mark.parametrize(
    ("operators", "windows", "count"),
    [
        ([{"percentiles": {"q": [90]}}], ["month", "run"], 1),
        ([{"histogram": {"edges": [-3, -1, 0, 1, 3]}}], ["month", "run"], 1),
        (["mean", "std", "max"], [{"steps": 25}, "month"], 1),
        (["mean", "max"], ["run"], 50),
    ],
    ids=["p90", "histogram", "steps", "50 variables"],
)
def test_states_stay_within_what_was_said_at_the_first_step(fold, operators, windows, count):
    said, held = fold(operators, windows, count)
    assert said / 4 < held <= said


def test_states_of_several_spans_that_a_task_folds_stay_within_what_was_said(fold):
    said, held = fold(["mean", "std"], [{"steps": 3}, {"running": {"days": 9}}], batch_steps=64)
    assert held <= said


def test_states_without_room_end_the_analysis_before_any_is_made(fold):
    with pytest.raises(ConfigError, match=r"v0: .* for each of 2000 points.* nodes: state_capacity is 64 KiB"):
        fold([{"percentiles": {"q": [90]}}], ["run"], state_capacity="64KiB")


def test_what_a_point_takes_is_known_before_the_field_is():
    one = bytes_per_point(diagnostic(["run"]))  # a state that counts, and the next one
    assert bytes_per_point(diagnostic(["month"])) == 1.5 * one  # and the one that is published
    assert bytes_per_point(diagnostic(["month", "run"])) == 2.5 * one

"""Results that somebody removes or cuts off while the run goes on."""

import os
import shutil

import pytest
from test_scheduler_lost import HELD, writer

from bbflow import start_nodes
from bbflow.events import read_events
from testsupport.processes import finish_well
from testsupport.waiting import PATIENCE_S, until

LOST = "{}: removed or cut off during the run, what was published there is lost"
WHOLE, CUT = {}, {"chunks": {"dim0": 2}}
"""How results are stored: several spans in a file, or cut into chunks of shards."""


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def cut_off(path):
    os.truncate(path, path.stat().st_size // 2)


def ended_after(act, path, tmp_path, *, results=WHOLE, restarts):
    """Fold the first steps, act on what is published by then, fold the others, and return how that ended."""
    out = tmp_path / "out"
    config = {"stream": "weather", "output": str(out), "operators": {"tas": ["max"]}, "windows": ["day"]}
    config |= {"workers": {"processes": 0}, "results": results}
    folded = lambda: [event["last_step"] for event in read_events(out) if event["event"] == "fold"]  # noqa: E731
    with start_nodes(1, "4MiB") as buffer, writer(tmp_path, buffer.contact) as process:
        with buffer.analyse(config) as analysis:
            until(lambda: folded()[-1:] == [HELD - 1], "nothing is folded")
            if not restarts:
                act(out / path)
                (tmp_path / "go").touch()
                outcome = analysis.wait(PATIENCE_S)
        if restarts:
            act(out / path)
            (tmp_path / "go").touch()
            with buffer.analyse(config) as analysis:
                outcome = analysis.wait(PATIENCE_S)
        finish_well(process)
    return outcome


@pytest.mark.parametrize("removed", ["results.zarr", "results.zarr/tas_day_max"])
def test_spans_that_are_lost_with_what_is_removed_are_told(tmp_path, removed):
    outcome = ended_after(remove, removed, tmp_path, restarts=True)
    assert not outcome.complete
    assert LOST.format(removed.rpartition("/")[2]) in outcome.errors


@pytest.mark.parametrize("results", [WHOLE, CUT])
@pytest.mark.parametrize("act", [remove, cut_off])
@pytest.mark.parametrize("name", ["tas_day_max/c.0.0.0", "time_day/c.0"])
def test_a_file_that_is_damaged_between_two_analyses_is_told(tmp_path, act, name, results):
    outcome = ended_after(act, f"results.zarr/{name}", tmp_path, results=results, restarts=True)
    assert not outcome.complete
    assert LOST.format(name) in outcome.errors


@pytest.mark.parametrize("act", [remove, cut_off])
@pytest.mark.parametrize("name", ["tas_day_max/c.3.0.0", "time_day/c.0"])
def test_a_file_that_is_damaged_during_an_analysis_is_told(tmp_path, act, name):
    outcome = ended_after(act, f"results.zarr/{name}", tmp_path, results={"chunks": {"time": 1}}, restarts=False)
    assert not outcome.complete
    assert outcome.errors == (LOST.format(name),)

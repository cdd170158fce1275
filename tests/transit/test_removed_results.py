"""Results that somebody removes while the run goes on."""

import shutil

import pytest
from test_scheduler_lost import HELD, writer

from bbflow import start_nodes
from bbflow.events import read_events
from testsupport.processes import finish_well
from testsupport.waiting import PATIENCE_S, until


@pytest.mark.parametrize("removed", ["results.zarr", "results.zarr/tas_day_max"])
def test_spans_that_are_lost_with_what_is_removed_are_told(tmp_path, removed):
    out = tmp_path / "out"
    config = {"stream": "weather", "output": str(out), "operators": {"tas": ["max"]}, "windows": ["day"]}
    config["workers"] = {"processes": 0}
    with start_nodes(1, "4MiB") as buffer, writer(tmp_path, buffer.contact) as process:
        folded = lambda: [event["last_step"] for event in read_events(out) if event["event"] == "fold"]  # noqa: E731
        with buffer.analyse(config):
            until(lambda: folded()[-1:] == [HELD - 1], "nothing is folded")
        shutil.rmtree(out / removed)
        (tmp_path / "go").touch()
        with buffer.analyse(config) as analysis:
            outcome = analysis.wait(PATIENCE_S)
        finish_well(process)
    assert not outcome.complete
    told = f"{removed.rpartition('/')[2]} was removed during the run: what was published before is lost"
    assert told in outcome.errors

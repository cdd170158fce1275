"""What has ended is published, and shown, while the next batch is folded."""

import numpy as np
import streams

from bbflow.events import read_events

WAITS = '''
import json
import time
from pathlib import Path

EVENTS = Path({events!r})


def wait_for(kind, first_step, count):
    """Wait until as many events of a kind are there, from a step on."""
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s:
        lines = EVENTS.read_text().splitlines(keepends=True) if EVENTS.exists() else []
        events = [json.loads(line) for line in lines if line.endswith("\\n")]
        if sum(each["event"] == kind and each.get("first_step", 0) >= first_step for each in events) >= count:
            return
        time.sleep(0.01)
    raise TimeoutError(f"no {{kind}} beside this")


class Sum:
    commutes = True

    def map(values, valid, times):
        {mapping}
        return {{"sum": values.sum(axis=0, dtype="f8")}}

    def combine(left, right):
        return {{"sum": left["sum"] + right["sum"]}}

    def finalize(state):
        {finalize}
        return state["sum"]
'''


def sums_that_wait(folder, mapping="pass", finalize="pass"):
    events = str(folder / "out" / "events.jsonl")
    (folder / "waits.py").write_text(WAITS.format(events=events, mapping=mapping, finalize=finalize))


def test_a_month_is_shown_while_the_next_one_is_folded(tmp_path):
    sums_that_wait(tmp_path, mapping="if times[-1] >= 31 * 24: wait_for('publish', 0, 1)")
    values = np.random.default_rng(2).integers(0, 9, (40, 8, 8)).astype("f4")
    attributes = {"time/units": "hours since 2001-01-01", "time/calendar": "noleap"}
    streams.store(tmp_path, {"tas": values}, 24.0 * np.arange(40), attributes)
    config = {"windows": ["month"], "operators": {"tas": ["waits:Sum"]}, "workers": {"threads": 1}}
    results = streams.analyse(tmp_path, config, modules=tmp_path)
    np.testing.assert_array_equal(results.tas_month_Sum, [values[:31].sum(axis=0), values[31:].sum(axis=0)])


def test_batches_are_folded_while_a_month_is_published_until_another_one_ends(tmp_path):
    sums_that_wait(tmp_path, finalize="wait_for('fold', 31, 2)")
    values = np.random.default_rng(2).integers(0, 9, (70, 8, 8)).astype("f4")
    attributes = {"time/units": "hours since 2001-01-01", "time/calendar": "noleap"}
    streams.store(tmp_path, {"tas": values}, 24.0 * np.arange(70), attributes)
    config = {
        "windows": ["month", "run"],
        "operators": {"tas": ["waits:Sum", "mean"]},
        "workers": {"threads": 1, "batch_steps": 5},
    }
    results = streams.analyse(tmp_path, config, modules=tmp_path)
    months = [values[:31], values[31:59], values[59:]]
    for number, month in enumerate(months):
        np.testing.assert_array_equal(results.tas_month_Sum[number], month.sum(axis=0))
        np.testing.assert_allclose(results.tas_month_mean[number], month.mean(axis=0, dtype="f8"), rtol=1e-12)
    np.testing.assert_array_equal(results.tas_run_Sum[0], values.sum(axis=0))
    events = [event for event in read_events(tmp_path / "out") if event["event"] in {"fold", "publish"}]
    january = next(event for event in events if event["event"] == "publish")
    folds = [event for event in events if event["event"] == "fold"]
    ahead = [fold for fold in folds if fold["first_step"] >= 31 and fold["ended_s"] < january["ended_s"]]
    assert len(ahead) > 1
    assert max(fold["last_step"] for fold in ahead) < 59

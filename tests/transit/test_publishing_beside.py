"""What has ended is published, and shown, while the next batch is folded."""

import numpy as np
import streams

from bbflow.events import read_events

SLOW = '''
import time


class Slow:
    """A sum that takes its time from February on."""

    commutes = True

    def map(values, valid, times):
        if times[-1] >= 31 * 24:
            time.sleep(2)
        return {"sum": values.sum(axis=0, dtype="f8")}

    def combine(left, right):
        return {"sum": left["sum"] + right["sum"]}

    def finalize(state):
        return state["sum"]
'''


def test_a_month_is_shown_while_the_next_one_is_folded(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    values = np.random.default_rng(2).integers(0, 9, (40, 8, 8)).astype("f4")
    attributes = {"time/units": "hours since 2001-01-01", "time/calendar": "noleap"}
    streams.store(tmp_path, {"tas": values}, 24.0 * np.arange(40), attributes)
    config = {"windows": ["month"], "operators": {"tas": ["slow:Slow"]}, "workers": {"threads": 1}}
    results = streams.analyse(tmp_path, config, modules=tmp_path)
    np.testing.assert_array_equal(results.tas_month_Slow[0], values[:31].sum(axis=0))
    events = [event for event in read_events(tmp_path / "out") if event["event"] in {"fold", "publish"}]
    january = next(event for event in events if event["event"] == "publish")
    february = next(event for event in events if event["event"] == "fold" and event["first_step"] >= 31)
    assert january["ended_s"] < february["ended_s"] - 1


LONG = SLOW.replace("        if times[-1] >= 31 * 24:\n            time.sleep(2)\n", "").replace(
    'return state["sum"]', 'time.sleep(3)\n        return state["sum"]'
)
"""A sum whose results take their time."""


def test_batches_are_folded_while_a_month_is_published_until_another_one_ends(tmp_path):
    (tmp_path / "long.py").write_text(LONG.replace("Slow", "Long"))
    values = np.random.default_rng(2).integers(0, 9, (70, 8, 8)).astype("f4")
    attributes = {"time/units": "hours since 2001-01-01", "time/calendar": "noleap"}
    streams.store(tmp_path, {"tas": values}, 24.0 * np.arange(70), attributes)
    config = {
        "windows": ["month", "run"],
        "operators": {"tas": ["long:Long", "mean"]},
        "workers": {"threads": 1, "batch_steps": 5},
    }
    results = streams.analyse(tmp_path, config, modules=tmp_path)
    months = [values[:31], values[31:59], values[59:]]
    for number, month in enumerate(months):
        np.testing.assert_array_equal(results.tas_month_Long[number], month.sum(axis=0))
        np.testing.assert_allclose(results.tas_month_mean[number], month.mean(axis=0, dtype="f8"), rtol=1e-12)
    np.testing.assert_array_equal(results.tas_run_Long[0], values.sum(axis=0))
    events = [event for event in read_events(tmp_path / "out") if event["event"] in {"fold", "publish"}]
    january = next(event for event in events if event["event"] == "publish")
    folds = [event for event in events if event["event"] == "fold"]
    ahead = [fold for fold in folds if fold["first_step"] >= 31 and fold["ended_s"] < january["ended_s"]]
    assert len(ahead) > 1
    assert max(fold["last_step"] for fold in ahead) < 59

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

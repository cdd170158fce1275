"""Ranks that fold, whatever way their blocks are given and go: the results are those of all steps."""

import json

import numpy as np
import pytest

from bbflow import start_nodes
from bbflow.transit.output.decoding import open_results
from testsupport.fabrics import NEEDS_LIBFABRIC, PROVIDER
from testsupport.writers import run_program, write, write_config

HOURS, POINTS = 240, 600
FIELDS = np.array([(np.arange(POINTS) + 7 * step) % 31 for step in range(HOURS)], "f4")
BEGIN = f"""
io.define_attribute("time/units", "hours since 2001-01-30")
when = io.define_variable("time", np.zeros(1))
t = io.define_variable("t", np.empty(0, "f4"), [{POINTS}], [0], [{POINTS}])

def put(engine, hour):
    engine.begin_step()
    engine.put(when, np.array([float(hour)]), Mode.Sync)
    engine.put(t, ((np.arange({POINTS}) + 7 * hour) % 31).astype("f4"), Mode.Sync)
    engine.end_step()
"""
ONE_FILE = f"""{BEGIN}
engine = io.open("one", Mode.Write)
for hour in range({HOURS}):
    put(engine, hour)
engine.close()
"""
MANY_FILES = f"""{BEGIN}
for begin in range(0, {HOURS}, 10):  # each second one is gone on with
    engine = io.open(f"file{{begin // 20}}", Mode.Append if begin % 20 else Mode.Write)
    for hour in range(begin, begin + 10):
        put(engine, hour)
    engine.close()
"""
AGAIN = f"""{BEGIN}
io.set_parameter("AppendAfterSteps", "100")
for begin, end in ((0, 130), (100, {HOURS})):  # as after a restart
    engine = io.open("one", Mode.Append)
    for hour in range(begin, end):
        put(engine, hour)
    engine.close()
"""


def folded(folder, run, **more):
    """Run a program whose pool has room for the states alone, so that it goes no faster than its plan comes."""
    content = {
        "stream": "model", "output": str(folder / "out"), "workers": {"processes": 0},
        "windows": ["day", "run"], "operators": {"t": ["mean", "std", "min", "max", "count"]}, "fold": {"on": "rank"},
    } | more  # fmt: skip
    with start_nodes(1, "64KiB") as nodes, nodes.analyse(content) as analysis:
        run(nodes)
        outcome = analysis.wait(300)
    assert outcome.complete
    lines = (folder / "out" / "events.jsonl").read_text().splitlines()
    landed = [event["bytes"] for event in map(json.loads, lines) if event["event"] == "landed"]
    assert landed.count(0) > HOURS / 4, "its ranks have folded"
    with open_results(folder / "out" / "results.zarr") as results:
        return results.load()


def assert_all_steps(results):
    days = FIELDS.reshape(HOURS // 24, 24, POINTS).astype(float)
    wanted = {"mean": np.mean, "std": np.std, "min": np.min, "max": np.max}
    for name, own in wanted.items():
        np.testing.assert_allclose(results[f"t_day_{name}"], own(days, axis=1), rtol=1e-6, atol=1e-6, err_msg=name)
        whole = own(FIELDS.astype(float), axis=0)
        np.testing.assert_allclose(np.squeeze(results[f"t_run_{name}"]), whole, rtol=1e-6, atol=1e-6, err_msg=name)
    assert (results.t_day_count == 24).all()
    assert (results.t_run_count == HOURS).all()


@pytest.mark.parametrize(
    ("code", "parameters", "more"),
    [
        pytest.param(ONE_FILE, {"Transport": "fabric", "FabricProvider": PROVIDER}, {}, marks=NEEDS_LIBFABRIC),
        (MANY_FILES, {"KeepOpen": "yes"}, {}),
        (AGAIN, {}, {"time": {"late": "skip"}}),
    ],
    ids=["libfabric", "many files", "again"],
)
def test_all_steps_count_once(tmp_path, code, parameters, more):
    config = write_config(tmp_path, **parameters)
    assert_all_steps(folded(tmp_path, lambda nodes: write(nodes.contact, code, config), **more))


def test_spans_count_as_they_are_when_their_step_ends(tmp_path, programs):
    def run(nodes):
        done = run_program(nodes, programs, "many-spans", write_config(tmp_path))
        assert done.returncode == 0, done.stderr

    assert_all_steps(folded(tmp_path, run))

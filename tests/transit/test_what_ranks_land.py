"""What ranks that fold land as it is: changed coordinates, blocks of new sizes, a few steps; and what is said of it."""

import json
import re
import socket
import subprocess
import sys

import bbflow_adios2
import numpy as np
import pytest

from bbflow import start_nodes
from bbflow.transit.folding import kernel_table
from bbflow.transit.output.decoding import open_results
from testsupport.writers import clean_environment

WRITER = """
import sys
import adios2
import numpy as np
from adios2.bindings import Mode

steps, moves, grows = map(int, sys.argv[1:])
io = adios2.Adios("engine.xml").declare_io("fields")
io.define_attribute("time/units", "hours since 2001-01-30")
io.define_attribute("t/_ARRAY_DIMENSIONS", "lat lon")
when = io.define_variable("time", np.zeros(1))
lat = io.define_variable("lat", np.empty(0), [6], [0], [6])
t = io.define_variable("t", np.empty(0, "f4"), [6, 400], [0, 0], [6, 400])
engine = io.open("fields", Mode.Write)
for step in range(steps):
    engine.begin_step()
    engine.put(when, np.array([float(step)]), Mode.Sync)
    engine.put(lat, np.arange(6.0) + (step >= moves), Mode.Sync)
    first = 1 + step % 5 if step >= grows else 6
    values = np.random.default_rng(step).normal(9, 3, (6, 400)).astype("f4")
    for begin, end in ((0, first), (first, 6)):
        if end > begin:
            t.set_selection(([begin, 0], [end - begin, 400]))
            engine.put(t, values[begin:end].copy(), Mode.Sync)
    engine.end_step()
engine.close()
"""
NEVER, STEP_BYTES = 999, 6 * 400 * 4


OPERATORS = {"t": ["mean", "std", "min", "max"]}


def run(folder, on, steps=240, moves=NEVER, grows=NEVER, operators=OPERATORS, windows=("day", "run"), together=64):
    """Fold a stream of one rank; give how it ended, the results, and the bytes of t that landed with each step."""
    folder.mkdir()
    (folder / "writer.py").write_text(WRITER)
    (folder / "engine.xml").write_text(bbflow_adios2.engine_xml("fields"))
    config = {
        "stream": "fields", "output": str(folder / "out"), "windows": [*windows], "operators": operators,
        "workers": {"processes": 0}, "fold": {"on": on} | ({} if on == "node" else {"land_states_every": together}),
    }  # fmt: skip
    with start_nodes(1, "256KiB") as nodes, nodes.analyse(config) as analysis:
        environment = clean_environment(nodes.contact)
        words = [sys.executable, "writer.py", f"{steps}", f"{moves}", f"{grows}"]
        subprocess.run(words, cwd=folder, env=environment, check=True, timeout=300)
        outcome = analysis.wait(300)
    events = map(json.loads, (folder / "out" / "events.jsonl").read_text().splitlines())
    with open_results(folder / "out" / "results.zarr") as results:
        return outcome, results.load(), [event["bytes"] for event in events if event["event"] == "landed"]


def assert_same(found, expected):
    for name in expected.variables:
        rtol = 1e-6 if name.endswith(("_mean", "_std")) else 0
        np.testing.assert_allclose(found[name].values.astype("f8"), expected[name].values.astype("f8"), rtol=rtol)


@pytest.fixture(scope="module")
def on_the_node(tmp_path_factory):
    return run(tmp_path_factory.mktemp("node") / "node", "node")[1]


def test_a_coordinate_that_changes_lands_and_is_told_of(tmp_path, on_the_node, capfd):
    outcome, results, landed = run(tmp_path / "rank", "rank", moves=181)
    assert outcome.complete
    assert "coordinate lat changes with time, as seen in step 181: the results have it as the first step does" in (
        outcome.errors
    )
    assert landed[181] > STEP_BYTES
    assert 0 in landed[182:]
    assert_same(results, on_the_node)
    told = re.search(r"ranks folded (\d+) of 240 steps of stream 'fields': the first", capfd.readouterr().err)
    assert 120 < int(told[1]) < 240


def test_blocks_of_new_sizes_land_as_they_are(tmp_path, on_the_node):
    outcome, results, landed = run(tmp_path / "rank", "rank", grows=150)
    assert outcome.complete
    assert not outcome.errors
    assert 0 in landed[:150]
    assert set(landed[150:]) == {STEP_BYTES}
    assert max(landed) <= 3 * 6 * 400 * 12, "a state"
    assert_same(results, on_the_node)


def test_they_may_land_after_some_time(tmp_path, on_the_node):
    outcome, results, landed = run(tmp_path / "rank", "rank", together="600 s")
    assert outcome.complete
    assert 0 in landed
    assert_same(results, on_the_node)


def test_what_a_few_steps_have_takes_no_more_room_than_they_do(tmp_path, capfd):
    outcome, _, landed = run(tmp_path / "rank", "rank", steps=4)
    assert outcome.complete
    assert {size // STEP_BYTES for size in landed} == {1}
    assert (
        "ranks folded 0 of 4 steps of stream 'fields': the stream ended before they knew how, or had"
        in capfd.readouterr().err
    )


HISTOGRAMS = {
    "t": {"operators": ["mean", {"histogram": {"edges": [0, 5, 9, 12.5]}}], "windows": ["day", "run"]},
    "counted": {"of": "t", "operators": [{"histogram": {"edges": [0, 5, 9, 12.5]}}], "windows": [{"days": 2}]},
}


@pytest.mark.parametrize("at_once", [True, False], ids=["all at once", "steps shard by shard"])
def test_histograms_have_the_same_counts(tmp_path, monkeypatch, at_once):
    block, found = kernel_table._block, {}
    if not at_once:
        monkeypatch.setattr(
            kernel_table, "_block", lambda of, form, *more: block(of, form, *more) if form.folded else None
        )
    for on in ("rank", "node"):
        outcome, found[on], landed = run(tmp_path / on, on, moves=130, grows=201, operators=HISTOGRAMS)
        assert outcome.complete
        assert (0 in landed[:200]) == (on == "rank")
    assert "counted_days2_histogram_below" in found["node"]
    assert_same(found["rank"], found["node"])


MOVING_BLOCKS = """
import resource
import adios2
import numpy as np
from adios2.bindings import Mode

N = 200_000
io = adios2.Adios("engine.xml").declare_io("fields")
io.define_attribute("time/units", "hours since 2001-01-30")
io.define_attribute("t/_ARRAY_DIMENSIONS", "lat lon")
when = io.define_variable("time", np.zeros(1))
lat = io.define_variable("lat", np.empty(0), [N], [0], [N])
t = io.define_variable("t", np.empty(0, "f4"), [N, 1], [0, 0], [N, 1])
engine = io.open("fields", Mode.Write)
for step in range(90):
    engine.begin_step()
    engine.put(when, np.array([float(step)]), Mode.Sync)
    for begin, end in ((0, 1 + step), (1 + step, N)):
        lat.set_selection(([begin], [end - begin]))
        engine.put(lat, np.arange(float(begin), end), Mode.Sync)
    engine.put(t, np.full((N, 1), step, "f4"), Mode.Sync)
    engine.end_step()
    if step in (30, 89):
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
engine.close()
"""


@pytest.mark.cold
def test_a_coordinate_in_other_blocks_each_step_takes_a_rank_no_memory(tmp_path):
    (tmp_path / "engine.xml").write_text(bbflow_adios2.engine_xml("fields"))
    config = {
        "stream": "fields", "output": str(tmp_path / "out"), "windows": ["run"], "operators": {"t": ["mean"]},
        "workers": {"processes": 0}, "fold": {"on": "rank"},
    }  # fmt: skip
    with start_nodes(1, "8MiB") as nodes, nodes.analyse(config) as analysis:
        words = [sys.executable, "-c", MOVING_BLOCKS]
        environment = clean_environment(nodes.contact)
        said = subprocess.run(words, cwd=tmp_path, env=environment, check=True, timeout=300, stdout=subprocess.PIPE)
        assert analysis.wait(300).complete
    before, after = map(int, said.stdout.split())
    assert after - before < 40 << 10, "KiB; the coordinate of a step has 1.5 MiB"


IN_STEP = """
import socket
import sys
import adios2
import numpy as np
from adios2.bindings import Mode

rank, other = int(sys.argv[1]), socket.socket(fileno=int(sys.argv[2]))
io = adios2.Adios("engine.xml").declare_io("fields")
io.define_attribute("time/units", "hours since 2001-01-30")
if rank == 1:
    when = io.define_variable("time", np.zeros(1))
t = io.define_variable("t", np.empty(0, "f4"), [7, 400], [0, 0], [7, 400])
engine = io.open("fields", Mode.Write)
for step in range(72):
    engine.begin_step()
    if rank == 1:
        engine.put(when, np.array([float(step)]), Mode.Sync)
    values = np.random.default_rng(step).normal(9, 3, (7, 400)).astype("f4")
    first = 1 + step % 5
    for begin, end in ((6, 7),) if rank else ((0, first), (first, 6)):
        t.set_selection(([begin, 0], [end - begin, 400]))
        engine.put(t, values[begin:end].copy(), Mode.Sync)
    engine.end_step()
    other.send(b"x")  # a barrier
    assert other.recv(1) == b"x"
engine.close()
"""


def run_in_step(folder):
    """Write by two ranks that wait for each other after each step; only the second may fold."""
    (folder / "writer.py").write_text(IN_STEP)
    (folder / "engine.xml").write_text(bbflow_adios2.engine_xml("fields"))
    config = {
        "stream": "fields", "output": str(folder / "out"), "windows": ["day", "run"], "operators": OPERATORS,
        "workers": {"processes": 0}, "fold": {"on": "rank"},
    }  # fmt: skip
    ends = socket.socketpair()
    with start_nodes(1, "256KiB") as nodes, nodes.analyse(config) as analysis:
        writers = []
        for rank, end in enumerate(ends):
            environment = clean_environment(nodes.contact) | {"PMI_RANK": f"{rank}", "PMI_SIZE": "2"}
            words = [sys.executable, "writer.py", f"{rank}", f"{end.fileno()}"]
            writers.append(subprocess.Popen(words, cwd=folder, env=environment, pass_fds=[end.fileno()]))
            end.close()
        try:
            assert [writer.wait(300) for writer in writers] == [0, 0]
        finally:
            for writer in writers:
                writer.kill()
                writer.wait()
        outcome = analysis.wait(300)
    assert outcome.complete
    with open_results(folder / "out" / "results.zarr") as results:
        return results.load()


def test_a_rank_lands_what_it_holds_before_others_that_wait_for_it_have_no_room(tmp_path):
    """Blocks of the first rank, which change their sizes, take more than the pool in the day that lands together."""
    results = run_in_step(tmp_path)
    fields = np.stack([np.random.default_rng(step).normal(9, 3, (7, 400)).astype("f4") for step in range(72)])
    days = fields.reshape(3, 24, 7, 400)
    np.testing.assert_array_equal(results.t_day_max, days.max(axis=1))
    np.testing.assert_array_equal(results.t_day_min, days.min(axis=1))
    np.testing.assert_allclose(results.t_day_mean, days.mean(axis=1, dtype="f8"), rtol=1e-6)

"""Ranks that fold their own blocks: the results are those of a fold on the nodes."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager

import bbflow_adios2
import mainjob
import numpy as np
import pytest
import xarray as xr
from streams import analyse, store
from victims import find, finish, wait_for_folds, worker_of

from bbflow import start_nodes
from bbflow.errors import StreamError
from bbflow.transit.output.decoding import open_results
from testsupport.waiting import until

HOURS = np.arange(240.0)
SIX_DAYS = 6 * 24
ATTRIBUTES = {"time/units": "hours since 2001-01-30", "time/calendar": "standard"}
WINDOWS = ["day", "month", {"running": {"days": 2}}, "run"]
STEPS = 130


def fields(dtype="f4", *, missing=None, shape=(7, 9)):
    """Return fields of the steps, with values that are missing at some points now and then, and at one always."""
    random = np.random.default_rng(3)
    values = np.clip(random.normal(100, 20, (len(HOURS), *shape)), 0, 250).astype(dtype)
    if missing is not None:
        values[random.random(values.shape) < 0.05] = missing
        values[:, 0, 0] = missing
    return {"t": values}


def config(on, **more):
    return {
        "windows": WINDOWS,
        "operators": {"t": ["mean", "std", "min", "max", "count"]},
        "fold": {"on": on} | ({} if on == "node" else {"land_states_every": 50}),
    } | more


def landed_bytes(folder):
    """Return the bytes of each step that has landed."""
    lines = (folder / "out" / "events.jsonl").read_text().splitlines(keepends=True)
    events = (json.loads(line) for line in lines if line.endswith("\n"))  # one may be half written
    return [event["bytes"] for event in events if event["event"] == "landed"]


def assert_same(found, expected):
    """Extremes and counts are the same to the bit; sums, which are added up in another order, to rounding."""
    assert set(found) == set(expected)
    for name in expected.variables:
        values, wanted = found[name].values, expected[name].values
        is_sum = values.dtype.kind == "f" and not name.endswith(("_min", "_max"))
        np.testing.assert_allclose(
            values.astype("f8"), wanted.astype("f8"), rtol=1e-9 if is_sum else 0, err_msg=name
        )  # fmt: skip


def both(folder, streams, attributes=ATTRIBUTES, *, ranks=2, nodes=1, axis=0, moves=(), capacity="192KiB", **more):
    """Fold a stream on the ranks and on the nodes; gives the bytes of the steps that landed from the former."""
    for on in ("rank", "node"):
        store(folder / on, streams, HOURS, attributes, axis=axis, moves=moves)
    found = analyse(folder / "rank", config("rank", **more), ranks=ranks, nodes=nodes, capacity=capacity)
    assert_same(found, analyse(folder / "node", config("node", **more), ranks=ranks))
    return landed_bytes(folder / "rank")


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u1"])
def test_results_are_those_of_a_fold_on_the_nodes(tmp_path, dtype):
    landed = both(tmp_path, fields(dtype))
    assert len(landed) == len(HOURS)
    assert landed.count(0) > len(HOURS) / 2


@pytest.mark.parametrize(("dtype", "missing"), [("f4", np.nan), ("f4", 1e20), ("i2", -999)])
def test_missing_values_count_for_nothing(tmp_path, dtype, missing):
    told = {} if np.isnan(missing) else {"t/_FillValue": missing}
    landed = both(tmp_path, fields(dtype, missing=missing), ATTRIBUTES | told, ranks=3, axis=1)
    assert landed.count(0) > len(HOURS) / 2


def test_ranks_land_on_nodes_of_their_own(tmp_path):
    assert both(tmp_path, fields(), ranks=3, nodes=2).count(0) > len(HOURS) / 2


def test_blocks_may_move_while_ranks_fold(tmp_path):
    both(tmp_path, fields(), moves=[100, 171])


def test_diagnostics_share_a_variable_and_what_nothing_is_computed_of_does_not_land(tmp_path):
    operators = {
        "t": {"operators": ["mean"], "windows": ["day"]},
        "warmest": {"of": "t", "operators": ["max"], "windows": ["month"]},
    }
    streams = fields() | {"unused": np.ones((len(HOURS), 7, 9))}
    assert both(tmp_path, streams, operators=operators, capacity="256KiB").count(0) > len(HOURS) / 2


def test_steps_without_a_time_are_counted(tmp_path):
    landed = both(tmp_path, fields(), {}, windows=[{"steps": 24}, "run"], time="steps")
    assert landed.count(0) > len(HOURS) / 2


def test_where_states_would_spare_nothing_steps_land(tmp_path, capfd):
    landed = both(tmp_path, fields(), windows=[{"hours": 6}])
    assert 0 not in landed
    assert "at most 6 steps would land together" in capfd.readouterr().err


def test_what_is_packed_lands_as_it_is(tmp_path, capfd):
    landed = both(tmp_path, fields("i2"), ATTRIBUTES | {"t/scale_factor": 0.5})
    assert 0 not in landed
    assert "only workers decode" in capfd.readouterr().err


WRITER = """
import sys
import adios2
import numpy as np
from adios2.bindings import Mode

times = {times}
values = np.load("t.npy")
io = adios2.Adios("engine.xml").declare_io("fields")
io.define_attribute("time/units", "hours since 2001-01-30")
when = io.define_variable("time", np.zeros(1))
t = io.define_variable("t", np.empty(0, "f4"), [7, 9], [0, 0], [7, 9])
now_and_then = io.define_variable("now_and_then", np.empty(0), [3], [0], [3])
engine = io.open("fields", Mode.Write)
for step, time in enumerate(times):
    if step == 150:
        sys.stdin.read()
    engine.begin_step()
    engine.put(when, np.array([time]), Mode.Sync)
    engine.put(t, np.full((7, 9), 7e7, "f4"), Mode.Sync)  # the next one counts
    own = np.array(values[step])
    engine.put(t, own, Mode.Deferred)
    if step % 60 == 59:
        engine.put(now_and_then, np.ones(3), Mode.Sync)
    engine.end_step()
    own[:] = np.nan
engine.close()
"""


@contextmanager
def writer_of(folder, times, contact):
    """Write steps at some times as one rank; it waits before the 150th until its input ends."""
    folder.mkdir(exist_ok=True)
    np.save(folder / "t.npy", fields()["t"])
    (folder / "writer.py").write_text(WRITER.format(times=list(map(float, times))))
    (folder / "engine.xml").write_text(bbflow_adios2.engine_xml("fields"))
    environment = os.environ | bbflow_adios2.environment(contact)
    writer = subprocess.Popen([sys.executable, "writer.py"], env=environment, cwd=folder, stdin=subprocess.PIPE)
    try:
        yield writer
        writer.stdin.close()
        assert writer.wait(300) == 0
    finally:
        kill(writer)


def written(folder, times, on="rank", **more):
    """Write steps at some times as one rank while an analysis folds them; gives outcome and results."""
    content = content_of(folder, on, **more)
    with start_nodes(1, "64KiB") as nodes, nodes.analyse(content) as analysis:
        with writer_of(folder, times, nodes.contact):
            pass
        outcome = analysis.wait(300)
    with open_results(folder / "out" / "results.zarr") as results:
        return outcome, results.load()


def content_of(folder, on, **more):
    return {"stream": "fields", "output": str(folder / "out"), "workers": {"processes": 0}} | config(on, **more)


@pytest.fixture(scope="module")
def hourly(tmp_path_factory):
    return written(tmp_path_factory.mktemp("hourly") / "node", HOURS, "node")[1]


def test_the_last_put_of_a_block_counts_and_what_comes_later_lands_if_it_is_wanted(tmp_path, hourly):
    wanted = {"now_and_then": {"operators": ["mean"], "windows": ["run"], "absent": "skip"}}
    for name, operators in (("without", {}), ("with", wanted)):
        outcome, results = written(tmp_path / name, HOURS, operators=config("rank")["operators"] | operators)
        assert outcome.complete
        assert_same(results[list(hourly.variables)], hourly)
        landed = landed_bytes(tmp_path / name)
        assert landed.count(0) > len(HOURS) / 2
        assert (landed[179] > 0) == (name == "with")  # else it is held with the steps around it
    assert float(results.now_and_then_run_mean.mean()) == 1.0


def switched(folder, **more):
    """Continue an analysis on the nodes in mid-program, whose rank holds steps by the plan of the one before."""
    with start_nodes(1, "64KiB") as nodes, writer_of(folder, HOURS, nodes.contact) as writer:
        with nodes.analyse(content_of(folder, "rank")):
            wait_until_six_days_have_landed(folder)
        with nodes.analyse(content_of(folder, "node", **more)) as analysis:
            writer.stdin.close()
            return analysis.wait(300)


def wait_until_six_days_have_landed(folder):
    """The rank waits in the seventh, with steps in hand: it lands these whoever folds on."""
    events = folder / "out" / "events.jsonl"
    until(lambda: events.exists() and len(landed_bytes(folder)) >= SIX_DAYS, "six days")


def test_an_analysis_on_the_nodes_goes_on_where_ranks_have_folded_what_it_needs(tmp_path, hourly):
    assert switched(tmp_path).complete
    with open_results(tmp_path / "out" / "results.zarr") as results:
        assert_same(results.load(), hourly)
    assert 0 in landed_bytes(tmp_path)[SIX_DAYS:]


@pytest.mark.parametrize(
    "asked", [{"operators": [{"percentiles": {"q": [50]}}]}, {"of": "t * 2", "operators": ["mean"]}]
)
def test_what_ranks_have_not_kept_is_refused_after_a_change_in_mid_program(tmp_path, asked):
    operators = {"t": asked | {"windows": ["run"]}}
    with pytest.raises(StreamError, match="let the operators be as they were, or start the program again"):
        switched(tmp_path, operators=operators)


def test_steps_of_another_interval_land_as_they_are(tmp_path):
    times = np.concatenate([HOURS[:100], HOURS[100:170] + 5, HOURS[100:170] + 75.5])
    outcome, results = written(tmp_path / "rank", times)
    assert outcome.complete
    assert_same(results, written(tmp_path / "node", times, "node")[1])
    assert 0 < landed_bytes(tmp_path / "rank").count(0) < len(times)


def test_steps_that_come_once_more_are_left_out(tmp_path, hourly):
    times = np.concatenate([HOURS[:120], HOURS[100:220]])
    _, results = written(tmp_path / "rank", times)
    _, expected = written(tmp_path / "node", times, "node")
    assert_same(results, expected)


def test_a_change_of_the_interval_that_ranks_can_not_see_is_refused(tmp_path):
    """Rank 1 has no time: it folds on, over the end of a day."""
    store(tmp_path, fields(), np.concatenate([HOURS[:151], HOURS[151:] + 11]), ATTRIBUTES)
    content = {"stream": "fields", "output": str(tmp_path / "out"), "workers": {"processes": 0}} | config("rank")
    with ExitStack() as stack:
        nodes = stack.enter_context(start_nodes(1, "128KiB"))
        analysis = stack.enter_context(nodes.analyse(content))
        for rank in range(2):
            environment = (
                os.environ | bbflow_adios2.environment(nodes.contact) | {"PMI_RANK": f"{rank}", "PMI_SIZE": "2"}
            )
            words = [sys.executable, tmp_path / "writer.py", tmp_path, f"{rank}", "2"]
            stack.callback(kill, subprocess.Popen(words, env=environment))
        with pytest.raises(StreamError, match="its ranks have folded all of them into one state"):
            analysis.wait(300)


def kill(process):
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def truth(program, tmp_path_factory):
    return mainjob.with_means_in_space(mainjob.oracle(program, tmp_path_factory.mktemp("oracle"), STEPS))


def run_config(folder, processes):
    operators = {"tas": ["mean", "std", "min", "max", "count"], "pr": ["mean", "max"], "ta": ["mean", "std", "count"]}
    operators |= mainjob.means_in_space(folder)
    return mainjob.write_config(
        folder, operators=operators, nodes={"capacity": "768KiB"}, raw="none", windows=["month", "run"],
        workers={"processes": processes, "batch_steps": 2}, fold={"on": "rank", "land_states_every": 9},
    )  # fmt: skip


@pytest.mark.parametrize("processes", [0, pytest.param(1, marks=pytest.mark.slow)], ids=["threads", "processes"])
def test_results_survive_killed_analyses_and_agents(program, tmp_path, truth, processes):
    process = mainjob.start_run(run_config(tmp_path, processes), mainjob.simulation(program, 2, STEPS))
    for count, victim in ((2, "bbflow fold"), (5, "bbflow node"), (9, "worker")):
        wait_for_folds(process, tmp_path / "out", count)
        analysis = find(process, "bbflow fold")
        if victim == "worker":
            (worker_of(analysis) if processes else analysis).kill()
        else:
            find(process, victim).kill()
    code, said = finish(process)
    assert code == 0, said
    mainjob.assert_equals_oracle(tmp_path / "out", truth)
    assert 0 in landed_bytes(tmp_path)


def test_a_rank_that_dies_takes_the_steps_with_it_that_have_not_landed(program, tmp_path, truth):
    command = mainjob.simulation(program, 2, STEPS, die_at_step=100)
    code, said = mainjob.run(run_config(tmp_path, 0), command)
    assert code not in (0, None), said
    assert 0 in landed_bytes(tmp_path)
    steps = int(xr.open_zarr(tmp_path / "out" / "results.zarr").steps_run.values[-1])
    assert 100 - 9 <= steps <= 100
    results = mainjob.assert_equals_oracle(tmp_path / "out", truth.isel(time=slice(steps)))
    assert results.attrs["bbflow_status"] == "incomplete"

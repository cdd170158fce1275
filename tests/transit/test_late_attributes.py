"""Attributes that a program defines after its first step, and weights that change: in the stores, or refused."""

import numpy as np
import pytest
import streams
import xarray as xr

from bbflow import connect, start_nodes
from bbflow.errors import ConfigError, StreamError
from bbflow.landing.client import status_of
from testsupport.processes import finish
from testsupport.waiting import until
from testsupport.writers import wait_for_file, write, write_config, writing

WRITER = """
io.define_attribute("time/units", "days since 2000-01-01")
io.define_attribute("a/b/_ARRAY_DIMENSIONS", ["x"])
io.define_attribute("late/comment", "its variable comes later")
when, one = io.define_variable("time", np.zeros(1)), io.define_variable("one", np.zeros(1))
names = ("a/b", "x", "w")
variables = {name: io.define_variable(name, np.empty(0), [3], [0], [3], True) for name in names}
late = io.define_variable("late", np.empty(0), [3], [0], [3], True)
engine = io.open("out", Mode.Write)
for step in range(4):
    engine.begin_step()
    engine.put(when, np.array([float(step)]), Mode.Sync)
    engine.put(one, np.array([2.0 * step]), Mode.Sync)
    engine.put(variables["a/b"], np.arange(3) + 10.0 * step, Mode.Sync)
    engine.put(variables["x"], np.arange(3.0), Mode.Sync)
    engine.put(variables["w"], np.arange(3.0) + (step >= MOVES), Mode.Sync)
    if step == 2:
        wait_for("told")
        for name, value in LATE.items():
            io.remove_attribute(name)
            io.define_attribute(name, value)
    if step >= 2:
        engine.put(late, np.arange(3.0), Mode.Sync)
    engine.end_step()
engine.close()
"""
NEVER = 99
DESCRIBED = {
    "a/b/units": "K", "a/b/long_name": "of a path", "one/units": "m", "x/axis": "X", "time/comment": "noon",
    "late/units": "s", "experiment": "late", "/basePath": "/data/", "of/none": 1,
}  # fmt: skip


def run(folder, attributes, *, first=None, moves=NEVER, holds=False, operators=None):
    """Fold and drain the steps; with `holds` the attributes come when the first two are folded."""
    before = "".join(f"io.define_attribute({name!r}, {value!r})\n" for name, value in (first or {}).items())
    code = before + WRITER.replace("LATE", repr(attributes)).replace("MOVES", str(moves))
    config = {
        "stream": "model", "output": str(folder / "out"), "windows": ["run", {"steps": 1}], "raw": "all",
        "operators": operators or {"a/b": ["mean", "var"], "one": ["mean"]},
        "workers": {"processes": 0, "threads": 1, "batch_steps": 1},
    }  # fmt: skip
    with start_nodes(1, "8MiB") as nodes, nodes.analyse(config) as analysis:
        if holds:
            with writing(nodes.contact, code, write_config(folder)) as process:
                until(lambda: folded_on(nodes.nodes[0]) == 1, "the first steps were never folded")
                (folder / "told").touch()
                process.wait(60)
        else:
            (folder / "told").touch()
            write(nodes.contact, code, write_config(folder))
        return analysis.wait(60)


def folded_on(node):
    """The last step that is folded and checkpointed there."""
    streams = status_of(node).streams
    return streams["model"].consumers.get("fold") if "model" in streams else None


@pytest.mark.parametrize("holds", [True, False])
def test_attributes_that_come_late_are_in_the_stores(tmp_path, holds):
    outcome = run(tmp_path, DESCRIBED, holds=holds)
    assert (outcome.complete, outcome.errors) == (True, ())
    with xr.open_zarr(tmp_path / "out/results.zarr") as results:
        for window in ("run", "steps1"):
            own = results[f"a_x2F_b_{window}_mean"]
            assert (own.units, own.long_name) == ("K", "mean of of a path")
            assert results[f"a_x2F_b_{window}_var"].units == "(K)2"
            assert results[f"one_{window}_mean"].units == "m"
        assert results.x.axis == "X"
        found = results.attrs
    with xr.open_zarr(tmp_path / "out/raw.zarr") as raw:
        assert (raw["a_x2F_b"].units, raw["a_x2F_b"].long_name) == ("K", "of a path")
        assert (raw.one.units, raw.x.axis, raw.time.comment, raw.late.units) == ("m", "X", "noon", "s")
        for attributes in (found, raw.attrs):
            assert (attributes["experiment"], attributes["/basePath"], attributes["of/none"]) == ("late", "/data/", 1)
            assert not {"a/b/units", "one/units", "late/units", "late/comment"} & set(attributes)


@pytest.mark.parametrize("late", [{"a/b/scale_factor": 10.0}, {"a/b/_FillValue": 10.0}])
@pytest.mark.parametrize("holds", [True, False])
def test_packing_that_comes_after_steps_that_need_it_is_refused(tmp_path, late, holds):
    with pytest.raises(ConfigError, match="comes with step 2, after steps that have a/b"):
        run(tmp_path, late, holds=holds)


WEIGHTED = {"m": {"of": "`a/b`", "space": {"mean": ["x"], "weights": "w"}, "operators": ["mean"]}}
WITH_ONE = {"a/b": {"operators": [{"covariance": {"with": "one"}}]}}


@pytest.mark.parametrize(
    ("first", "late", "operators"),
    [
        ({"a/b/scale_factor": 2.0}, {"a/b/scale_factor": 3.0}, None),
        ({"a/b/units": "K"}, {"a/b/units": "degC"}, None),
        ({"w/units": "m2"}, {"w/units": "km2"}, WEIGHTED),
        ({"w/_FillValue": 0.5}, {"w/_FillValue": 1.0}, WEIGHTED),
        ({"one/add_offset": 0.0}, {"one/add_offset": 1.0}, WITH_ONE),
    ],
)
def test_what_numbers_mean_may_not_change(tmp_path, first, late, operators):
    ((name, value),) = late.items()
    with pytest.raises(ConfigError, match=f"{name} is .*, but from step 2 on {value!r}"):
        run(tmp_path, late, first=first, operators=operators)


def test_what_is_not_folded_may_change_but_raw_steps_and_views_have_one_meaning(tmp_path):
    code = WRITER.replace("LATE", repr({"w/units": "km2"})).replace("MOVES", str(NEVER))
    (tmp_path / "told").touch()
    with start_nodes(1, "8MiB") as nodes:
        write(nodes.contact, 'io.define_attribute("w/units", "m2")' + code, write_config(tmp_path))
        with pytest.raises(StreamError, match="w/units is 'm2', but from step 2 on 'km2': open the steps of each"):
            xr.open_dataset(nodes.contact, engine="bbflow")
        xr.open_dataset(nodes.contact, engine="bbflow", drop_variables="w").close()
    outcome = run(tmp_path, {"w/units": "km2"}, first={"w/units": "m2"})
    assert outcome.errors == ("raw.zarr hasn't all: w: w/units is 'm2', but from step 2 on 'km2'",)
    assert not outcome.complete
    with xr.open_zarr(tmp_path / "out/raw.zarr") as raw:
        assert np.isnan(raw.w).all("w_dim0").values.tolist() == [False, False, True, True]


def test_a_weight_that_is_looked_for_in_vain_is_not_watched(tmp_path):
    attributes = {"y/_ARRAY_DIMENSIONS": ["lat"]}
    fields = {"y": np.ones((2, 3)), "lat": np.tile([-45.0, 0.0, 45.0], (2, 1))}
    streams.store(tmp_path, fields, [0.0, 1.0], attributes)
    operators = {"m": {"of": "y", "space": {"mean": ["lat"], "weights": "area"}, "operators": ["mean"]}}
    outcome, results = streams.analysed(tmp_path, {"operators": operators, "windows": ["run"]})
    assert (outcome.complete, outcome.errors) == (True, ())
    np.testing.assert_allclose(results.m_run_mean, 1.0)


@pytest.mark.parametrize(("moves", "changed"), [(NEVER, False), (2, True)])
def test_weights_that_change_are_said_and_the_results_are_not_complete(tmp_path, moves, changed):
    space = {"of": "`a/b`", "space": {"mean": ["x"], "weights": "w"}, "operators": ["mean"]}
    outcome = run(tmp_path, {}, moves=moves, operators={"m": space})
    assert outcome.complete != changed
    assert any("w changes with time" in line and "'space' of m" in line for line in outcome.errors) == changed
    with xr.open_zarr(tmp_path / "out/results.zarr") as results:
        np.testing.assert_allclose(results.m_run_mean, [15 + 5 / 3])
        assert results.attrs["bbflow_status"] == ("incomplete" if changed else "complete")
        assert results.attrs.get("bbflow_failure", "").startswith("w changes with time" if changed else "")
        assert ("bbflow_failure" in results.attrs) == changed


PARTS = """
part = io.define_variable("a", np.empty(0), [2], [rank], [1], True)
engine = io.open("out", Mode.Write)
for step in range(5):
    engine.begin_step()
    if rank == 0 and step == 3:
        tell("lost")
        wait_for("killed")
    engine.put(part, np.array([float(step)]), Mode.Sync)
    if rank == 0 and step == 2 and LATE:
        io.define_attribute("a/scale_factor", 10.0)
    engine.end_step()
tell("done") if rank == 0 else wait_for("done")
engine.close()
"""


@pytest.mark.parametrize("late", [True, False])
def test_what_only_a_lost_node_was_told_in_time_is_refused_if_it_came_late(faulty_nodes, tmp_path, late):
    """The node that takes over is told it with its first step, while the other rank's steps before lie there."""
    nodes = faulty_nodes(2, "8MiB")
    code = PARTS.replace("LATE", str(late))
    code = code if late else code.replace("engine = ", "io.define_attribute('a/scale_factor', 10.0)\nengine = ", 1)
    configs = [write_config(tmp_path, Rank=str(rank), Writers="2", NodeLossTimeoutSecs="0.5") for rank in range(2)]
    with (
        writing(nodes.contact, code, configs[0], rank=0, writers=2) as first,
        writing(nodes.contact, code, configs[1], rank=1, writers=2) as second,
    ):
        wait_for_file(tmp_path / "lost")
        nodes.kill("bb0")
        (tmp_path / "killed").touch()
        assert [finish(process)[0] for process in (first, second)] == [0, 0]
    config = {
        "stream": "model", "output": str(tmp_path / "out"), "windows": ["run"], "raw": "none",
        "operators": {"a": ["sum"]}, "time": {"start": "2000-01-01", "interval": "1d"}, "workers": {"processes": 0},
    }  # fmt: skip
    with connect(nodes.contact).analyse(config, lost=["bb0"]) as analysis:
        if late:
            with pytest.raises(ConfigError, match="a/scale_factor comes with step 2, after steps that have a"):
                analysis.wait(60)
        else:
            assert not analysis.wait(60).complete
    if not late:
        with xr.open_zarr(tmp_path / "out/results.zarr") as results:
            assert results.a_run_sum.values.tolist() == [[70.0, 100.0]]

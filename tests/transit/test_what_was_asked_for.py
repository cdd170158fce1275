"""What was asked for is in the results, or the run says that it isn't."""

import numpy as np
import pytest

from bbflow import start_nodes
from bbflow.errors import ConfigError, StreamError
from bbflow.view.consumers import Consumers
from testsupport.programs import part, run_program, write_program
from testsupport.writers import write, write_config

STEPS = 6
X = np.arange(12.0).reshape(4, 3)


def program(extra, steps=STEPS):
    """One rank's steps of a field that grows, with what else each has."""
    return [[[("x", X + step), *extra(step)] for step in range(steps)]]


def test_fields_that_the_first_step_lacks_cost_the_others_nothing(tmp_path):
    ran = run_program(
        tmp_path,
        program(lambda step: [("late", X)] if step else []),
        {
            "operators": {
                "x": ["mean"],
                "xx": ["max"],
                "late": ["max"],
                "row": {"of": "late", "space": {"isel": {"late_dim0": 0}}, "operators": ["mean"]},
            }
        },
    )
    np.testing.assert_allclose(ran.results.x_run_mean[0], X + 2.5)
    np.testing.assert_array_equal(ran.results.late_run_max[0], X)
    assert not ran.outcome.complete
    assert "'xx': in 0 of 6 steps only" in ran.told
    assert "'late': in 5 of 6 steps only" in ran.told
    assert "row: the first step, in which its points are found" in ran.told
    assert ran.results.bbflow_status == "incomplete"
    assert len(ran.results.bbflow_left_out) == 3
    assert not (tmp_path / "out" / ".fields").exists()  # what is kept of late fields is for the run alone


def test_a_first_step_without_any_field_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no variable 'y' in its first step"):
        run_program(tmp_path, program(lambda _: []), {"operators": {"y": ["mean"], "z": ["max"]}})


def test_a_stream_without_a_step_has_nothing_of_what_was_asked_for(tmp_path):
    ran = run_program(tmp_path, program(lambda _: [], steps=0), {"operators": {"x": ["mean"]}})
    assert not ran.outcome.complete
    assert "ended without a whole step" in ran.told


def some(step):
    return [("some", X + step)] if step % 2 == 0 else []


def test_a_field_that_some_steps_lack_makes_results_incomplete_unless_that_is_meant(tmp_path):
    for absent, complete in (("error", False), ("skip", True)):
        (tmp_path / absent).mkdir()
        operators = {"x": ["mean"], "some": {"operators": ["mean", "count"], "absent": absent}}
        ran = run_program(tmp_path / absent, program(some), {"operators": operators})
        np.testing.assert_array_equal(ran.results.some_run_mean[0], X + 2)
        assert ran.outcome.complete is complete
        assert ("'some': in 3 of 6 steps only" in ran.told) is not complete


def test_a_field_of_which_some_steps_have_other_points_makes_results_incomplete_unless_that_is_meant(tmp_path):
    """What no step has of a field has no values; blocks may move to other ranks."""
    ranks = [[[("land", part(X, 2, 0)), ("some", part(X + at, 2, 0)), MOVED[at % 2]] for at in range(STEPS)]]
    ranks += [[[*([("some", part(X + at, 2, 1))] if at % 2 == 0 else []), MOVED[1 - at % 2]] for at in range(STEPS)]]
    for absent, complete in (("error", False), ("skip", True)):
        (tmp_path / absent).mkdir()
        operators = {"land": ["mean"], "moved": ["mean"], "some": {"operators": ["mean"], "absent": absent}}
        ran = run_program(tmp_path / absent, ranks, {"operators": operators}, nodes=2)
        np.testing.assert_array_equal(ran.results.some_run_mean[0], np.vstack([X[:2] + 2.5, X[2:] + 2]))
        np.testing.assert_array_equal(ran.results.land_run_mean[0], np.vstack([X[:2], np.full((2, 3), np.nan)]))
        np.testing.assert_array_equal(ran.results.moved_run_mean[0], X)
        assert ran.outcome.complete is complete
        assert ("'some': in 3 of 6 steps ranks have written other points" in ran.told) is not complete
        assert "land" not in ran.told
        assert "moved" not in ran.told


MOVED = [("moved", part(X, 2, at)) for at in range(2)]


class KilledError(Exception):
    """Stands for a signal."""


@pytest.mark.parametrize("hole", [None, 1, 2, 5])
@pytest.mark.parametrize("told", [0, 1])
def test_an_analysis_that_dies_between_two_nodes_knows_which_points_steps_had(tmp_path, monkeypatch, told, hole):
    """The node that was told first doesn't show its parts of the steps before any more."""
    ranks = [[[("one", X), ("both", part(X, 2, 0))] for at in range(STEPS)]]
    ranks += [[[("other", X), *([("both", part(X, 2, 1))] if at != hole else [])] for at in range(STEPS)]]
    config = {"operators": {"one": ["mean"], "other": ["max"], "both": ["mean"]}, "windows": ["run"], "raw": "none"}
    config |= {"stream": "model", "time": "steps", "output": str(tmp_path / "out")}
    config |= {"workers": {"processes": 0, "threads": 1, "batch_steps": 2}}
    commit = Consumers.commit

    def killed(self, consumer, step, nodes, *more):
        commit(self, consumer, step, sorted(nodes)[told : told + 1], *more)
        raise KilledError

    with start_nodes(2, "16MiB") as buffer:
        write_program(tmp_path, ranks, buffer.contact)
        for _ in range(2):
            with monkeypatch.context() as patch:
                patch.setattr(Consumers, "commit", killed)
                with buffer.analyse(config) as analysis, pytest.raises(KilledError):
                    analysis.wait(100)
        with buffer.analyse(config) as analysis:
            outcome = analysis.wait(100)
    lines = [] if hole is None else ["'both': in 1 of 6 steps ranks have written other points than at first"]
    assert [line.split(",")[0] for line in outcome.errors] == lines
    assert outcome.complete is (hole is None)


def test_a_folded_field_that_changes_its_type_is_refused(tmp_path):
    """The analysis ended of an error that nobody foresaw, twice."""
    code = """
engine = io.open("out", Mode.Write)
for kind in ("f4", "f4", "f8"):
    x = io.define_variable("x", np.empty(0, kind), [3], [0], [3], True)
    engine.begin_step()
    engine.put(x, np.zeros(3, kind), Mode.Sync)
    engine.end_step()
    io.remove_variable("x")
engine.close()
"""
    config = {"stream": "model", "output": str(tmp_path / "out"), "time": "steps", "operators": {"x": ["mean"]}}
    with start_nodes(1, "1MiB") as nodes, nodes.analyse(config | {"windows": ["run"]}) as analysis:
        write(nodes.contact, code, write_config(tmp_path))
        with pytest.raises(StreamError, match="x has type double in step 2, but was float"):
            analysis.wait(100)


@pytest.mark.parametrize("name", ["p", "other"])
def test_a_surface_pressure_that_does_not_lie_as_its_field_is_refused(tmp_path, name):
    t, p = np.ones((4, 6, 4)), np.full((4, 6, 4), 1e5)
    level = [("a", np.zeros(4)), ("b", np.linspace(0.1, 1, 4))]
    ranks = [
        [
            [
                *(level if rank == 0 else []),
                ("t", part(t, 2, rank, 1)),
                ("p", part(p, 2, rank, 1)),
                ("other", part(p[0], 2, rank, axis=1)),
            ]
        ]
        * 3
        for rank in range(2)
    ]
    space = {"levels": {"to": [85000], "pressure": {"a": "a", "b": "b", "surface": name}}}
    attributes = {
        "t/_ARRAY_DIMENSIONS": ["lev", "lat", "lon"],
        "a/_ARRAY_DIMENSIONS": ["lev"],
        "b/_ARRAY_DIMENSIONS": ["lev"],
    }
    attributes |= {"p/_ARRAY_DIMENSIONS": ["lev", "lat", "lon"], "other/_ARRAY_DIMENSIONS": ["lat", "lon"]}
    with pytest.raises(ConfigError, match=f"{name} has none there.*surface pressure"):
        run_program(
            tmp_path, ranks, {"operators": {"y": {"of": "t", "space": space, "operators": ["mean"]}}}, attributes
        )

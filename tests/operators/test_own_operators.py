import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import cuts, folded, layout_of, merged

from bbflow.configuring.config import load_config
from bbflow.errors import ConfigError, OperatorError
from bbflow.operators import StateLayout, fold_steps, parse_operators
from bbflow.operators.own import isolation
from bbflow.operators.own.guard import collecting, error_of
from bbflow.operators.own.isolation import Child
from bbflow.operators.own.origin import Origin
from testsupport.processes import kill, started, words_of

GUIDE = Path(__file__).parents[2] / "docs" / "own-operators.md"

EXAMPLES = '''
import os
from dataclasses import dataclass
import numpy as np
from bbflow.operators.family import Family, StateField
from bbflow.operators.operator import Axis, Operator, OperatorKind
from bbflow.operators.statistics.basic import MEAN, mean


class Sum:
    """Sum of the valid values."""
    def map(values, valid, times): return {"sum": np.where(valid, values, 0).sum(0, dtype="f8")}
    def combine(left, right): return {"sum": left["sum"] + right["sum"]}
    def finalize(state): return state["sum"]


class Raising(Sum):
    def map(values, valid, times, limit=5):
        if (values > limit).any():
            raise ValueError("too hot")
        return Sum.map(values, valid, times)


class Aborting(Sum):
    def map(values, valid, times):
        if (values > 5).any():
            os.abort()
        return Sum.map(values, valid, times)


class Shapeless(Sum):
    def map(values, valid, times): return {"sum": values.sum(0)[:2]}


class Late(Sum):
    def map(values, valid, times):
        found = Sum.map(values, valid, times)
        return found if (values < 5).all() else {"sum": found["sum"][:1]}


class Unmergeable(Sum):
    def combine(left, right): raise KeyError("sum")


class Endless(Sum):
    def finalize(state): raise SystemExit(3)


class Narrow(Sum):
    def finalize(state): return state["sum"][:1]


class Longest(Sum):
    """The steps that were handed over at once."""
    def map(values, valid, times):
        return {"most": np.full(values.shape[1], len(values)), "spread": np.ptp(values, axis=0), "n": valid.sum(0),
                "first": np.full(values.shape[1], times[0])}
    def combine(left, right):
        return {"most": np.maximum(left["most"], right["most"]), "spread": left["spread"] + right["spread"],
                "n": left["n"] + right["n"], "first": np.minimum(left["first"], right["first"])}
    def finalize(state): return state["spread"] + 1000 * state["n"]


class Both(Sum):
    axis = Axis("side", (0.0, 1.0))
    def map(values, valid, times): return {"both": np.stack([values.min(0), values.max(0)])}
    def combine(left, right): return {"both": np.stack([np.minimum(left["both"][0], right["both"][0]),
                                                        np.maximum(left["both"][1], right["both"][1])])}
    def finalize(state): return state["both"]


class NoFunctions:
    pass


class Listed:
    @staticmethod
    def map(values, valid, times, q=[1, 2]):
        return {"n": valid.sum(axis=0)}

    @staticmethod
    def combine(left, right):
        return {"n": left["n"] + right["n"]}

    @staticmethod
    def finalize(state):
        return state["n"] * 1.0


@dataclass(frozen=True)
class Last(Family):
    """The last value, scaled."""
    scale: float = 1.0
    commutes = False
    name = "last"
    def fields(self, dtype): return (StateField("last", None), StateField("any", "?"))
    def clear(self, views):
        for values in views.values():
            values[...] = 0
    def fold(self, views, steps):
        views["last"][...] = steps.values[-1]
        views["any"][...] = True
    def combine(self, left, right):
        return {"last": np.where(right["any"], right["last"], left["last"]), "any": left["any"] | right["any"]}
    def finalize(self, views): return views["last"] * self.scale


def doubled(views): return 2 * mean(views)
def broken(views): raise RuntimeError("no")


TWICE = OperatorKind("twice", "twice the mean", lambda: (
    Operator("twice", MEAN, doubled, "mean", "twice the mean"),
    Operator("last", Last(), Last().finalize, "point", "last")), {}, "twice")
MEAN_BROKEN = OperatorKind("mb", "", lambda: (Operator("mb", MEAN, broken, "mean", ""),), {}, "mb")
BROKEN = OperatorKind("broken", "", lambda: (Operator("broken", Last(), broken, "point", ""),), {}, "broken")
LAMBDA = OperatorKind("l", "", lambda: (Operator("l", Last(), lambda views: 0, "point", ""),), {}, "l")
'''


@pytest.fixture(scope="module", autouse=True)
def modules(tmp_path_factory):
    """The guide's module, and the examples, where a configuration would have them."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "hot.py").write_text(GUIDE.read_text().split("```python\n")[1].split("```")[0])
    (folder / "examples.py").write_text(EXAMPLES)
    operators = GUIDE.read_text().split("```yaml\n")[1].split("```")[0]
    (folder / "config.yml").write_text("stream: model\n" + operators)
    before = list(sys.path)
    load_config(folder / "config.yml")
    yield folder
    sys.path[:] = before


@pytest.fixture
def batch():
    """Values of four steps and five points; point 1 gets above 5."""
    values = np.arange(20, dtype="f4").reshape(4, 5) % 4
    values[2, 1] = 9
    return values


def result(operator, layout, state):
    return operator.finalize(layout, state)


def test_the_guides_operator_is_a_file_of_less_than_30_lines(modules):
    assert len((modules / "hot.py").read_text().splitlines()) < 30


def test_the_configuration_of_the_guide_finds_it_beside_itself(modules):
    mean, share, very_hot = load_config(modules / "config.yml").diagnostics["tas"].operators
    assert (share.name, very_hot.name, share.units("K")) == ("Share", "very_hot", "1")
    values = np.array([[300, 310], [305, 309], [306, np.nan]], "f4")
    layout = layout_of([mean, share, very_hot], values)
    state = folded(layout, values)
    np.testing.assert_array_equal(result(share, layout, state), [2 / 3, 1])
    np.testing.assert_array_equal(result(very_hot, layout, state), [0, 1])


def test_all_operators_of_the_guide_are_valid():
    blocks = [part.split("```")[0] for part in GUIDE.read_text().split("```yaml\n")[1:]]
    assert [len(parse_operators(yaml.safe_load(text)["operators"]["tas"])) for text in blocks] == [3, 1]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_it_gives_the_same_for_any_cut_and_any_merge(data):
    steps, points = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 6))
    values = np.random.default_rng(steps).normal(303, 3, (steps, points)).astype("f4")
    values[data.draw(st.integers(0, steps - 1))] = data.draw(st.sampled_from([np.nan, 300, 310]))
    operators = parse_operators(["hot:Share", {"examples:Sum": {"skipna": False}}, "examples:Last", "examples:Both"])
    layout = layout_of(operators, values)
    states = [folded(layout, values[part], first=part.start) for part in data.draw(cuts(steps))]
    state = merged(data, layout, states)
    share, total, last, both = (result(operator, layout, state) for operator in operators)
    valid = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(share, (values > 303.15).sum(0) / valid.sum(0))
    np.testing.assert_allclose(total, values.sum(0, dtype="f8"), rtol=1e-12)
    np.testing.assert_array_equal(last, values[-1])
    np.testing.assert_array_equal(both, [values.min(0), values.max(0)])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_groups_depend_neither_on_batches_nor_on_merges_nor_on_missing_steps(data):
    length = data.draw(st.integers(1, 4))
    numbers = np.array(sorted(data.draw(st.sets(st.integers(0, 14), min_size=1))))
    values = np.random.default_rng(length).integers(0, 50, (len(numbers), 3)).astype("f4")
    values[0, 1] = -1  # the fill value
    (operator,) = parse_operators([{"examples:Longest": {"group": length}}])
    layout = layout_of([operator], values)
    states = []
    for part in data.draw(cuts(len(numbers))):
        state = bytearray(layout.nbytes)
        fold_steps(layout, None, state, [], steps=[])
        middle = (part.start + part.stop) // 2
        for some in (slice(part.start, middle), slice(middle, part.stop)):
            fold_steps(layout, state, state, list(values[some]), -1, steps=numbers[some])
        states.append(state)
    found = result(operator, layout, merged(data, layout, states))
    groups = [values[numbers // length == number] for number in sorted(set(numbers // length))]
    expected = sum(np.ptp(group, axis=0) for group in groups) + 1000 * (values != -1).sum(0)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Raising", r"examples:Raising failed: ValueError: too hot \(examples.py, line \d+\)"),
        ("Shapeless", "map gave 'sum' of shape .* the last axis must be the points"),
        ("Late", r"map gave 'sum' of shape \(1,\), not \(5,\)"),
    ],
)
def test_what_fails_in_the_fold_is_the_operators_own_error(batch, name, message, isolated):
    mean, bad = parse_operators(["mean", {f"examples:{name}": {"isolated": isolated}}])
    layout = layout_of([mean, bad], batch)
    state = bytearray(layout.nbytes)
    with collecting() as errors:
        fold_steps(layout, None, state, list(batch))
        assert np.isnan(result(bad, layout, state)).all()
    np.testing.assert_allclose(result(mean, layout, state), batch.mean(0))
    assert error_of(mean, errors) is None
    assert re.search(message, error_of(bad, errors))


@pytest.mark.parametrize("name", ["Unmergeable", "Endless", "Narrow"])
def test_what_fails_in_a_merge_or_at_the_end_is_too(batch, name):
    mean, bad = parse_operators(["mean", f"examples:{name}"])
    layout = layout_of([mean, bad], batch)
    with collecting() as errors:
        parts = folded(layout, batch[:2]), folded(layout, batch[2:], first=2)
        layout.combine(*parts, parts[0])
        assert np.isnan(result(bad, layout, parts[0])).all()
    np.testing.assert_allclose(result(mean, layout, parts[0]), batch.mean(0))
    assert "examples:" + name in error_of(bad, errors)


def test_a_crash_is_told_with_its_signal_and_hurts_nobody(batch):
    mean, bad = parse_operators(["mean", {"examples:Aborting": {"isolated": True}}])
    layout = layout_of([mean, bad], batch)
    with collecting() as errors:
        state = folded(layout, batch)
    assert "its process was killed by SIGABRT" in error_of(bad, errors)
    np.testing.assert_allclose(result(mean, layout, state), batch.mean(0))
    assert np.isnan(result(bad, layout, state)).all()


def test_a_process_that_died_between_two_calls_is_told_and_can_be_closed(modules):
    child, process = started(lambda: Child(Origin("examples", "Sum", str(modules))))
    kill(process)
    with pytest.raises(OperatorError, match="SIGKILL"):
        child.call(b"work that it can't take in any more")
    child.close()


def test_a_process_of_users_code_ends_with_the_last_analysis_that_uses_it(batch):
    def own():
        return [child for child in psutil.Process().children() if "bbflow.operators.own.isolated" in words_of(child)]

    (total,) = parse_operators([{"examples:Sum": {"isolated": True}}])
    layout, descriptors = layout_of([total], batch), len(os.listdir("/proc/self/fd"))
    isolation.close_all()
    with isolation.in_use():
        with isolation.in_use():
            folded(layout, batch)
        assert len(own()) == 1
        np.testing.assert_allclose(result(total, layout, folded(layout, batch)), batch.sum(0))
    assert own() == []
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def test_operators_can_be_isolated_when_a_worker_has_died_and_keep_their_state(batch):
    operators = parse_operators(["mean", "examples:Aborting", "examples:Last"])
    layout = layout_of(operators, batch)
    state = folded(layout, batch[:2])  # harmless so far
    apart = [operator.isolated() for operator in operators]
    again = layout_of(apart, batch)
    assert again.signature == layout.signature
    with collecting() as errors:
        fold_steps(again, state, state, list(batch[2:]), steps=[2, 3])
        mean, bad, last = (result(operator, again, state) for operator in apart)
    assert [error_of(operator, errors) is None for operator in apart] == [True, False, True]
    assert "SIGABRT" in error_of(apart[1], errors)
    np.testing.assert_allclose(mean, batch.mean(0))
    np.testing.assert_array_equal(last, batch[-1])
    assert np.isnan(bad).all()


def test_a_failed_operator_stays_switched_off_and_its_mark_stays_in_every_merge(batch):
    (bad,) = parse_operators(["examples:Raising"])
    layout = layout_of([bad], batch)
    with collecting() as errors:
        failed = folded(layout, batch)
    with collecting(errors) as again:
        later = folded(layout, batch[:2])
    assert again == errors
    fine = folded(layout, batch[:2])
    for state in (failed, later):
        target = bytearray(layout.nbytes)
        layout.combine(state, fine, target)
        assert np.isnan(result(bad, layout, target)).all()
    assert np.isfinite(result(bad, layout, fine)).all()


def test_without_anyone_to_collect_an_error_is_raised(batch):
    (bad,) = parse_operators(["examples:Raising"])
    with pytest.raises(OperatorError, match="too hot"):
        folded(layout_of([bad], batch), batch)


def test_an_isolated_operator_gives_the_same(batch):
    plain, apart = parse_operators(["examples:Sum", {"examples:Sum": {"isolated": True, "name": "apart"}}])
    for operators in ([plain], [apart]):
        layout = layout_of(operators, batch)
        parts = folded(layout, batch[:1]), folded(layout, batch[1:], first=1)
        layout.combine(*parts, parts[0])
        np.testing.assert_allclose(result(operators[0], layout, parts[0]), batch.sum(0))


def test_a_worker_finds_the_module_without_any_setting(modules, batch, tmp_path):
    operators = parse_operators(["examples:TWICE", "examples:Both", "hot:Share"])
    layout = layout_of(operators, batch)
    (tmp_path / "work").write_bytes(pickle.dumps((layout, operators, batch)))
    code = """
import pickle, sys
from bbflow.operators import fold_steps
layout, operators, batch = pickle.load(open(sys.argv[1], "rb"))
state = bytearray(layout.nbytes)
fold_steps(layout, None, state, list(batch))
print([operator.finalize(layout, state).tolist() for operator in operators])
"""
    said = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "work"], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    state = folded(layout, batch)
    assert yaml.safe_load(said.stdout) == [result(operator, layout, state).tolist() for operator in operators]


def test_a_kind_makes_several_operators_and_shares_built_in_state(batch):
    mean, twice, last = parse_operators(["mean", "examples:TWICE"])
    layout = StateLayout.of([mean, twice, last], dtype=batch.dtype, points=5)
    state = folded(layout, batch)
    np.testing.assert_allclose(result(twice, layout, state), 2 * batch.mean(0, dtype="f8"))
    np.testing.assert_array_equal(result(last, layout, state), batch[-1])
    assert {family.name for family in layout.families} >= {"moments"}


@pytest.mark.parametrize("name", ["BROKEN", "MEAN_BROKEN"])
def test_a_formula_that_fails_hurts_nobody_even_on_built_in_state(batch, name):
    mean, broken = parse_operators(["mean", "examples:" + name])
    layout = layout_of([mean, broken], batch)
    with collecting() as errors:
        state = folded(layout, batch)
        assert np.isnan(result(broken, layout, state)).all()
    assert "RuntimeError: no" in error_of(broken, errors)
    np.testing.assert_allclose(result(mean, layout, state), batch.mean(0))


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("hot:Shares", "can't load hot:Shares"),
        ("nowhere:Share", "ModuleNotFoundError.*beside the configuration file"),
        ("hot:", "not of the form module:name"),
        ("examples:NoFunctions", "must have the functions map, combine, finalize"),
        ({"hot:Share": {"limit": "hot"}}, "limit: 'hot' is not a finite number"),
        ({"hot:Share": {"limits": 3}}, "did you mean 'limit'"),
        ({"hot:Share": {"group": 0}}, "not a whole number from 1"),
        ("examples:LAMBDA", "can't be sent to workers"),
        ("examples:Listed", "its parameter 'q' is .* by default, which may change"),
    ],
)
def test_what_is_wrong_is_told_before_anything_starts(item, message):
    with pytest.raises(ConfigError, match=message):
        parse_operators([item])

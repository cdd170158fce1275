from itertools import groupby

import numpy as np
import pytest
from cases import DTYPES, batches, cdo, merged_results, result_of, valid_of
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import folded, layout_of

from bbflow.errors import ConfigError
from bbflow.operators import parse_operators

DRY = {"below": 1.0}


def runs_of(met):
    """Lengths of the runs of true, in order."""
    return [len(list(group)) for true, group in groupby(met) if true]


def expected(met, at_least):
    """By Python's groupby, point by point."""
    runs = [runs_of(column) for column in met.T]
    long = [[run for run in of_point if run >= at_least] for of_point in runs]
    return {
        "longest_spell": [max(of_point, default=0) for of_point in runs],
        "spell_count": [len(of_point) for of_point in long],
        "spell_steps": [sum(of_point) for of_point in long],
    }


def operators(limits, at_least):
    counted = limits | {"at_least": at_least}
    return parse_operators([{"longest_spell": limits}, {"spell_count": counted}, {"spell_steps": counted}])


@given(batches(size=2), st.integers(1, 5), st.data())
@settings(deadline=None, max_examples=300)
def test_any_split_and_any_tree_of_merges_gives_the_runs_of_the_whole(case, at_least, data):
    values, fill, times = case
    results = merged_results(data, operators(DRY, at_least), values, fill, times)
    met = (values < 1) & valid_of(values, fill)
    for name, reference in expected(met, at_least).items():
        np.testing.assert_array_equal(results[name], reference, err_msg=name)
        assert results[name].dtype == "i4"


def test_long_series_over_many_batches_give_the_runs_of_the_whole():
    random = np.random.default_rng(0)
    values = (random.random((400, 700)) < random.random(700)).astype("f4")
    values[random.random(values.shape) < 0.02] = np.nan
    chosen = operators({"above": 1, "inclusive": True}, 4)
    layout = layout_of(chosen, values)
    states = [folded(layout, part) for part in np.array_split(values, 13)]
    for state in states[1:]:
        layout.combine(states[0], state, states[0])
    for operator in chosen:
        reference = expected(values == 1, 4)[operator.name]
        np.testing.assert_array_equal(operator.finalize(layout, states[0]), reference)


def test_the_order_of_merges_counts():
    layout = layout_of(operators(DRY, 2), np.zeros((1, 1)))
    assert not layout.commutes
    assert layout_of(parse_operators(["mean"]), np.zeros((1, 1))).commutes


def test_a_run_goes_on_from_one_batch_to_the_next():
    values = np.array([[2, 0, 0, 0, 0, 2]], "f4").T
    layout = layout_of(operators(DRY, 4), values)
    left, right = folded(layout, values[:3]), folded(layout, values[3:])
    layout.combine(left, right, left)
    assert [item.finalize(layout, left)[0] for item in operators(DRY, 4)] == [4, 1, 4]


def test_a_missing_value_ends_a_run():
    values = np.array([[0, 0, np.nan, 0, 99, 0, 0, 0]], "f8").T
    results = {name: result_of({name: {"below": 1, "at_least": 2}}, values, 99)[0] for name in ("spell_count",)}
    assert results == {"spell_count": 2}
    assert result_of({"longest_spell": {"below": 1}}, values, 99)[0] == 3


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_point_without_a_valid_value_has_no_run(dtype):
    for values in (np.full((3, 4), 99, dtype), np.empty((0, 4), dtype)):
        for item in ({"longest_spell": {"above": 1}}, {"spell_count": {"above": 1, "at_least": 1}}):
            assert not result_of(item, values, 99).any()


@pytest.fixture
def rain():
    """Three years of days in mm; some are missing."""
    random = np.random.default_rng(5)
    values = np.where(random.random((900, 60)) < 0.7, 0.2, random.exponential(9, (900, 60)))
    values[random.random(values.shape) < 0.01] = np.nan
    return values.astype("f4")


def named(fields, part):
    return next(values[-1] for name, values in fields.items() if part in name)


@pytest.mark.parametrize(
    ("command", "limits", "name"),
    [("eca_cdd", {"below": 1}, "dry_days"), ("eca_cwd", {"above": 1, "inclusive": True}, "wet_days")],
)
def test_dry_and_wet_spells_are_those_of_cdo(tmp_path, rain, command, limits, name):
    (fields,) = cdo(tmp_path, f"{command},1,5", rain)
    np.testing.assert_array_equal(result_of({"longest_spell": limits}, rain), named(fields, f"{name}_index"))
    longer_than_5 = {"spell_count": limits | {"at_least": 6}}
    np.testing.assert_array_equal(result_of(longer_than_5, rain), named(fields, "number_of"))


def test_the_longest_spell_is_the_maximum_of_cdos_consecsum(tmp_path, rain):
    (fields,) = cdo(tmp_path, "-timmax -consecsum -ltc,1", rain)
    np.testing.assert_array_equal(result_of({"longest_spell": DRY}, rain), fields["pr"][0])


def test_steps_in_long_spells_are_the_sum_of_cdos_consects(tmp_path, rain):
    (fields,) = cdo(tmp_path, "-timsum -setrtomiss,0,4.5 -consects -ltc,1", rain)
    np.testing.assert_array_equal(
        result_of({"spell_steps": DRY | {"at_least": 5}}, rain), np.nan_to_num(fields["pr"][0])
    )


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("longest_spell", "give it 'above', 'below' or both"),
        ({"longest_spell": {"below": 1, "at_least": 2}}, "unknown parameter 'at_least'"),
        ({"spell_count": {"below": 1}}, "needs 'at_least'"),
        ({"spell_steps": {"below": 1, "at_least": 0}}, "not a whole number from 1"),
    ],
)
def test_wrong_parameters_are_named(item, message):
    with pytest.raises(ConfigError, match=message):
        parse_operators([item])

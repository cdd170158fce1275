import numpy as np
import pytest
from cases import DTYPES, batches, masked, merged_results
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from laws import folded, layout_of

from bbflow.errors import ConfigError
from bbflow.operators import parse_operators
from bbflow.operators.steps import Steps

EDGES = ((-9.0, -1.0, 0.0, 4.0), (0.0, 2.0, 5.0))
BOTH = parse_operators([{"joint_histogram": {"with": "psl", "edges": [list(own) for own in EDGES]}}])


@given(batches(), st.sampled_from(DTYPES), st.data())
@settings(deadline=None, max_examples=100)
def test_any_split_and_any_order_of_merges_gives_the_counts_of_numpy(case, other_type, data):
    values, fill, times = case
    other = data.draw(arrays(other_type, values.shape, elements=st.integers(0, 9)))
    if other_type.kind == "f":
        other[other == 7] = np.nan
    results = merged_results(data, BOTH, values, fill, times, lambda part: {"psl": Steps(list(other[part]))})
    assert results["joint_histogram"].shape == (3, 2, values.shape[1])
    first, second = masked(values, fill), masked(other, None)
    for point in range(values.shape[1]):
        pairs = first[:, point], second[:, point]
        there = ~np.isnan(pairs[0]) & ~np.isnan(pairs[1])
        expected = np.histogram2d(pairs[0][there], pairs[1][there], EDGES)[0]
        np.testing.assert_array_equal(results["joint_histogram"][..., point], expected)
        assert results["joint_histogram_outside"][point] == there.sum() - expected.sum()


def test_even_bins_are_numpys():
    random = np.random.default_rng(0)
    first, second = random.normal(280, 10, (2, 100, 3))
    second[:5] = np.inf
    item = {"joint_histogram": {"with": "psl", "bins": [4, 6], "range": [[250, 310], [260, 300]]}}
    operators = operator, outside = parse_operators([item])
    layout = layout_of(operators, first)
    state = folded(layout, first, others={"psl": Steps(list(second))})
    expected = [np.histogram2d(first[5:, at], second[5:, at], (4, 6), ((250, 310), (260, 300)))[0] for at in range(3)]
    np.testing.assert_array_equal(operator.finalize(layout, state), np.moveaxis(expected, 0, -1))
    np.testing.assert_array_equal(outside.finalize(layout, state), 100 - np.sum(expected, axis=(1, 2)))
    assert [axis.name for axis in operator.axes] == ["bin", "other_bin"]
    assert outside.axes == ()


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({}, "either by 'edges'"), ({"bins": [2, 2]}, "either by 'edges'"), ({"edges": [[0, 1]]}, "must be two"),
        ({"edges": [[0, 1], [1, 0]]}, "greater than"), ({"edges": [[0, 1], [0, 1]], "bins": [1, 1]}, "leave out"),
        ({"bins": [200, 200], "range": [[0, 1], [0, 1]]}, "more than 10000"),
        ({"bins": [2, 2], "range": [[1, 0], [0, 1]]}, "isn't a range"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(said, message):
    with pytest.raises(ConfigError, match=message):
        parse_operators([{"joint_histogram": {"with": "psl", **said}}])

import numpy as np
from cases import batches, merged_results, valid_of
from hypothesis import given, settings
from hypothesis import strategies as st

from bbflow.operators import StateLayout, fold_steps, parse_operators


def first(met, at_least, since=0):
    """Where the first run of so many begins; None if there is none."""
    return next((at for at in range(since, len(met) - at_least + 1) if met[at : at + at_least].all()), None)


def length_of(above, below, at_least):
    begin = first(above, at_least)
    if begin is None:
        return 0
    end = first(below, at_least, begin)
    return (len(above) if end is None else end) - begin


def test_a_cold_run_before_the_season_does_not_hide_the_one_that_ends_it():
    values = np.array([-1, -1, 0, 1, 1, -1, 1, -1, -1, 1], "f8")
    (operator,) = parse_operators([{"season_length": {"at_least": 2}}])
    layout = StateLayout.of([operator], dtype=values.dtype, points=1)
    state = bytearray(layout.nbytes)
    fold_steps(layout, None, state, [*values[:, np.newaxis]])
    assert operator.finalize(layout, state) == [4]


@given(batches(size=3), st.integers(1, 4), st.data())
@settings(deadline=None, max_examples=200)
def test_any_split_and_any_tree_of_merges_gives_the_season_of_the_whole(case, at_least, data):
    values, fill, times = case
    results = merged_results(data, parse_operators([{"season_length": {"at_least": at_least}}]), values, fill, times)
    valid = valid_of(values, fill)
    columns = zip(((values > 0) & valid).T, ((values < 0) & valid).T, strict=True)
    expected = [length_of(above, below, at_least) for above, below in columns]
    np.testing.assert_array_equal(results["season_length"], expected)

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bbflow.errors import ConfigError
from bbflow.operators import Filter, StateLayout, fold_steps, parse_operators

DTYPES = [np.dtype(name) for name in ("f4", "f8", "i1", "i8", "u1", "u8")]
LIMITS = st.none() | st.floats(-300, 300) | st.sampled_from([0.0, 0.1, 1e300, -1e300, 127, 2**63])


@st.composite
def cases(draw):
    dtype = draw(st.sampled_from(DTYPES))
    if dtype.kind == "f":
        elements = st.floats(-300, 300, width=32) | st.sampled_from([np.nan, np.inf, -np.inf])
    else:
        elements = st.integers(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) | st.integers(0, 9)
    values = draw(arrays(dtype, (draw(st.integers(1, 11)), draw(st.integers(1, 30))), elements=elements))
    above, below = draw(LIMITS), draw(LIMITS)
    if above is not None and below is not None and above >= below:
        below = None
    if above is None and below is None:
        above = 1.5
    return values, Filter("kept", above, below), draw(st.sampled_from([None, 0, 3]))


def expected(values, item, fill):
    """Compare in Python, whose numbers compare exactly whatever their types are."""
    rows = []
    for step, block in enumerate(values):
        for index, value in enumerate(block.tolist()):
            above = item.above is None or value > item.above
            below = item.below is None or value < item.below
            if above and below and value == value and (fill is None or value != fill):
                rows.append((value, step + 100, index))
    return rows


@given(cases())
@settings(deadline=None, max_examples=300)
def test_a_filter_keeps_exactly_what_is_between_its_limits(case):
    values, item, fill = case
    layout = StateLayout.of((), dtype=values.dtype, points=values.shape[1])
    steps = range(100, 100 + len(values))
    rows = fold_steps(layout, None, bytearray(), list(values), fill, filters=(item,), steps=steps)["kept"]
    assert rows.dtype["value"] == values.dtype
    assert rows.tolist() == expected(values, item, fill)


@given(cases(), st.booleans())
@settings(deadline=None, max_examples=200)
def test_filtering_while_folding_gives_the_same_rows(case, knows_extremes):
    values, item, fill = case
    layout = StateLayout.of(parse_operators(["mean", "max"]), dtype=values.dtype, points=values.shape[1])
    low, high = (float("-inf"), float("inf")) if values.dtype.kind == "f" else (0, 0)
    extremes = [
        (np.nanmin(block, initial=high).item(), np.nanmax(block, initial=low).item()) for block in values
    ]  # fmt: skip
    steps = range(100, 100 + len(values))
    rows = fold_steps(
        layout, None, bytearray(layout.nbytes), list(values), fill,
        filters=(item, Filter("all", above=-1e308)), steps=steps,
        extremes=extremes if knows_extremes else None,
    )  # fmt: skip
    assert rows["kept"].tolist() == expected(values, item, fill)
    assert rows["all"].tolist() == expected(values, Filter("all", above=-1e308), fill)


def test_rows_of_many_tiles_are_in_the_order_of_numpy_where():
    values = np.random.default_rng(0).normal(300, 10, (9, 10_000)).astype("f4")
    layout = StateLayout.of((), dtype=values.dtype, points=10_000)
    rows = fold_steps(layout, None, bytearray(), list(values), filters=(Filter("hot", above=310.1),))["hot"]
    steps, indices = np.where(values.astype("f8") > 310.1)
    np.testing.assert_array_equal(rows["step"], steps)
    np.testing.assert_array_equal(rows["index"], indices)
    np.testing.assert_array_equal(rows["value"], values[steps, indices])


def test_blocks_whose_extremes_rule_them_out_are_not_searched():
    layout = StateLayout.of((), dtype=np.dtype("f4"), points=4)
    blocks = [np.full(4, 5, "f4")] * 2
    rows = fold_steps(layout, None, bytearray(), blocks, filters=(Filter("big", above=4),), extremes=[(0, 4), None])
    assert rows["big"]["step"].tolist() == [1] * 4


def test_a_filter_can_pass_only_what_its_limits_leave_open():
    assert not Filter("hot", above=310).can_pass(250, 310)
    assert Filter("hot", above=310).can_pass(250, 310.1)
    assert not Filter("cold", below=200).can_pass(200, 250)
    assert Filter("mild", above=280, below=290).can_pass(250, 310)
    assert not Filter("mild", above=280, below=290).can_pass(float("inf"), float("-inf"))


def test_no_steps_give_no_rows():
    layout = StateLayout.of((), dtype=np.dtype("i4"), points=4)
    rows = fold_steps(layout, None, bytearray(), [], filters=(Filter("big", above=4),))
    assert rows["big"].shape == (0,)
    assert rows["big"].dtype["value"] == "i4"


@pytest.mark.parametrize("limits", [{}, {"above": 3, "below": 3}])
def test_a_filter_that_keeps_all_or_nothing_is_refused(limits):
    with pytest.raises(ConfigError, match="keeps"):
        Filter("odd", **limits)

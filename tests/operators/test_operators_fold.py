import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bbflow.errors import BbflowError
from bbflow.operators import StateLayout, fold_steps, parse_operators
from bbflow.operators.statistics import basic

DTYPES = [np.dtype(name) for name in ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")]
NAMES = [kind.name for kind in basic.KINDS]
ALL = parse_operators(NAMES)


def elements(dtype):
    """Numbers of a type, among them often one that stands for 'missing'."""
    if dtype.kind == "f":
        numbers = st.floats(-1e6, 1e6, width=32, allow_subnormal=False)
        return numbers | st.sampled_from([np.nan, -999.0, 1e20])
    limits = np.iinfo(dtype)
    return st.integers(int(limits.min), int(limits.max)) | st.sampled_from([0, 99])


@st.composite
def batches(draw):
    """Values of shape (steps, points), a fill value, and where they are cut into batches."""
    dtype = draw(st.sampled_from(DTYPES))
    steps, points = draw(st.integers(1, 19)), draw(st.integers(1, 40))
    values = draw(arrays(dtype, (steps, points), elements=elements(dtype)))
    fill = draw(st.sampled_from([None, -999.0, 1e20] if dtype.kind == "f" else [None, 0, 99]))
    cuts = sorted(draw(st.lists(st.integers(0, steps), max_size=4)))
    return values, fill, [values[a:b] for a, b in zip([0, *cuts], [*cuts, steps], strict=True)]


def expected(values, fill, ddof=0):
    """The same statistics by numpy over the whole, in float64."""
    valid = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(values.shape, bool)
    if fill is not None:
        valid &= values != values.dtype.type(fill)
    masked = np.ma.array(values.astype("f8"), mask=~valid)
    own = np.ma.array(values, mask=~valid)
    return {
        "mean": masked.mean(0).filled(np.nan),
        "std": masked.std(0, ddof=ddof).filled(np.nan),
        "var": masked.var(0, ddof=ddof).filled(np.nan),
        "sum": masked.sum(0).filled(np.nan),
        "min": own.min(0).astype("f8").filled(np.nan),
        "max": own.max(0).astype("f8").filled(np.nan),
        "range": (masked.max(0) - masked.min(0)).filled(np.nan),
        "count": valid.sum(0),
    }


def assert_equal_to_numpy(layout, state, values, fill, operators=ALL):
    reference = expected(values, fill)
    finite = values[np.isfinite(values)].astype("f8") if values.size else np.zeros(0)
    scale = float(np.abs(finite).max(initial=0.0))
    tolerances = {
        "mean": 1e-12 * scale,
        "sum": 1e-12 * scale * len(values),
        "std": 1e-7 * scale,
        "var": 1e-13 * scale**2,
    }
    for operator in operators:
        result = operator.finalize(layout, state)
        assert result.shape == (layout.points,)
        assert result.dtype == operator.dtype(values.dtype)
        np.testing.assert_allclose(
            result, reference[operator.name], rtol=1e-12, atol=tolerances.get(operator.name, 0),
            err_msg=operator.name,
        )  # fmt: skip


def layout_of(values, operators=ALL):
    return StateLayout.of(operators, dtype=values.dtype, points=values.shape[1])


def folded(layout, blocks, fill):
    state = bytearray(layout.nbytes)
    fold_steps(layout, None, state, list(blocks), fill)
    return state


@given(batches())
@settings(deadline=None, max_examples=300)
def test_any_split_into_batches_equals_numpy_on_the_whole(case):
    values, fill, parts = case
    layout = layout_of(values)
    states = bytearray(layout.nbytes), bytearray(layout.nbytes)
    layout.clear(states[0])
    for part in parts:
        fold_steps(layout, states[0], states[1], list(part), fill)
        states = states[::-1]
    assert_equal_to_numpy(layout, states[0], values, fill)


@given(batches(), st.data())
@settings(deadline=None, max_examples=200)
def test_any_tree_of_merges_equals_numpy_on_the_whole(case, data):
    values, fill, parts = case
    layout = layout_of(values)
    states = [folded(layout, part, fill) for part in parts]
    while len(states) > 1:
        left = states.pop(data.draw(st.integers(0, len(states) - 1)))
        right = states.pop(data.draw(st.integers(0, len(states) - 1)))
        target = data.draw(st.sampled_from([left, right, bytearray(layout.nbytes)]))
        layout.combine(left, right, target)
        states.append(target)
    assert_equal_to_numpy(layout, states[0], values, fill)


@given(batches(), st.sets(st.sampled_from(NAMES), min_size=1))
@settings(deadline=None, max_examples=200)
def test_every_set_of_operators_keeps_what_it_needs(case, names):
    values, fill, _ = case
    operators = parse_operators(sorted(names))
    layout = layout_of(values, operators)
    (family,) = layout.families
    assert family.needed == {name for item in operators for name in item.family.needed}
    assert_equal_to_numpy(layout, folded(layout, values, fill), values, fill, operators)


@pytest.mark.parametrize("fill", [None, -999.0])
@pytest.mark.parametrize("points", [1, 255, 256, 257, 70_001])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2"])
def test_points_beyond_a_tile_and_states_beyond_the_cache_fold_the_same(dtype, points, fill):
    random = np.random.default_rng(points)
    values = random.integers(-1000, -900, (27, points)).astype(dtype)
    if dtype != "i2":
        values[random.random(values.shape) < 0.1] = np.nan
        values[:, ::7] = np.nan
    layout = layout_of(values)
    buffers = bytearray(layout.nbytes + 4), bytearray(layout.nbytes + 4)
    states = [memoryview(buffer)[4:] for buffer in buffers]
    at, source = 0, None
    for size in (16, 1, 2, 0, 8):
        fold_steps(layout, source, states[0], list(values[at : at + size]), fill)
        source, at = states[0], at + size
        states.reverse()
    assert_equal_to_numpy(layout, source, values, fill)
    in_place = bytearray(layout.nbytes)
    layout.clear(in_place)
    for part in (values[:13], values[13:]):
        fold_steps(layout, in_place, in_place, list(part), fill)
    assert_equal_to_numpy(layout, in_place, values, fill)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_small_spread_around_a_large_offset_keeps_its_digits(dtype):
    values = (1e5 + np.random.default_rng(0).normal(0, 1, (500, 300))).astype(dtype)
    layout = layout_of(values)
    halves = folded(layout, values[:200], None), folded(layout, values[200:], None)
    layout.combine(*halves, halves[0])
    std = next(operator for operator in ALL if operator.name == "std")
    np.testing.assert_allclose(std.finalize(layout, halves[0]), values.std(0, dtype="f8"), rtol=1e-10)


def test_the_sample_deviation_divides_by_one_less():
    (operator,) = parse_operators([{"std": {"ddof": 1}}])
    values = np.array([[1.0, np.nan, 3.0], [4.0, 2.0, 3.0], [8.0, np.nan, 4.5]])
    layout = layout_of(values, [operator])
    result = operator.finalize(layout, folded(layout, values, None))
    np.testing.assert_allclose(result, [np.std([1, 4, 8], ddof=1), np.nan, np.std([3, 3, 4.5], ddof=1)])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_point_without_valid_values_is_missing_and_counts_zero(dtype):
    values = np.full((5, 3), 7, dtype)
    layout = layout_of(values)
    for state in (folded(layout, values, 7), folded(layout, values[:0], None)):
        results = {operator.name: operator.finalize(layout, state) for operator in ALL}
        assert not results.pop("count").any()
        assert all(np.isnan(result).all() for result in results.values())


def test_negative_values_have_a_negative_maximum():
    values = -np.arange(1, 31, dtype="f4").reshape(10, 3)
    layout = layout_of(values)
    assert_equal_to_numpy(layout, folded(layout, values, None), values, None)


@pytest.mark.parametrize("first", [np.inf, 1.0])
def test_an_infinite_value_makes_the_mean_infinite_not_missing(first):
    values = np.array([[first], [np.inf], [2.0]])
    layout = layout_of(values)
    results = {o.name: o.finalize(layout, folded(layout, values, None))[0] for o in ALL}
    assert results["mean"] == results["sum"] == results["max"] == np.inf
    assert results["min"] == min(first, 2.0)
    assert results["count"] == 3


@pytest.mark.parametrize(
    ("dtype", "fill"), [("i1", 300), ("u2", -1), ("i4", 0.5), ("u1", np.inf), ("f4", 1e300), ("f8", np.nan)]
)
def test_a_fill_value_that_the_type_does_not_have_hides_nothing(dtype, fill):
    values = np.array([[0], [-1 if dtype == "i1" else 3]], dtype)
    layout = layout_of(values)
    assert_equal_to_numpy(layout, folded(layout, values, fill), values, None)


def test_the_source_is_only_read():
    values = np.ones((3, 50), "f4")
    layout = layout_of(values)
    source = bytes(folded(layout, values, None))
    values.setflags(write=False)
    target = bytearray(layout.nbytes)
    fold_steps(layout, source, target, list(values))
    assert_equal_to_numpy(layout, target, np.ones((6, 50), "f4"), None)


def test_operators_and_layouts_mean_the_same_after_pickling():
    layout = StateLayout.of(ALL, dtype=np.dtype("f4"), points=9)
    operators, other = pickle.loads(pickle.dumps((ALL, layout)))
    assert (operators, other) == (ALL, layout)
    states = bytearray(layout.nbytes), bytearray(layout.nbytes)
    layout.clear(states[0])
    other.clear(states[1])
    assert states[0] == states[1]


def test_fields_of_a_state_begin_at_multiples_of_64_bytes():
    layout = StateLayout.of(ALL, dtype=np.dtype("f4"), points=9)
    base = np.zeros(layout.nbytes, "u1")
    begins = [view.ctypes.data - base.ctypes.data for view in layout.views(base)["moments"].values()]
    assert [begin % 64 for begin in begins] == [0] * 6
    assert layout.nbytes == 64 + 64 + 128 + 128 + 64 + 64
    assert StateLayout.of([], dtype=np.dtype("f4"), points=9).nbytes == 0


def test_no_points_are_no_trouble():
    layout = StateLayout.of(ALL, dtype=np.dtype("f4"), points=0)
    state = bytearray()
    fold_steps(layout, None, state, [np.empty(0, "f4")] * 3)
    layout.combine(state, state, state)
    assert [operator.finalize(layout, state).shape for operator in ALL] == [(0,)] * len(ALL)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"blocks": [np.zeros(9, "f8")]}, "type float64"),
        ({"blocks": [np.zeros(8, "f4")]}, "8 values"),
        ({"target": bytearray(10)}, "cut short"),
        ({"target": bytes(10_000)}, "read-only"),
        ({"steps": [1, 2]}, "2 step numbers"),
    ],
)
def test_what_does_not_fit_the_layout_is_refused(changes, message):
    layout = StateLayout.of(ALL, dtype=np.dtype("f4"), points=9)
    arguments = {"source": None, "target": bytearray(layout.nbytes), "blocks": [np.zeros(9, "f4")]} | changes
    with pytest.raises(BbflowError, match=message):
        fold_steps(layout, **arguments)


@pytest.mark.parametrize("dtype", ["c8", "f2", ">f4", "M8[s]"])
def test_types_without_operators_are_refused(dtype):
    with pytest.raises(BbflowError, match="can't fold"):
        StateLayout.of(ALL, dtype=np.dtype(dtype), points=9)

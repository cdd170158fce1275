import os
import shutil
import subprocess
from fractions import Fraction

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from laws import cuts, folded, layout_of, merged

from bbflow.errors import ConfigError
from bbflow.operators import StateLayout, fold_steps, parse_operators
from bbflow.operators.statistics.percentiles import MOST_STEPS
from bbflow.operators.statistics.sketch import Sketch, choose, excess

Q = [0, 10, 33.3, 50, 55, 90, 99.9, 100]
DTYPES = ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")


def percentiles(q=Q, **parameters):
    return parse_operators([{"percentiles": {"q": q, **parameters}}])


def elements(dtype):
    if dtype.kind == "f":
        return st.floats(width=32) | st.sampled_from([0.0, 1.0, np.inf, -np.inf, np.nan, 99.0])
    limits = np.iinfo(dtype)
    return st.integers(int(limits.min), int(limits.max)) | st.sampled_from([0, 1, int(limits.max), 99])


def valid_of(column, fill):
    valid = column == column
    return np.sort(column[valid if fill is None else valid & (column != column.dtype.type(fill))])


def ranks_off(values, found, q):
    """How many ranks a value is from the nearest rank of a percentage, in sorted values."""
    assert (values == found).any(), f"{found} is none of the values"
    rank = max(-(-len(values) * Fraction(str(q)) // 100), 1)
    first, last = np.searchsorted(values, found, "left") + 1, np.searchsorted(values, found, "right")
    return max(first - rank, rank - last, 0)


def assert_within_bound(operators, layout, state, values, fill=None):
    seen = layout.views(state)[operators[0].family.name]["seen"]
    bounds = (operators[0].family.excess(seen) + 1) // 2
    for operator, q in zip(operators, Q, strict=True):
        result = operator.finalize(layout, state)
        for point, bound in enumerate(bounds):
            valid = valid_of(values[:, point], fill)
            if not len(valid):
                assert np.isnan(result[point])
                continue
            assert ranks_off(valid, valid.dtype.type(result[point]), q) <= (0 if q == 100 else bound)


@pytest.mark.parametrize("q", [200 / 3, 100 / 3, 99.99999999999999])
def test_a_percentage_of_many_digits_has_its_rank_among_many_values(q):
    operators = percentiles([q], steps=10000)
    values = np.arange(4000.0)
    layout = StateLayout.of(operators, dtype=np.dtype("f8"), points=1)
    state = bytearray(layout.nbytes)
    fold_steps(layout, None, state, list(values[:, np.newaxis]))
    off = ranks_off(values, operators[0].finalize(layout, state)[0], q)
    assert off <= (operators[0].family.excess(np.array([4000]))[0] + 1) // 2


@given(st.data())
@settings(deadline=None, max_examples=100)
def test_ranks_are_within_the_bound_for_any_cuts_and_any_tree_and_order_of_merges(data):
    dtype = np.dtype(data.draw(st.sampled_from(["f4", "f8", "i2", "u1", "i4"])))
    steps, points = data.draw(st.integers(1, 90)), data.draw(st.integers(1, 20))
    values = data.draw(arrays(dtype, (steps, points), elements=elements(dtype)))
    fill = data.draw(st.sampled_from([None, 99]))
    # A small bound on few steps gives small sketches, which are merged often and, here, often beyond those steps.
    operators = percentiles(error=data.draw(st.sampled_from([2, 10, 50])), steps=data.draw(st.integers(1, 60)))
    layout = layout_of(operators, values)
    parts = [folded(layout, values[part], fill=fill) for part in data.draw(cuts(steps))]
    assert_within_bound(operators, layout, merged(data, layout, parts), values, fill)


@given(st.integers(1, 12), st.integers(0, 3), st.integers(1, 200), st.integers(1, 3), st.data())
@settings(deadline=None, max_examples=60)
def test_any_sketch_keeps_its_bound_in_any_batches(size, top, steps, points, data):
    values = data.draw(arrays(np.dtype("f4"), (steps, points), elements=st.floats(0, 50, width=16)))
    sketch = Sketch(size, top)
    layout = StateLayout((sketch,), values.dtype, points)
    state = bytearray(layout.nbytes)
    layout.clear(state)
    for part in data.draw(cuts(steps)):
        fold_steps(layout, state, state, list(values[part]))
    views = layout.views(state)[sketch.name]
    weights = np.arange(1, steps + 1)
    found = np.stack([sketch.find(views, np.full(points, weight)) for weight in weights])
    slack = int(sketch.excess(np.array(steps)))
    for point in range(points):
        column = np.sort(values[:, point])
        weighed = np.searchsorted(column, found[:, point], "right")  # ranks of what was found
        before = np.searchsorted(column, found[:, point], "left")
        assert (weighed >= weights - slack).all()
        assert (before < weights).all()


@pytest.mark.parametrize(("error", "steps"), [(50, 1), (20, 7), (5, 100), (1, 31), (1, 744), (0.5, 3000), (2, 8784)])
def test_the_stated_bound_holds_for_every_number_of_steps(error, steps):
    sketch = choose(error / 100, steps)
    seen = np.arange(1, steps + 1)
    assert ((sketch.excess(seen) + 1) // 2 <= error / 100 * seen).all()
    assert sketch.rows <= steps + 2
    assert not sketch.excess(np.arange(2 * sketch.size)).any()


@pytest.mark.parametrize("error", [50, 1, 0.01])
def test_a_century_of_hours_has_a_sketch_and_more_steps_are_refused(error):
    (operator,) = parse_operators([{"median": {"error": error, "steps": MOST_STEPS}}])
    assert operator.family.rows < MOST_STEPS // 10
    for steps in (MOST_STEPS + 1, 1e30):
        with pytest.raises(ConfigError, match="are too many: give at most 1000000"):
            parse_operators([{"percentiles": {"q": [10], "error": error, "steps": steps}}])


def test_beyond_its_steps_the_bound_grows_and_the_state_tells_how_far():
    operators = percentiles(error=10, steps=40, bound=True)
    values = np.random.default_rng(0).normal(size=(400, 30)).astype("f4")
    layout = layout_of(operators, values)
    told = [operators[-1].finalize(layout, folded(layout, values[:steps]))[0] for steps in (5, 40, 100, 400)]
    assert told[0] == 0 < told[1] <= 10 < told[2] < told[3]
    assert operators[-1].name == "rank_error"
    assert_within_bound(operators[:-1], layout, folded(layout, values), values)


def test_excess_counts_the_merges_of_a_binary_number():
    assert excess(np.array([0, 1, 2, 3, 4, 7, 8]), 5).tolist() == [0, 0, 1, 1, 4, 5, 12]
    assert excess(np.array([0, 1, 2, 3, 4]), 0).tolist() == [0, 0, 1, 3, 6]


@pytest.mark.parametrize("points", [1, 15, 17, 64, 65, 1025])
@pytest.mark.parametrize("dtype", DTYPES)
def test_few_steps_are_exact_by_nearest_rank_in_every_type(dtype, points):
    random = np.random.default_rng(points)
    values = random.integers(0, 120, (37, points)).astype(dtype)
    if values.dtype.kind == "f":
        values[random.random(values.shape) < 0.2] = np.nan
    operators = percentiles(steps=37)
    layout = layout_of(operators, values)
    parts = [folded(layout, values[part]) for part in (slice(0, 5), slice(5, 30), slice(30, 37))]
    layout.combine(parts[2], parts[0], parts[0])
    layout.combine(parts[0], parts[1], parts[1])
    for operator, q in zip(operators, Q, strict=True):
        if q == 55:  # numpy's float product n * 0.55 is above the exact one for some n
            continue
        expected = np.nanpercentile(values.astype("f8"), q, axis=0, method="inverted_cdf")
        np.testing.assert_array_equal(operator.finalize(layout, parts[1]).astype("f8"), expected)


def test_regions_that_have_seen_different_numbers_of_steps_merge():
    random = np.random.default_rng(5)
    values = random.normal(size=(150, 40))
    operators = percentiles(error=5, steps=60)
    layout = layout_of(operators, values)
    sketch = operators[0].family.name
    lengths = [random.integers(0, 75, 40) for _ in range(2)]
    states = []
    for side, numbers in enumerate(lengths):
        state = bytearray(layout.nbytes)
        layout.clear(state)
        for point, steps in enumerate(numbers):
            single = StateLayout(layout.families, layout.dtype, 1)
            part = folded(single, values[75 * side : 75 * side + steps, point : point + 1])
            for name, field in single.views(part)[sketch].items():
                layout.views(state)[sketch][name][..., point] = field[..., 0]
        states.append(state)
    layout.combine(*states, states[0])
    fold_steps(layout, states[0], states[0], list(np.full((3, 40), np.nan)))
    for point in range(40):
        kept = np.concatenate([values[: lengths[0][point], point], values[75 : 75 + lengths[1][point], point]])
        single = StateLayout(layout.families, layout.dtype, 1)
        part = bytearray(single.nbytes)
        for name, field in single.views(part)[sketch].items():
            field[...] = layout.views(states[0])[sketch][name][..., point : point + 1]
        assert_within_bound(operators, single, part, kept[:, None])


def test_the_median_is_the_lower_one_of_two_and_shares_the_sketch():
    operators = parse_operators(["median", {"percentiles": {"q": 50}}])
    values = np.array([[4.0], [1.0], [3.0], [2.0]])
    layout = layout_of(operators, values)
    assert [item.finalize(layout, folded(layout, values)).tolist() for item in operators] == [[2.0], [2.0]]
    assert len(layout.families) == 1
    assert [item.name for item in operators] == ["median", "p50"]


def test_names_tell_the_percentage():
    assert [item.name for item in percentiles([5, 99.9])] == ["p5", "p99_9"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"q": 101}, "0 to 100"),
        ({"q": []}, "isn't a list of different percentages"),
        ({"q": [5, 5.0]}, "isn't a list of different percentages"),
        ({"q": 5, "error": 0}, "isn't a bound"),
        ({"q": 5, "steps": 0}, "whole number from 1"),
        ({}, "needs 'q'"),
    ],
)
def test_wrong_parameters_are_refused(parameters, message):
    with pytest.raises(ConfigError, match=message):
        parse_operators([{"percentiles": parameters}])


@pytest.mark.skipif(not shutil.which("cdo"), reason="cdo is not installed (apt install cdo)")
@pytest.mark.parametrize("steps", [31, 90, 400])
def test_cdo_gives_the_same_percentiles_to_the_bound(steps, tmp_path):
    values = np.random.default_rng(steps).gamma(2, 3, (steps, 6, 8)).astype("f4")
    values[np.random.default_rng(1).random(values.shape) < 0.1] = np.nan
    axis = ("time", np.arange(float(steps)), {"units": "days since 2000-01-01"})
    source, target = tmp_path / "in.nc", tmp_path / "out.nc"
    xr.Dataset({"pr": (("time", "lat", "lon"), values)}, {"time": axis}).to_netcdf(source, engine="scipy")
    flat = values.reshape(steps, -1)
    operators = percentiles([10, 50, 90], error=2, steps=400)
    layout = layout_of(operators, flat)
    state = folded(layout, flat)
    bound = (int(operators[0].family.excess(np.array(steps))) + 1) // 2
    for operator, q in zip(operators, (10, 50, 90), strict=True):
        command = ["cdo", "-s", f"timpctl,{q}", source, "-timmin", source, "-timmax", source, target]
        # With more bins than values CDO keeps the values themselves, and is exact.
        subprocess.run(command, check=True, timeout=60, env={**os.environ, "CDO_PCTL_NBINS": "1000"})
        with xr.open_dataset(target, engine="scipy") as data:
            cdo = data["pr"].values.reshape(-1)
        result = operator.finalize(layout, state)
        for point in range(flat.shape[1]):
            valid = valid_of(flat[:, point], None)
            assert ranks_off(valid, cdo[point], q) == 0
            assert ranks_off(valid, result[point], q) <= bound

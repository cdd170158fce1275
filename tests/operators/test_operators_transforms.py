import numpy as np
import pytest
import xarray as xr
from cases import DTYPES, batches, cdo, masked
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import cuts

from bbflow.errors import ConfigError
from bbflow.operators.steps import Steps
from bbflow.operators.transforms import CumulativeSum, Deaccumulate, parse_transforms
from bbflow.operators.windows.calendars import Clock


def state_of(transform, dtype, points):
    views = {field.name: np.empty(points, field.dtype(dtype)) for field in transform.fields(dtype)}
    transform.clear(views)
    return views


def transformed(item, values, fill=None, parts=(slice(None),)):
    """Values of shape (steps, points) after a transform that gets them part by part."""
    (transform,) = parse_transforms([item])
    filled = None if fill is None else np.asarray(fill, values.dtype)
    views = state_of(transform, values.dtype, values.shape[1])
    made = [block for part in parts for block in transform.apply(views, Steps(list(values[part]), filled))]
    assert all(block.dtype == "f8" for block in made)
    return np.array(made).reshape(values.shape)


def differences(column, first, resets):
    """One point in Python."""
    previous, result = None, []
    for value in column:
        if np.isnan(value):
            result.append(np.nan)
        elif previous is None:
            result.append(value if first == "value" else np.nan)
        else:
            result.append(value if resets and value < previous else value - previous)
        previous = previous if np.isnan(value) else value
    return result


@given(batches(), st.sampled_from(["value", "missing"]), st.booleans(), st.data())
@settings(deadline=None, max_examples=200)
def test_any_split_gives_the_differences_of_the_whole(case, first, resets, data):
    values, fill, _ = case
    item = {"deaccumulate": {"first": first, "resets": resets}}
    result = transformed(item, values, fill, data.draw(cuts(len(values))))
    columns = [differences(column, first, resets) for column in masked(values, fill).T]
    np.testing.assert_array_equal(result, np.array(columns).reshape(values.T.shape).T)


@given(batches(), st.booleans(), st.data())
@settings(deadline=None, max_examples=200)
def test_any_split_gives_the_sums_of_xarray(case, skipna, data):
    values, fill, _ = case
    result = transformed({"cumsum": {"skipna": skipna}}, values, fill, data.draw(cuts(len(values))))
    expected = xr.DataArray(masked(values, fill), dims=("time", "point")).cumsum("time", skipna=skipna)
    np.testing.assert_allclose(result, expected, rtol=1e-14, atol=1e-13)


@pytest.fixture
def rain():
    """Rain in mm; a few values are missing."""
    random = np.random.default_rng(0)
    values = random.exponential(3, (40, 50))
    values[random.random(values.shape) < 0.1] = np.nan
    return values.astype("f4")


def test_sums_are_those_of_cdo(tmp_path, rain):
    (sums,) = cdo(tmp_path, "timcumsum", rain)
    np.testing.assert_allclose(transformed("cumsum", rain), sums["pr"], rtol=1e-14)


def test_differences_are_those_of_cdo(tmp_path, rain):
    sums = transformed("cumsum", rain)
    (steps,) = cdo(tmp_path, "deltat", sums)
    result = transformed({"deaccumulate": {"first": "missing"}}, sums)
    assert np.isnan(result[0]).all()
    np.testing.assert_allclose(result[1:], steps["pr"], rtol=1e-12, atol=1e-12)


def test_deaccumulating_a_sum_gives_the_values_back():
    values = np.random.default_rng(1).integers(0, 1000, (20, 30)).astype("f8")
    np.testing.assert_array_equal(transformed("deaccumulate", transformed("cumsum", values)), values)


def test_what_is_carried_takes_the_values_that_another_transform_makes():
    values = np.random.default_rng(1).normal(1e8, 1, (20, 30)).astype("f4")
    transform = Deaccumulate()
    views = state_of(transform, values.dtype, 30)
    sums = transformed("cumsum", values)
    np.testing.assert_array_equal(transform.apply(views, Steps(list(sums))), transformed("deaccumulate", sums))


def test_a_sum_that_begins_anew_each_day_loses_nothing():
    values = np.random.default_rng(2).integers(1, 9, (5, 24, 6)).astype("i4")
    sums = values.cumsum(axis=1).reshape(120, 6)
    np.testing.assert_array_equal(transformed("deaccumulate", sums), values.reshape(120, 6))


def test_a_missing_value_is_made_good_by_the_next_one():
    values = np.array([[1, 3, np.nan, 7, 8]]).T
    np.testing.assert_array_equal(transformed("deaccumulate", values)[:, 0], [1, 2, np.nan, 4, 1])


def test_falling_values_are_differences_where_sums_do_not_begin_anew():
    values = np.array([[1, 3, 2, 2]], "f4").T
    np.testing.assert_array_equal(transformed({"deaccumulate": {"resets": False}}, values)[:, 0], [1, 2, -1, 0])
    np.testing.assert_array_equal(transformed("deaccumulate", values)[:, 0], [1, 2, 2, 0])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_points_without_valid_values_and_no_steps_are_no_trouble(dtype):
    values = np.full((3, 4), 99, dtype)
    assert np.isnan(transformed("deaccumulate", values, 99)).all()
    assert not transformed("cumsum", values, 99).any()
    assert np.isnan(transformed({"cumsum": {"skipna": False}}, values, 99)).all()
    for item in ("cumsum", "deaccumulate"):
        assert transformed(item, values[:0]).shape == (0, 4)
        assert transformed(item, values[:, :0]).shape == (3, 0)


def test_the_steps_themselves_stay_as_they_are(rain):
    before = rain.copy()
    for item in ("cumsum", "deaccumulate"):
        transformed(item, rain)
    np.testing.assert_array_equal(rain, before)


def test_names_and_maps_become_transforms():
    assert parse_transforms([]) == ()
    assert parse_transforms([{"deaccumulate": {"first": "missing"}}, "cumsum"]) == (
        Deaccumulate(first="missing"),
        CumulativeSum(),
    )


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["cumsm"], "unknown transform 'cumsm'; did you mean 'cumsum'"),
        ([{"cumsum": {"skpna": True}}], "transform 'cumsum': unknown parameter 'skpna'; did you mean 'skipna'"),
        ([{"deaccumulate": {"first": "missing_"}}], "first: unknown choice 'missing_'; did you mean 'missing'"),
        ([{"deaccumulate": 3}], "transform 'deaccumulate': its parameters must be a map"),
        ([3], "3 is not a transform"),
        (["cumsum", "cumsum"], "twice"),
    ],
)
def test_what_is_wrong_is_named_with_the_nearest_valid_name(items, message):
    with pytest.raises(ConfigError, match=message):
        parse_transforms(items)


@given(batches(), st.integers(1, 5), st.data())
@settings(deadline=None, max_examples=100)
def test_a_shift_gives_the_value_of_steps_before_however_they_come(case, count, data):
    values, fill, _ = case
    (transform,) = parse_transforms([{"shift": {"steps": count}}])
    (field,) = transform.fields(values.dtype)
    views = {field.name: np.empty((*field.inner, values.shape[1]))}
    transform.clear(views)
    filled = None if fill is None else np.asarray(fill, values.dtype)
    made = [
        block
        for part in data.draw(cuts(len(values)))
        for block in transform.apply(views, Steps(list(values[part]), filled))
    ]
    expected = np.concatenate([np.full((count, values.shape[1]), np.nan), masked(values, fill)])[: len(values)]
    np.testing.assert_array_equal(np.array(made).reshape(values.shape), expected)


def reference_anomalies(column, keys, rows):
    """What a point's values differ from the mean of earlier spans of the same row, in Python."""
    result = []
    for at, value in enumerate(column):
        before = [
            own
            for own, key, row in zip(column, keys, rows, strict=True)
            if row == rows[at] and key < keys[at] and not np.isnan(own)
        ]
        result.append(value - np.mean(before) if before else np.nan)
    return result


@pytest.mark.parametrize("by", ["month", "season", "dayofyear", "hour"])
@pytest.mark.parametrize("calendar", ["standard", "noleap", "360_day"])
def test_anomalies_so_far_are_from_the_means_of_the_spans_that_ended(by, calendar):
    (transform,) = parse_transforms([{"anomaly_so_far": {"by": by}}])
    random = np.random.default_rng(6)
    times = (
        np.sort(random.choice(np.arange(4 * 366 * 3), 400, replace=False)) / 4 if by != "hour" else np.arange(90) / 8
    )
    values = np.where(random.random((len(times), 3)) < 0.1, np.nan, random.normal(280, 9, (len(times), 3)))
    values[:, 2] = np.nan
    dates = [Clock("days since 1999-11-05", calendar).date(time) for time in times]
    keys = [transform.window.key(date) for date in dates]
    rows = [
        {"month": date.month, "season": date.month % 12 // 3, "dayofyear": (date.month, date.day), "hour": date.hour}[
            by
        ]
        for date in dates
    ]
    views = {field.name: np.empty((*field.inner, 3), field.type) for field in transform.fields(values.dtype)}
    transform.clear(views)
    made = []
    for at, key in enumerate(keys):
        views = {name: np.array(view) for name, view in views.items()}  # as a worker that takes over has it
        transform.enter(views, key, begins=at > 0 and key != keys[at - 1])
        made += transform.apply(views, Steps([values[at]]))
    expected = np.transpose([reference_anomalies(column, keys, rows) for column in values.T])
    np.testing.assert_allclose(made, expected, rtol=1e-9, atol=1e-9)
    assert np.isfinite(made).sum() > 20

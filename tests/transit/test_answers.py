"""What answers of users' functions can be stored, and which are refused: the store is always one that xarray opens."""

import re

import cftime
import numpy as np
import pytest
import xarray as xr

from bbflow.errors import OperatorError
from bbflow.functions import Answer, said_by
from bbflow.transit.calling.answers import ERROR, Answers, AxisPlace

UNITS = {"units": "hours since 2000-01-01", "calendar": "noleap"}


class Gives:
    """Stands where the origin of a function does that gives one answer after the other."""

    def __init__(self, *given):
        self.given = iter(given)

    def load(self):
        return lambda dataset: next(self.given)


def published(folder, *given, place=lambda step: AxisPlace(float(step), UNITS, number=step)):
    """Return the store of some answers, and why the first one was refused that was."""
    answers, origin, why = Answers(folder, "own"), Gives(*given), ""
    answers.commit()
    for step in range(len(given)):
        try:
            answers.add(said_by(origin, None, {}).found, place(step))
        except OperatorError as error:
            why = f"{step}: {error}"
            answers.commit(**{ERROR: why})
            break
        answers.commit()
    with xr.open_zarr(answers.path, consolidated=True) as store:
        return store.load(), why


def one(values, attributes=None, dims="x"):
    return xr.Dataset({"m": (dims if np.ndim(values) else (), values, attributes or {})})


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (
            one(np.eye(3), dims=("a", "b")),
            one(np.eye(3), dims=("b", "a")),
            "the dimensions ('time', 'b', 'a'), at first ('time', 'a', 'b')",
        ),
        (one(293.0, {"units": "K"}), one(20.0, {"units": "degC"}), "the attribute units='degC', at first 'K'"),
        (one(293.0, {"units": "K"}), one(20.0), "the attribute units=None, at first 'K'"),
        (one(3, {"scale_factor": 0.1}), one(3, {"scale_factor": 0.2}), "scale_factor=0.2, at first 0.1"),
        (one(3), one(3, {"add_offset": 2}), "add_offset=2.0, at first None"),
        (one(3, {"_FillValue": 1}), one(3, {"_FillValue": 3}), "_FillValue=3, at first 1"),
        (one(3.0, {"comment": "one"}), one(3.0, {"comment": "two"}), "comment='two', at first 'one'"),
        (
            one(np.array([np.datetime64("2000-03-01", "ns")])),
            one(np.array([cftime.DatetimeNoLeap(2000, 3, 1)])),
            "calendar='noleap', at first 'proleptic_gregorian'",
        ),
        (
            one(np.array([cftime.Datetime360Day(2000, 3, 1)])),
            one(np.array([cftime.DatetimeNoLeap(2000, 3, 1)])),
            "calendar='noleap', at first '360_day'",
        ),
    ],
)
def test_an_answer_that_would_be_read_otherwise_than_the_first_is_refused(first, second, why, tmp_path):
    store, said = published(tmp_path, first, first, second)
    assert said.startswith("2: it gave 'm' ")
    assert why in said
    assert store.sizes["time"] == 2
    decoded = xr.decode_cf(first)["m"]
    np.testing.assert_array_equal(store["m"], np.stack([decoded.values] * 2))


def test_answers_that_are_lost_with_a_file_are_told(tmp_path):
    answers = Answers(tmp_path, "own")
    answers.add(said_by(Gives(one(1.0)), None, {}).found, AxisPlace(0.0, UNITS, number=0))
    answers.commit()
    (answers.path / "time" / "c.0").unlink()
    with pytest.raises(OperatorError, match=r"time/c\.0 of its store was removed or cut off during the run"):
        answers.add(said_by(Gives(one(2.0)), None, {}).found, AxisPlace(1.0, UNITS, number=1))


def test_spans_of_time_and_dates_are_in_the_same_units_in_all_answers(tmp_path):
    spans = [np.timedelta64(5, "h"), np.timedelta64(90, "m"), np.timedelta64("NaT", "s")]
    dates = [np.datetime64("2000-01-01"), np.datetime64("1955-01-01T00:00:00.25"), np.datetime64("NaT", "s")]
    given = [xr.Dataset({"span": span, "date": date}) for span, date in zip(spans, dates, strict=True)]
    store, why = published(tmp_path, *given)
    assert not why
    np.testing.assert_array_equal(store["span"], np.array(spans, "m8[s]"))
    np.testing.assert_array_equal(store["date"], np.array(dates, "M8[ns]"))


def test_attributes_may_be_numpys_and_come_late(tmp_path):
    attributes = {"missing_value": np.float32(-999), "flag": np.bool_(True), "range": np.arange(2.0), "units": "K"}
    late = attributes | {"long_name": "what it is"}
    given = one(1.0, attributes).assign_attrs(version=np.int64(3), bbflow_error="of another store")
    store, why = published(tmp_path, given, one(-999.0, late))
    assert not why
    np.testing.assert_array_equal(store["m"], [1, np.nan])
    assert store["m"].attrs == {"flag": True, "range": [0, 1], "units": "K", "long_name": "what it is"}
    assert store.attrs["version"] == 3
    assert ERROR not in store.attrs


@pytest.mark.parametrize(
    ("values", "fill"),
    [(np.array([1, 2], "f4"), np.array([2], "f4")), (np.array([1, 2], "i2"), np.int64(2)), ([1, 2.0], np.nan)],
)
def test_fill_values_are_missing_whatever_type_they_have(values, fill, tmp_path):
    given = one(values, {"_FillValue": fill})
    store, why = published(tmp_path, given)
    assert not why
    np.testing.assert_array_equal(store["m"][0], xr.decode_cf(given)["m"])


def unlimited(dataset, *names):
    dataset.encoding["unlimited_dims"] = {*names}
    return dataset


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (one(1.0, {"a": object()}), "m has an attribute 'a' that no store has: <object object"),
        (one(1.0, {"a": None}), "m has an attribute 'a' that no store has: None"),
        (one(1.0, {"a": "\ud800"}), r"m has an attribute 'a' that no store has: '\ud800'"),
        (one(1.0, {1: 2}), "m has an attribute 1 that can't be"),
        (one(1.0).assign_attrs(a={2, 3}), "the Dataset has an attribute 'a' that no store has: {2, 3}"),
        (one(1.0, {"scale_factor": "much"}), "m has an attribute 'scale_factor' that can't be 'much'"),
        (one(1, {"_FillValue": 2**70}), "m of type int64 can't have the _FillValue"),
        (one(1.0, {"units": "days since whenever"}), "m can't be read with its attributes: "),
        (one(np.array([1, "a"], object)), "m has 1 among its values, which isn't text"),
        (one(np.array(["a", np.nan], object)), "m has nan among its values, which isn't text"),
        (one(np.array([b"a"])), "m has b'a' among its values, which isn't text"),
        (one("a\ud800"), r"m has the text 'a\ud800', which isn't Unicode"),
        (one(np.longdouble(1)), "m has type float128, which no store has"),
        (one(1.0).rename(m="x" * 300), "can't be the name of a variable in its store"),
        (one(1.0).rename(m="a/b"), "'a/b' can't be the name of a variable in its store"),
        (one(1.0).rename(m="two\nlines"), r"'two\nlines' can't be the name of a variable in its store"),
        (one(1.0).rename(m=1), "1 can't be the name of a variable or a dimension: it's no text"),
        (one(1.0).rename(m="\ud800"), r"'\ud800' can't be the name of a variable or a dimension"),
        (unlimited(one(1.0), "r"), "no variable has the unlimited dimension 'r'"),
        (one(np.zeros(3), dims="time"), "it gave a dimension 'time' of length 3: an answer has one time"),
    ],
)
def test_an_answer_that_no_store_has_is_refused_in_one_line(given, why, tmp_path):
    store, said = published(tmp_path, given)
    assert why in said
    assert "\n" not in said
    assert not store.variables


@pytest.mark.parametrize("names", [(), ("time",)])
def test_an_axis_of_time_that_an_answer_has_itself_is_the_stores(names, tmp_path):
    given = [unlimited(one(np.arange(2.0) + step).expand_dims("time"), *names) for step in range(3)]
    store, why = published(tmp_path, *given)
    assert not why
    assert store["m"].dims == ("time", "x")
    np.testing.assert_array_equal(store["m"], [[0, 1], [1, 2], [2, 3]])


def test_a_span_has_two_bounds_whatever_the_answer_calls_so(tmp_path):
    place = lambda index: AxisPlace(index + 0.5, UNITS, bounds=(float(index), index + 1.0))  # noqa: E731
    _, said = published(tmp_path / "three", one(np.zeros(3), dims="bnds"), place=place)
    assert "'m' has a dimension 'bnds', which has the length 2 in its store" in said
    store, said = published(tmp_path / "two", one(np.zeros(2), dims="bnds"), place=place)
    assert not said
    assert store["m"].shape == (1, 2)


def test_why_to_stop_is_one_line():
    assert said_by(Gives(Answer(stop="too hot\n  really \ud800")), None, {}).stop == r"too hot really \ud800"
    assert re.fullmatch(".*", said_by(Gives(Answer(stop=ValueError("a\nb"))), None, {}).stop)

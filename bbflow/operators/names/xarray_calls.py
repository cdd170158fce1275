"""xarray-like names: ``resample: MS``, ``groupby: time.month``, ``rolling: 5``, ``quantile: 0.9``."""

from collections.abc import Iterator
from typing import Any

from bbflow.errors import ConfigError
from bbflow.operators.names.meaning import Meaning, Name
from bbflow.reading.sections import number


def xarray_names() -> Iterator[Name]:
    """Yield all names that differ from our own."""
    one = ("value",)
    yield Name("resample", "a window by its frequency", _resample, "resample: MS", one, one_value=True)
    yield Name("groupby", "a climatology or the year", _groupby, "groupby: time.month", one, one_value=True)
    yield Name("rolling", "a running window of n steps", _rolling, "rolling: {time: 5}", one, one_value=True)
    yield Name("quantile", "percentiles", _quantile, "quantile: [0.1, 0.9]", one, one_value=True)
    yield Name("coarsen", "means of boxes of points", _coarsen, "coarsen: {lat: 2, lon: 2}", one, one_value=True)
    yield Name("cumsum", "sum of all steps so far", lambda: Meaning(transform="cumsum"), "cumsum")
    for name, operator in (("idxmin", "argmin"), ("idxmax", "argmax")):
        yield _same(name, operator)


def _same(name: str, operator: str) -> Name:
    return Name(name, f"our own {operator}", lambda: Meaning(operator), name)


def _resample(value: Any) -> Meaning:
    return Meaning(window={"resample": value})


def _groupby(value: Any) -> Meaning:
    return Meaning(window={"groupby": value})


def _rolling(value: Any) -> Meaning:
    if isinstance(value, dict) and set(value) == {"time"}:
        value = value["time"]
    return Meaning(window={"running": value})


def _quantile(value: Any) -> Meaning:
    if isinstance(value, dict) and set(value) == {"q"}:
        value = value["q"]
    shares = [number(item) for item in (value if isinstance(value, list | tuple) else [value])]
    if not shares or not all(0 <= share <= 1 for share in shares):
        raise ConfigError(f"{value!r} must be numbers from 0 to 1")
    return Meaning({"percentiles": {"q": [round(100 * share, 10) for share in shares]}})


def _coarsen(value: Any) -> Meaning:
    return Meaning(space={"coarsen": value})

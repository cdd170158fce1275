"""What a program's BP5 file says, by ADIOS2, xarray and numpy, and when its steps are: bbflow has no part in it."""

import warnings
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import adios2
import numpy as np
import xarray as xr
from random_programs import Field, Program

Array = np.ndarray[Any, Any]
DECODING = ("_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned")
STEP_KEYS = {
    "month": lambda date: (date.year, date.month),
    "day": lambda date: (date.year, date.month, date.day),
    "hour": lambda date: (date.year, date.month, date.day, date.hour),
    "year": lambda date: (date.year,),
    "clim_month": lambda date: (date.month,),
}
"""What spans of time a date belongs to."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What a program has written, as its BP5 file has it."""

    values: dict[str, list[Array | None]]
    """Numbers of each variable in each step, decoded by CF, in float64 or complex; holes are NaN."""
    dates: list[Any] | None
    """Of each step, None where its time isn't a date; None if nothing tells the time."""

    @property
    def accepted(self) -> list[int]:
        """Return the steps that count: those whose time is later than that of all before."""
        if self.dates is None:
            return list(range(len(next(iter(self.values.values())))))
        found: list[int] = []
        for step, date in enumerate(self.dates):
            if date is not None and (not found or date > self.dates[found[-1]]):
                found.append(step)
        return found


def read(program: Program, file: Path) -> Truth:
    """Read a BP5 file."""
    fields = [field for field in program.fields if field.kind in ("array", "value")]
    values: dict[str, list[Array | None]] = {field.name: [] for field in program.fields}
    io = adios2.Adios().declare_io("one")
    io.set_engine("BP5")
    io.set_parameter("Threads", "1")  # several ones race for points that were Put twice
    with adios2.Stream(io, str(file), "r") as stream:
        for _ in stream.steps():
            there = stream.available_variables()
            for field in program.fields:
                found = None
                if field in fields and field.name in there:
                    found = _decoded(field, _read(stream, field.name))
                values[field.name].append(found)
    times = program.times
    assert times.told is None or times.dates is not None, f"{times.attributes} tell no time, and aren't refused"
    return Truth(values, None if times.dates is None else list(times.dates))


def _read(stream: adios2.Stream, name: str) -> Array:
    """Read a variable; ADIOS2's own `read` knows no complex numbers."""
    variable = stream.inquire_variable(name)
    if not variable.type().endswith("complex"):
        return np.asarray(stream.read(name))
    values = np.empty(variable.shape(), "c8")
    stream.engine.get(variable, values, adios2.bindings.Mode.Sync)
    return values


def _decoded(field: Field, values: Array) -> Array:
    """Decode by xarray, in double precision; what no block covers is missing."""
    encoding = {name: np.ravel(field.attributes[name])[0] for name in DECODING if name in field.attributes}
    if values.dtype.kind == "f":
        values = values.astype("f8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = xr.Dataset({"values": (tuple(f"d{axis}" for axis in range(values.ndim)), values, encoding)})
        found = xr.decode_cf(dataset, decode_times=False)["values"].values
    found = found.astype(complex if found.dtype.kind == "c" else "f8")
    if field.blocks and not field.changes:
        covered = np.zeros(values.shape, bool)
        for _, start, count in field.blocks:
            covered[tuple(slice(at, at + size) for at, size in zip(start, count, strict=True))] = True
        found[~covered] = np.nan
    return found


def valid(field: Field, values: Array) -> Array:
    """Return decoded values without those that the attributes say are none, of which xarray takes no notice."""
    lowest, highest = np.ravel(field.attributes.get("valid_range", (-np.inf, np.inf))).astype("f8")
    lowest = np.ravel(field.attributes.get("valid_min", lowest)).astype("f8")[0]
    highest = np.ravel(field.attributes.get("valid_max", highest)).astype("f8")[0]
    scale, offset = field.attributes.get("scale_factor", 1.0), field.attributes.get("add_offset", 0.0)
    ends = sorted((lowest * scale + offset, highest * scale + offset))
    room = 1e-9 * max(1.0, *(abs(end) for end in ends if np.isfinite(end)), 0.0)
    return np.where((values < ends[0] - room) | (values > ends[1] + room), np.nan, values)


def lengths(truth: Truth, unit_s: float) -> dict[int, float]:
    """Return the length of each step that counts: until the next one, the last as long as the one before."""
    assert truth.dates is not None
    dates = [truth.dates[step] for step in truth.accepted]
    passed = [(later - date).total_seconds() / unit_s for date, later in pairwise(dates)]
    return dict(zip(truth.accepted, [*passed, *passed[-1:]], strict=True)) if passed else {}


def groups(truth: Truth, window: Any) -> dict[Hashable, list[int]]:
    """Return the steps of each of a window's spans, in the order of the spans."""
    found: dict[Any, list[int]] = {}
    for step in truth.accepted:
        if window == "run":
            key: Any = 0
        elif isinstance(window, dict):
            key = step // window["steps"]
        else:
            key = STEP_KEYS[window](truth.dates[step])  # type: ignore[index]
        found.setdefault(key, []).append(step)
    return dict(sorted(found.items()))


def statistic(name: str, steps: Array) -> Array:
    """Return a statistic over the first axis, missing values left out."""
    valid = ~np.isnan(steps)
    count = valid.sum(0)
    if name == "count":
        return count
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if name in ("first", "last"):
            where = valid.argmax(0) if name == "first" else len(steps) - 1 - valid[::-1].argmax(0)
            found = np.take_along_axis(steps, where[None], 0)[0]
        elif name == "range":
            found = np.nanmax(steps, 0) - np.nanmin(steps, 0)
        else:
            found = getattr(np, f"nan{name}")(steps, axis=0)
    return np.where(count > 0, found, np.nan)


def weighted(name: str, steps: Array, weights: Array) -> Array:
    """Return a mean or a sum over the first axis in which each step has a weight, missing values left out."""
    weights = np.where(np.isnan(steps), 0, weights.reshape(-1, *[1] * (steps.ndim - 1)))
    with np.errstate(all="ignore"):
        total = np.where(weights > 0, steps * weights, 0).sum(0)
        return np.where(weights.sum(0) > 0, total / (weights.sum(0) if name == "mean" else 1), np.nan)

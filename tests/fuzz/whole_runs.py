"""One run of a program through the engine and an analysis, and what it has made, compared with its BP5 file."""

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import cftime
import numpy as np
import oracle
import xarray as xr
from random_programs import FIXED, PRODUCT, WEIGHTED, Field, Program, write

from bbflow.api import BurstBuffer
from bbflow.report.writing import write_report
from bbflow.zarr_store.stored_names import stored_name
from testsupport.stores import assert_opens, stores_in

PATIENCE_S = 60.0
"""How long a run may take; then it hangs."""
UNSEEN = (
    *("dtype", "coordinates", "bounds", "grid_mapping", "ancillary_variables", "_Unsigned"),
    *("actual_range", "flag_values"),
)
"""Attributes that xarray takes away, that a store has only as far as it has what they name, or that become numbers."""
STARTS = {"year": (1, 1, 0, 0, 0), "month": (1, 0, 0, 0), "day": (0, 0, 0), "hour": (0, 0)}
"""What the begin of a span has, beyond its year, or its year and month, and so on."""
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["random_programs"])


class RefusedError(Exception):
    """The run said in one line that it can't be, or that something is left out."""


def start(program: Program, target: str, parameters: dict[str, str], rank: int | None, errors: Path) -> BaseProcess:
    """Start a process that writes a rank's part of a program."""
    process = PROCESSES.Process(target=write, args=(program, target, parameters, rank, str(errors)), daemon=True)
    process.start()
    return process


def finish(processes: dict[Path, BaseProcess]) -> None:
    """Wait for writers, by the files of their errors; what ADIOS2 or the engine refuses is told by the last line."""
    deadline_s = time.monotonic() + PATIENCE_S
    for process in processes.values():
        process.join(max(deadline_s - time.monotonic(), 0))
    hang = [errors.name for errors, process in processes.items() if process.exitcode is None]
    for process in processes.values():
        process.kill()
    assert not hang, f"writers hang: {hang}"
    for errors, process in processes.items():
        said = errors.read_text().strip()
        assert process.exitcode in (0, 1), f"{errors.name} died with {process.exitcode}: {said}"
        if process.exitcode:
            raise RefusedError(f"{errors.name}: {said.splitlines()[-1]}")


def run(program: Program, buffer: BurstBuffer, folder: Path) -> None:
    """Do one run and compare all that it has made.

    Raises
    ------
    RefusedError
        If it wasn't done in full, and says so.
    AssertionError
        If it is wrong.
    """
    stream, file = f"fuzz{program.seed}", folder / "file.bp"
    config = program.config | {"stream": stream, "output": str(folder / "out"), "open_timeout_s": PATIENCE_S}
    parameters = {
        "PluginName": "bbflow", "PluginLibrary": "bbflow_adios2", "Stream": stream, "Contact": str(buffer.contact),
        "Writers": str(program.ranks), **({"KeepOpen": "yes"} if program.opens > 1 else {}),
    }  # fmt: skip
    with buffer.analyse(config) as analysis:
        writers = {folder / "bp5": start(program, str(file), {}, None, folder / "bp5")}
        for rank in range(program.ranks):
            errors = folder / f"rank{rank}"
            writers[errors] = start(program, stream, parameters | {"Rank": str(rank)}, rank, errors)
        finish(writers)
        outcome = analysis.wait(PATIENCE_S)
    assert outcome is not None, "the analysis hangs"
    check(program, oracle.read(program, file), folder / "out", outcome)
    if program.seed % 5 == 0:
        write_report(folder / "out")
    if not outcome.complete:
        raise RefusedError("; ".join([f"{outcome.late} steps are late", *outcome.errors]))


def check(program: Program, truth: oracle.Truth, output: Path, outcome: Any) -> None:
    """Compare all that a run has made with what its program has written."""
    assert outcome.steps == len(truth.accepted), f"{outcome.steps} steps are folded of {len(truth.accepted)}"
    assert outcome.late == program.steps - outcome.steps, f"{outcome.late} late steps"
    may_skip = program.config["time"]["late"] == "skip"
    is_whole = not any("raw.zarr hasn't all" in line for line in outcome.errors)
    folded = [field for field in program.fields if field.name in program.config["operators"]]
    folded += [program.field(name) for name in (program.weighted, (program.product or [None])[0]) if name]
    lacks = any(field.values[step] is None for field in folded for step in truth.accepted)
    lacks = lacks or (program.product is not None and program.product[1])
    in_time = not outcome.late or (may_skip and outcome.steps > 0)
    expected = is_whole and not (lacks or program.refused) and in_time
    assert outcome.complete == expected, "the outcome doesn't say whether something is lost"
    is_said = any("was refused" in line for line in outcome.errors)
    assert is_said == bool(program.refused), "the outcome doesn't say what the program was refused"
    for store in stores_in(output):
        assert_opens(store)
    check_dates_decode(output)
    with xr.open_zarr(output / "results.zarr", decode_times=False) as results:
        results.load()
    for diagnostic in diagnostics(program, truth) if truth.accepted else ():
        for window in program.config["windows"]:
            check_statistics(diagnostic, truth, results, window)
    check_gaps(truth, results)
    if program.config["netcdf"] and truth.accepted:
        check_netcdf(program, results, output)
    check_raw(program, truth, output / "raw.zarr")


def name_of(window: Any) -> str:
    return window if isinstance(window, str) else f"steps{window['steps']}"


@dataclass(frozen=True, slots=True)
class Expected:
    """A diagnostic, and what goes into it."""

    name: str
    operators: Sequence[str]
    steps: list[Any]
    """Values of each step, None where it has none."""
    weights: dict[int, float] | None = None
    """Of each step that counts."""


def diagnostics(program: Program, truth: oracle.Truth) -> Iterator[Expected]:
    """Yield what the configuration asks for and can be had: what comes of a field that comes and goes is said."""

    def steps_of(name: str) -> list[Any]:
        field = program.field(name)
        return [None if values is None else oracle.valid(field, values) for values in truth.values[name]]

    for name, own in program.config["operators"].items():
        if isinstance(own, list):
            yield Expected(name, own, steps_of(name))
    if program.product is not None:
        steps, fixed = steps_of(program.product[0]), truth.values[FIXED][0]
        if all(values is not None for values in steps):
            operators = program.config["operators"][PRODUCT]["operators"]
            yield Expected(PRODUCT, operators, [values * fixed for values in steps])
    if program.weighted is not None:
        weights = oracle.lengths(truth, program.times.unit_s)
        steps = steps_of(program.weighted)
        if weights and all(values is not None for values in steps):
            yield Expected(WEIGHTED, ["mean", "sum"], steps, weights)


def check_statistics(diagnostic: Expected, truth: oracle.Truth, results: xr.Dataset, window: Any) -> None:
    """Compare statistics in all spans of a window."""
    steps = [values for values in diagnostic.steps if values is not None]
    nothing, spans = np.full(steps[0].shape, np.nan), oracle.groups(truth, window)
    if name_of(window) in STARTS:
        check_starts(results[f"time_{window}"], results[f"time_{window}_bnds"][:, 0], spans, window)
    for name in diagnostic.operators:
        array = find_result(results, diagnostic.name, window, name)
        assert array.shape[0] == len(spans), f"{array.name} has {array.shape[0]} spans, not {len(spans)}"
        for at, (span, numbers) in enumerate(spans.items()):
            own = [diagnostic.steps[number] for number in numbers]
            stack = np.stack([nothing if values is None else values for values in own])
            if diagnostic.weights is None:
                expected = oracle.statistic(name, stack)
            else:
                expected = oracle.weighted(name, stack, np.array([diagnostic.weights[number] for number in numbers]))
            size = float(np.nanmax(np.abs(np.where(np.isfinite(stack), stack, 0)), initial=0))
            same(array.values[at], expected, f"{array.name} of {span}", size)


def find_result(results: xr.Dataset, diagnostic: str, window: Any, name: str) -> xr.DataArray:
    """Return the one array that has a statistic."""
    own = {"bbflow_variable": diagnostic, "bbflow_window": name_of(window), "bbflow_operator": name}
    found = [item for item in results.values() if own.items() <= item.attrs.items()]
    assert len(found) == 1, f"{diagnostic}'s {name} of {window} is there {len(found)} times: {list(results)}"
    return found[0]


def check_gaps(truth: oracle.Truth, results: xr.Dataset) -> None:
    """See that no step is missed where all that count are as far from each other."""
    dates = [] if truth.dates is None else [truth.dates[step] for step in truth.accepted]
    if len({later - date for date, later in pairwise(dates)}) == 1:
        assert results.attrs["bbflow_missing_steps"] == 0, f"{results.attrs['bbflow_missing_steps']} steps are missed"


def check_starts(axis: xr.DataArray, begins: xr.DataArray, spans: dict[Any, list[int]], window: str) -> None:
    """Compare the begins of a window's spans with the days and hours that they stand for."""
    calendar = axis.attrs.get("calendar", "standard")
    found = [cftime.num2date(begin, axis.attrs["units"], calendar=calendar) for begin in begins.values]
    found = [date + timedelta(seconds=0.5) for date in found]  # a number may be rounded down
    keys = [(date.year, date.month, date.day, date.hour, date.minute, date.second) for date in found]
    expected = [(*span, *STARTS[window]) for span in spans]
    assert sorted(keys) == sorted(expected), f"spans of {window} begin at {keys}, not {expected}"


def check_dates_decode(output: Path) -> None:
    """See that xarray opens all stores as users do, with their dates."""
    for store in output.glob("*.zarr"):
        with xr.open_zarr(store) as found:
            found.load()
    for file in output.glob("*.nc"):
        with xr.open_dataset(file) as found:
            found.load()


def same(found: Any, expected: Any, what: str, size: float) -> None:
    """See that numbers agree, but for rounding of numbers of some size."""
    close = np.isclose(found, expected, rtol=1e-6, atol=1e-7 * size, equal_nan=True)
    assert np.shape(found) == np.shape(expected), f"{what} has the shape {np.shape(found)}, not {np.shape(expected)}"
    assert np.all(close), f"{what} is {np.asarray(found)[~close][:4]}, not {np.asarray(expected)[~close][:4]}"


def check_netcdf(program: Program, results: xr.Dataset, output: Path) -> None:
    """Compare NetCDF files with the results."""
    for window in map(name_of, program.config["windows"]):
        with xr.open_dataset(output / f"results_{window}.nc", decode_times=False) as copied:
            for name, array in results.items():
                if "bbflow_operator" in array.attrs and array.dims[0] == f"time_{window}":
                    same(copied[name].values, array.values, f"NetCDF's {name}", 0)


def check_raw(program: Program, truth: oracle.Truth, store: Path) -> None:
    """Compare raw steps."""
    with xr.open_zarr(store, decode_times=False) as raw:
        raw.load()
    wanted = program.config["raw"]["variables"]
    numbers = [step for step in range(program.steps) if step % program.config["raw"]["every"] == 0]
    kept = raw["bbflow_step"].values.tolist()
    assert kept == numbers, f"raw steps are {kept}, not {numbers}"
    left_out = [text.rpartition(": ")[0] for text in raw.attrs.get("bbflow_left_out", ())]
    if truth.dates is not None:
        check_dates(raw, [truth.dates[number] for number in numbers], program.times.error_s)
    arrays = {item.attrs.get("bbflow_name", str(name)): (name, item) for name, item in raw.variables.items()}
    for field in program.fields:
        own = [number for number in numbers if field.values[number] is not None]
        if (wanted != "all" and field.name not in wanted) or not own or field.name in left_out:
            continue
        if field.kind in ("local", "text"):
            check_kept(field, raw, store, own)
            continue
        stored, array = arrays[field.name]
        if "bbflow_mixed" in array.attrs and "missing_value" in array.encoding:
            continue  # which the run has said
        moved = moved_steps(field, raw, store)
        is_coordinate = array.dims == (stored,)  # of which the store has the first step's once
        there = [truth.values[field.name][number] for number in own]
        for number in numbers:
            value = truth.values[field.name][number]
            hole = np.full_like(array.values if is_coordinate else array.values[0], np.nan, float)
            known = array.values if is_coordinate else array.values[numbers.index(number)]
            if number in moved:
                known, hole = moved[number], moved[number]
            elif is_coordinate:
                value = there[0] if value is None else value
            same(known, hole if value is None else value, f"raw {field.name} in step {number}", 0)
        check_attributes(field, array.attrs)


def moved_steps(field: Field, raw: xr.Dataset, store: Path) -> dict[int, Any]:
    """Return the steps of a field that are in its table: it has changed its shape, or is a coordinate that changes."""
    group = stored_name(f"{field.name}_blocks")
    if not (store / group).exists():
        return {}
    with xr.open_zarr(store, group=group, chunks=None) as table:
        table.load()
    found: dict[int, Any] = {}
    for at, step in enumerate(table["step"].values.tolist()):
        if step in raw["bbflow_step"].values:
            whole = found.setdefault(step, np.full(table["shape"].values[at].astype(int), np.nan))
            ends = zip(table["start"].values[at].tolist(), table["count"].values[at].tolist(), strict=True)
            begin, size = int(table["begin"].values[at]), int(table["size"].values[at])
            count = table["count"].values[at].astype(int)
            part = tuple(slice(int(first), int(first + length)) for first, length in ends)
            whole[part] = table["value"].values[begin : begin + size].reshape(count)
    return found


def check_kept(field: Field, raw: xr.Dataset, store: Path, numbers: list[int]) -> None:
    """Compare text, and the table of an array that has no place: bytes as the program has them, not decoded."""
    if field.kind == "text":
        (array,) = (item for name, item in raw.variables.items() if item.attrs.get("bbflow_name", name) == field.name)
        texts = dict(zip(raw["bbflow_step"].values.tolist(), array.values.tolist(), strict=True))
        assert [texts[number] for number in numbers] == [field.values[number] for number in numbers], field.name
        return
    with xr.open_zarr(store, group=stored_name(f"{field.name}_blocks"), decode_cf=False) as table:
        assert table["step"].values.tolist() == numbers, f"the table of {field.name} has the steps {table.step.values}"
        values = np.concatenate([field.values[number].ravel() for number in numbers])
        same(table["value"].values, values, f"the table of {field.name}", 0)


def check_dates(raw: xr.Dataset, dates: list[Any], error_s: float) -> None:
    """Compare the dates of raw steps, which may be as far off as the program has told them."""
    time = raw["time"]
    told = {name.removeprefix("bbflow_"): value for name, value in time.attrs.items()}  # with times that are no dates
    for found, expected in zip(time.values, dates, strict=True):
        if expected is None:
            continue
        date = cftime.num2date(found, told["units"], calendar=told.get("calendar", "standard"))
        assert abs((date - expected).total_seconds()) <= error_s, f"a raw step is of {date}, not {expected}"


def check_attributes(field: Field, found: dict[str, Any]) -> None:
    """Compare attributes that are a text; xarray takes what it decodes by away."""
    for name, value in field.attributes.items():
        if isinstance(value, str) and name not in UNSEEN:
            assert found.get(name) == value, f"{field.name}/{name} is {found.get(name)!r}, not {value!r}"

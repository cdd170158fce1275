"""Publishing: a window's span from states to results.zarr, in one worker's task, against zarr alone and one copy."""

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

import numpy as np
import zarr

from bbflow.configuring.config import parse_config
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.cf import StreamAttributes
from bbflow.transit.output.fields import ResultField
from bbflow.transit.output.results import Results
from bbflow.transit.publication.publish import FieldWork, publish_fields
from bbflow.transit.spans.slots import BASE, OUTER, StateSlot
from bbflow.transit.spans.timeline import Closing, Span
from bbflow.transit.states.shards import ShardKey, ShardState, StatePlace
from bbflow.transit.states.state_layouts import state_layout_of
from bbflow.transit.states.tables import States
from benchmarks.rows import Row

STATISTICS = ("mean", "std", "min", "max")
CASES = {"200 fields of 64 x 64": (200, 64), "1 field of 4096 x 4096": (1, 4096)}
KEYS = {"run": ()}


def measure(*, quick: bool = False) -> list[Row]:
    """Publish spans of few large and of many small fields."""
    rows = []
    for name, (fields, side) in CASES.items():
        with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="bbflow-bench-") as directory:
            rows += _case(name, Path(directory), fields, side, repeat=3 if quick else 7)
    return rows


def _case(name: str, directory: Path, fields: int, side: int, repeat: int) -> list[Row]:
    operators = {f"v{number}": list(STATISTICS) for number in range(fields)}
    config = parse_config({"stream": "s", "windows": ["run"], "operators": operators})
    works = [_work(directory, item, side) for item in config.diagnostics.values()]
    described = {work.diagnostic.key: (_field(work), work.diagnostic.operators) for work in works}
    results = Results(directory / "results.zarr", "s", StreamAttributes({}), Clock("days since 2000-01-01", "noleap"))
    window, spans = works[0].span.window, iter(range(100))

    def publish() -> None:
        span = Span((), float(next(spans)), 1000.0, 99, 0)
        [prepared] = results.prepare([(Closing(window, (span,), frozenset()), described)])
        own = [replace(work, targets=prepared.targets[work.diagnostic.key]) for work in works]
        results.show([prepared], publish_fields(own).errors)

    first, *later = [_measured(publish) for _ in range(repeat)]
    wall_s, cpu_s, faults = (statistics.median(values) for values in zip(*later, strict=True))
    zarr_s = _measured(lambda: _zarr_alone(directory / "other.zarr", fields, side))[1]
    copy_s = statistics.median(_measured(lambda: _copied(directory, works))[1] for _ in range(repeat))
    told = f"{name}, {' + '.join(STATISTICS)}"
    return [
        Row(f"zarr creates and writes {told}, CPU", zarr_s, "s", 1.0),
        Row("bbflow's first span: arrays are made, CPU", first[1], "s", first[1] / zarr_s),
        Row("bbflow, a later span, CPU", cpu_s, "s", cpu_s / zarr_s),
        Row("bbflow, a later span, wall time", wall_s, "s"),
        Row("bbflow, a later span, page faults", faults, "faults"),
        Row("one copy of the states' files, CPU", copy_s, "s", copy_s / zarr_s),
    ]


def _work(directory: Path, diagnostic: Diagnostic, side: int) -> FieldWork:
    """Return a field with two states: the span so far, and the open steps."""
    shape = (side, side)
    state_layout = state_layout_of(diagnostic, OUTER, np.dtype("f4"), shape)
    files = {
        slot: str(directory / f"{diagnostic.key}.{slot.window}") for slot in (StateSlot(OUTER, "run"), BASE[OUTER])
    }
    for number, path in enumerate(files.values()):
        state = np.zeros(state_layout.nbytes, "u1")
        for name, values in state_layout.views(state)["moments"].items():
            values[...] = 5 + number if name == "count" else 270.5
        state.tofile(path)
    key = ShardKey("node", diagnostic.key, (0, 0), shape)
    places = {slot: StatePlace(path, 0) for slot, path in files.items()}
    state = ShardState(dtype="<f4", last_step=9, last_time=9.0, keys=KEYS, files=places)
    span = Closing(diagnostic.windows[0], (Span((), 0.0, 9.0, 10),), frozenset())
    shards = tuple(States.of([(key, ((0, 0), shape), state)])[0].fields)
    return FieldWork(diagnostic, shape, span, shards, str(directory))


def _field(work: FieldWork) -> ResultField:
    return ResultField(work.diagnostic.name, "<f4", work.shape, ("y", "x"), {"units": "K"}, {})


def _zarr_alone(path: Path, fields: int, side: int) -> None:
    """Make as many arrays of the same types, and write one chunk of each."""
    group = zarr.open_group(path, mode="w", zarr_format=3)
    values = np.ones((side, side))
    for number in range(fields):
        for name, dtype in zip(STATISTICS, ("f8", "f8", "f4", "f4"), strict=True):
            options = {"shape": (1, side, side), "chunks": (1, side, side), "dtype": dtype, "compressors": None}
            group.create_array(f"v{number}_{name}", **options)[0] = values


def _copied(directory: Path, works: list[FieldWork]) -> None:
    for work in works:
        for place in work.shards[0].like.files.values():
            shutil.copyfile(place.path, directory / "copy")


def _measured(action: Callable[[], object]) -> tuple[float, float, int]:
    """Return wall time and CPU time in seconds, and page faults."""
    before, started_s = getrusage(RUSAGE_SELF), time.perf_counter()
    action()
    wall_s, after = time.perf_counter() - started_s, getrusage(RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall_s, cpu_s, after.ru_minflt - before.ru_minflt

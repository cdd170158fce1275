"""What a step like that of a file would say to a configuration, before any simulation runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bbflow.configuring.settings import Config
from bbflow.errors import BbflowError, ConfigError
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.space.installed import check_installed
from bbflow.operators.space.placement import Placement
from bbflow.operators.steps import Array
from bbflow.operators.windows.calendars import STEP_CLOCK, Clock
from bbflow.operators.windows.spans import Run, StepsSpan
from bbflow.run.checks.finding import FINE, NOTE, WRONG, Finding
from bbflow.run.checks.memory import result_bytes_per_point, window_times_s
from bbflow.stream.cf import StreamAttributes
from bbflow.stream.dtypes import DTYPES
from bbflow.stream.records import Block
from bbflow.transit.driver.first_step import StreamArrays, check_chunks, check_variables, make_clock, own_names
from bbflow.transit.driver.holding import hold_fields
from bbflow.transit.driver.placing import place_diagnostics
from bbflow.transit.driver.state_room import footprints
from bbflow.transit.folding.regions import check_apart, forms_by_name, regions
from bbflow.transit.output.fields import field_of
from bbflow.transit.states.footprint import Footprint
from bbflow.units import format_bytes

NODE = "bb0"
BP = (".bp", ".bp4", ".bp5")


@dataclass(frozen=True, slots=True)
class SeenStep:
    """The first step of a file, as that of a stream is seen."""

    placed: Sequence[tuple[str, Block]]
    """Its blocks; those of a BP file as they lie there."""
    values: Mapping[str, Any]
    """Reads a variable when it is asked for."""
    attributes: Mapping[str, Any]
    """By their ADIOS2 names."""
    interval: float | None
    """Between the first two steps, in the units of the times; None if that isn't known."""

    def whole(self, names: Sequence[str]) -> list[Array]:
        """Read variables."""
        return [np.asarray(self.values[name]()) for name in names]


def check_like(config: Config, path: Path) -> tuple[list[Finding], Sequence[Footprint]]:
    """Compare a configuration with the first step of a file: names, grids, levels, units, weights, blocks, memory.

    Returns
    -------
    tuple
        What was found, and what the states take of those that can be folded.

    Parameters
    ----------
    config
        The run's configuration.
    path
        A NetCDF file with a grid or some output, or an ADIOS2 file of the same program.
    """
    states: list[Footprint] = []
    try:
        step = _read(path, config.time.variable)
        with TemporaryDirectory(prefix="bbflow-check-") as folder:
            return list(_findings(config, step, path, Path(folder), states)), states
    except BbflowError as error:
        return [Finding(WRONG, "like", f"{path}: {error}")], []


def _findings(config: Config, step: SeenStep, path: Path, folder: Path, states: list[Footprint]) -> Iterator[Finding]:
    names = [block.name for _, block in step.placed]
    lacking = check_variables(config, names)
    yield from (Finding(WRONG, "like", f"{path}: {why}") for why in lacking.values())
    plain = StreamAttributes(step.attributes, variables=frozenset(names))
    clock = STEP_CLOCK
    try:
        clock = make_clock(config, plain, None)
    except ConfigError as error:
        yield Finding(NOTE, "like", f"{path}: {error}")
    arrays = StreamArrays(folder, step)  # type: ignore[arg-type]  # all that it asks of a step
    attributes = StreamAttributes(step.attributes, own_names(config, clock), variables=frozenset(arrays.blocks))
    attributes = attributes.agreeing(arrays.shapes)
    check_chunks(config.raw, arrays.shapes, attributes)
    placements: dict[str, Placement] = {}
    fine: dict[str, Diagnostic] = {}
    for key, item in config.diagnostics.items():
        if key in lacking:
            continue
        try:
            placements |= place_diagnostics({key: item}, arrays, attributes)[0]
            field_of(item, arrays.blocks, attributes, placements, clock)
            hold_fields({key: item}, placements, arrays, attributes, clock)
            _check_blocks(item, step, placements.get(key))
            fine[key] = item
        except BbflowError as error:
            yield Finding(WRONG, "like", f"{path}: {error}")
    if fine:
        own = footprints(fine.values(), step.placed, placements, attributes, {}, [NODE], lambda _: config.workers.count)
        states += [item for items in own.values() for item in items]
        yield _totals(config, fine, step, states, path)
    yield from _batches(config, step, clock)


def _check_blocks(diagnostic: Diagnostic, step: SeenStep, placement: Placement | None) -> None:
    """Check that blocks can be folded as they lie: with whole columns, and with each point once."""
    forms = forms_by_name({NODE: [block for _, block in step.placed]})
    keys = regions(diagnostic, forms, None if placement is None else placement.column)
    check_apart(0, keys)
    for key in keys if placement is not None else ():
        placement.local(key.start, key.count)  # type: ignore[union-attr]


def _totals(
    config: Config,
    fine: Mapping[str, Diagnostic],
    step: SeenStep,
    items: Sequence[Footprint],
    path: Path,
) -> Finding:
    states, points = sum(item.bytes for item in items), {item.diagnostic: item.points for item in items}
    results = sum(points[key] * result_bytes_per_point(item) for key, item in fine.items() if key in points)
    size = sum(block.points * block.dtype.itemsize for _, block in step.placed if block.type in DTYPES)
    text = (
        f"a step like that of {path} has {format_bytes(size)}; states take up to {format_bytes(states)} on all nodes "
    )
    text += f"together, and the end of each window publishes {format_bytes(round(results))}"
    if (times := window_times_s(config, states, results)) is not None:
        text += f", which take {times[1]:.2f} s once and {times[2]:.2f} s"
    capacity = config.nodes.state_capacity
    if capacity is not None and states > capacity * config.nodes.count:
        return Finding(WRONG, "like", f"{text}, but nodes: state_capacity is {format_bytes(capacity)} on each")
    if size > config.nodes.count * config.nodes.capacity:
        return Finding(WRONG, "like", f"{text}, but nodes: capacity is {format_bytes(config.nodes.capacity)} on each")
    return Finding(FINE, "like", text)


def _batches(config: Config, step: SeenStep, clock: Clock) -> Iterator[Finding]:
    """Yield which windows end with each step: steps are folded one by one then, at 10 to 20 ms of the driver each."""
    windows = {window.name: window for item in config.diagnostics.values() for window in item.windows}
    windows |= {window.name: window for item in config.diagnostics.values() for window in item.inner_windows}
    interval_s = None if clock.by_steps or step.interval is None else step.interval * clock.unit_s
    for name, window in windows.items():
        if isinstance(window.spans, StepsSpan):
            each = window.spans.count == 1
        else:
            each = interval_s is not None and window.spans.seconds <= interval_s
        if each and not isinstance(window.spans, Run):
            text = f"the window {name} ends with each step, so each is a batch of its own: 10 to 20 ms of the analysis"
            yield Finding(NOTE, "like", text)


def _read(path: Path, time: str) -> SeenStep:
    if not path.exists():
        raise ConfigError("there is no such file")
    if path.is_dir() or path.suffix in BP:
        return _of_bp(path, time)
    return _of_netcdf(path, time)


def _of_bp(path: Path, time: str) -> SeenStep:
    import adios2
    from adios2.bindings import Mode

    try:
        file = adios2.FileReader(str(path))
    except (RuntimeError, ValueError) as error:
        raise ConfigError(f"ADIOS2 can't read it: {error}") from None
    io = adios2.Adios().declare_io("like")
    engine = io.open(str(path), Mode.ReadRandomAccess)
    placed: list[tuple[str, Block]] = []
    values: dict[str, Any] = {}
    for name, told in io.available_variables().items():
        shape = tuple(int(size) for size in told["Shape"].split(",") if size.strip())
        values[name] = lambda name=name: file.read(name, step_selection=[0, 1])
        if told["SingleValue"] == "true":
            value = values[name]() if told["Type"] == "string" else np.asarray(values[name]()).reshape(-1)[0].item()
            placed.append((NODE, Block(name, told["Type"], "GlobalValue", value=value)))
            continue
        for own in engine.blocks_info(name, 0):
            start, count = (tuple(int(at) for at in own[key].split(",") if at) for key in ("Start", "Count"))
            size = int(np.prod(count)) * (DTYPES[told["Type"]].itemsize if told["Type"] in DTYPES else 1)
            kind = "GlobalArray" if shape else "LocalArray"
            rank = int(own.get("WriterID", 0))
            placed.append((NODE, Block(name, told["Type"], kind, shape, start, count, bytes=size, rank=rank)))
    attributes = {name: _plain(file.read_attribute(name), name) for name in file.available_attributes()}
    interval = None
    if time in values and int(io.available_variables()[time]["AvailableStepsCount"]) > 1:
        first, second = np.asarray(file.read(time, step_selection=[0, 2])).reshape(-1)[:2].tolist()
        interval = float(second - first)
    return SeenStep(placed, values, attributes, interval)


def _of_netcdf(path: Path, time: str) -> SeenStep:
    check_installed("netCDF4", "a NetCDF file")
    import netCDF4

    try:
        file = netCDF4.Dataset(path)
    except OSError as error:
        raise ConfigError(f"it isn't a NetCDF file: {error}") from None
    # As a program puts them: packed, with fill values.
    file.set_auto_maskandscale(False)
    records = {time} | {name for name, dim in file.dimensions.items() if dim.isunlimited()}
    names = {str(dtype): name for name, dtype in DTYPES.items() if name not in ("char", "long double")}
    placed, values = list[tuple[str, Block]](), dict[str, Any]()
    attributes: dict[str, Any] = {name: _plain(file.getncattr(name), name) for name in file.ncattrs()}
    for name, variable in file.variables.items():
        dtype = np.dtype(variable.dtype) if variable.dtype is not str else np.dtype("O")
        if str(dtype) not in names:
            continue
        first = tuple(0 if dim in records else slice(None) for dim in variable.dimensions)
        dims = [dim for dim in variable.dimensions if dim not in records]
        shape = tuple(len(file.dimensions[dim]) for dim in dims)
        values[name] = lambda variable=variable, first=first: variable[first]
        attributes |= {f"{name}/{key}": _plain(variable.getncattr(key), key) for key in variable.ncattrs()}
        attributes |= {f"{name}/_ARRAY_DIMENSIONS": dims} if dims else {}
        size = int(np.prod(shape)) * dtype.itemsize
        kind = "GlobalArray" if shape else "GlobalValue"
        block = Block(name, names[str(dtype)], kind, shape, (0,) * len(shape), shape, bytes=size if shape else 0)
        placed.append((NODE, block))
    times = np.asarray(file.variables[time][:2]) if time in file.variables else np.empty(0)
    return SeenStep(placed, values, attributes, float(times[1] - times[0]) if times.size == 2 else None)


def _plain(value: Any, name: str) -> Any:
    """Return an attribute's value as a stream's has it."""
    plain = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    is_one = isinstance(plain, list) and len(plain) == 1 and not name.endswith("_ARRAY_DIMENSIONS")
    return plain[0] if is_one else plain

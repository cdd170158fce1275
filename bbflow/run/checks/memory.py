"""What a run will hold in memory, said before it starts."""

import time
from collections.abc import Mapping
from math import prod
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np

from bbflow.configuring.settings import Config
from bbflow.errors import ConfigError
from bbflow.landing.replies import StatusReply
from bbflow.models.rates import PAGE_BYTES, NodeRates, StreamLoad, stream_balance
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.space.weights import weights_bytes
from bbflow.run.checks.finding import FINE, NOTE, WRONG, Finding
from bbflow.store.pool import free_bytes
from bbflow.transit.states.footprint import bytes_per_point
from bbflow.units import format_bytes

PROCESS_BYTES = 320 << 20
"""What a process of the analysis holds by itself: Python, Dask, xarray and what they load."""
MERGING = 1.5
"""Workers hold this many times the states' bytes, at most, while they publish: three copies of one of two files."""
PROBED_BYTES = 32 << 20
OTHERS = 3
"""Processes beside nodes and workers: the run, the analysis, Dask's own."""


def check_memory(config: Config, free: int | None) -> list[Finding]:
    """Look at what the nodes that a run starts by itself will hold, beside what was free before; None asks now."""
    nodes = config.nodes
    if free is None:
        if not nodes.directory.is_dir():
            return [Finding(WRONG, "memory", f"there is no directory {nodes.directory}: set nodes: directory")]
        free = free_bytes(nodes.directory)
    pools = nodes.count * nodes.capacity
    states = None if nodes.state_capacity is None else nodes.count * nodes.state_capacity
    text = f"pools {format_bytes(pools)}, {_states(states)}, {_processes(config, states)}"
    text += f"; {nodes.directory} has {format_bytes(free)} free"
    need = pools + (states or 0)
    if need > free:
        text += f": pools and states need {format_bytes(need)}; lower nodes: capacity or state_capacity"
        return [Finding(WRONG, "memory", text), *per_point(config)]
    return [Finding(NOTE if states is None else FINE, "memory", text), *per_point(config)]


def check_nodes(statuses: Mapping[str, StatusReply]) -> list[Finding]:
    """Report what the nodes that are there hold, by their names."""
    pools = ", ".join(
        f"{name} {format_bytes(status.free)} of {format_bytes(status.capacity)} free"
        for name, status in statuses.items()
    )
    return [Finding(FINE, "nodes", pools)]


def per_point(config: Config) -> list[Finding]:
    """Report what the states take for each point of a field, and how that compares with the field itself."""
    each = {item.name: bytes_per_point(item) * config.workers.count for item in config.diagnostics.values()}
    largest = sorted(each.items(), key=lambda item: -item[1])[:3]
    told = ", ".join(f"{name} {format_bytes(size)}" for name, size in largest)
    more = f", {len(each) - len(largest)} others less" if len(each) > len(largest) else ""
    return [Finding(FINE, "states", f"for each point (of float32): {told}{more}")] if each else []


def check_windows(config: Config) -> list[Finding]:
    """Report what a million points cost by their states and results; measures how long a page of memory takes."""
    if not config.diagnostics:
        return []
    points = 10**6
    states = points * sum(map(bytes_per_point, config.diagnostics.values())) * config.workers.count
    results = points * sum(map(result_bytes_per_point, config.diagnostics.values()))
    times = window_times_s(config, states, results)
    if times is None:
        return []
    text = f"a page takes {times[0] * 1e6:.1f} us to be there, so for each million points (of float32) states take "
    text += f"{times[1]:.2f} s once, and the {format_bytes(round(results))} of each window's end "
    text += f"{times[2]:.2f} s, or as long as the output's file system needs for them"
    return [Finding(FINE, "windows", text)]


def window_times_s(config: Config, states: float, results: float) -> tuple[float, float, float] | None:
    """Return how long a page, all states' pages and a window's end take to be there; it tries memory.

    Parameters
    ----------
    config
        The run's configuration.
    states, results
        Their bytes.

    Returns
    -------
    tuple of float or None
        Seconds; None where there is no room to try.
    """
    page_s = _page_s(config.nodes.directory)
    if page_s is None:
        return None
    load = StreamLoad(0, 0, state_bytes=states, result_bytes=results)
    rates = NodeRates(1, 1, 1, page_s=page_s, publish_bytes_per_s=PAGE_BYTES / page_s)
    balance = stream_balance(load, rates)
    return page_s, balance.first_touch_s, balance.publish_s


def result_bytes_per_point(diagnostic: Diagnostic) -> int:
    """Return what a window's end publishes of each point."""
    sizes = (prod(item.lead) * item.dtype(np.dtype("f4")).itemsize for item in diagnostic.operators)
    return sum(sizes)


def _page_s(directory: Path) -> float | None:
    """Try how long it takes until a file's page is there that is written; None where there is no room for that."""
    zeros = memoryview(bytes(PROBED_BYTES))
    try:
        with TemporaryFile(dir=directory, buffering=0) as file:
            began_s = time.perf_counter()
            for at in range(0, PROBED_BYTES, PROBED_BYTES >> 6):
                file.write(zeros[at : at + (PROBED_BYTES >> 6)])
            return (time.perf_counter() - began_s) / (PROBED_BYTES / PAGE_BYTES)
    except OSError:
        return None


def check_weights(config: Config) -> list[Finding]:
    """Report what weights in files take; those that are made are known with the first step."""
    remaps = (item.space.remap for item in config.diagnostics.values() if item.space is not None)
    files = ((move.file, move.method) for move in remaps if move is not None and move.file is not None)
    found: dict[Finding, None] = {}
    for path, method in dict.fromkeys(files):
        try:
            whole, parts = weights_bytes(path, method)
        except ConfigError as error:
            found[Finding(WRONG, "weights", str(error))] = None
        else:
            folded = format_bytes(parts * config.workers.count)
            text = f"{path}: {format_bytes(whole)} in the analysis, {folded} at most in the workers"
            found[Finding(FINE, "weights", text)] = None
    return list(found)


def process_bytes(config: Config, states: int) -> int:
    """Return the most that a run's processes hold for themselves, its simulation apart.

    Parameters
    ----------
    config
        The run's configuration.
    states
        Bytes of the states of all nodes.
    """
    own = config.workers.processes + config.nodes.count + OTHERS
    return own * PROCESS_BYTES + round(MERGING * states)


def _states(states: int | None) -> str:
    return (
        "states without a limit (nodes: state_capacity)" if states is None else f"states up to {format_bytes(states)}"
    )


def _processes(config: Config, states: int | None) -> str:
    if states is None:
        return f"processes {format_bytes(process_bytes(config, 0))} and {MERGING:g} times the states"
    return f"processes up to {format_bytes(process_bytes(config, states))}"

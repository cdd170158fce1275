"""What a scenario's sections say: records whose fields are the keys, and how their values are read."""

import dataclasses
import math
import re
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from bbflow.errors import ConfigError
from bbflow.reading.sections import number, read_section, text, whole_number
from bbflow.units import parse_bytes

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FileSystem:
    """The shared parallel file system, or cloud storage."""

    servers: int
    """Servers that files are striped over."""
    server_bytes_per_s: float
    """Of one server, reading and writing together."""
    loss: float = 0.0
    """What each further stream costs: n streams get ``1 / (1 + loss (n - 1))`` of the servers' rate together."""
    unfairness: float = 0.0
    """Standard deviation of the logarithm of a stream's share of the servers, to an equal share."""


@dataclass(frozen=True, slots=True)
class BurstBufferSection:
    """The BB nodes."""

    node_capacity_bytes: int
    """Room on one node."""
    link_bytes_per_s: float
    """Of one node to the network."""
    nodes: int = 0
    """How many; instead, `clients_per_node` may be given."""
    clients_per_node: int = 0
    """Compute nodes that one BB node serves: with it, the number of BB nodes follows that of compute nodes."""
    storage_bytes_per_s: float = 20e9
    """Of one node's memory or disk, written or read."""
    landing_bytes_per_s: float = 20e9
    """What one node's software takes in at most."""
    fold_bytes_per_s: float = 6.6e9
    """What one node's cores analyse, where they do it while steps land."""
    page_s: float = 0.0
    """Until one node has a page of 4 KiB not touched before: so each page of partial states begins."""
    publish_bytes_per_s: float = 1e12
    """Results that one node writes at a window's end, on the cores that fold."""
    fetchers: int = 8
    """Transfers at once, over all nodes."""
    fetcher_bytes_per_s: float = 1e12
    """The most that one of them gets, even alone."""
    fetcher_weight: float = 1.0
    """A fetcher's share of a bottleneck, to that of another stream: it asks chunk by chunk."""
    price_per_h: float = 0.0
    """Of one node, in any currency."""

    def count(self, clients: int) -> int:
        """Return the number of BB nodes beside this many compute nodes.

        Raises
        ------
        ConfigError
            If neither it nor the clients of each are given, or both.
        """
        if bool(self.nodes) == bool(self.clients_per_node):
            raise ConfigError("burst_buffer: give either nodes or clients_per_node")
        return self.nodes or -(-clients // self.clients_per_node)


@dataclass(frozen=True, slots=True)
class JobSection:
    """A data-parallel job whose tasks run in waves: Spark's map phase, or any workflow level."""

    nodes: int
    """Compute nodes."""
    slots: int
    """Tasks that run at once, over all nodes."""
    waves: int
    """Tasks that each slot runs."""
    input_bytes: int
    """Of one task."""
    compute_s: float
    """Of one task, without reading."""
    link_bytes_per_s: float
    """Of one node to the network."""
    passes: int = 1
    """How often a task reads its input; it computes an equal part after each."""
    stream_bytes_per_s: float = 1e12
    """The most that one task reads: where it parses while it reads, for instance."""
    stream_weight: float = 1.0
    """A task's share of the file system, to that of another stream."""
    lookahead: int = 1
    """Waves whose inputs may lie ahead."""
    jitter: float = 0.0
    """Relative standard deviation of a task's computing."""
    start_s: float = 0.0
    """From the end of the application's last phase before it to its own begin."""
    price_per_h: float = 0.0
    """Of one node, in any currency."""


@dataclass(frozen=True, slots=True)
class Workflow:
    """Where a workflow's tasks run; the section `levels`, a plan file or a trace lists them."""

    nodes: int
    """Compute nodes."""
    slots: int
    """Tasks that run at once, over all nodes."""
    link_bytes_per_s: float
    """Of one node to the network."""
    plan: str = ""
    """File with the tasks, as `bbflow stage` takes it, with ``compute_s`` for each; relative to the scenario's."""
    trace: str = ""
    """File with the tasks as they once ran, in WfFormat; relative to the scenario's."""
    queue_wait_s: float = 0.0
    """Mean time for which a node's job waits in the batch queue, from the workflow's start; each node draws its own, of
    an exponential distribution."""
    node_mtbf_s: float = 0.0
    """Mean time between two outages of a compute node, drawn of an exponential distribution; 0 for none."""
    repair_s: float = 0.0
    """From an outage until the node takes tasks again; those that were running on it run again from their start."""
    scale: int = 1
    """What the levels' counts are multiplied by; a level of one task keeps it."""
    stream_bytes_per_s: float = 1e12
    """The most that one task reads from, or writes to, the file system."""
    lookahead: int = 1
    """Waves whose inputs may lie ahead."""
    outputs_share: float = 0.5
    """Share of the BB that Parsl's executor keeps for what tasks make."""
    jitter: float = 0.0
    """Relative standard deviation of a task's computing."""
    price_per_h: float = 0.0
    """Of one node, in any currency."""


@dataclass(frozen=True, slots=True)
class Application:
    """An HPC application that shares the file system: it writes, computes, and writes again."""

    ranks: int
    """That write at once."""
    rank_bytes: int
    """Written by one rank in a phase."""
    pause_s: float
    """From the end of a phase to the begin of the next."""
    rank_bytes_per_s: float = 1e12
    """The most that one rank writes."""
    phases_before: int = 3
    """Phases that the job's host has seen before the job begins."""
    jitter: float = 0.0
    """Relative standard deviation of the pauses."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """A simulation whose steps go to BB nodes or to the file system."""

    nodes: int
    """Compute nodes."""
    steps: int
    """That it writes."""
    node_step_bytes: int
    """Of one step on one node."""
    compute_s: float
    """From one step to the next, without writing."""
    link_bytes_per_s: float
    """Of one node to the network."""
    jitter: float = 0.0
    """Relative standard deviation of a node group's computing."""


@dataclass(frozen=True, slots=True)
class AnalysisSection:
    """What is made of the steps."""

    bytes_per_s: float
    """What one node analyses, of data that is there."""
    read_bytes_per_s: float = 1e12
    """The most that one node of an analysis cluster reads from the PFS."""
    kept_share: float = 0.0
    """Share of the bytes that is written again as a result (a filter's)."""
    drained_share: float = 1.0
    """Share of the bytes that goes to the PFS as raw steps, where nodes fold while steps land."""
    states_share: float = 0.0
    """All files of partial states, to the bytes of a step."""
    results_share: float = 0.0
    """What is published at a window's end, to the bytes of a step."""
    window_steps: int = 0
    """Steps from one window's end to the next; 0 if the only one is the run's."""
    drain_policy: str = "no-action"
    """How the drain gives way to the I/O phases of the application."""


_MAY_BE_NONE = {"phases_before", "lookahead", "window_steps"}
"""Whole numbers that may be 0, beside those that are if nothing is said."""
_RATE = re.compile(r"\s*(.+?)\s*([Bb])(?:it)?/s\s*")


def parse_rate(told: str | float) -> float:
    """Read a rate such as ``352 MB/s``, ``10 Gb/s`` (bits) or ``1.25e9``; bytes a second.

    Raises
    ------
    ConfigError
        If it is none, or not above zero.
    """
    match = _RATE.fullmatch(str(told))
    try:
        rate = parse_bytes(match[1] + "B") / (1 if match[2] == "B" else 8) if match else number(told)
    except (ValueError, ConfigError):
        raise ConfigError(f"{told!r} is not a rate: write it like 352 MB/s, 10 Gb/s or 1.25e9") from None
    if not 0 < rate < math.inf:
        raise ConfigError(f"{told!r} is not a rate above zero")
    return rate


def read_record(cls: type[T], content: Any, where: str) -> T:
    """Make a record of a map: its keys are the record's fields, their names tell how values are read.

    Raises
    ------
    ConfigError
        If a key is unknown or missing, or a value is none of its kind.
    """
    if content is None:
        raise ConfigError(f"{where} is empty: say what is in it, or leave it out")
    readers = {field.name: partial(_value, field) for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    return read_section(cls, content, where, **readers)


def _value(field: "dataclasses.Field[Any]", value: Any) -> float | int | str:
    key, kind = field.name, field.type
    if kind is str:
        return text(value)
    if key.endswith("_bytes_per_s") or key == "bytes_per_s":
        return parse_rate(value)
    if key.endswith("_bytes"):
        value = parse_bytes(value)
    if kind is int:
        return whole_number(value, least=1 if field.default != 0 and key not in _MAY_BE_NONE else 0)
    read = number(value)
    if read < 0 or (read == 0 and key.endswith("_weight")):
        raise ConfigError(f"{value!r} is out of range; it must be {'above 0' if read == 0 else '0 or more'}")
    return read

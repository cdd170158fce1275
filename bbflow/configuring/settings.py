"""What a run is to do: the records that its configuration is read into."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bbflow.configuring.publication import PublicationConfig
from bbflow.configuring.step_time import TimeConfig
from bbflow.functions import UserFunction
from bbflow.operators.conditions import Condition
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.windows.spans import Run, StepsSpan

AUTO = "auto"
"""What is said for what bbflow is to choose."""


@dataclass(frozen=True, slots=True)
class RawConfig:
    """Which raw steps are drained to ``raw.zarr``."""

    variables: tuple[str, ...] | None = None
    """Names; all if None, none if empty."""
    every: int = 1
    """Only steps 0, n, 2n, …"""
    compression: str = "none"
    """none, zstd or blosc."""
    keep_bits: int | Mapping[str, int] | None = None
    """Mantissa bits to which floating-point values are rounded: of all variables, or by name; all bits if None."""
    dedup: bool = False
    """Whether a field that is the same as in the step before is stored once."""
    shard: int = 128 << 20
    """Bytes of a file, before compression: it holds as many steps of a variable as fit, one at least."""
    chunks: str | Mapping[str, int] | None = None
    """Length of a chunk along dimensions by their names, `time` being that of the steps; `AUTO` for some MiB; None for
    whole fields of one step."""
    when: Condition | None = None
    """What must hold of a step that is kept; None if nothing need."""
    asked_by: str | None = None
    """Name of a user's function that may ask for steps to be kept; None if all are."""
    before: int = 0
    """How many steps before each of those are kept too."""
    after: int = 0
    """And this many after it."""
    policy: str = "no-action"
    """Delay policy: how the drain gives way to I/O phases of others."""
    phases: Path | None = None
    """Where I/O phases are announced, those of the drain included."""

    @property
    def wanted(self) -> bool:
        """Whether anything is drained at all."""
        return self.variables is None or bool(self.variables)


@dataclass(frozen=True, slots=True)
class ResultsConfig:
    """How ``results.zarr`` is laid out."""

    chunks: str | Mapping[str, int] | None = None
    """Length of a chunk along dimensions by their names, `time` being that of the window's spans; `AUTO` for some MiB;
    None for one whole result."""
    shard: int = 128 << 20
    """Bytes of a file at most, where chunks are asked for: it holds as many spans of a result as fit."""


@dataclass(frozen=True, slots=True)
class NodesConfig:
    """The embedded BB nodes of `bbflow run`."""

    count: int = 1
    """How many on this host."""
    capacity: int = 512 << 20
    """Bytes of each."""
    state_capacity: int | None = None
    """Bytes that the fold's partial states may take on each, besides; None for as many as there are."""
    directory: Path = Path("/dev/shm")
    """A file system in memory or on a fast disk."""
    back_s: float = 60.0
    """Seconds that a node which doesn't answer is waited for before it counts as lost."""


@dataclass(frozen=True, slots=True)
class LandingLimit:
    """How many steps of a rank land together at most."""

    steps: int = 64
    """Their number."""
    seconds: float = math.inf
    """And as many as the program writes in this time."""


@dataclass(frozen=True, slots=True)
class FoldConfig:
    """Who folds the blocks."""

    on: str = "node"
    """node: workers on the BB nodes, what has landed; rank: the ranks their own, and states land; device: the same, on
    their GPU where the blocks are."""
    land_states_every: LandingLimit = LandingLimit()
    """How many steps of a rank land together."""
    device_memory: int = 4 << 30
    """Bytes of its GPU that each rank's states and blocks may take."""


@dataclass(frozen=True, slots=True)
class WorkersConfig:
    """Threads of this host, or Dask's processes, that fold where no scheduler is given, and how work is cut."""

    processes: int = 0
    """Dask's worker processes on this host; with none, the analysis' own process has the threads. One, if nothing is
    said and users' code is called, which may end the process that calls it."""
    threads: int = 2
    """Threads of each that fold; one more publishes and drains."""
    batch_steps: int = 256
    """At most this many steps are folded by one task."""
    dashboard: str | None = None
    """``host:port`` of Dask's dashboard, which asks for no key; threads are a Dask worker's then."""

    @property
    def count(self) -> int:
        """How many workers that makes."""
        return self.processes or 1


@dataclass(frozen=True, slots=True)
class SelectConfig:
    """Which IOs of the simulation land where no XML says so: those that fit all patterns that are given."""

    io: str | None = None
    """Pattern of the IO's name, in a program's ``DeclareIO``."""
    file: str | None = None
    """Pattern of the name that a program gives to ``Open``, without folders if the pattern has none."""
    stream: str | None = None
    """Where their steps go; by default the configuration's."""
    until: str | None = None
    """Pattern of the stream's last file; by default it ends with the program."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Further ones of the engine."""


@dataclass(frozen=True, slots=True)
class Config:
    """A run's configuration."""

    stream: str
    """As in the engine's XML (parameter Stream, else the IO's name)."""
    diagnostics: Mapping[str, Diagnostic]
    """What is computed, by name."""
    output: Path = Path("bbflow-out")
    """Directory of results.zarr, raw.zarr, report.html and the pictures; its work directory if `moves`."""
    time: TimeConfig = field(default_factory=TimeConfig)
    """Where a step's time comes from."""
    raw: RawConfig = field(default_factory=lambda: RawConfig(variables=()))
    """Which raw steps are kept."""
    nodes: NodesConfig = field(default_factory=NodesConfig)
    """Embedded nodes, where no contact file is given."""
    fold: FoldConfig = field(default_factory=FoldConfig)
    """Who folds."""
    workers: WorkersConfig = field(default_factory=WorkersConfig)
    """Threads or processes of this host, where no scheduler is given."""
    results: ResultsConfig = field(default_factory=ResultsConfig)
    """How the results are laid out."""
    netcdf: bool = False
    """Whether the results are written as NetCDF too, at the end."""
    publication: PublicationConfig | None = None
    """What is written for archives, at the end; None if nothing is."""
    functions: tuple[UserFunction, ...] = ()
    """Users' functions that are called with whole fields."""
    open_timeout_s: float = 600.0
    """How long to wait for the stream to open."""
    safe_every_s: float = 300.0
    """Seconds between two copies of the partial states into the output, for a host that is lost; 0 for none."""
    on_failure: str = "continue"
    """What becomes of the simulation when its analysis fails for good: continue or stop."""
    continued: Path | None = None
    """State of an earlier run, or the output that has it, with which this run continues (the key 'continue')."""
    is_joined: bool = False
    """Whether it is of an ensemble's member, whose fields go, while it runs, once they are joined."""
    schema: str | None = None
    """Name of the conventions that the program writes by, or none; found out if None."""
    content: Mapping[str, Any] = field(default_factory=dict)
    """The keys 'operators' and 'windows' as they were written."""
    select: tuple[SelectConfig, ...] = ()
    """Rules; the first one that fits an IO counts. None if the program's XML selects the engine."""
    copy_to: str | None = None
    """URL below which the stores are copied while they grow, such as ``s3://bucket/run``; None for no copy."""
    moves: bool = False
    """Whether that is the output itself, so that what has arrived there loses its bytes here."""

    def anywhere(self) -> "Config":
        """Return the same configuration with paths that mean the same to processes with another working directory."""
        raw = replace(self.raw, phases=self.raw.phases.absolute() if self.raw.phases else None)
        return replace(self, output=self.output.absolute(), raw=raw)

    @property
    def dated_windows(self) -> tuple[str, ...]:
        """Windows that a stream without time can't have."""
        diagnostics = self.diagnostics.values()
        inner = (window for item in diagnostics for window in item.inner_windows)
        windows = (*(window for item in diagnostics for window in item.windows), *inner)
        return tuple(window.name for window in windows if not isinstance(window.spans, StepsSpan | Run))

    def isolated(self) -> "Config":
        """Return the same configuration with users' operators in processes of their own."""
        return replace(self, diagnostics={key: item.isolated() for key, item in self.diagnostics.items()})

    def holding(self, diagnostics: Mapping[str, Diagnostic]) -> "Config":
        """Return the same configuration with diagnostics whose fields of files are held."""
        return replace(self, diagnostics={**self.diagnostics, **diagnostics})

"""The configuration of a run: what stands in CONFIG.yml, checked in full before anything starts."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from bbflow.errors import ConfigError, nearest
from bbflow.functions import UserFunction, parse_functions
from bbflow.operators.conditions import Condition, parse_condition
from bbflow.operators.diagnostic import Diagnostic, parse_diagnostics
from bbflow.operators.windows.calendars import SECONDS_SINCE, UNIT_SECONDS, Clock, duration
from bbflow.operators.windows.date_texts import read_date
from bbflow.operators.windows.spans import Run, StepsSpan
from bbflow.origin import look_in, reading
from bbflow.publication import PublicationConfig, parse_publication
from bbflow.schemas.finding import named
from bbflow.sections import (
    as_list,
    check_keys,
    flag,
    names_or_all,
    number,
    one_of,
    positive,
    read_as,
    read_section,
    text,
    whole_number,
)
from bbflow.stored_names import stored_name
from bbflow.units import parse_bytes, parse_capacity, parse_path, parse_seconds
from bbflow.yaml_files import parse_yaml, read_yaml

T = TypeVar("T")
D = TypeVar("D")

MOST_RULES_THAT_END = 64
"""Of `select`: the preloaded library has a bit for each."""

KEYS = {
    "stream",
    "select",
    "operators",
    "windows",
    "output",
    "copy_to",
    "time",
    "schema",
    "raw",
    "results",
    "netcdf",
    "publication",
    "functions",
    "nodes",
    "workers",
    "open_timeout_s",
    "on_failure",
    "safe_every_s",
    "continue",
}


@dataclass(frozen=True, slots=True)
class TimeConfig:
    """Where a step's time comes from."""

    by: str = "either"
    """time, steps (their numbers), file (the date in the file's name), or either: what the stream has, else steps if
    nothing needs dates."""
    variable: str = "time"
    """A single value in each step: a number, or a date as text."""
    attribute: str | None = None
    """An attribute of the stream that changes from step to step and tells the time, instead of a variable."""
    start: str | None = None
    """Date of step 0, as text; each step is `interval` after the one before, and nothing in the stream counts."""
    units: str | None = None
    """CF units; by default the attribute ``<variable>/units``."""
    calendar: str | None = None
    """CF calendar; by default the attribute ``<variable>/calendar``."""
    interval: float | None = None
    """Time between two steps, in those units, by which gaps are counted; by default the smallest one seen."""
    late: str = "incomplete"
    """What becomes of a step that isn't later than the one before: it is left out, and the results are incomplete;
    skip leaves it out and has them complete; or error."""


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
class WorkersConfig:
    """The Dask workers, and how work is cut for them."""

    processes: int = 0
    """Worker processes of the local cluster; with none, the analysis' own process has the threads. One, if nothing is
    said and users' code is called, which may end the process that calls it."""
    threads: int = 2
    """Threads of each that fold; one more publishes and drains."""
    batch_steps: int = 256
    """At most this many steps are folded by one task."""
    dashboard: str | None = None
    """``host:port`` of the local cluster's dashboard, which asks nobody for a key."""

    @property
    def count(self) -> int:
        """How many Dask workers that makes."""
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
    """Directory of results.zarr, raw.zarr, report.html and the pictures."""
    time: TimeConfig = field(default_factory=TimeConfig)
    """Where a step's time comes from."""
    raw: RawConfig = field(default_factory=lambda: RawConfig(variables=()))
    """Which raw steps are kept."""
    nodes: NodesConfig = field(default_factory=NodesConfig)
    """Embedded nodes, where no contact file is given."""
    workers: WorkersConfig = field(default_factory=WorkersConfig)
    """Dask workers, where no scheduler is given."""
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
    """State of an earlier run, or the output that has it, with which this run goes on (the key 'continue')."""
    schema: str | None = None
    """Name of the conventions that the program writes by, or none; found out if None."""
    content: Mapping[str, Any] = field(default_factory=dict)
    """The keys 'operators' and 'windows' as they were written."""
    select: tuple[SelectConfig, ...] = ()
    """Rules, of which the first that fits an IO counts; none if the program's XML selects the engine."""
    copy_to: str | None = None
    """URL below which the stores are copied while they grow, such as ``s3://bucket/run``; None for no copy."""

    def anywhere(self) -> "Config":
        """Return the same configuration with paths that mean the same to processes with another working directory."""
        raw = replace(self.raw, phases=self.raw.phases.absolute() if self.raw.phases else None)
        return replace(self, output=self.output.absolute(), raw=raw)

    @property
    def dated_windows(self) -> tuple[str, ...]:
        """Windows that a stream without time can't have."""
        diagnostics = self.diagnostics.values()
        inner = (item.each.window for item in diagnostics if item.each)
        windows = (*(window for item in diagnostics for window in item.windows), *inner)
        return tuple(window.name for window in windows if not isinstance(window.spans, StepsSpan | Run))

    def isolated(self) -> "Config":
        """Return the same configuration with users' operators in processes of their own."""
        return replace(self, diagnostics={key: item.isolated() for key, item in self.diagnostics.items()})


def load_config(path: Path) -> Config:
    """Read a configuration file; operators of one's own may be modules beside it, and weights files.

    Raises
    ------
    ConfigError
        If it can't be read, or anything in it is wrong; the message names the key.
    """
    content = read_yaml(path)
    directory = str(path.resolve().parent)
    look_in(directory)
    try:
        with reading(directory):
            return parse_config(content)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse_config(content: Any) -> Config:
    """Check a configuration in the form of YAML's dicts, lists and scalars.

    Raises
    ------
    ConfigError
        If a key is unknown or missing, or a value is wrong.
    """
    check_keys(content, KEYS, "the configuration")
    for key in ("stream", "operators"):
        if not content.get(key):
            raise ConfigError(f"the key {key!r} is missing: say which stream, and which operators by variable")
    windows = _given(content, "windows", lambda value: as_list(value, "windows"), ["month", "run"])
    diagnostics = parse_diagnostics(content["operators"], windows)
    results = {
        stored_name(f"{item.name}_{window.name}_{operator.name}"): window.name
        for item in diagnostics.values()
        for window in item.windows
        for operator in item.operators
    }
    functions, raw = parse_functions(content.get("functions"), results), _parse_raw(content.get("raw", "none"))
    _check_asked(raw, functions)
    return Config(
        stream=read_as(text, content["stream"], "stream"),
        diagnostics=diagnostics,
        select=_parse_select(content.get("select")),
        output=_given(content, "output", parse_path, Path("bbflow-out")),
        copy_to=_given(content, "copy_to", _url, None),
        time=_parse_time(content.get("time")),
        schema=_given(content, "schema", _schema, None),
        raw=raw,
        nodes=read_section(
            NodesConfig,
            content.get("nodes"),
            "nodes",
            count=positive,
            capacity=parse_capacity,
            state_capacity=parse_bytes,
            directory=parse_path,
            back_s=parse_seconds,
        ),
        workers=_parse_workers(content.get("workers"), diagnostics.values()),
        results=read_section(ResultsConfig, content.get("results"), "results", chunks=_chunks, shard=parse_bytes),
        netcdf=_given(content, "netcdf", flag, False),
        publication=parse_publication(content["publication"], results)
        if content.get("publication") is not None
        else None,
        functions=functions,
        open_timeout_s=_given(content, "open_timeout_s", parse_seconds, 600.0),
        safe_every_s=_given(content, "safe_every_s", parse_seconds, 300.0),
        on_failure=_given(content, "on_failure", one_of("continue", "stop"), "continue"),
        continued=_given(content, "continue", parse_path, None),
        content={"operators": content["operators"], "windows": windows},
    )


def _given(content: Mapping[str, Any], key: str, reader: Callable[[Any], T], default: D) -> T | D:
    """Read what stands behind a key; a key without a value is none."""
    return default if content.get(key) is None else read_as(reader, content[key], key)


def read_time(text: str) -> TimeConfig:
    """Read what tells the steps' time, as `written_time` has written it; a single word is a variable's name.

    Raises
    ------
    ConfigError
        If it can't be read.
    """
    try:
        content = parse_yaml(text)
    except ConfigError as error:
        raise ConfigError(f"{text!r} {error}") from None
    return _parse_time(content) if isinstance(content, dict) else TimeConfig(variable=text)


def written_time(time: TimeConfig) -> str:
    """Write what tells the steps' time in one line of YAML."""
    default = TimeConfig()
    told = {item.name: getattr(time, item.name) for item in fields(time)}
    changed = {name: value for name, value in told.items() if value != getattr(default, name)}
    if time.interval is not None and not time.units:
        changed["interval"] = (
            f"{time.interval} seconds" if time.start is not None or time.by == "file" else time.interval
        )
    return json.dumps(changed)


def _parse_select(content: Any) -> tuple[SelectConfig, ...]:
    """Read a rule, or a list of rules."""
    rules = content if isinstance(content, list) else [content] if content is not None else []
    readers = {"io": pattern, "file": pattern, "stream": text, "until": pattern, "parameters": _parameters}
    read = tuple(read_section(SelectConfig, rule, "select", **readers) for rule in rules)
    for rule in read:
        if rule.io is None and rule.file is None:
            raise ConfigError("select: a rule has neither 'io' nor 'file': say which IOs it is about")
    if any(rule.until is not None for rule in read[MOST_RULES_THAT_END:]):
        raise ConfigError(f"select: only the first {MOST_RULES_THAT_END} rules may have 'until'")
    return read


def pattern(value: Any) -> str:
    """Read a pattern for names that means the same to fnmatch(3) and Python's fnmatch.

    Raises
    ------
    ConfigError
        If it is empty, or has what one of them takes for a sign of its own.
    """
    name = text(value)
    if re.search(r"\\|\[\^|\[[^]]*\[[:.=]", name):
        signs = "* stands for any signs, ? for one, [ab] for a or b, [!ab] for any other"
        raise ConfigError(f"{name!r} must be a name in which {signs}")
    return name


def _parameters(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ConfigError(f"{value!r} must be a map of the engine's parameters")
    return {str(key): _parameter(item) for key, item in value.items()}


def _parameter(value: Any) -> str:
    """Read one as an engine takes it, a text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, int) else text(value)


def _parse_time(content: Any) -> TimeConfig:
    by = one_of("time", "steps", "file", "either")
    if isinstance(content, str):
        return TimeConfig(by=read_as(by, content, "time"))
    time = read_section(
        TimeConfig,
        content,
        "time",
        by=by,
        variable=text,
        attribute=text,
        start=_date,
        units=text,
        calendar=text,
        interval=_interval,
        late=one_of("incomplete", "skip", "error"),
    )
    given = {key for key, value in (content or {}).items() if value is not None}
    read_as(partial(_check_source, given=given), time, "time")
    time = replace(time, interval=read_as(partial(_in_units, time), time.interval, "time: interval"))
    read_as(_check_clock, time, "time")
    tells = {"variable", "attribute", "start", "units", "calendar"}
    return replace(time, by="time") if given & tells and "by" not in given else time


def _check_source(time: TimeConfig, given: Collection[str]) -> None:
    """See that one thing tells the time."""
    told = [key for key in ("variable", "attribute", "start") if key in given]
    told += [f"by: {time.by}"] if time.by in ("steps", "file") else []
    if len(told) > 1:
        raise ConfigError(f"{told[0]} and {told[1]} would both tell the time: leave one of them out")
    if time.start is not None and time.interval is None:
        raise ConfigError("start needs an interval too, such as 6h: the time between two steps")


def _in_units(time: TimeConfig, interval: float | timedelta | None) -> float | None:
    """Return an interval as a number in the time's units."""
    is_told = time.start is not None or time.by == "file"
    units = time.units or (SECONDS_SINCE if is_told else "")
    if not isinstance(interval, timedelta):
        if interval is not None and is_told and not time.units:
            raise ConfigError(f"{interval:g} has no unit: write it as 6h, 30min or 1d")
        return interval
    if not units:
        raise ConfigError("it must be a number in the stream's units, or set time: units too")
    return interval / timedelta(seconds=UNIT_SECONDS.get(units.split()[0].lower(), 1.0))


def _date(value: Any) -> str:
    """Read a date; YAML gives one without quotes as a date or a time of Python's."""
    if read_date(str(value)) is None:
        raise ConfigError(f"{value!r} is no date: write it as 2000-01-01 or 2000-01-01T06:00:00")
    return str(value)


def _check_clock(time: TimeConfig) -> None:
    """See that calendar and units can be read; a stream may tell the calendar that has the units' date."""
    units = time.units or "days since 2000-01-01"
    if time.start is not None:
        clock = Clock.of(time.units or SECONDS_SINCE, time.calendar or "standard")
        date = read_date(time.start)
        assert date is not None
        date.number(clock)
        return
    if time.calendar is None:
        with suppress(ConfigError):
            Clock.of(units, "360_day")  # has what the standard one hasn't: 30 February, and months as units
            return
    Clock.of(units, time.calendar or "standard")


def _parse_workers(content: Any, diagnostics: Iterable[Diagnostic]) -> WorkersConfig:
    workers = read_section(
        WorkersConfig,
        content,
        "workers",
        processes=whole_number,
        threads=positive,
        batch_steps=positive,
        dashboard=text,
    )
    if (content or {}).get("processes") is not None:
        return workers
    return replace(workers, processes=int(any(item.calls_users_code for item in diagnostics)))


def _schema(value: Any) -> str:
    named(text(value))
    return text(value)


def _parse_raw(content: Any) -> RawConfig:
    if content in ("none", None, False):
        return RawConfig(variables=())
    if content in ("all", True):
        return RawConfig()
    if isinstance(content, str):
        raise ConfigError(f"raw: {content!r} is neither all nor none nor a map; {nearest(content, ['all', 'none'])}")
    raw = read_section(
        RawConfig,
        content,
        "raw",
        variables=names_or_all,
        every=positive,
        compression=one_of("none", "zstd", "blosc"),
        keep_bits=_bits,
        dedup=flag,
        shard=parse_bytes,
        chunks=_chunks,
        when=parse_condition,
        asked_by=text,
        before=whole_number,
        after=whole_number,
        policy=text,
        phases=parse_path,
    )
    read_as(_check_chunks, raw, "raw: chunks")
    chooses = next((key for key in ("when", "asked_by") if getattr(raw, key) is not None), None)
    if chooses is None and (raw.before or raw.after):
        raise ConfigError("raw: 'before' and 'after' say nothing without 'when' or 'asked_by'")
    if chooses is not None and raw.every != 1:
        raise ConfigError(f"raw: {chooses!r} and 'every' both say which steps are kept: take one out")
    return raw


def _check_asked(raw: RawConfig, functions: Sequence[UserFunction]) -> None:
    """See that the function that asks for steps is one that is called with them."""
    names = [function.name for function in functions if function.of]
    if raw.asked_by is not None and raw.asked_by not in names:
        told = nearest(raw.asked_by, names) if names else "there is none under 'functions'"
        raise ConfigError(f"raw: asked_by: {raw.asked_by!r} is no function of steps (with 'of'); {told}")


def _chunks(value: Any) -> str | dict[str, int]:
    if value == AUTO:
        return AUTO
    if not isinstance(value, dict) or not value:
        raise ConfigError(f"{value!r} is neither auto nor a map such as {{time: 24, lat: 64, lon: 64}}")
    return {text(name): _length(length) for name, length in value.items()}


def _url(value: Any) -> str:
    if not re.fullmatch(r"[a-z0-9]+://[^\s?#]+", text(value)):
        raise ConfigError(f"{value!r} is no place for a copy: write it like s3://bucket/run1")
    return text(value)


def _length(value: Any) -> int:
    """Read a number of points, also as a power: HEALPix has 4^zoom cells in each of its twelve faces."""
    power = re.fullmatch(r"(\d+)\^(\d{1,2})", value.strip()) if isinstance(value, str) else None
    return positive(value if power is None else int(power[1]) ** int(power[2]))


def _check_chunks(raw: RawConfig) -> None:
    if raw.chunks is None:
        return
    if raw.dedup:
        raise ConfigError("a field that repeats is stored once as a whole: take out 'chunks' or 'dedup'")
    if isinstance(raw.chunks, Mapping) and raw.chunks.get("time", 1) > 1 and raw.compression != "none":
        raise ConfigError(
            "chunks of several steps are filled step by step, so they can't be compressed: take out 'time' or "
            "'compression'"
        )


def _interval(value: Any) -> float | timedelta:
    seconds = duration(value)
    if seconds is not None:
        return timedelta(seconds=seconds)
    read = number(value)
    if read <= 0:
        raise ConfigError(f"{value!r} must be a number above 0")
    return read


def _bits(value: Any) -> int | dict[str, int]:
    if isinstance(value, dict):
        return {str(name): positive(bits) for name, bits in value.items()}
    return positive(value)

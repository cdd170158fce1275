"""Workflows as graphs, read from traces in WfFormat: what Pegasus, Nextflow or Makeflow once ran."""

import heapq
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from bbflow.errors import ConfigError
from bbflow.simulate.graph import Graph
from bbflow.staging.files import File, Task

VERSION = "1.5"
"""Of WfFormat. Earlier ones have another form, which WfCommons' own script turns into this one."""
_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Json(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a trace; what isn't named here is not looked at."""


class _File(_Json, frozen=True):
    id: str
    size_in_bytes: _Count


class _Task(_Json, frozen=True):
    id: str
    parents: tuple[str, ...] = ()
    input_files: tuple[str, ...] = ()
    output_files: tuple[str, ...] = ()


class _Specification(_Json, frozen=True):
    tasks: tuple[_Task, ...]
    files: tuple[_File, ...] = ()


class _TaskRun(_Json, frozen=True):
    id: str
    runtime_in_seconds: Annotated[float, msgspec.Meta(ge=0)]


class _Execution(_Json, frozen=True):
    tasks: tuple[_TaskRun, ...]


class _Workflow(_Json, frozen=True):
    specification: _Specification
    execution: _Execution


class _Trace(_Json, frozen=True):
    schema_version: str
    workflow: _Workflow


class _Versioned(_Json, frozen=True):
    schema_version: str


def graph_of_trace(path: Path) -> Graph:
    """Read a trace in WfFormat 1.5 (https://github.com/wfcommons/WfFormat), as WfCommons publishes them.

    A task computes for as long as it ran, so what it read and wrote then is part of that. Tasks come in the trace's
    order, but after those that they wait for.

    Parameters
    ----------
    path
        The JSON file.

    Raises
    ------
    ConfigError
        If it can't be read, is of another version, or its tasks can't have run as it says.
    """
    trace = _read(path)
    specification = trace.workflow.specification
    compute_s = {each.id: each.runtime_in_seconds for each in trace.workflow.execution.tasks}
    if not specification.tasks:
        raise ConfigError(f"{path} has no tasks")
    _check_ids(path, specification, compute_s)
    files = {each.id: File(f"/{each.id}", each.size_in_bytes) for each in specification.files}
    tasks = {each.id: _task(path, each, files) for each in specification.tasks}
    after = {each.id: tuple(dict.fromkeys(each.parents)) for each in specification.tasks}
    graph = Graph(list(tasks.values()), compute_s, after)
    return Graph([tasks[key] for key in _ordered(path, graph.parents)], compute_s, after)


def _read(path: Path) -> _Trace:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"can't read the trace {path}: {error.strerror}") from None
    try:
        version = msgspec.json.decode(content, type=_Versioned).schema_version
        if version == VERSION:
            return msgspec.json.decode(content, type=_Trace)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} isn't a trace in WfFormat {VERSION}: {error}") from None
    raise ConfigError(
        f"{path} is in WfFormat {version[:20]!r}, but {VERSION} is read: turn it into that with WfCommons' "
        "wfcommons-migrate-instance.py"
    )


def _check_ids(path: Path, given: _Specification, compute_s: Mapping[str, float]) -> None:
    """Check that each name stands for one thing that is there."""
    keys = [task.id for task in given.tasks]
    makers = [made for task in given.tasks for made in task.output_files]
    for what, names in (("tasks", keys), ("makers of file", makers), ("files", [file.id for file in given.files])):
        if len(set(names)) < len(names):
            twice = next(name for at, name in enumerate(names) if name in names[:at])
            raise ConfigError(f"{path}: there are two {what} {twice!r}")
    known = set(keys)
    for task in given.tasks:
        if task.id not in compute_s:
            raise ConfigError(f"{path}: task {task.id!r} didn't run: it has no runtimeInSeconds in the execution")
        if strange := [parent for parent in task.parents if parent not in known]:
            raise ConfigError(f"{path}: the parent {strange[0]!r} of task {task.id!r} isn't there")


def _task(path: Path, given: _Task, files: Mapping[str, File]) -> Task:
    unknown = [name for name in (*given.input_files, *given.output_files) if name not in files]
    if unknown:
        raise ConfigError(f"{path}: task {given.id!r}: the file {unknown[0]!r} has no size in the list of files")
    # What a task reads of what it makes itself, it needn't wait for.
    inputs = [files[name] for name in given.input_files if name not in given.output_files]
    return Task(given.id, tuple(inputs), tuple(files[name] for name in given.output_files))


def _ordered(path: Path, parents: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the keys in their order, but each after its parents."""
    place = {key: number for number, key in enumerate(parents)}
    children: dict[str, list[str]] = {key: [] for key in parents}
    left = {key: len(above) for key, above in parents.items()}
    for key, above in parents.items():
        for parent in above:
            children[parent].append(key)
    ready = [(place[key], key) for key, count in left.items() if not count]
    ordered = []
    while ready:
        ordered.append(heapq.heappop(ready)[1])
        for child in children[ordered[-1]]:
            left[child] -= 1
            if not left[child]:
                heapq.heappush(ready, (place[child], child))
    if len(ordered) < len(parents):
        waiting = next(key for key in parents if left[key])
        raise ConfigError(f"{path}: task {waiting!r} waits for itself: its parents go round in a ring")
    return ordered

"""Scenarios: YAML that says who shares what, checked in full before anything runs."""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bbflow.errors import ConfigError, nearest
from bbflow.models.cloud import CloudProfile
from bbflow.reading.sections import as_list, check_keys, number, read_as, whole_number
from bbflow.reading.yaml_files import parse_yaml, read_yaml
from bbflow.simulate.graph import Graph, Level, graph_of_levels
from bbflow.simulate.rented_nodes import CloudScenario, Rent
from bbflow.simulate.scenario_sections import (
    AnalysisSection,
    Application,
    BurstBufferSection,
    FileSystem,
    JobSection,
    Simulation,
    Workflow,
    read_record,
)
from bbflow.simulate.staged_job import NAIVE, StagingScenario
from bbflow.simulate.staging_graphs import graph_of_plan
from bbflow.simulate.traces import graph_of_trace
from bbflow.simulate.transit import WAYS, TransitScenario
from bbflow.simulate.workflow import PLANNERS, WorkflowScenario, split_way
from bbflow.staging.policies import POLICIES, parse_policy
from bbflow.units import parse_path

Content = dict[str, Any]

SECTIONS: Mapping[str, Mapping[str, type[Any]]] = {
    "staging": {
        "file_system": FileSystem,
        "burst_buffer": BurstBufferSection,
        "job": JobSection,
        "application": Application,
    },
    "transit": {
        "file_system": FileSystem,
        "burst_buffer": BurstBufferSection,
        "simulation": Simulation,
        "analysis": AnalysisSection,
        "application": Application,
    },
    "workflow": {
        "file_system": FileSystem,
        "burst_buffer": BurstBufferSection,
        "workflow": Workflow,
        "levels": Level,
        "application": Application,
    },
    "cloud": {"profile": CloudProfile, "rent": Rent},
}
"""Kind of scenario to its sections, each with the record of its keys."""
_SETTINGS: Mapping[str, type[Any]] = {
    "staging": StagingScenario,
    "transit": TransitScenario,
    "workflow": WorkflowScenario,
    "cloud": CloudScenario,
}
_MOMENTS = 10_000
"""Into how many a trace's least time is divided if the scenario has no resolution."""
MODEL = "model"
"""The only way of a cloud scenario."""
_ALL_WAYS = {"staging": [NAIVE, *POLICIES], "transit": list(WAYS), "workflow": list(PLANNERS)}
_OPTIONAL = {"application", "levels"}
_COMMON = {"kind", "title", "assumed", "seed", "repeats", "policies", "ways", "vary", "resolution_s"}


@dataclass(frozen=True, slots=True)
class Scenario:
    """What to simulate."""

    name: str
    """Of its file, without the ending."""
    title: str
    """In a few words."""
    setting: StagingScenario | TransitScenario | WorkflowScenario | CloudScenario
    """Who shares what."""
    ways: tuple[str, ...]
    """Delay policies (``naive`` too), or ways of steps, to compare."""
    seed: int = 0
    """Of everything irregular."""
    repeats: int = 1
    """Runs with seeds of their own, whose medians count."""
    assumed: tuple[str, ...] = ()
    """What the source doesn't say."""
    vary: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys that take several values, where nothing else is asked for."""
    content: Content = field(default_factory=dict, repr=False)
    """As it was written, for `varied`."""
    folder: Path = Path()
    """Where the scenario's file lies: what it names is relative to that."""


def load_scenario(path: Path) -> Scenario:
    """Read a scenario.

    Raises
    ------
    ConfigError
        If it can't be read, or anything in it is wrong; the message names the key.
    """
    return parse_scenario(path.stem, read_yaml(path), path.parent)


def parse_scenario(name: str, content: Any, folder: Path = Path()) -> Scenario:
    """Check a scenario in the form of YAML's maps, lists and scalars.

    Parameters
    ----------
    name, content
        Of the scenario.
    folder
        Where files are that it names.

    Raises
    ------
    ConfigError
        If a key is unknown or missing, or a value is wrong.
    """
    if not isinstance(content, dict):
        found = "empty" if content is None else repr(content)[:50]
        raise ConfigError(f"{name} must be a map with a kind and its sections, and is {found}")
    given = content.get("kind")
    if not isinstance(given, str) or given not in SECTIONS:
        raise ConfigError(f"{name}: kind {given!r} is none; {nearest(str(given), SECTIONS)}")
    kind, sections = content["kind"], SECTIONS[content["kind"]]
    check_keys(content, _COMMON | sections.keys(), name)
    for key in sections.keys() - _OPTIONAL:
        if key not in content:
            raise ConfigError(f"{name}: the section {key!r} is missing")
    read = {
        key: read_record(cls, content[key], f"{name}: {key}")
        for key, cls in sections.items()
        if key in content and key != "levels"
    }
    if kind == "workflow":
        read["graph"] = _graph(content, read["workflow"], name, folder)
    if "resolution_s" in content and kind != "cloud":
        read["resolution_s"] = _seconds(content["resolution_s"], f"{name}: resolution_s")
    return Scenario(
        name=name,
        title=str(content.get("title", name)),
        setting=_SETTINGS[kind](**read),
        ways=_ways(content, name),
        seed=_whole(content.get("seed", 0), f"{name}: seed", 0),
        repeats=_whole(content.get("repeats", 1), f"{name}: repeats", 1),
        assumed=tuple(map(str, as_list(content.get("assumed") or [], f"{name}: assumed"))),
        vary=_vary(content.get("vary") or {}, f"{name}: vary"),
        content=content,
        folder=folder,
    )


def _vary(content: Any, where: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(content, dict):
        raise ConfigError(f"{where} must be a map of knobs and lists of values, such as {{job.nodes: [1, 2]}}")
    return {str(knob): tuple(map(str, as_list(values, f"{where}: {knob}"))) for knob, values in content.items()}


def _graph(content: Content, given: Workflow, name: str, folder: Path) -> Graph:
    if [bool(given.plan), bool(given.trace), "levels" in content].count(True) != 1:
        raise ConfigError(f"{name}: give one of the section 'levels', workflow.plan and workflow.trace")
    if given.plan:
        return graph_of_plan(folder / parse_path(given.plan))
    if given.trace:
        return graph_of_trace(folder / parse_path(given.trace))
    written = content["levels"]
    if not isinstance(written, dict) or not written:
        raise ConfigError(f"{name}: levels must be a map of names, each with tasks, compute_s and more")
    levels = {str(key): read_record(Level, level, f"{name}: levels.{key}") for key, level in written.items()}
    return graph_of_levels(levels, given.scale)


def with_trace(scenario: Scenario, trace: Path) -> Scenario:
    """Return a workflow's scenario with the tasks of a trace in WfFormat instead of its own.

    Raises
    ------
    ConfigError
        If the scenario is of another kind, or the trace can't be read.
    """
    kind = scenario.content["kind"]
    if kind != "workflow":
        raise ConfigError(f"{scenario.name} is a scenario of kind {kind!r}: a trace needs one of kind 'workflow'")
    content = {key: copy.deepcopy(value) for key, value in scenario.content.items() if key != "levels"}
    site = {key: value for key, value in content["workflow"].items() if key not in ("plan", "scale", "jitter")}
    content["workflow"] = site | {"trace": str(trace.absolute())}
    content["title"] = f"{trace.stem} at the site of {scenario.name}"
    content["assumed"] = [
        f"nodes, links and file system are those of {scenario.name}",
        "a task takes one slot, whatever its cores, and computes for as long as it ran when the trace was taken, so "
        "that what it read and wrote then is part of that",
    ]
    read = parse_scenario(trace.stem, content, scenario.folder)
    if "resolution_s" in content or not isinstance(read.setting, WorkflowScenario):
        return read
    # Hours of tasks with a look at the phases every 10 ms would take hours themselves.
    content["resolution_s"] = float(f"{read.setting.graph.least_s(read.setting.workflow.slots) / _MOMENTS:.1g}")
    return parse_scenario(trace.stem, content, scenario.folder)


def varied(scenario: Scenario, knob: str, value: str) -> Scenario:
    """Return a scenario with another value of one of its keys, and the same ways.

    Parameters
    ----------
    scenario
        Where to begin.
    knob
        ``section.key``, or the key alone if it stands in one section only.
    value
        As it would be written in the file.

    Raises
    ------
    ConfigError
        If there is no such key, or several, or the value is wrong.
    """
    section, key = _find(scenario, knob)
    content = copy.deepcopy(scenario.content)
    content[section][key] = parse_yaml(value)
    return dataclasses.replace(parse_scenario(scenario.name, content, scenario.folder), ways=scenario.ways)


def _find(scenario: Scenario, knob: str) -> tuple[str, str]:
    kinds = SECTIONS[scenario.content["kind"]]
    known = {
        section: {item.name for item in dataclasses.fields(kinds[section])}
        for section in kinds
        if section in scenario.content and section != "levels"
    }
    section, dot, key = knob.partition(".")
    if dot:
        places = [section] if key in known.get(section, ()) else []
    else:
        # What a file says is meant before what it could say.
        written = [name for name in known if knob in scenario.content[name]]
        key, places = knob, written or [name for name, keys in known.items() if knob in keys]
    if len(places) != 1:
        full = sorted(f"{name}.{each}" for name, keys in known.items() for each in keys)
        choices = [f"{name}.{key}" for name in places] or full
        said = "is ambiguous" if places else "is unknown"
        raise ConfigError(f"{scenario.name}: the knob {knob!r} {said}; {nearest(knob, choices)}")
    return places[0], key


def _ways(content: Content, name: str) -> tuple[str, ...]:
    kind = content["kind"]
    if kind == "cloud":
        return (MODEL,)
    key, other = ("policies", "ways") if kind == "staging" else ("ways", "policies")
    if other in content:
        raise ConfigError(f"{name}: {other!r} belongs to the other kind of scenario; here it is {key!r}")
    ways = content.get(key, _ALL_WAYS[kind])
    if not isinstance(ways, list) or not ways:
        raise ConfigError(f"{name}: {key} must be a list")
    return checked_ways(kind, [str(way) for way in ways])


def checked_ways(kind: str, ways: Sequence[str]) -> tuple[str, ...]:
    """Check that all policies, or ways of steps, exist.

    Raises
    ------
    ConfigError
        If one doesn't.
    """
    for way in ways:
        if kind == "staging" and way != NAIVE:
            parse_policy(way)
        elif kind == "workflow":
            split_way(way)
        elif kind != "staging" and way not in (known := WAYS if kind == "transit" else (MODEL,)):
            raise ConfigError(f"unknown way {way!r}; {nearest(way, known)}")
    return tuple(ways)


def _whole(value: Any, where: str, least: int) -> int:
    return read_as(partial(whole_number, least=least), value, where)


def _seconds(value: Any, where: str) -> float:
    seconds = float(read_as(number, value, where))
    if seconds < 0:
        raise ConfigError(f"{where}: {value!r} isn't a number of seconds from 0")
    return seconds

"""A plan to stage by hand: tasks with their files, and perhaps the command that each runs."""

import math
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bbflow.errors import ConfigError, SourceError
from bbflow.reading.sections import check_keys
from bbflow.reading.yaml_files import read_yaml
from bbflow.staging.checksums import Checking
from bbflow.staging.files import File, Location, Task
from bbflow.staging.matching import many, named
from bbflow.stores.facts import Listed
from bbflow.stores.sources import Sources, local_path
from bbflow.stores.urls import file_name
from bbflow.units import parse_bytes

ENDINGS = (".yml", ".yaml", ".json")
"""Of plan files as a rule."""
_SHELL = re.compile(r"\|{1,2}|&{1,2}|;|<{1,3}|[0-9&]?>{1,2}.*")
"""Words that a shell would take for its own."""


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One task of a plan."""

    task: Task
    """With its files."""
    command: tuple[str, ...] = ()
    """Words to run once the files are there; nothing is run if empty."""
    compute_s: float | None = None
    """What `bbflow simulate` takes it to compute, in seconds; None if it isn't said."""


def plan_of_sources(words: Sequence[str]) -> list[PlanStep]:
    """Make a plan of sources: one task without a command.

    Raises
    ------
    ConfigError
        If one is named twice.
    """
    doubled = [word for word, count in Counter(words).items() if count > 1]
    if doubled:
        raise ConfigError(f"{doubled[0]} is named twice")
    return [PlanStep(Task("the sources", tuple(File(word) for word in words)))]


def read_plan(path: Path) -> list[PlanStep]:
    """Read a plan file.

    A plan is YAML or JSON: a list of maps with the keys ``task`` (a name), ``inputs``, ``outputs`` and ``command``;
    ``compute_s`` is for `bbflow simulate`. An input is a URL, or a map with ``url``, ``size`` and ``checksum``. In the
    command, ``{0}``, ``{1}``, … are the places of the inputs, ``{inputs}`` all of them, and ``{outputs}`` those of the
    outputs.

    Raises
    ------
    ConfigError
        If the plan can't be read, or anything in it is wrong.
    """
    content = read_yaml(path)
    if not isinstance(content, list) or not content:
        raise ConfigError(f"{path}: a plan is a list of tasks, each with its inputs")
    return [_step(item, f"{path}: task {number}") for number, item in enumerate(content)]


def expand_plan(steps: Sequence[PlanStep], sources: Sources, target: Path) -> tuple[list[PlanStep], dict[str, str]]:
    """Put the files in the place of patterns and directories among the inputs.

    Parameters
    ----------
    steps
        The plan.
    sources
        Lists them.
    target
        Directory that is staged to; files in it are no sources, though it may lie in a directory that is.

    Returns
    -------
    list of Step
        With an input for each file.
    dict of str to str
        URL of each input to its path in a tree.

    Raises
    ------
    ConfigError
        If a pattern has a size or a checksum, or a command names what its task doesn't have.
    SourceError
        If nothing matches.
    """
    names: dict[str, str] = {}
    made = {file.url for step in steps for file in step.task.outputs}
    expanded = [replace(step, task=_expanded(step.task, sources, target, names, made)) for step in steps]
    checksums = _checksums(expanded)
    expanded = [replace(step, task=_checked(step.task, checksums)) for step in expanded]
    for step in expanded:  # what a task's words can't be is said before the first one runs
        words_of(step, {file.url: file.url for file in (*step.task.inputs, *step.task.outputs)})
    return expanded, names


def _checksums(steps: Sequence[PlanStep]) -> dict[str, str]:
    """Return URL to checksum, of inputs that have one: a file is staged once for all tasks."""
    found: dict[str, str] = {}
    for step in steps:
        for file in step.task.inputs:
            if file.checksum is not None and found.setdefault(file.url, file.checksum) != file.checksum:
                raise ConfigError(f"task {step.task.key!r}: {file.url} has another checksum before: give one")
    return found


def _checked(task: Task, checksums: Mapping[str, str]) -> Task:
    return replace(task, inputs=tuple(replace(file, checksum=checksums.get(file.url)) for file in task.inputs))


def _expanded(task: Task, sources: Sources, target: Path, names: dict[str, str], made: Set[str]) -> Task:
    inputs: dict[str, File] = {}
    for file in task.inputs:
        known = [(Listed(file.url, file_name(file.url), None), file)] if file.url in made else None
        for listed, found in known or _meant(file, task.key, sources, target):
            names.setdefault(listed.url, listed.name)
            inputs.setdefault(listed.url, found)
    return replace(task, inputs=tuple(inputs.values()))


def _meant(file: File, task: str, sources: Sources, target: Path) -> Iterator[tuple[Listed, File]]:
    """Yield the files that one input stands for, but for those in the target."""
    if (one := named(file.url, sources)) is not None:
        yield one, replace(file, url=one.url)
        return
    if file.size_bytes is not None or file.checksum is not None:
        raise ConfigError(f"task {task!r}: {file.url} stands for several files, which have no size or checksum")
    found = many(file.url, sources)
    outside = [listed for listed in found if not _is_below(target, listed.url)]
    if not outside:
        raise SourceError(f"{file.url}: all {len(found)} of its files are in {target} already; stage to another place")
    for listed in outside:
        yield listed, File(listed.url, listed.size_bytes)


def _is_below(directory: Path, url: str) -> bool:
    path = local_path(url)
    return path is not None and path.is_relative_to(directory)


def _step(item: Any, where: str) -> PlanStep:
    check_keys(item, {"task", "inputs", "outputs", "command", "compute_s"}, where, may_be_empty=True)
    inputs, outputs = (tuple(_file(given, where) for given in _list(item.get(key))) for key in ("inputs", "outputs"))
    command = item.get("command") or ()
    words = _split(command, where) if isinstance(command, str) else [str(word) for word in command]
    task = Task(str(item.get("task", where)), inputs, outputs)
    return PlanStep(task, tuple(words), _seconds(item.get("compute_s"), where))


def _split(command: str, where: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"{where}: command {command!r}: {error}") from None
    for word in words:
        if _SHELL.fullmatch(word) and word in command.split():  # in quotes it is for the program
            raise ConfigError(
                f"{where}: command {command!r} runs without a shell, which {word!r} needs; write a list: [sh, -c, "
                f"'…', sh, '{{inputs}}'], where the inputs are $1, $2, …"
            )
    return words


def _seconds(value: Any, where: str) -> float | None:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf):
        return value
    raise ConfigError(f"{where}: compute_s {value!r} isn't a number of seconds from 0")


def _file(item: Any, where: str) -> File:
    if isinstance(item, str):
        return File(item)
    check_keys(item, {"url", "size", "checksum"}, where, may_be_empty=True)
    if "url" not in item:
        raise ConfigError(f"{where}: a file needs a url")
    size, checksum = item.get("size"), item.get("checksum")
    Checking(checksum)
    is_empty = str(size).strip() == "0"
    size_bytes = None if size is None else 0 if is_empty else parse_bytes(size)
    return File(str(item["url"]), size_bytes, checksum)


def _list(item: Any) -> list[Any]:
    return item if isinstance(item, list) else [] if item is None else [item]


def words_of(step: PlanStep, places: Mapping[str, Location | str]) -> list[str]:
    """Put the places of a task's files into its command.

    Raises
    ------
    ConfigError
        If the command names an input that the task doesn't have.
    """
    inputs = [str(places[file.url]) for file in step.task.inputs]
    lists = {"{inputs}": inputs, "{outputs}": [str(places[file.url]) for file in step.task.outputs]}
    words: list[str] = []
    for word in step.command:
        try:
            words += lists[word] if word in lists else [word.format(*inputs)]
        except (IndexError, KeyError, ValueError, AttributeError, TypeError):
            raise ConfigError(
                f"task {step.task.key!r}: {word!r} can't be filled in: {{0}} is the first of its {len(inputs)} "
                "inputs, {inputs} and {outputs} stand alone, and a brace is written twice"
            ) from None
    return words

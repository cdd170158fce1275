"""Graphs of the plans that `bbflow stage` takes."""

from pathlib import Path

from bbflow.errors import ConfigError
from bbflow.simulate.graph import Graph
from bbflow.staging.staging_plan import read_plan


def graph_of_plan(path: Path) -> Graph:
    """Read a plan as `bbflow stage` takes it, whose files have sizes and whose tasks say ``compute_s``.

    Raises
    ------
    ConfigError
        If it can't be read, a size or a time is missing, or a task comes before one whose file it reads.
    """
    steps = read_plan(path)
    for step in steps:
        if step.compute_s is None:
            raise ConfigError(f"{path}: task {step.task.key!r} doesn't say how long it computes: give it compute_s")
        unsized = [file.url for file in (*step.task.inputs, *step.task.outputs) if file.size_bytes is None]
        if unsized:
            raise ConfigError(f"{path}: task {step.task.key!r}: {unsized[0]} has no size: give url and size")
    graph = Graph([step.task for step in steps], {step.task.key: step.compute_s or 0.0 for step in steps})
    known = set[str]()
    for task in graph.tasks:
        if task.key in known:
            raise ConfigError(f"{path}: there are two tasks {task.key!r}: name them differently")
        late = [parent for parent in graph.parents[task.key] if parent not in known]
        if late:
            raise ConfigError(f"{path}: task {task.key!r} reads what {late[0]!r} makes, which comes after it")
        known.add(task.key)
    return graph

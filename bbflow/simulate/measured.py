"""A cloud's profile as it was measured: what the tasks of one run computed, read and wrote, and how fast."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from bbflow.errors import ConfigError
from bbflow.events import EVENTS_FILE, read_events
from bbflow.simulate.rented_nodes import CloudScenario
from bbflow.simulate.scenario import Scenario, parse_scenario

Event = Mapping[str, Any]
TASK, TRANSFER = "ran", "transfer"
# Durations that are divided by aren't 0.
LEAST_S = 1e-9


@dataclass(frozen=True, slots=True)
class Spent:
    """What hosts did while tasks ran on them, summed over hosts."""

    compute_s: float
    """Computing in user mode; a host that runs several tasks at once computes once."""
    serial_s: float
    """Of it, while no other task ran anywhere."""
    io_s: float
    """The rest: waiting for files, and copying them."""


def measured(scenario: Scenario, directory: Path) -> Scenario:
    """Put what the events of a run say into a cloud scenario; prices and choices stay the scenario's.

    Parameters
    ----------
    scenario
        Of kind cloud.
    directory
        With ``events.jsonl``: of tasks, by `bbflow.events.noted_task`, and of a stager's transfers.

    Raises
    ------
    ConfigError
        If the scenario is of another kind, or no task noted itself.
    """
    if not isinstance(scenario.setting, CloudScenario):
        raise ConfigError(f"{scenario.name} isn't a cloud: name cloudbb, or --profile {directory} without a scenario")
    profile, assumed = profile_of_events(list(read_events(directory)), directory)
    known = {key: scenario.content["profile"][key] for key in ("cloud_bytes_per_s", "price_per_s")}
    content = {
        **scenario.content,
        "title": f"Time x Cost of a run as in {directory}",
        "assumed": assumed,
        "profile": known | profile,
    }
    return parse_scenario(scenario.name, content)


def profile_of_events(events: Sequence[Event], directory: Path) -> tuple[dict[str, float], list[str]]:
    """Return what `bbflow.models.CloudProfile` takes, as far as it was measured, and a line for what wasn't."""
    tasks = sorted((event for event in events if event.get("event") == TASK), key=lambda task: task["ended_s"])
    if not tasks:
        raise ConfigError(
            f"{directory / EVENTS_FILE} has no tasks that say what they read and wrote: "
            "note them with bbflow.events.noted_task, as the Montage example does with --events"
        )
    spent, buffered_bytes = time_spent(tasks), sum(map(_volume, tasks))
    profile = {
        "input_bytes": float(first_read_bytes(tasks)),
        "buffered_bytes": float(buffered_bytes),
        "compute_s": spent.compute_s,
        "serial_share": spent.serial_s / max(spent.compute_s, LEAST_S),
        "node_bytes_per_s": max(buffered_bytes, 1) / max(spent.io_s, LEAST_S),
    }
    transfers = [event for event in events if event.get("event") == TRANSFER and event["bytes"]]
    if not transfers:
        return profile, ["cloud_bytes_per_s: nothing was staged in this run, so it is the scenario's"]
    staged_s = sum(end - start for start, end, _ in spans(transfers))
    profile["cloud_bytes_per_s"] = sum(event["bytes"] for event in transfers) / max(staged_s, LEAST_S)
    return profile, []


def first_read_bytes(tasks: Sequence[Event]) -> int:
    """Return the size of all files that tasks read and no task of the run wrote."""
    written = {path for task in tasks for path in task["outputs"]}
    read = {path: size for task in tasks for path, size in task["inputs"].items()}
    return sum(size for path, size in read.items() if path not in written)


def time_spent(tasks: Sequence[Event]) -> Spent:
    """Part the time in which tasks ran into computing and I/O.

    A task's share of computing is taken to be the same all the time it ran.
    """
    compute_s = serial_s = io_s = 0.0
    for start, end, running in spans(tasks):
        for host in {task["host"] for task in running}:
            shares = [_compute_share(task) for task in running if task["host"] == host]
            computing = (end - start) * sum(shares) / len(shares)
            compute_s += computing
            io_s += end - start - computing
            serial_s += computing if len(running) == 1 else 0.0
    return Spent(compute_s, serial_s, io_s)


def spans(events: Sequence[Event]) -> list[tuple[float, float, list[Event]]]:
    """Return the times between which something ran, each with all that did: (start, end, events)."""
    changes = sorted({event[key] for event in events for key in ("started_s", "ended_s")})
    starting = sorted(events, key=lambda event: float(event["started_s"]))
    found, running, number = [], list[Event](), 0
    for start, end in pairwise(changes):
        while number < len(starting) and starting[number]["started_s"] <= start:
            running.append(starting[number])
            number += 1
        running = [event for event in running if event["ended_s"] > start]
        if running:
            found.append((start, end, running))
    return found


def _volume(task: Event) -> int:
    return int(sum(task["inputs"].values()) + sum(task["outputs"].values()))


def _compute_share(task: Event) -> float:
    return float(min(task["user_s"] / max(task["ended_s"] - task["started_s"], LEAST_S), 1.0))

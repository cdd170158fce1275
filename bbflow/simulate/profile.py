"""A scenario of what really happened: the events of a staging or of a run, from which "what if" starts."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from bbflow.errors import ConfigError
from bbflow.events import EVENTS_FILE, read_events
from bbflow.simulate.scenario import Content, Scenario, parse_scenario

Event = dict[str, Any]
# As good as no limit, where events tell nothing of a link.
WIDE_BYTES_PER_S = 1e12
# Durations that are divided by aren't 0.
LEAST_S = 1e-9


def scenario_of_events(directory: Path) -> Scenario:
    """Make a scenario of the events that a stager, or a run with its analysis, left.

    Rates are what was reached then. What events don't show (servers, links) is taken to be wide.

    Parameters
    ----------
    directory
        With ``events.jsonl``.

    Raises
    ------
    ConfigError
        If there are neither tasks and transfers of a staging in it, nor steps that landed.
    """
    events = list(read_events(directory))
    if landed := [event for event in events if event.get("event") == "landed"]:
        content = _transit(events, sorted(landed, key=lambda event: event["step"]))
    else:
        content = _staging([event for event in events if "started_s" in event], directory)
    content["title"] = f"as in {directory}"
    return parse_scenario(directory.resolve().name or "profile", content)


def _staging(events: Sequence[Event], directory: Path) -> Content:
    """Take the file system's rate from the transfers that ran outside all phases."""
    tasks, transfers, phases = (_kind(events, kind) for kind in ("task", "transfer", "phase"))
    copied = [event for event in transfers if event.get("bytes")]
    if not tasks or not copied:
        raise ConfigError(
            f"{directory / EVENTS_FILE} has neither tasks and transfers of a staging nor steps of a run: "
            "give the directory of one that was noted"
        )
    fetchers = len({event["fetcher"] for event in copied})
    fetcher_rate = median(event["bytes"] / _length_s(event) for event in _undisturbed(copied, phases))
    rate = fetcher_rate * fetchers
    input_bytes = round(sum(event["bytes"] for event in copied) / len(tasks))
    slots = most_at_once(tasks)
    content: Content = {
        "kind": "staging",
        "file_system": {"servers": 1, "server_bytes_per_s": rate},
        "burst_buffer": {
            "nodes": 1,
            "node_capacity_bytes": 2 * slots * input_bytes,
            "link_bytes_per_s": WIDE_BYTES_PER_S,
            "fetchers": fetchers,
            "fetcher_bytes_per_s": fetcher_rate,
        },
        "job": {
            "nodes": 1,
            "slots": slots,
            "waves": -(-len(tasks) // slots),
            "input_bytes": input_bytes,
            "compute_s": median(_length_s(event) for event in tasks),
            "link_bytes_per_s": WIDE_BYTES_PER_S,
        },
    }
    if len(phases) > 1:
        content["application"] = _application(phases, rate)
    else:
        content["policies"] = ["naive", "no-action"]
    return content


def _application(phases: Sequence[Event], rate: float) -> Content:
    """Return the application whose I/O phases were seen, as if it had the whole file system then."""
    return {
        "ranks": 1,
        "rank_bytes": round(min(_length_s(event) for event in phases) * rate),
        "pause_s": median(after["started_s"] - before["ended_s"] for before, after in pairwise(phases)),
    }


def _transit(events: Sequence[Event], landed: Sequence[Event]) -> Content:
    """Take one compute node for all ranks of a BB node: events tell of steps, not of ranks."""
    folds, drains = _kind(events, "fold"), _kind(events, "drain")
    nodes = len({event["node"] for event in folds}) or 1
    step_bytes = median(event["bytes"] for event in landed)
    landing_s = median(max(event["committed_s"] - event["began_s"], LEAST_S) for event in landed)
    pauses = [max(after["began_s"] - before["committed_s"], 0.0) for before, after in pairwise(landed)]
    fold_rate = median(event["bytes"] / _length_s(event) for event in folds) if folds else WIDE_BYTES_PER_S
    drain_rate = median(event["bytes"] / _length_s(event) for event in drains) if drains else WIDE_BYTES_PER_S
    drained_bytes = sum(event["bytes"] for event in drains)
    published = _kind(events, "publish")
    ends = len({event["ended_s"] for event in published})
    publish_rate = median(event["bytes"] / _length_s(event) for event in published) if published else WIDE_BYTES_PER_S
    return {
        "kind": "transit",
        "ways": ["pfs+analysis", "bb+analysis", "abb", "bbflow"],
        "file_system": {"servers": 1, "server_bytes_per_s": drain_rate},
        "burst_buffer": {
            "nodes": nodes,
            "node_capacity_bytes": round(16 * step_bytes / nodes) + 1,
            "link_bytes_per_s": WIDE_BYTES_PER_S,
            "landing_bytes_per_s": step_bytes / nodes / landing_s,
            "fold_bytes_per_s": fold_rate,
            "publish_bytes_per_s": publish_rate,
        },
        "simulation": {
            "nodes": nodes,
            "steps": len(landed),
            "node_step_bytes": round(step_bytes / nodes) or 1,
            "compute_s": median(pauses) if pauses else 0.0,
            "link_bytes_per_s": WIDE_BYTES_PER_S,
        },
        "analysis": {
            "bytes_per_s": fold_rate,
            "drained_share": drained_bytes / sum(event["bytes"] for event in landed),
            "results_share": sum(event["bytes"] for event in published) / max(ends, 1) / step_bytes,
            "window_steps": len(landed) // ends if ends > 1 else 0,
        },
    }


def most_at_once(events: Sequence[Event]) -> int:
    """Return how many of some events lasted at the same time at most."""
    # Of one time ends come first, as -1 is less than 1: tasks that follow each other in a slot don't overlap.
    changes = sorted([(e["started_s"], 1) for e in events] + [(e["ended_s"], -1) for e in events])
    most = lasting = 0
    for _, change in changes:
        lasting += change
        most = max(most, lasting)
    return max(most, 1)


def _kind(events: Sequence[Event], kind: str) -> list[Event]:
    found = [event for event in events if event.get("event") == kind]
    return sorted(found, key=lambda event: float(event["started_s"]))


def _length_s(event: Event) -> float:
    return max(float(event["ended_s"]) - float(event["started_s"]), LEAST_S)


def _undisturbed(transfers: Sequence[Event], phases: Sequence[Event]) -> Sequence[Event]:
    """Return the transfers that no phase touches; all of them if there are none."""
    free = [
        event
        for event in transfers
        if not any(phase["started_s"] < event["ended_s"] and event["started_s"] < phase["ended_s"] for phase in phases)
    ]
    return free or transfers

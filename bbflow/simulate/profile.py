"""A scenario of what really happened: the events of a staging, from which "what if" starts."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from bbflow.errors import ConfigError
from bbflow.events import EVENTS_FILE, read_events
from bbflow.simulate.scenario import Content, Scenario, parse_scenario

Event = dict[str, Any]


def scenario_of_events(directory: Path) -> Scenario:
    """Make a scenario of the events that a stager left.

    Rates are what the run itself reached: the file system's is the median of the transfers that ran while nobody was
    in a phase, times how many there were at once. What a staging doesn't show (servers, links) is taken to be wide.

    Parameters
    ----------
    directory
        With ``events.jsonl``.

    Raises
    ------
    ConfigError
        If there are no tasks and transfers in it.
    """
    events = [event for event in read_events(directory) if "started_s" in event]
    tasks, transfers, phases = (_kind(events, kind) for kind in ("task", "transfer", "phase"))
    copied = [event for event in transfers if event.get("bytes")]
    if not tasks or not copied:
        raise ConfigError(f"{directory / EVENTS_FILE} has no tasks and transfers of a staging to make a scenario of")
    fetchers = len({event["fetcher"] for event in copied})
    fetcher_rate = median(event["bytes"] / max(_length_s(event), 1e-9) for event in _undisturbed(copied, phases))
    rate = fetcher_rate * fetchers
    input_bytes = round(sum(event["bytes"] for event in copied) / len(tasks))
    slots = most_at_once(tasks)
    content: Content = {
        "kind": "staging",
        "title": f"as in {directory}",
        "file_system": {"servers": 1, "server_bytes_per_s": rate},
        "burst_buffer": {
            "nodes": 1,
            "node_capacity_bytes": 2 * slots * input_bytes,
            "link_bytes_per_s": 1e12,
            "fetchers": fetchers,
            "fetcher_bytes_per_s": fetcher_rate,
        },
        "job": {
            "nodes": 1,
            "slots": slots,
            "waves": -(-len(tasks) // slots),
            "input_bytes": input_bytes,
            "compute_s": median(_length_s(event) for event in tasks),
            "link_bytes_per_s": 1e12,
        },
    }
    if len(phases) > 1:
        content["application"] = {
            "ranks": 1,
            "rank_bytes": round(min(_length_s(event) for event in phases) * rate),
            "pause_s": median(after["started_s"] - before["ended_s"] for before, after in pairwise(phases)),
        }
    else:
        content["policies"] = ["naive", "no-action"]
    return parse_scenario(directory.name or "profile", content)


def most_at_once(events: Sequence[Event]) -> int:
    """Give how many of some events lasted at the same time at most."""
    changes = sorted([(e["started_s"], 1) for e in events] + [(e["ended_s"], -1) for e in events])
    most = lasting = 0
    for _, change in changes:
        lasting += change
        most = max(most, lasting)
    return max(most, 1)


def _kind(events: Sequence[Event], kind: str) -> list[Event]:
    return sorted((event for event in events if event.get("event") == kind), key=lambda event: event["started_s"])


def _length_s(event: Event) -> float:
    return float(event["ended_s"]) - float(event["started_s"])


def _undisturbed(transfers: Sequence[Event], phases: Sequence[Event]) -> Sequence[Event]:
    """Give the transfers that no phase touches; all of them if there are none."""
    free = [
        event
        for event in transfers
        if not any(phase["started_s"] < event["ended_s"] and event["started_s"] < phase["ended_s"] for phase in phases)
    ]
    return free or transfers

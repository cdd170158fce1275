"""Spark's own event log: when its stages and tasks ran, and what they read and wrote."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bbflow.errors import ConfigError

_BUSY = ("Executor Deserialize Time", "Executor Run Time", "Result Serialization Time")


@dataclass(frozen=True, slots=True)
class RanTask:
    """A task that ended well; times in seconds since the epoch."""

    partition: int
    """Of the stage."""
    started_s: float
    """When it was launched."""
    ended_s: float
    """When its executor was done with it; the driver hears of it a little later."""
    input_bytes: int
    """Read from files."""
    shuffle_read_bytes: int
    """Read from shuffles."""
    shuffle_written_bytes: int
    """Written for shuffles."""


@dataclass(frozen=True, slots=True)
class RanStage:
    """A stage that ran."""

    number: int
    """As Spark counts."""
    name: str
    """What Spark calls it: where in the program it comes from."""
    started_s: float
    """When it was submitted."""
    ended_s: float
    """When it was over."""
    tasks: tuple[RanTask, ...]
    """Those that ended well."""

    @property
    def is_map(self) -> bool:
        """Whether it reads files."""
        return any(task.input_bytes for task in self.tasks)


@dataclass(frozen=True, slots=True)
class SparkApplication:
    """What a log tells."""

    name: str
    """As the program calls itself."""
    identity: str
    """Spark's id."""
    started_s: float
    """When its SparkContext was made."""
    ended_s: float | None
    """When it was stopped; None if it was killed, or still runs."""
    stages: tuple[RanStage, ...]
    """In the order of their begin."""
    failed_tasks: int
    """How many attempts failed."""

    @property
    def map_s(self) -> float:
        """How long stages ran that read files; where some overlap, time counts once."""
        return covered_s((stage.started_s, stage.ended_s) for stage in self.stages if stage.is_map)

    @property
    def reduce_s(self) -> float:
        """How long the others ran."""
        return covered_s((stage.started_s, stage.ended_s) for stage in self.stages if not stage.is_map)


def covered_s(spans: Iterable[tuple[float, float]]) -> float:
    """Add up spans of time, each moment once."""
    total_s, until_s = 0.0, float("-inf")
    for begin_s, end_s in sorted(spans):
        total_s += max(0.0, end_s - max(begin_s, until_s))
        until_s = max(until_s, end_s)
    return total_s


def find_logs(directory: Path) -> list[Path]:
    """Return the logs of applications in a directory, the oldest first; one may be a directory of files."""
    found = [path for path in directory.iterdir() if not path.name.startswith(".")] if directory.is_dir() else []
    return sorted(found, key=lambda path: path.stat().st_mtime)


def read_log(log: Path) -> SparkApplication:
    """Read a log.

    Raises
    ------
    ConfigError
        If it is none, or compressed.
    """
    files = sorted(log.glob("events_*"), key=_number) if log.is_dir() else [log]
    told: dict[str, Any] = {}
    stages: dict[tuple[int, int], dict[str, Any]] = {}
    tasks: dict[int, list[RanTask]] = {}
    failed = 0
    for event in _events(files):
        match event.get("Event"):
            case "SparkListenerApplicationStart":
                told = {"name": event["App Name"], "identity": event["App ID"], "started_s": event["Timestamp"] / 1e3}
            case "SparkListenerApplicationEnd":
                told["ended_s"] = event["Timestamp"] / 1e3
            case "SparkListenerStageCompleted":
                info = event["Stage Info"]
                stages[info["Stage ID"], info["Stage Attempt ID"]] = info
            case "SparkListenerTaskEnd" if event["Task End Reason"]["Reason"] == "Success":
                tasks.setdefault(event["Stage ID"], []).append(_ran(event))
            case "SparkListenerTaskEnd":
                failed += 1
    if "started_s" not in told:
        raise ConfigError(f"{log} isn't an event log of Spark, or a compressed one: set spark.eventLog.compress=false")
    ended = [_stage(info, tuple(tasks.get(number, ()))) for (number, _), info in stages.items()]
    in_order = tuple(sorted(ended, key=lambda stage: stage.started_s))
    return SparkApplication(stages=in_order, failed_tasks=failed, **{"ended_s": None} | told)


def _number(path: Path) -> int:
    return int(path.name.split("_")[1])


def _events(files: Iterable[Path]) -> Iterator[Mapping[str, Any]]:
    for path in files:
        with path.open("rb") as lines:
            for line in lines:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue  # the last line of one that was killed
                if isinstance(event, dict):
                    yield event


def _stage(info: Mapping[str, Any], tasks: tuple[RanTask, ...]) -> RanStage:
    started_s = info.get("Submission Time", 0) / 1e3
    return RanStage(info["Stage ID"], info["Stage Name"], started_s, info.get("Completion Time", 0) / 1e3, tasks)


def _ran(event: Mapping[str, Any]) -> RanTask:
    info, metrics = event["Task Info"], event.get("Task Metrics") or {}
    read = metrics.get("Shuffle Read Metrics", {})
    busy_ms = sum(metrics[name] for name in _BUSY if name in metrics) or math.inf
    return RanTask(
        partition=info.get("Partition ID", info["Index"]),
        started_s=info["Launch Time"] / 1e3,
        ended_s=min(info["Finish Time"], info["Launch Time"] + busy_ms) / 1e3,
        input_bytes=metrics.get("Input Metrics", {}).get("Bytes Read", 0),
        shuffle_read_bytes=read.get("Remote Bytes Read", 0) + read.get("Local Bytes Read", 0),
        shuffle_written_bytes=metrics.get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0),
    )

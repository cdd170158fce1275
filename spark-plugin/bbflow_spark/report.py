"""The report of a run: what Spark noted of its stages and tasks, beside what the prefetcher noted of transfers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bbflow.errors import ConfigError
from bbflow.events import read_events
from bbflow.report.page import Figure, fill, seconds
from bbflow.report.picture import Picture
from bbflow.report.staging import Bar, StagingEvents, draw_bytes, draw_staging, parse_staging
from bbflow.units import format_bytes
from bbflow_spark.eventlog import RanStage, RanTask, SparkApplication, find_logs, read_log

Events = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class StageRow:
    """A stage, as the table shows it."""

    name: str
    """Number, and what Spark calls it."""
    phase: str
    """Map or reduce."""
    tasks: int
    """That ended well."""
    span: str
    """From when to when, after the application's begin."""
    read: str
    """From files."""
    staged: str
    """Share of the tasks' own blocks that were read from the burst buffer."""
    shuffle_read: str
    """From shuffles."""
    shuffle_written: str
    """For shuffles."""


def make_report(notes: Path, log_directory: Path) -> str:
    """Make the page of the newest application that was noted.

    Parameters
    ----------
    notes
        What the prefetcher noted.
    log_directory
        Of Spark's event logs.

    Raises
    ------
    ConfigError
        If Spark has left no event log there.
    """
    logs = find_logs(log_directory)
    if not logs:
        raise ConfigError(f"no event log of Spark in {log_directory}: give the directory that 'bbflow spark' noted to")
    application = read_log(logs[-1])
    events = _within(read_events(notes), application)
    return fill(
        Path(__file__).with_name("report.html"),
        name=application.name,
        status=_status(application),
        figures=_figures(application, events),
        stages=[_row(stage, application, events) for stage in application.stages],
        timeline=draw_staging(_staging(application, events)),
        shuffles=draw_shuffles(events, application.started_s),
    )


def _within(events: Iterable[Mapping[str, Any]], application: SparkApplication) -> Events:
    """Leave out what was noted of other applications, before or after this one."""
    end_s = application.ended_s or max((stage.ended_s for stage in application.stages), default=float("inf"))

    def is_in(event: Mapping[str, Any]) -> bool:
        at_s = float(event.get("started_s", event.get("at_s", 0)))
        return application.started_s <= at_s <= end_s

    return [event for event in events if is_in(event)]


def _status(application: SparkApplication) -> tuple[str, str]:
    if application.ended_s is None:
        return "incomplete", "Spark's event log has no end: the application runs, or was killed."
    failed = application.failed_tasks
    return "complete", f"Complete; {failed} attempts of tasks failed and were made again." if failed else "Complete."


def _figures(application: SparkApplication, events: Events) -> list[Figure]:
    staging = parse_staging(events)
    end_s = application.ended_s or max((stage.ended_s for stage in application.stages), default=application.started_s)
    reads = [event for event in events if event["event"] == "read"]
    waited_s = sum(event["ended_s"] - event["started_s"] for event in reads)
    transfers = [bar for bars in staging.transfers.values() for bar in bars]
    waves = len({bar.wave for bar in transfers})
    held_s = sum(bar.ended_s - bar.started_s for bar in staging.holds)
    written = sum(task.shuffle_written_bytes for task in _tasks(application))
    shuffles = [event for event in events if event["event"] == "shuffle"]
    return [
        Figure("Application", seconds(end_s - application.started_s), f"{len(_tasks(application)):,} tasks"),
        Figure("Map phases", seconds(application.map_s), "stages that read files"),
        Figure("Reduce phases", seconds(application.reduce_s), "all others"),
        Figure("Staged", format_bytes(sum(bar.bytes for bar in transfers)), f"{waves} waves"),
        Figure("Blocks from the burst buffer", _share(reads), f"of {len(reads):,}; tasks waited {seconds(waited_s)}"),
        Figure("Held for others", seconds(held_s), f"{sum(map(len, staging.phases.values()))} phases"),
        Figure("Shuffled", format_bytes(written), f"at most {_most(shuffles, 'bb_bytes')} on the burst buffer at once"),
        Figure("Moved to the disk", _most(shuffles, "disk_bytes"), "of shuffles, for want of room"),
    ]


def _tasks(application: SparkApplication) -> list[RanTask]:
    return [task for stage in application.stages for task in stage.tasks]


def _share(reads: Events) -> str:
    return f"{sum(event['staged'] for event in reads) / len(reads):.0%}" if reads else "none"


def _most(shuffles: Events, what: str) -> str:
    return format_bytes(max((event[what] for event in shuffles), default=0))


def _row(stage: RanStage, application: SparkApplication, events: Events) -> StageRow:
    def total(what: str) -> str:
        size_bytes = sum(getattr(task, what) for task in stage.tasks)
        return format_bytes(size_bytes) if size_bytes else ""

    start_s = application.started_s
    reads = [event for event in events if event["event"] == "read" and event["stage"] == stage.number]
    return StageRow(
        f"{stage.number}: {stage.name}",
        "map" if stage.is_map else "reduce",
        len(stage.tasks),
        f"{stage.started_s - start_s:.1f} to {stage.ended_s - start_s:.1f} s",
        total("input_bytes"),
        _share(reads) if reads else "",
        total("shuffle_read_bytes"),
        total("shuffle_written_bytes"),
    )


def _staging(application: SparkApplication, events: Events) -> StagingEvents:
    """Put Spark's tasks beside the transfers, in the colours of the waves that brought their blocks."""
    waves = {event["task"]: int(event["wave"]) for event in events if event["event"] == "task"}
    last = max(waves.values(), default=0)
    tasks = [
        Bar(ran.started_s, ran.ended_s, waves.get(f"{application.identity}/{stage.number}.0/{ran.partition}", last + 1))
        for stage in application.stages
        for ran in stage.tasks
    ]
    staging = parse_staging(events)
    return StagingEvents(staging.phases, staging.holds, staging.transfers, tasks)


def draw_shuffles(events: Events, start_s: float) -> Picture | None:
    """Draw the bytes of shuffles on the burst buffer and on the disk over seconds; None if there were none."""
    noted = [event for event in events if event["event"] == "shuffle"]
    if not noted:
        return None
    times = [event["at_s"] - start_s for event in noted]
    places = {"burst buffer": "bb_bytes", "disk": "disk_bytes"}
    series = {label: (times, [event[what] for event in noted]) for label, what in places.items()}
    return Picture("shuffles", "Shuffles and spills", _CAPTION, draw_bytes(series, 2.0))


_CAPTION = (
    "What lay in Spark's local directory on the burst buffer, and what had been moved to the disk since the burst "
    "buffer had no room for it."
)

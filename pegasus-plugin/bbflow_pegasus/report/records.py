"""What Pegasus recorded of a run: when its jobs ran, and how large its files are."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bbflow.errors import ConfigError
from bbflow.events import read_events
from bbflow.report.staging import StagingEvents, parse_staging
from bbflow_pegasus.dag.submitdir import SubmitDir

# Below 0 are no tasks of the job: monitord gives -1 to DAGMan's script before it, and -2 to the one after it.
_JOBS = """
select job.exec_job_id, job.type_desc, min(invocation.start_time),
       max(invocation.start_time + invocation.remote_duration), max(invocation.exitcode)
from invocation join job_instance using (job_instance_id) join job using (job_id)
where invocation.task_submit_seq > 0
group by job_instance.job_instance_id order by job_instance.job_instance_id
"""
_SIZES = "select rc_lfn.lfn, rc_meta.value from rc_meta join rc_lfn using (lfn_id) where rc_meta.key = 'size'"


@dataclass(frozen=True, slots=True)
class Ran:
    """A job's last run."""

    name: str
    """In the executable workflow."""
    kind: str
    """Such as ``compute`` or ``stage-in-tx``."""
    started_s: float
    """Seconds since the epoch."""
    ended_s: float
    """Seconds since the epoch."""
    failed: bool = False
    """Whether it didn't end well."""
    attempts: int = 1
    """How often it ran."""


@dataclass(frozen=True, slots=True)
class Records:
    """What is known of a run."""

    jobs: Mapping[str, Ran]
    """By name."""
    sizes: Mapping[str, int]
    """Bytes of files, by logical name."""
    staging: StagingEvents
    """What bbflow's transfers did; nothing of others' transfers."""
    arrivals: Mapping[str, float]
    """By the source's URL, when bbflow had staged it, in seconds since the epoch."""


def read_records(where: SubmitDir) -> Records:
    """Read the records of a run, also while it runs.

    Raises
    ------
    ConfigError
        If there are none.
    """
    database = where.dag.with_name(where.dag.stem + ".stampede.db")
    if not database.is_file():
        raise ConfigError(f"{where.path} has no records of a run ({database.name}): run it with pegasus-run first")
    try:
        # Read-only: Pegasus' monitoring daemon may be writing into it.
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            jobs = _last_runs(connection.execute(_JOBS).fetchall())
            sizes = {str(lfn): int(value) for lfn, value in connection.execute(_SIZES) if str(value).isdigit()}
    except sqlite3.Error as error:
        raise ConfigError(f"{database} can't be read: {error}") from None
    events = list(_events(where.path / "bbflow"))
    arrivals = {str(event["url"]): float(event["ended_s"]) for event in events if event.get("event") == "transfer"}
    return Records(jobs, sizes, parse_staging(events), arrivals)


def _last_runs(rows: list[tuple[str, str, float | None, float | None, int | None]]) -> dict[str, Ran]:
    found: dict[str, Ran] = {}
    for name, kind, started_s, ended_s, code in rows:
        if started_s is not None and ended_s is not None:
            attempts = found[name].attempts + 1 if name in found else 1
            found[name] = Ran(name, kind, float(started_s), float(ended_s), bool(code), attempts)
    return found


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    """Iterate over the events of all transfer jobs; fetchers get numbers of their own, job by job."""
    first = 0
    for job in sorted(path.parent for path in folder.glob("*/events.jsonl")):
        most = first
        for event in read_events(job):
            if "fetcher" in event:
                event["fetcher"] = first + int(event["fetcher"])
                most = max(most, event["fetcher"] + 1)
            yield event
        first = most

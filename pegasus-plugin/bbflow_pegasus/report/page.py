"""The page: numbers put in words, two pictures, a table of the waves."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bbflow.errors import ConfigError
from bbflow.report.page import Figure, fill, seconds
from bbflow.report.picture import Picture
from bbflow.report.staging import Bar, StagingEvents, draw_bytes, draw_staging
from bbflow.units import format_bytes, parse_bytes
from bbflow_pegasus.dag.nodes import parse_dag
from bbflow_pegasus.dag.planned import USERS_OWN, read_planned
from bbflow_pegasus.dag.submitdir import SubmitDir, read_properties
from bbflow_pegasus.planning.facts import PREFIX
from bbflow_pegasus.planning.said import WAVES
from bbflow_pegasus.report.holdings import Held, holdings, levels, peak_bytes, plain
from bbflow_pegasus.report.records import Ran, Records, read_records


@dataclass(frozen=True, slots=True)
class Wave:
    """One row of the table."""

    number: int
    """From 0."""
    jobs: int
    """That compute in it."""
    size_bytes: int
    """Staged in for it."""
    staged: str
    """From when to when, after the run's begin."""
    computed: str
    """From when to when its jobs ran."""


def make_report(where: SubmitDir) -> str:
    """Make the page of a run.

    Raises
    ------
    ConfigError
        If there are no records of a run, or nothing was staged to the burst buffer.
    """
    records = read_records(where)
    said = _read_waves(where.path / WAVES)
    properties = read_properties(where.properties)
    site = said.get("site") or properties.get(PREFIX + "site") or "bb"
    capacity = said.get("capacity_bytes") or _capacity(properties)
    planned = read_planned(where, parse_dag(where.dag.read_text()), site)
    held = holdings(planned, records)
    if not held:
        why = "so far" if planned.stage_ins else "and nothing will; was it planned with --staging-site?"
        raise ConfigError(f"{where.path}: nothing came to site {site!r}, {why}")
    first = plain(held, planned, records)
    start_s = min(ran.started_s for ran in records.jobs.values())
    waves = said.get("waves", [])
    return fill(
        Path(__file__).with_name("pegasus.html"),
        name=where.dag.stem,
        status=_status(records, len(planned.facts.jobs)),
        figures=_figures(records, held, first, capacity),
        waves=[_wave(number, wave, records, start_s) for number, wave in enumerate(waves)],
        remarks=said.get("remarks", []),
        timeline=draw_staging(_with_tasks(records, waves)),
        holdings=draw_holdings(held, first, capacity, start_s),
    )


def _figures(records: Records, held: Sequence[Held], first: Sequence[Held], capacity: int | None) -> list[Figure]:
    jobs = list(records.jobs.values())
    length_s = max(ran.ended_s for ran in jobs) - min(ran.started_s for ran in jobs)
    compute = [ran for ran in jobs if ran.kind in USERS_OWN]
    transfers = [ran for ran in jobs if ran.kind == "stage-in-tx"]
    held_s = sum(bar.ended_s - bar.started_s for bar in records.staging.holds)
    staged_bytes = sum(each.size_bytes for each in held if each.staged)
    again = sum(ran.attempts - 1 for ran in jobs)
    most, without = peak_bytes(held), peak_bytes(first)
    return [
        Figure("Makespan", seconds(length_s), f"{len(jobs):,} jobs, {again} of them tried again" if again else ""),
        Figure("Computing", seconds(sum(r.ended_s - r.started_s for r in compute)), f"{len(compute):,} jobs, in all"),
        Figure("Staged in", format_bytes(staged_bytes), f"by {len(transfers):,} jobs"),
        Figure("Held for others", seconds(held_s), f"{sum(map(len, records.staging.phases.values()))} phases"),
        Figure("Most on the burst buffer", format_bytes(most), _share(most, capacity)),
        Figure("With all inputs first", format_bytes(without), _share(without, capacity)),
    ]


def _share(size_bytes: int, capacity: int | None) -> str:
    return f"{size_bytes / capacity:.0%} of {format_bytes(capacity)}" if capacity else "its capacity isn't known"


def _status(records: Records, jobs: int) -> tuple[str, str]:
    """Return how the run ended, in a word and in a sentence."""
    own = [ran for ran in records.jobs.values() if ran.kind in USERS_OWN]
    failed = sorted(ran.name for ran in records.jobs.values() if ran.failed)
    if failed:
        return "incomplete", f"{len(failed)} jobs failed, the first of them {failed[0]}."
    if len(own) < jobs:
        return "running", f"{len(own)} of {jobs} jobs have run so far."
    return "complete", "Complete."


def _wave(number: int, said: dict[str, Any], records: Records, start_s: float) -> Wave:
    def span(names: Sequence[str]) -> str:
        runs = [records.jobs[name] for name in names if name in records.jobs]
        if not runs:
            return ""
        began_s, ended_s = min(ran.started_s for ran in runs), max(ran.ended_s for ran in runs)
        return f"{began_s - start_s:.0f} to {ended_s - start_s:.0f} s"

    return Wave(number, len(said["jobs"]), said["bytes"], span(said["stage_ins"]), span(said["jobs"]))


def _with_tasks(records: Records, waves: Sequence[dict[str, Any]]) -> StagingEvents:
    """Put the jobs beside the transfers, in the colours of their waves; transfers of others are rows too."""
    wave_of = {name: number for number, wave in enumerate(waves) for name in (*wave["jobs"], *wave["stage_ins"])}

    def bar(ran: Ran) -> Bar:
        return Bar(ran.started_s, ran.ended_s, wave_of.get(ran.name, 0))

    staging = records.staging
    jobs = records.jobs.values()
    transfers = {number: [bar(ran)] for number, ran in enumerate(r for r in jobs if r.kind == "stage-in-tx")}
    tasks = [bar(ran) for ran in jobs if ran.kind in USERS_OWN]
    return StagingEvents(staging.phases, staging.holds, transfers, tasks)


def draw_holdings(held: Sequence[Held], first: Sequence[Held], capacity: int | None, start_s: float) -> Picture:
    """Draw the bytes on the burst buffer over seconds, against its capacity and against the plain plan."""
    series = {}
    for label, each in (("as it was", held), ("all inputs first", first)):
        times, sizes = levels(each)
        series[label] = [at_s - start_s for at_s in times], sizes
    return Picture("holdings", "On the burst buffer", _CAPTION, draw_bytes(series, 2.4, capacity))


def _read_waves(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError:
        raise ConfigError(f"{path} can't be read: plan the waves again") from None
    return content


def _capacity(properties: dict[str, str]) -> int | None:
    text = properties.get(PREFIX + "capacity")
    return parse_bytes(text) if text else None


_CAPTION = (
    "Bytes of files that lay whole on the burst buffer: inputs, from their arrival to their clean-up, and what jobs "
    "made there. Beside it what would have lain there if all inputs had come before the first job, as Pegasus plans "
    "without waves, each staying until its last user had ended."
)

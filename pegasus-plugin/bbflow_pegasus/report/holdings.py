"""Which bytes lay on the burst buffer when: as it was, and as the plain plan would have had it. Pure."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from bbflow_pegasus.dag.planned import Planned
from bbflow_pegasus.dag.transferlists import removed_url
from bbflow_pegasus.report.records import Ran, Records


@dataclass(frozen=True, slots=True)
class Held:
    """A file that lay on the burst buffer."""

    name: str
    """Its logical name."""
    size_bytes: int
    """0 if it isn't known."""
    from_s: float
    """When it was whole there, in seconds since the epoch."""
    to_s: float
    """When it went."""
    staged: bool
    """Whether it was staged in; else a job made it."""


def holdings(planned: Planned, records: Records) -> list[Held]:
    """Return the files that lay on the burst buffer.

    A file goes with its clean-up job, else at the run's end. What never came isn't among them.

    Parameters
    ----------
    planned
        What each job copies, makes and removes there.
    records
        When it ran.
    """
    end_s = max((ran.ended_s for ran in records.jobs.values()), default=0.0)
    removed = _removed(planned, records.jobs)
    sizes = {name: source.size_bytes for name, source in planned.facts.sources.items() if source.size_bytes is not None}
    known = {**planned.facts.made_bytes, **records.sizes, **sizes}
    held = []
    for name, (at_s, staged) in _came(planned, records).items():
        held.append(Held(name, known.get(name, 0), at_s, max(removed.get(name, end_s), at_s), staged))
    return held


def plain(held: Iterable[Held], planned: Planned, records: Records) -> list[Held]:
    """Return what would have lain there if all inputs had come first, as Pegasus plans by itself.

    Each input comes when the first one did, and goes when its last user has ended; what jobs make is as it was.

    Parameters
    ----------
    held
        As it was.
    planned, records
        As for `holdings`.
    """
    held = list(held)
    first_s = min((each.from_s for each in held if each.staged), default=0.0)
    used_s: dict[str, float] = {}
    for job in planned.facts.jobs.values():
        ran = records.jobs.get(job.name)
        for name in job.inputs if ran is not None else ():
            used_s[name] = max(used_s.get(name, 0.0), ran.ended_s if ran else 0.0)
    return [replace(e, from_s=first_s, to_s=used_s.get(e.name, e.to_s)) if e.staged else e for e in held]


def levels(held: Iterable[Held]) -> tuple[list[float], list[int]]:
    """Return the times at which the bytes change, and the bytes from then on."""
    changes: dict[float, int] = {}
    for each in held:
        changes[each.from_s] = changes.get(each.from_s, 0) + each.size_bytes
        changes[each.to_s] = changes.get(each.to_s, 0) - each.size_bytes
    times = sorted(changes)
    total, values = 0, []
    for time_s in times:
        total += changes[time_s]
        values.append(total)
    return times, values


def peak_bytes(held: Iterable[Held]) -> int:
    """Return the most bytes that lay there at once."""
    return max(levels(held)[1], default=0)


def _came(planned: Planned, records: Records) -> dict[str, tuple[float, bool]]:
    """By logical name, when a file was whole, and whether it was staged in."""
    came: dict[str, tuple[float, bool]] = {}
    for job in planned.facts.jobs.values():
        ran = records.jobs.get(job.name)
        for name in job.outputs if ran is not None and not ran.failed else ():
            came[name] = (ran.ended_s if ran else 0.0, False)
    for job_name, entries in planned.stage_ins.items():
        ran = records.jobs.get(job_name)
        for entry in entries if ran is not None else ():
            arrived = [records.arrivals[url] for url in _urls(entry) if url in records.arrivals]
            if arrived or (ran is not None and not ran.failed):
                came[str(entry["lfn"])] = (arrived[0] if arrived else ran.ended_s if ran else 0.0, True)
    return came


def _removed(planned: Planned, jobs: Mapping[str, Ran]) -> dict[str, float]:
    """By logical name, when a clean-up job had removed it."""
    removed = {}
    for job_name, entries in planned.clean_ups.items():
        ran = jobs.get(job_name)
        if ran is not None and not ran.failed:
            for entry in entries:
                name = planned.names_of.get(removed_url(entry) or "")
                if name is not None:
                    removed[name] = ran.ended_s
    return removed


def _urls(entry: Mapping[str, Any]) -> Iterator[str]:
    """Iterate over the names by which transfers may have noted a file's sources: as they stand, and decoded."""
    for each in entry["src_urls"]:
        url = str(each["url"])
        plain = os.path.normpath(url.removeprefix("file://")) if url.startswith("file://") else url
        yield from (plain, unquote(plain))

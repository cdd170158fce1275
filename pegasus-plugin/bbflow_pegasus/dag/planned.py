"""What Pegasus has planned: its transfer and cleanup jobs on the burst buffer, and the facts behind the waves."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bbflow_pegasus.dag.nodes import Dag
from bbflow_pegasus.dag.submitdir import SubmitDir, job_types, made_bytes
from bbflow_pegasus.dag.transferlists import (
    Entry,
    entries_within,
    names,
    read_entries,
    removed_url,
    source_site,
    target_site,
)
from bbflow_pegasus.planning.facts import Job, PlanFacts, ReplicaSource

USERS_OWN = frozenset({"compute", "dax", "dag"})
"""Types of jobs that aren't Pegasus's own."""


@dataclass(frozen=True, slots=True)
class Planned:
    """Jobs that concern one burst buffer, by name, with their entries."""

    facts: PlanFacts
    """What waves are made from."""
    stage_ins: Mapping[str, list[Entry]]
    """Copy to the burst buffer."""
    stage_outs: Mapping[str, list[Entry]]
    """Copy from it."""
    clean_ups: Mapping[str, list[Entry]]
    """Remove files on it."""
    names_of: Mapping[str, str]
    """By URL on the burst buffer, logical names."""


def read_planned(where: SubmitDir, dag: Dag, site: str) -> Planned:
    """Read the jobs of a submit directory.

    Parameters
    ----------
    where
        The submit directory.
    dag
        As Pegasus planned it.
    site
        Of the burst buffer.
    """
    with where.static_events.open() as events:
        types = {name: kind for name, kind in job_types(events).items() if name in dag.nodes}

    def lists(kind: str) -> dict[str, list[Entry]]:
        return {name: read_entries(_input(where, dag, name)) for name in dag.nodes if types.get(name) == kind}

    stage_ins = {n: e for n, e in lists("stage-in-tx").items() if "_local_" in n and _all(target_site, e, site)}
    stage_outs = {n: e for n, e in lists("stage-out-tx").items() if _all(source_site, e, site)}
    clean_ups = {
        n: e for n, e in lists("cleanup").items() if e and _all(target_site, e, site) and all(map(removed_url, e))
    }
    results = {name for entries in stage_outs.values() for name in names(entries)}
    own = [name for name in dag.nodes if types.get(name) in USERS_OWN]
    used = {name: _entries_of(where, dag, name) for name in own}
    facts = PlanFacts(
        jobs={name: _job(name, used[name], site, results) for name in own},
        parents=_among(own, dag.parents()),
        sources={str(entry["lfn"]): _source(entry) for entries in stage_ins.values() for entry in entries},
        made_bytes=made_bytes(where.metadata),
    )
    return Planned(facts, stage_ins, stage_outs, clean_ups, _names_of([*stage_ins.values(), *used.values()], site))


def _input(where: SubmitDir, dag: Dag, name: str) -> Path:
    return where.path / (dag.submit_file(name).removesuffix(".sub") + ".in")


def _entries_of(where: SubmitDir, dag: Dag, name: str) -> list[Entry]:
    script = where.path / (dag.submit_file(name).removesuffix(".sub") + ".sh")
    return entries_within(script.read_text()) if script.is_file() else []


def _all(site_of: Callable[[Entry], str], entries: Iterable[Entry], site: str) -> bool:
    return all(site_of(entry) == site for entry in entries)


def _job(name: str, entries: Iterable[Entry], site: str, results: set[str]) -> Job:
    entries = list(entries)
    inputs = names(entry for entry in entries if source_site(entry) == site)
    outputs = names(entry for entry in entries if target_site(entry) == site)
    return Job(name, inputs, outputs, tuple(file for file in outputs if file in results))


def _source(entry: Entry) -> ReplicaSource:
    size = entry.get("attributes", {}).get("size")
    return ReplicaSource(int(size) if size is not None else None, str(entry["src_urls"][0]["url"]))


def _names_of(lists: Iterable[Iterable[Entry]], site: str) -> dict[str, str]:
    entries = [entry for each in lists for entry in each]
    return {str(entry["dest_urls"][0]["url"]): str(entry["lfn"]) for entry in entries if target_site(entry) == site}


def _among(own: Iterable[str], parents: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Return the jobs of a user that each one waits for, also by way of Pegasus's own."""
    known = dict.fromkeys(own)
    found: dict[str, tuple[str, ...]] = {}
    for name in known:
        above = list(parents[name])
        seen: dict[str, None] = {}
        while above:
            each = above.pop()
            if each not in seen:
                seen[each] = None
                above += [] if each in known else parents[each]
        found[name] = tuple(each for each in seen if each in known)
    return found

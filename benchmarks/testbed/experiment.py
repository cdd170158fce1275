"""The schedule: every policy beside every kind of HPC traffic, interleaved, so that a drift hits all alike."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bbflow.host.belongings import make, remove
from benchmarks.testbed.bed import Bed, hpc_application
from benchmarks.testbed.job import Job, Outcome

POLICIES = ("naive", "no-action", "full-delay", "partial-delay", "auto")
WITHOUT_TRAFFIC = ("naive", "no-action")
PHASE_BYTES = 80 << 20
"""Of all ranks: nine tenths of a second on the free link."""
Span = tuple[float, float]
"""Begin and end on the monotonic clock (s)."""


@dataclass(frozen=True)
class Traffic:
    """What the HPC application does beside the job."""

    name: str
    """As the tables call it."""
    pause_s: float
    """Computing between two phases."""


SPARSE = Traffic("sparse phases", 2.0)
DENSE = Traffic("dense phases", 0.9)
QUIET = "no HPC traffic"


@dataclass(frozen=True)
class Run:
    """One run of the job."""

    traffic: str
    """Name of the traffic beside it."""
    policy: str
    """How its inputs came."""
    passes: int
    """How often its tasks read their input."""
    waves: int
    """How many tasks each slot ran."""
    outcome: Outcome
    """Its own times."""
    phases_s: tuple[float, ...] = ()
    """How long each phase took that lies in the run with its middle."""
    alone_s: tuple[float, ...] = ()
    """How long the phases took that the same HPC application had beside no job."""
    start_s: float = 0.0
    """From the end of the last phase before it to its begin: where in the pauses it began decides what it meets."""


def rotated(policies: Sequence[str], by: int) -> tuple[str, ...]:
    """Turn the order, so that no policy always comes first."""
    by %= len(policies)
    return (*policies[by:], *policies[:by])


def run_job(bed: Bed, job: Job) -> Outcome:
    """Run the map application once, on an empty BB."""
    make(Path(job.directory), "**")
    said = json.loads(bed.run("compute", "application", job.to_json()).splitlines()[-1])
    remove(Path(job.directory))
    return Outcome(said["begun_s"], said["ended_s"], tuple(said["read_s"]))


def quiet_runs(bed: Bed, job: Job, repeat: int) -> Iterator[Run]:
    """Run without HPC traffic, also with tasks that read their input once."""
    for passes in (1, job.passes):
        for policy in rotated(WITHOUT_TRAFFIC, repeat):
            outcome = run_job(bed, replace(job, policy=policy, passes=passes))
            yield Run(QUIET, policy, passes, job.waves, outcome)


def busy_runs(bed: Bed, job: Job, traffic: Traffic, repeat: int) -> list[Run]:
    """Run every policy beside one HPC application, which is left alone for a while before, between and after."""
    outcomes: list[tuple[str, Outcome]] = []
    with hpc_application(bed, PHASE_BYTES, traffic.pause_s, Path(job.board)) as hpc:
        hpc.await_phases(3)
        for policy in rotated(POLICIES, repeat):
            outcomes.append((policy, run_job(bed, replace(job, policy=policy))))
            hpc.await_phases(1)
        hpc.await_phases(1)
    spans = [(outcome.begun_s, outcome.ended_s) for _, outcome in outcomes]
    alone_s = undisturbed_s(hpc.phases[1:], spans)
    return [
        Run(
            traffic.name,
            policy,
            job.passes,
            job.waves,
            outcome,
            phases_within_s(hpc.phases[1:], span),
            alone_s,
            span[0] - max(end for _, end in hpc.phases if end <= span[0]),
        )
        for (policy, outcome), span in zip(outcomes, spans, strict=True)
    ]


def phases_within_s(phases: Sequence[Span], span: Span) -> tuple[float, ...]:
    """Return the durations (s) of the phases whose middle lies in a span."""
    return tuple(end - begin for begin, end in phases if span[0] <= (begin + end) / 2 < span[1])


def undisturbed_s(phases: Sequence[Span], spans: Sequence[Span]) -> tuple[float, ...]:
    """Return the durations (s) of the phases that touch none of the spans."""
    return tuple(end - begin for begin, end in phases if not any(begin < last and first < end for first, last in spans))

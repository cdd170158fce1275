"""From runs to the table: medians over the repetitions, each ratio within one repetition."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.rows import Row
from benchmarks.testbed.experiment import Run

Case = tuple[str, int]
"""Traffic and number of passes: runs of one case are compared with each other."""
READS = {1: ", inputs read once", 2: ""}
"""How a row's name tells the number of passes: two are the rule."""


@dataclass(frozen=True)
class Figure:
    """What one policy came to beside one kind of traffic; each value is a median over the repetitions."""

    traffic: str
    """The HPC application beside it."""
    passes: int
    """How often a task reads its input."""
    policy: str
    """How inputs came."""
    map_s: float
    """The application's time."""
    map_ratio: float
    """To the time of reading directly, in the same repetition."""
    map_spread_s: tuple[float, float]
    """Least and greatest of the application's times."""
    read_s: float
    """How long a task's slot stands without computing, the mean over the tasks."""
    read_ratio: float
    """To that of reading directly."""
    waves: int
    """How many tasks each slot ran."""
    phase_s: float | None
    """How long a phase of the HPC application takes, the mean over a run's phases; None without traffic."""
    phase_ratio: float | None
    """To that of the HPC application alone, in the same repetition."""
    phases: int
    """How many phases went in."""


def figures(repetitions: Iterable[Sequence[Run]]) -> list[Figure]:
    """Reduce the runs of all repetitions; in each of them a case has one run of every policy."""
    cases: dict[Case, dict[str, list[tuple[Run, Run]]]] = defaultdict(lambda: defaultdict(list))
    for runs in repetitions:
        base = {(run.traffic, run.passes): run for run in runs if run.policy == "naive"}
        for run in runs:
            case = run.traffic, run.passes
            cases[case][run.policy].append((run, base[case]))
    return [_figure(case, policy, pairs) for case, policies in cases.items() for policy, pairs in policies.items()]


def _figure(case: Case, policy: str, pairs: Sequence[tuple[Run, Run]]) -> Figure:
    runs = [run for run, _ in pairs]
    times_s = [run.outcome.map_s for run in runs]
    phased = [run for run in runs if run.phases_s and run.alone_s]
    mean = statistics.fmean
    return Figure(
        traffic=case[0],
        passes=case[1],
        policy=policy,
        map_s=statistics.median(times_s),
        map_ratio=statistics.median(run.outcome.map_s / base.outcome.map_s for run, base in pairs),
        map_spread_s=(min(times_s), max(times_s)),
        read_s=statistics.median(mean(run.outcome.read_s) for run in runs),
        read_ratio=statistics.median(mean(run.outcome.read_s) / mean(base.outcome.read_s) for run, base in pairs),
        waves=runs[0].waves,
        phase_s=statistics.median(mean(run.phases_s) for run in phased) if phased else None,
        phase_ratio=statistics.median(mean(run.phases_s) / mean(run.alone_s) for run in phased) if phased else None,
        phases=sum(len(run.phases_s) for run in runs),
    )


def rows(measured: Iterable[Figure], names: Mapping[str, str]) -> list[Row]:
    """Write figures as rows: application time, read time and phase time of each."""
    found = []
    for figure in measured:
        head = f"{figure.traffic}{READS[figure.passes]}: {names[figure.policy]}"
        found.append(Row(f"{head}: application time", figure.map_s, "s", figure.map_ratio))
        found.append(Row(f"{head}: read time of a task", figure.read_s, "s", figure.read_ratio))
        if figure.phase_s is not None:
            found.append(Row(f"{head}: HPC phase ({figure.phases})", figure.phase_s, "s", figure.phase_ratio))
    return found


def auto_to_better(repetitions: Iterable[Sequence[Run]]) -> dict[str, float]:
    """Compare Auto's application time with the better one of FullDelay's and PartialDelay's, in each repetition.

    Returns
    -------
    dict of str to float
        Traffic to the median of the ratios.
    """
    ratios: dict[str, list[float]] = defaultdict(list)
    for runs in repetitions:
        times_s = {(run.traffic, run.policy): run.outcome.map_s for run in runs if run.phases_s}
        for traffic in {run.traffic for run in runs if (run.traffic, "auto") in times_s}:
            better_s = min(times_s[traffic, "full-delay"], times_s[traffic, "partial-delay"])
            ratios[traffic].append(times_s[traffic, "auto"] / better_s)
    return {traffic: statistics.median(found) for traffic, found in ratios.items()}

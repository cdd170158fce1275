"""Running a scenario: each variation, each way, each seed; medians over the seeds."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from bbflow.simulate.rented_nodes import CloudOutcome, CloudScenario, run_cloud
from bbflow.simulate.scenario import Scenario, varied
from bbflow.simulate.staged_job import StagingOutcome, StagingScenario, run_staging
from bbflow.simulate.transit import TransitOutcome, run_transit
from bbflow.simulate.workflow import WorkflowScenario, run_workflow

Outcome = StagingOutcome | TransitOutcome | CloudOutcome


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one variation and way."""

    knobs: Mapping[str, str]
    """Which keys have which other value than in the scenario."""
    way: str
    """Policy or way of steps."""
    figures: Mapping[str, float]
    """Medians over the seeds, by the names of the outcome's fields."""

    @property
    def time_s(self) -> float:
        """What a user waits for: the job's end, or that of everything."""
        return self.figures.get("job_s", self.figures.get("total_s", float("nan")))


def variations(scenario: Scenario, knobs: Mapping[str, Sequence[str]]) -> Iterator[tuple[dict[str, str], Scenario]]:
    """Yield every combination of the knobs' values, with the scenario that has them."""
    for values in itertools.product(*knobs.values()):
        chosen, changed = dict(zip(knobs, values, strict=True)), scenario
        for knob, value in chosen.items():
            changed = varied(changed, knob, value)
        yield chosen, changed


def run_scenario(
    scenario: Scenario,
    knobs: Mapping[str, Sequence[str]] | None = None,
    ways: Sequence[str] | None = None,
    on_result: Callable[[Result], None] = lambda _: None,
) -> list[Result]:
    """Run a scenario with every combination of values in every way.

    Parameters
    ----------
    scenario
        What to run.
    knobs
        Which keys take which values.
    ways
        Policies or ways of steps; by default the scenario's own.
    on_result
        Called after each.
    """
    results = []
    for chosen, changed in variations(scenario, knobs or {}):
        for way in ways or changed.ways:
            seeds = range(changed.seed, changed.seed + changed.repeats)
            result = Result(chosen, way, medians([run_once(changed, way, seed) for seed in seeds]))
            on_result(result)
            results.append(result)
    return results


def run_once(scenario: Scenario, way: str, seed: int) -> Outcome:
    """Run a scenario in one way with one seed."""
    setting = scenario.setting
    if isinstance(setting, StagingScenario):
        return run_staging(setting, way, seed)
    if isinstance(setting, WorkflowScenario):
        return run_workflow(setting, way, seed)
    if isinstance(setting, CloudScenario):
        return run_cloud(setting)
    return run_transit(setting, way, seed)


def medians(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return the median of each of the outcomes' numbers."""
    names = [field.name for field in dataclasses.fields(outcomes[0]) if field.name not in ("policy", "way")]
    return {name: float(median(getattr(outcome, name) for outcome in outcomes)) for name in names}

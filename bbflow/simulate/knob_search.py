"""The best of the few knobs that users have: a search over what a scenario would do with each."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from bbflow.errors import CapacityError, ConfigError
from bbflow.simulate.runs import Result, run_scenario, variations
from bbflow.simulate.scenario import Scenario
from bbflow.simulate.world import StandstillError
from bbflow.units import parse_bytes

AIMS: Mapping[str, Callable[[Result], float]] = {
    "time": lambda result: result.time_s,
    "cost": lambda result: result.figures["cost"],
    "time-cost": lambda result: result.time_s * result.figures["cost"],
}
"""What may be made least."""
_NOISE = 1.005
"""What differs by less is as good: of such the combination with the least nodes, room and fetchers is taken."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The best combination, and what it was compared with."""

    best: Result
    """What to take."""
    tried: int
    """Combinations that ran."""
    refused: int
    """Combinations that can't run: too little room, or nothing continues."""
    over_limit: int
    """Combinations that would slow others down by more than is allowed."""
    runner_up: Result | None
    """The next best that differs in more than noise; None if there is none."""


def choose(
    scenario: Scenario,
    knobs: Mapping[str, Sequence[str]],
    aim: str,
    most_slowdown: float,
    on_result: Callable[[Result], None] = lambda _: None,
) -> Choice:
    """Search all combinations of values for the least time, cost or product of both.

    Parameters
    ----------
    scenario
        Where to begin; its ways are tried all.
    knobs
        Which keys take which values.
    aim
        A key of `AIMS`.
    most_slowdown
        How much longer the application's phases may become: 1.05 is 5%.
    on_result
        Called after each run.

    Raises
    ------
    ConfigError
        If nothing keeps the bound, or the scenario has no prices and the aim needs them.
    """
    results: list[Result] = []
    refused = 0
    for chosen, changed in variations(scenario, knobs):
        for way in changed.ways:
            try:
                (ran,) = run_scenario(changed, ways=[way])
            except (CapacityError, StandstillError):
                refused += 1
                continue
            results.append(Result(chosen, ran.way, ran.figures))
            on_result(results[-1])
    allowed = [result for result in results if not result.figures.get("slowdown", 1.0) > most_slowdown]
    if not allowed:
        least = min((result.figures["slowdown"] for result in results), default=math.nan)
        raise ConfigError(
            f"none of {len(results) + refused} combinations keeps the application's slowdown at {most_slowdown:g} or "
            f"less (the least is {least:.3g}): allow more, or vary other knobs"
        )
    if aim != "time" and not any(result.figures.get("cost") for result in allowed):
        raise ConfigError(f"the least {aim} needs prices: give price_per_h in the sections burst_buffer and job")
    ordered = sorted(allowed, key=AIMS[aim])
    as_good = [result for result in ordered if AIMS[aim](result) <= AIMS[aim](ordered[0]) * _NOISE]
    best = min(as_good, key=lambda result: (size_of(result.knobs), AIMS[aim](result)))
    other = next((each for each in ordered if AIMS[aim](each) > AIMS[aim](best) * _NOISE), None)
    return Choice(best, len(results) + refused, refused, len(results) - len(allowed), other)


def size_of(knobs: Mapping[str, str]) -> float:
    """Return the product of what knobs ask for, to compare combinations; those that are no amounts don't count."""
    product = 1.0
    for value in knobs.values():
        with suppress(ConfigError):
            product *= parse_bytes(value)
    return product


def explain(choice: Choice, aim: str, most_slowdown: float) -> list[str]:
    """Explain in three lines what to take, why, and what it was compared with."""
    best = choice.best
    slowdown = best.figures.get("slowdown", math.nan)
    felt = "" if math.isnan(slowdown) else f"; the application's phases take {slowdown:.3f} of their time alone"
    lines = [
        f"take {_said(best)}",
        f"it has the least {aim.replace('-', ' x ')}, and is the smallest within 0.5% of it: "
        f"{best.time_s:.1f} s{_cost(best)}{felt}",
    ]
    compared = f"of {choice.tried} combinations {choice.over_limit} slow others down by more than {most_slowdown:g}"
    compared += f", {choice.refused} can't run"
    if choice.runner_up is not None:
        next_one = choice.runner_up
        compared += f"; the next best is {_said(next_one)}: {next_one.time_s:.1f} s{_cost(next_one)}"
    return [*lines, compared]


def _said(result: Result) -> str:
    return ", ".join([result.way, *(f"{knob}={value}" for knob, value in result.knobs.items())])


def _cost(result: Result) -> str:
    cost = result.figures.get("cost", 0.0)
    return f", cost {cost:.4g}" if cost else ""

"""What the test bed measured beside what the simulator says: `python -m benchmarks.testbed.simulated testbed.json`."""

import argparse
import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bbflow.cli.scenarios import find
from bbflow.simulate.runs import run_scenario
from bbflow.simulate.scenario import load_scenario, parse_scenario
from benchmarks.testbed.experiment import DENSE, QUIET, SPARSE, Run
from benchmarks.testbed.job import Outcome
from benchmarks.testbed.results import Figure, figures

PAUSES_S = {SPARSE.name: SPARSE.pause_s, DENSE.name: DENSE.pause_s}


@dataclass(frozen=True)
class Simulated:
    """What the simulator says of one figure."""

    time_s: float
    """The application's time."""
    slowdown: float
    """The HPC application's phase to that alone; NaN without traffic."""


def read_runs(path: Path) -> list[list[Run]]:
    """Read what the bed wrote: runs of each repetition."""
    return [
        [Run(**run | {"outcome": Outcome(**run["outcome"])}) for run in runs] for runs in json.loads(path.read_text())
    ]


def scenario_content(content: Mapping[str, Any], traffic: str, passes: int) -> dict[str, Any]:
    """Return the bed's scenario with one kind of traffic, or none."""
    changed = copy.deepcopy(dict(content))
    changed["job"]["passes"] = passes
    if traffic == QUIET:
        del changed["application"]
        changed["policies"] = ["naive", "no-action"]
    else:
        changed["application"]["pause_s"] = PAUSES_S[traffic]
    return changed


def simulated(cases: Sequence[tuple[str, int]]) -> dict[tuple[str, int, str], Simulated]:
    """Simulate cases of traffic and passes; policies are named without their limits."""
    content = load_scenario(find("testbed")).content
    found = {}
    for traffic, passes in cases:
        scenario = parse_scenario("testbed", scenario_content(content, traffic, passes))
        for result in run_scenario(scenario):
            policy = result.way.partition(":")[0]
            found[traffic, passes, policy] = Simulated(result.time_s, result.figures["slowdown"])
    return found


def lines(measured: Sequence[Figure], said: Mapping[tuple[str, int, str], Simulated]) -> Iterator[str]:
    """Write the table, a line for each figure."""
    yield "| | application (s) | simulated | | phase, to alone | simulated | |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for figure in measured:
        ours = said[figure.traffic, figure.passes, figure.policy]
        cells = [f"{figure.traffic}, {figure.passes} x: {figure.policy}", *_beside(figure.map_s, ours.time_s, 1)]
        cells += ["", "", ""] if figure.phase_ratio is None else _beside(figure.phase_ratio, ours.slowdown, 2)
        yield f"| {' | '.join(cells)} |"


def _beside(measured: float, said: float, digits: int) -> list[str]:
    return [f"{measured:.{digits}f}", f"{said:.{digits}f}", f"{said / measured - 1:+.0%}"]


def main() -> None:
    """Print measured and simulated figures, with the deviation of the simulated ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "runs", nargs="?", type=Path, default=Path("bench-out/testbed.json"), help="default: %(default)s"
    )
    measured = figures(read_runs(parser.parse_args().runs))
    cases = list(dict.fromkeys((figure.traffic, figure.passes) for figure in measured))
    print("\n".join(lines(measured, simulated(cases))))


if __name__ == "__main__":
    main()

"""Choose nodes, capacity, fetchers, lookahead and policy for a scenario, by simulating each choice.

It looks for the least time, cost, or time x cost among all combinations that slow others down by no more than a bound,
takes the smallest of those that are as good, and says in three lines what to take and why. For a cloud,
`bbflow plan cloudbb` shows CloudBB's Time x Cost model: how many I/O nodes to rent.

Example:
  bbflow plan eley-2 --most-slowdown 1.02 --vary burst_buffer.fetchers=2,4,8
  bbflow plan cloudbb --set profile.input_bytes=2GB --set profile.buffered_bytes=40GB --least time-cost
  bbflow plan cloudbb --profile events --set profile.cloud_bytes_per_s=18MB/s
  bbflow plan --profile bb/job
"""

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence

from bbflow.cli.scenarios import add_scenario_arguments, as_json, knobs_of, print_table, scenario_of, shown_progress
from bbflow.cli.without_effect import refuse
from bbflow.errors import ConfigError, nearest
from bbflow.simulate.knob_search import AIMS, choose, explain
from bbflow.simulate.rented_nodes import CloudScenario
from bbflow.simulate.runs import Result
from bbflow.simulate.scenario import Scenario
from bbflow.units import format_bytes, parse_bytes

_GIVEN = "rent.compute_nodes"
"""What a user of a cloud has settled already: the I/O nodes are chosen for each number of them."""
_CAPACITY = "node_capacity_bytes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_scenario_arguments(parser)
    parser.add_argument("--least", choices=list(AIMS), help="what to minimise (default: time; for a cloud time-cost)")
    parser.add_argument(
        "--most-slowdown", type=float, default=1.05, metavar="X", help="of others' I/O phases (default %(default)s)"
    )
    parser.add_argument("--for-each", metavar="KEY", help="choose for each value of this key that is varied")
    parser.add_argument("--table", action="store_true", help="print every combination too")
    parser.add_argument("--json", action="store_true", help="print choice and combinations as JSON")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.json:
        refuse(options, "with --json, which prints every combination", "table")
    scenario = scenario_of(options)
    knobs = knobs_of(options.vary) or scenario.vary or usual_knobs(scenario)
    aim = options.least or ("time-cost" if isinstance(scenario.setting, CloudScenario) else "time")
    each = options.for_each or (_GIVEN if isinstance(scenario.setting, CloudScenario) and _GIVEN in knobs else None)
    parts = split(knobs, each)
    results: list[Result] = []
    total = math.prod(len(values) for values in knobs.values()) * len(scenario.ways)
    with shown_progress(total) as progress:

        def note(result: Result) -> None:
            results.append(result)
            progress.advance(progress.task_ids[0])

        choices = [choose(scenario, part, aim, options.most_slowdown, note) for part in parts]
    reasons = [explain(choice, aim, options.most_slowdown) for choice in choices]
    if options.json:
        chosen = [
            {"way": choice.best.way, "knobs": dict(choice.best.knobs), "because": lines}
            for choice, lines in zip(choices, reasons, strict=True)
        ]
        json.dump({"chosen": chosen, **as_json(scenario, results)}, sys.stdout, indent=1)
        print()
        return 0
    if options.table or isinstance(scenario.setting, CloudScenario):
        print_table(scenario, results)
    print("\n".join(line for lines in reasons for line in lines))
    return 0


def split(knobs: Mapping[str, Sequence[str]], key: str | None) -> list[dict[str, Sequence[str]]]:
    """Part a search by the values of one key; one search of everything if it is None.

    Raises
    ------
    ConfigError
        If the key isn't varied.
    """
    if key is None:
        return [dict(knobs)]
    if key not in knobs:
        raise ConfigError(f"--for-each {key}: it isn't varied; {nearest(key, knobs)}")
    return [{**knobs, key: (value,)} for value in knobs[key]]


def usual_knobs(scenario: Scenario) -> Mapping[str, tuple[str, ...]]:
    """Return the few knobs that users have, around what the scenario says: half of it, itself, and double."""
    given = scenario.content.get("burst_buffer", {})
    stages = [section for section in ("job", "workflow") if section in scenario.content]
    keys = ["nodes", "clients_per_node", _CAPACITY, *(["fetchers"] if stages else [])]
    knobs = {f"burst_buffer.{key}": around(key, given[key]) for key in keys if given.get(key)}
    return knobs | {f"{section}.lookahead": ("1", "2") for section in stages}


def around(key: str, value: str | int) -> tuple[str, ...]:
    """Return half of a knob's value, itself, and double, as they would be written in a scenario."""
    if key != _CAPACITY:
        return tuple(dict.fromkeys(str(max(int(int(value) * factor), 1)) for factor in (0.5, 1, 2)))
    sizes = [int(parse_bytes(value) * factor) for factor in (0.5, 1, 2)]
    return tuple(said if parse_bytes(said := format_bytes(size)) == size else str(size) for size in sizes)

"""Predict what a scenario would come to: the real policies and planners, driven by a simulated clock.

SCENARIO is a file, or the name of one that comes with bbflow: testbed, eley-1, eley-2, abb-8, abb-16, abb-32, montage,
cloudbb, exascale. With --profile it is a directory with the events.jsonl of a staging, or of a run with its analysis:
what if it had had other nodes, capacity or policies? With both, the scenario is a cloud, and the run what nodes are
rented for. With --trace, the tasks are those of a trace in WfFormat, as WfCommons publishes them.

Example:
  bbflow simulate testbed --vary application.pause_s=0.9,2 --picture testbed.png
  bbflow simulate abb-8 --way abb --way bbflow --vary simulation.nodes=16,32,64,128 --json -
  bbflow simulate montage --way parsl --way pegasus+full-delay
  bbflow simulate montage --trace 1000genome-chameleon-22ch-250k-001.json --way naive --way parsl
  bbflow simulate --keys
  bbflow simulate --profile bb/job --vary burst_buffer.fetchers=1,2,4 --way full-delay
"""

import argparse
import json
import math
import sys
from pathlib import Path

from bbflow.cli.scenarios import add_scenario_arguments, as_json, knobs_of, print_table, scenario_of, shown_progress
from bbflow.cli.without_effect import refuse
from bbflow.errors import ConfigError
from bbflow.report.simulated import draw_results
from bbflow.simulate.keys import keys
from bbflow.simulate.runs import run_scenario


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_scenario_arguments(parser)
    parser.add_argument(
        "--keys", action="store_true", help="print all keys that a scenario may have, and simulate nothing"
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures there; - for standard output")
    parser.add_argument("--picture", type=Path, metavar="PNG", help="draw them")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.keys:
        refuse(options, "with --keys", "profile", "trace", "set", "vary", "policy", "json", "picture")
        if options.scenario is not None:
            raise ConfigError(f"--keys prints the keys of all scenarios: leave {options.scenario!r} out")
        print(keys())
        return 0
    scenario = scenario_of(options)
    if options.picture and not options.picture.absolute().parent.is_dir():
        raise ConfigError(f"{options.picture.absolute().parent} isn't there, so the picture can't be written to it")
    knobs = knobs_of(options.vary) or scenario.vary
    total = math.prod(len(values) for values in knobs.values()) * len(scenario.ways)
    with shown_progress(total) as progress:
        results = run_scenario(scenario, knobs, on_result=lambda _: progress.advance(progress.task_ids[0]))
    if options.json == "-":
        json.dump(as_json(scenario, results), sys.stdout, indent=1)
        print()
    else:
        print_table(scenario, results)
    if options.json not in (None, "-"):
        Path(options.json).write_text(json.dumps(as_json(scenario, results), indent=1))
    if options.picture:
        options.picture.write_bytes(draw_results(scenario.title, results))
    return 0

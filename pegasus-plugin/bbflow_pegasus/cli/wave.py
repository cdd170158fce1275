"""Divide a planned workflow into waves: inputs come to the burst buffer wave by wave, never more than it holds.

SUBMIT_DIR is what pegasus-plan made and pegasus-run has not started yet. The same command again plans the waves again;
--undo puts back what Pegasus wrote. Limits are those of the plan's properties (pegasus.bbflow.capacity and others),
unless they are given here.

Example:
  bbflow-pegasus wave submit/me/pegasus/montage/run0001
  bbflow-pegasus wave submit/me/pegasus/montage/run0001 --capacity 200GiB --slots 64
  bbflow-pegasus wave submit/me/pegasus/montage/run0001 --undo
"""

import argparse
from pathlib import Path

from bbflow.cli.without_effect import refuse
from bbflow_pegasus.dag.nodes import parse_dag
from bbflow_pegasus.dag.rewriting import add_waves, remove_waves
from bbflow_pegasus.dag.submitdir import open_submit_dir, read_properties
from bbflow_pegasus.planning.facts import PREFIX, limits_from
from bbflow_pegasus.planning.said import nothing_staged, summary

_LIMITS = {
    "site": "the burst buffer's site (default bb)",
    "capacity": "room for files there, such as 64GiB",
    "slots": "jobs that run at once",
    "lookahead": "waves that come ahead of the one that computes (default 1)",
    "transfers": "stage-in jobs of a wave (default 2)",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("submit_dir", type=Path, metavar="SUBMIT_DIR", help="of a planned workflow")
    for name, purpose in _LIMITS.items():
        parser.add_argument(f"--{name}", metavar=name.upper(), help=purpose)
    parser.add_argument("--undo", action="store_true", help="put back what Pegasus wrote")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    where = open_submit_dir(options.submit_dir)
    if options.undo:
        refuse(options, "with --undo", *_LIMITS)
        print("the workflow is as Pegasus planned it" if remove_waves(where) else "there are no waves")
        return 0
    given = {PREFIX + name: value for name in _LIMITS if (value := getattr(options, name)) is not None}
    limits = limits_from(read_properties(where.properties) | given)
    layout = add_waves(where, limits)
    if layout is None:
        remote = [name for name in parse_dag(where.dag.read_text()).nodes if name.startswith("stage_in_remote_")]
        print(f"{nothing_staged(limits, len(remote))}; the workflow stays as it is")
        return 0
    print("\n".join(summary(layout, limits)))
    return 0

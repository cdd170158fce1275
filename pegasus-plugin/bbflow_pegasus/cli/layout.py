"""Plan the waves of a workflow that the refiner describes on standard input, and answer on standard output.

The refiner within pegasus-plan runs this. The plan is written down in SUBMIT_DIR.
"""

import argparse
import os
import sys
from pathlib import Path

from bbflow_pegasus.planning.asking import with_sizes
from bbflow_pegasus.planning.exchange import answer, read_question
from bbflow_pegasus.planning.facts import limits_from
from bbflow_pegasus.planning.layout import lay_out
from bbflow_pegasus.planning.said import WAVES, nothing_staged, summary, write_waves


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("submit_dir", type=Path, metavar="SUBMIT_DIR", help="where the plan is written down")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    question = read_question(sys.stdin)
    limits = limits_from(question.properties)
    if not question.sources:
        print(f"remark\t{nothing_staged(limits, question.remote)}")
        return 0
    layout = lay_out(with_sizes(question.facts, os.environ), limits)
    write_waves(options.submit_dir / WAVES, layout, limits)
    print("\n".join([f"remark\t{line}" for line in summary(layout, limits)[:1]] + list(answer(layout))))
    return 0

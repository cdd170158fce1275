"""Show what a run through a burst buffer did: waves, transfers, holds, phases, jobs; bytes against its capacity.

SUBMIT_DIR is what pegasus-plan made and pegasus-run has run, or runs. The page is one file.

Example:
  bbflow-pegasus report submit/me/pegasus/montage/run0001
"""

import argparse
from pathlib import Path

from bbflow.errors import ConfigError
from bbflow_pegasus.dag.submitdir import open_submit_dir
from bbflow_pegasus.report.page import make_report

FILE = "bbflow-report.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("submit_dir", type=Path, metavar="SUBMIT_DIR", help="of a run")
    parser.add_argument("--output", type=Path, metavar="HTML", help=f"default: {FILE} in SUBMIT_DIR")


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    where = open_submit_dir(options.submit_dir.absolute())
    target = options.output or where.path / FILE
    page = make_report(where)
    try:
        target.write_text(page)
    except OSError as error:
        raise ConfigError(f"can't write {target}: {error.strerror}") from None
    print(target)
    return 0

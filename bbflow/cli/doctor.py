"""Try what bbflow needs on this host: kernel, an engine for each ADIOS2, shared memory, mount, TLS, ports, extras.

Each line that isn't `ok` ends with what to do. The exit code is 69 if a line says `wrong`.

Example:
  bbflow doctor
  LD_LIBRARY_PATH=/opt/adios2/lib bbflow doctor
"""

import argparse
import os

from bbflow.run.checks.finding import WRONG
from bbflow.run.checks.installation import check_installation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare no options."""


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    found = check_installation()
    for item in found:
        print(item)
    return os.EX_UNAVAILABLE if any(item.kind == WRONG for item in found) else 0

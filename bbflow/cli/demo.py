"""Run the main job: the example climate simulation, folded while it runs into monthly and whole-run statistics.

The simulation is built first (g++, and cmake, ninja and mpich as 'bbflow[demo]' brings them).

Example:
  bbflow demo --output demo-out --steps 480 --ranks 2
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import bbflow_catalogs
import yaml
from bbflow_workflows import climate

from bbflow.cli.run import add_run_arguments, run_simulation
from bbflow.errors import ConfigError, MissingToolError
from bbflow.host.log import tell
from bbflow.reading.yaml_files import read_yaml

HEADER = "# written by 'bbflow demo'\n"
CACHE = "~/.cache/bbflow/climate"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--output", type=Path, default=Path("bbflow-out"), help="default: %(default)s")
    parser.add_argument("--build", type=Path, default=CACHE, help="where to build (default: %(default)s)")
    parser.add_argument("--ranks", type=int, default=2, help="MPI ranks (default: %(default)s)")
    parser.add_argument("--nlat", type=int, default=96, help="latitudes (default: %(default)s)")
    parser.add_argument("--nlon", type=int, default=192, help="longitudes (default: %(default)s)")
    parser.add_argument("--levels", type=int, default=8, help="pressure levels (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=4 * 365, help="default: %(default)s, a year")
    parser.add_argument("--steps-per-day", type=int, default=4, help="default: %(default)s")
    parser.add_argument("--calendar", default="noleap", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    add_run_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.ranks < 1:  # of which mpiexec would make one rank
        raise ConfigError(f"--ranks {options.ranks}: at least 1 must run")
    options.output.mkdir(parents=True, exist_ok=True)
    options.config = _write_config(options.output)
    try:
        program = climate.build(options.build)
        flags = {
            key: getattr(options, key)
            for key in ("nlat", "nlon", "levels", "steps", "steps_per_day", "calendar", "seed")
        }
        command = climate.command(program, options.ranks, config=climate.DEFAULT_CONFIG, **flags)
    except RuntimeError as error:
        raise MissingToolError(str(error)) from None
    _check(command)
    started_s = time.monotonic()
    code = run_simulation(options, command)
    tell(f"the main job took {time.monotonic() - started_s:.1f} s", sys.stdout)
    return code


def _check(command: Sequence[str]) -> None:
    """Have the program check its flags before nodes and an analysis wait for it."""
    asked = subprocess.run([*command, "--help"], capture_output=True, text=True)
    if asked.returncode:
        raise ConfigError((asked.stderr.strip() or f"{command[0]} ended with code {asked.returncode}").splitlines()[-1])


def _write_config(output: Path) -> Path:
    source = Path(bbflow_catalogs.__file__).parent / "operators" / "climate.yml"
    content = read_yaml(source) | {"output": str(output)}
    path = output / "analysis.yml"
    if path.exists() and not path.read_text().startswith(HEADER):
        raise ConfigError(f"{path} is in the way, and no demo wrote it: give another --output")
    path.write_text(HEADER + yaml.safe_dump(content, sort_keys=False))
    return path

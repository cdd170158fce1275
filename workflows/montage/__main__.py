"""Make the tiles of a synthetic survey, or a mosaic of them.

Example:
  python -m bbflow_workflows.montage tiles /pfs/survey --rows 4 --columns 4 --pixels 512
  python -m bbflow_workflows.montage mosaic /pfs/survey --output out
  python -m bbflow_workflows.montage mosaic /pfs/survey --output out --config burst_buffer.py
  python -m bbflow_workflows.montage pegasus /pfs/survey --output out --burst-buffer /bb/montage --capacity 64MiB
"""

import argparse
import os
import runpy
import sys
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import parsl
from bbflow_workflows.montage import REGION, TRUTH, Survey, make_mosaic, make_tiles, measure, read_truth
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.providers import LocalProvider

from bbflow.errors import BbflowError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and give its exit code."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except (OSError, ValueError, BbflowError) as error:
        print(f"montage: {error}", file=sys.stderr)
        return 1
    return code


def local_config(workers: int, run_directory: Path) -> Config:
    """Give a plain Parsl configuration: worker processes on this host."""
    executor = HighThroughputExecutor(
        label="local",
        address="127.0.0.1",
        max_workers_per_node=workers,
        cores_per_worker=1e-3,
        provider=LocalProvider(init_blocks=1, max_blocks=1),
    )
    return Config(executors=[executor], run_dir=str(run_directory), strategy="none", initialize_logging=False)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bbflow_workflows.montage",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    tiles = commands.add_parser("tiles", help="write the tiles, the header template and the truth")
    tiles.add_argument("directory", type=Path)
    for field in fields(Survey):
        name = "--" + field.name.replace("_", "-")
        tiles.add_argument(name, type=type(field.default), default=field.default, help="default: %(default)s")
    tiles.set_defaults(run=_tiles)
    mosaic = commands.add_parser("mosaic", help="make the mosaic and say how flat it is")
    mosaic.add_argument("directory", type=Path, help=f"tile*.fits and {REGION}")
    mosaic.add_argument("--output", type=Path, default=Path("montage-out"), help="default: %(default)s")
    mosaic.add_argument("--config", type=Path, help="Python file that sets 'config', a parsl.config.Config")
    mosaic.add_argument("--workers", type=int, default=2, help="without --config (default: %(default)s)")
    mosaic.add_argument("--tool", choices=["mProject", "mProjectPP"], default="mProject")
    mosaic.add_argument("--levels-only", action="store_true", help="backgrounds are constants, without slopes")
    mosaic.set_defaults(run=_mosaic)
    planned = commands.add_parser("pegasus", help="the same as a Pegasus workflow: plan it and run it")
    planned.add_argument("directory", type=Path, help=f"tile*.fits and {REGION}")
    planned.add_argument("--output", type=Path, default=Path("montage-out"), help="default: %(default)s")
    planned.add_argument("--where", choices=["shell", "condor"], default="condor", help="default: %(default)s")
    planned.add_argument("--burst-buffer", metavar="DIR", help="stage through it; else below the output")
    planned.add_argument(
        "--capacity", default="1GiB", metavar="SIZE", help="of the burst buffer (default: %(default)s)"
    )
    planned.add_argument("--slots", type=int, default=2, help="jobs that run at once (default: %(default)s)")
    planned.add_argument("--policy", default="no-action", help="delay policy (default: %(default)s)")
    planned.add_argument("--phases", metavar="DIR", help="where I/O phases are announced")
    planned.add_argument("--property", action="append", default=[], metavar="KEY=VALUE", help="one more for Pegasus")
    planned.add_argument("--tool", choices=["mProject", "mProjectPP"], default="mProject")
    planned.add_argument("--levels-only", action="store_true", help="backgrounds are constants, without slopes")
    planned.set_defaults(run=_pegasus)
    return parser


def _tiles(options: argparse.Namespace) -> int:
    survey = Survey(**{field.name: getattr(options, field.name) for field in fields(Survey)})
    make_tiles(options.directory, survey)
    print(f"montage: {survey.rows * survey.columns} tiles of {survey.pixels} x {survey.pixels} in {options.directory}")
    return 0


def _tiles_in(directory: Path) -> list[Path]:
    tiles = sorted(directory.glob("tile*.fits"))
    if not tiles:
        raise ValueError(f"{directory} has no tile*.fits: make some with the command 'tiles'")
    return tiles


def _pegasus(options: argparse.Namespace) -> int:
    # Those who use Parsl need not have Pegasus.
    from bbflow_pegasus import BurstBuffer
    from bbflow_workflows.montage import dag, planned

    folder = options.output.absolute() / "pegasus"
    folder.mkdir(parents=True, exist_ok=True)
    region = options.directory / REGION
    abstract = dag.make_abstract(
        _tiles_in(options.directory), region, folder, options.tool, levels_only=options.levels_only
    )
    buffer = options.burst_buffer and BurstBuffer(
        os.path.abspath(options.burst_buffer),
        options.capacity,
        slots=options.slots,
        policy=options.policy,
        phases=options.phases,
    )
    properties = tuple((key, value) for key, _, value in (item.partition("=") for item in options.property))
    started_s = time.monotonic()
    submit = planned.run(abstract, planned.Settings(options.output, options.where, buffer or None, properties))
    print(f"montage: {', '.join(dag.RESULTS)} in {time.monotonic() - started_s:.1f} s, planned in {submit}")
    _tell_flatness(options.output / dag.RESULTS[0], options.directory)
    return 0


def _mosaic(options: argparse.Namespace) -> int:
    tiles = _tiles_in(options.directory)
    # Parsl finds its own programs on PATH, and a virtual environment need not be there.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    run_directory = options.output / "runinfo"
    config = runpy.run_path(str(options.config))["config"] if options.config else None
    started_s = time.monotonic()
    with parsl.load(config or local_config(options.workers, run_directory)):
        mosaic = make_mosaic(
            tiles, options.directory / REGION, options.output, options.tool, levels_only=options.levels_only
        )
    print(f"montage: {mosaic.image} and {mosaic.picture.name} in {time.monotonic() - started_s:.1f} s")
    print(f"montage: {mosaic.pairs} overlaps, {mosaic.blank} of them without a common pixel")
    _tell_flatness(mosaic.image, options.directory)
    return 0


def _tell_flatness(mosaic: Path, directory: Path) -> None:
    if (directory / TRUTH).exists():
        flat = measure(mosaic, read_truth(directory))
        print(
            f"montage: the tiles' backgrounds were {flat.before:.1f} apart, in the mosaic {flat.after:.3f}: "
            f"{flat.factor:.0f} times flatter"
        )


if __name__ == "__main__":
    sys.exit(main())

"""Make the tiles of a synthetic survey, or a mosaic of them; each lies in a directory, or in a bucket as s3://….

Without --config, what lies in a bucket is staged over a burst buffer in this host's memory; with --mount it is read and
written where 'bbflow mount' shows it.

Example:
  python -m bbflow_workflows.montage tiles /pfs/survey --rows 4 --columns 4 --pixels 512
  python -m bbflow_workflows.montage mosaic /pfs/survey --output out
  python -m bbflow_workflows.montage mosaic /pfs/survey --output out --config burst_buffer.py
  python -m bbflow_workflows.montage pegasus /pfs/survey --output out --burst-buffer /bb/montage --capacity 64MiB
  python -m bbflow_workflows.montage mosaic s3://bucket/survey --output s3://bucket/out
  python -m bbflow_workflows.montage mosaic s3://bucket/survey --output s3://bucket/out --mount s3://bucket=work
"""

import argparse
import os
import runpy
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory

import parsl
from bbflow_workflows.montage import REGION, TRUTH, Survey, make_mosaic, make_tiles, measure, read_truth
from bbflow_workflows.montage.configs import local_config, staged_buffer, staged_config
from bbflow_workflows.montage.places import at_hand, below, filling, has, is_remote, on_mount, put, reach, tiles_in
from parsl.config import Config
from parsl.errors import ParslError

from bbflow.errors import BbflowError, ConfigError
from bbflow.events import EventLog


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except (OSError, ValueError, RuntimeError, ParslError, BbflowError) as error:
        print(f"montage: {_cause(error)}", file=sys.stderr)
        return 1
    return code


def _cause(error: BaseException) -> BaseException:
    """Return what failed first: what depends on it fails with an error of Parsl's that names numbers only."""
    while isinstance(error, ParslError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bbflow_workflows.montage",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    tiles = commands.add_parser("tiles", help="write the tiles, the header template and the truth")
    tiles.add_argument("directory", help="a path, or a URL")
    for field in fields(Survey):
        name = "--" + field.name.replace("_", "-")
        tiles.add_argument(name, type=type(field.default), default=field.default, help="default: %(default)s")
    tiles.set_defaults(run=_tiles)
    mosaic = commands.add_parser("mosaic", help="make the mosaic and say how flat it is")
    _add_places(mosaic)
    mosaic.add_argument("--config", type=Path, help="Python file that sets 'config', a parsl.config.Config")
    mosaic.add_argument("--workers", type=int, default=2, help="without --config (default: %(default)s)")
    mosaic.add_argument("--burst-buffer", default="/dev/shm", metavar="DIR", help="that files of a bucket go over")
    mosaic.add_argument("--capacity", default="1GiB", metavar="SIZE", help="of it (default: %(default)s)")
    mosaic.add_argument("--events", type=Path, metavar="DIR", help="note there what each task did, for 'bbflow plan'")
    mosaic.set_defaults(run=_mosaic)
    planned = commands.add_parser("pegasus", help="the same as a Pegasus workflow: plan it and run it")
    _add_places(planned)
    planned.add_argument("--where", choices=["shell", "condor"], default="condor", help="default: %(default)s")
    planned.add_argument("--folder", metavar="DIR", help="where Pegasus works (default: the output, or montage-out)")
    planned.add_argument("--burst-buffer", metavar="DIR", help="stage through it, a path or s3://user@endpoint/bucket")
    planned.add_argument(
        "--capacity", default="1GiB", metavar="SIZE", help="of the burst buffer (default: %(default)s)"
    )
    planned.add_argument("--slots", type=int, default=2, help="jobs that run at once (default: %(default)s)")
    planned.add_argument("--policy", default="no-action", help="delay policy (default: %(default)s)")
    planned.add_argument("--phases", metavar="DIR", help="where I/O phases are announced")
    planned.add_argument("--property", action="append", default=[], metavar="KEY=VALUE", help="one more for Pegasus")
    planned.set_defaults(run=_pegasus)
    return parser


def _add_places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", help=f"tile*.fits and {REGION}: a path, or a URL")
    parser.add_argument("--output", default="montage-out", help="a path, or a URL (default: %(default)s)")
    parser.add_argument("--mount", metavar="URL=DIR", help="what 'bbflow mount' shows where, to be used there")
    parser.add_argument("--tool", choices=["mProject", "mProjectPP"], default="mProject")
    parser.add_argument("--levels-only", action="store_true", help="backgrounds are constants, without slopes")


def _tiles(options: argparse.Namespace) -> int:
    survey = Survey(**{field.name: getattr(options, field.name) for field in fields(Survey)})
    reach(options.directory)
    with filling(options.directory) as directory:
        make_tiles(directory, survey)
    print(f"montage: {survey.rows * survey.columns} tiles of {survey.pixels} x {survey.pixels} in {options.directory}")
    return 0


def _pegasus(options: argparse.Namespace) -> int:
    # Those who use Parsl need not have Pegasus.
    from bbflow_pegasus import BurstBufferSite
    from bbflow_workflows.montage import dag, planned

    survey, output = (on_mount(place, options.mount) for place in (options.directory, options.output))
    reach(output)
    if survey.startswith("s3://") and not options.burst_buffer:
        raise ConfigError(
            f"Pegasus's own transfers need a user in {survey}: stage by bbflow's, with --burst-buffer DIR"
        )
    if options.where == "condor" and is_remote(survey):
        planned.reach_without_keys(survey)
    # Pegasus keeps its catalogs, and works, in directories only.
    folder = Path(options.folder or ("montage-out" if is_remote(output) else output))
    (folder / "pegasus").mkdir(parents=True, exist_ok=True)
    with at_hand([*tiles_in(survey), below(survey, REGION)]) as (*tiles, region):
        abstract = dag.make_abstract(
            tiles, region, folder / "pegasus", options.tool, levels_only=options.levels_only, survey=survey
        )
    place = options.burst_buffer
    buffer = place and BurstBufferSite(
        place if is_remote(place) else os.path.abspath(place),
        options.capacity,
        compute=["local" if options.where == "shell" else "condorpool"],
        slots=options.slots,
        policy=options.policy,
        phases=options.phases,
        serve_jobs=True,  # jobs run this same Python
    )
    properties = tuple((key, value) for key, _, value in (item.partition("=") for item in options.property))
    started_s = time.monotonic()
    submit = planned.run(abstract, planned.Settings(folder, options.where, buffer or None, properties))
    put([folder / name for name in dag.RESULTS], output)
    print(f"montage: {', '.join(dag.RESULTS)} in {time.monotonic() - started_s:.1f} s, planned in {submit}")
    _tell_flatness(below(output, dag.RESULTS[0]), survey)
    return 0


def _mosaic(options: argparse.Namespace) -> int:
    survey, output = (on_mount(place, options.mount) for place in (options.directory, options.output))
    if options.workers < 1:
        raise ConfigError(f"--workers {options.workers}: at least 1 must compute")
    for place in (survey, output):
        if not os.path.abspath(place).isascii():
            raise ConfigError(f"{place}: Montage's programs read names of ASCII characters only: give another path")
    reach(output)
    tiles = tiles_in(survey)
    # Parsl finds its own programs on PATH, and a virtual environment need not be there.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    with ExitStack() as stack:
        config = _config(options, survey, output, stack)
        started_s = time.monotonic()
        with parsl.load(config):
            mosaic = make_mosaic(
                tiles, below(survey, REGION), output, options.tool, options.levels_only, options.events
            )
    print(f"montage: {mosaic.image} and {Path(mosaic.picture).name} in {time.monotonic() - started_s:.1f} s")
    print(f"montage: {mosaic.pairs} overlaps, {mosaic.blank} of them without a common pixel")
    _tell_flatness(mosaic.image, survey)
    return 0


def _config(options: argparse.Namespace, survey: str, output: str, stack: ExitStack) -> Config:
    """Return the user's configuration, or one for this host: what lies elsewhere is staged."""
    if options.config:
        config = runpy.run_path(str(options.config)).get("config")
        if not isinstance(config, Config):
            raise ConfigError(f"{options.config} sets no 'config', a parsl.config.Config")
        return config
    notes = output
    # Parsl doesn't quote its directory's name for its workers: with a blank in it none ever starts.
    if options.mount or is_remote(output) or " " in os.path.abspath(output):
        notes = stack.enter_context(TemporaryDirectory(prefix="bbflow-montage-"))
    run_directory = Path(notes) / "runinfo"
    if not (is_remote(survey) or is_remote(output)):
        return local_config(options.workers, run_directory)
    events = None
    if options.events:
        options.events.mkdir(parents=True, exist_ok=True)
        events = stack.enter_context(closing(EventLog(options.events)))
    buffer = staged_buffer(options.burst_buffer, options.capacity, survey, output, events)
    return staged_config(options.workers, run_directory, buffer)


def _tell_flatness(mosaic: str, survey: str) -> None:
    if has(survey, TRUTH):
        with at_hand([mosaic, below(survey, TRUTH)]) as (image, truth):
            flat = measure(image, read_truth(truth.parent))
        print(
            f"montage: the tiles' backgrounds were {flat.before:.1f} apart, in the mosaic {flat.after:.3f}: "
            f"{flat.factor:.0f} times flatter"
        )


if __name__ == "__main__":
    sys.exit(main())

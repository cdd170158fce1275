"""A step of the mosaic as a program, for workflow managers that run programs: files in, files out, in one directory.

Tables that the steps hand to each other are JSON files.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from bbflow_workflows.montage import steps


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a step and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except (OSError, RuntimeError, ValueError) as error:
        print(f"montage: {options.step}: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bbflow_workflows.montage.jobs", description=__doc__)
    commands = parser.add_subparsers(dest="step", required=True, metavar="STEP")
    for name, run in STEPS.items():
        command = commands.add_parser(name, help=(run.__doc__ or "").partition("\n")[0])
        command.add_argument("--inputs", nargs="+", required=True, metavar="FILE")
        command.add_argument("--outputs", nargs="+", required=True, metavar="FILE")
        command.add_argument("--tool", default="mProject")
        command.add_argument("--number", type=int, default=0, help="of an image, in the order of their names")
        command.add_argument("--levels-only", action="store_true")
        command.set_defaults(run=run)
    return parser


def _reproject(options: argparse.Namespace) -> None:
    """Bring a tile onto the mosaic's pixels."""
    steps.reproject(options.tool, options.inputs, options.outputs)


def _difference(options: argparse.Namespace) -> None:
    """Subtract two images and fit a plane to what is left; null if they share no pixel."""
    with TemporaryDirectory(dir=Path.cwd()) as scratch:
        found = Path(scratch) / "difference.fits"
        fitted = steps.fit(steps.difference(options.inputs, [found]), [found])
    Path(options.outputs[0]).write_text(json.dumps(fitted))


def _table(options: argparse.Namespace) -> None:
    """Tabulate the projected images; a second output has the numbers of each two that overlap."""
    names = [Path(path).name for path in options.inputs]
    pairs = steps.overlaps(names, options.inputs, options.outputs)
    if len(options.outputs) > 1:
        Path(options.outputs[1]).write_text(json.dumps(pairs))


def _model(options: argparse.Namespace) -> None:
    """Find the background of each image; the inputs are the table, the pairs, and a fit for each pair."""
    table, pairs, *fits = options.inputs
    numbers = [(int(first), int(second)) for first, second in json.loads(Path(pairs).read_text())]
    fitted = [json.loads(Path(path).read_text()) for path in fits]
    planes = steps.model(numbers, options.levels_only, fitted, [table])
    content = {str(number): asdict(plane) for number, plane in planes.items()}
    Path(options.outputs[0]).write_text(json.dumps(content))


def _correct(options: argparse.Namespace) -> None:
    """Subtract its background from an image; the last input is what 'model' made."""
    *image, planes = options.inputs
    plane = json.loads(Path(planes).read_text())[str(options.number)]
    steps.correct(steps.Plane(**plane), image, options.outputs)


def _add(options: argparse.Namespace) -> None:
    """Co-add images: all images, all area images, the header template."""
    names = [Path(path).name for path in options.inputs[: len(options.inputs) // 2]]
    steps.add(names, options.inputs, options.outputs)


def _picture(options: argparse.Namespace) -> None:
    """Draw the mosaic."""
    steps.picture(options.inputs, options.outputs)


STEPS = {
    "reproject": _reproject,
    "difference": _difference,
    "table": _table,
    "model": _model,
    "correct": _correct,
    "add": _add,
    "picture": _picture,
}
"""Steps by name, in the order of the workflow."""

if __name__ == "__main__":
    sys.exit(main())

"""Write random text, sort it or count its words with Spark, with or without a burst buffer; and check what came out.

INPUTs are files, directories or patterns, as Spark takes them. Options that aren't listed here go to spark-submit.

Example:
  python -m bbflow_workflows.spark write /pfs/texts --files 20 --size 32MiB
  python -m bbflow_workflows.spark sort /pfs/texts --output /pfs/sorted --check
  python -m bbflow_workflows.spark sort /pfs/texts --output /pfs/sorted --burst-buffer /bb/sort --capacity 1GiB
  python -m bbflow_workflows.spark wordcount s3a://data/texts --output s3a://data/counts --where spark://head:7077
"""

import argparse
import glob
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bbflow_spark.classes import find_spark
from bbflow_workflows.spark.checking import content_of, counts_of, parts_of, read_counts, sorted_content

from bbflow.errors import BbflowError, ConfigError
from bbflow.stores.sources import local_path
from bbflow.units import parse_bytes

APPS = Path(__file__).with_name("apps")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options, others = _parser().parse_known_args(arguments)
    try:
        code: int = options.run(options, others)
    except (OSError, ValueError, BbflowError) as error:
        print(f"spark: {error}", file=sys.stderr)
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bbflow_workflows.spark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    write = commands.add_parser("write", help="write files of random text")
    write.add_argument("output")
    write.add_argument("--files", type=int, default=20, help="default: %(default)s")
    write.add_argument("--size", default="32MiB", help="of each (default: %(default)s)")
    _add_where(write)
    write.set_defaults(run=_write)
    for name, summary in (("sort", "sort the lines"), ("wordcount", "count the words")):
        command = commands.add_parser(name, help=summary)
        command.add_argument("inputs", nargs="+", metavar="INPUT")
        command.add_argument("--output", required=True, help="directory that isn't there yet")
        command.add_argument("--api", choices=("dataframe", "rdd"), default="dataframe")
        command.add_argument("--check", action="store_true", help="whether the result is right, without Spark")
        command.add_argument("--burst-buffer", metavar="DIR", help="prefetch the inputs, and keep the shuffle there")
        command.add_argument("--capacity", default="1GiB", metavar="SIZE", help="of it (default: %(default)s)")
        command.add_argument("--policy", default="no-action", help="delay policy (default: %(default)s)")
        command.add_argument("--phases", metavar="DIR", help="where I/O phases are announced")
        _add_where(command)
        command.set_defaults(run=_run, name=name)
    return parser


def _add_where(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--where", default="local[2]", metavar="MASTER", help="as --master has it (default: %(default)s)"
    )


def _write(options: argparse.Namespace, others: list[str]) -> int:
    words = [options.output, "--files", str(options.files), "--file-bytes", str(parse_bytes(options.size))]
    return _submit(options.where, others, "random_text_writer", words)


def _run(options: argparse.Namespace, others: list[str]) -> int:
    before: list[str] = []
    if options.burst_buffer:
        before = [sys.executable, "-m", "bbflow", "spark", "--to", options.burst_buffer, "--capacity", options.capacity]
        before += ["--policy", options.policy, *(["--phases", options.phases] if options.phases else []), "--"]
    words = [*options.inputs, "--output", options.output, "--api", options.api]
    began_s = time.monotonic()
    code = _submit(options.where, others, options.name, words, before)
    if code == 0:
        print(f"{options.name}: {time.monotonic() - began_s:.1f} s")
        if options.check:
            print(f"{options.name}: {_checked(options.name, options.inputs, options.output)}")
    return code


def _submit(where: str, others: Sequence[str], app: str, words: Sequence[str], before: Sequence[str] = ()) -> int:
    submit = str(find_spark("spark-submit").home / "bin" / "spark-submit")
    command = [*before, submit, "--master", where, *others, str(APPS / f"{app}.py"), *words]
    return subprocess.run(command).returncode


def _checked(name: str, inputs: Sequence[str], output: str) -> str:
    """Hold a result against its inputs; a ValueError says what is wrong."""
    given, made = [path for text in inputs for path in _files(text)], parts_of(_local(output))
    if name == "sort":
        there, wanted = sorted_content(made), content_of(given)
        if there != wanted:
            raise ValueError(f"the output isn't the input in another order: {there} of {wanted}")
        return f"{there.lines} lines in order, checksum {there.checksum:x}"
    counted = read_counts(made)
    if counted != counts_of(given):
        raise ValueError("the counts are wrong")
    return f"{counted.total()} words, {len(counted)} of them different: counts are right"


def _files(text: str) -> list[Path]:
    found = [Path(path) for path in glob.glob(str(_local(text)))]
    return [file for path in found for file in (parts_of(path) if path.is_dir() else [path])]


def _local(text: str) -> Path:
    path = local_path(text)
    if path is None:
        raise ConfigError(f"{text} can't be checked from here: leave out --check")
    return path


if __name__ == "__main__":
    sys.exit(main())

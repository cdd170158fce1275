"""The command line: one module a subcommand, each with `add_arguments` and `run`."""

import argparse
import gc
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from bbflow import __version__
from bbflow.cli import unread
from bbflow.errors import (
    BbflowError,
    CapacityError,
    ConfigError,
    MissingToolError,
    NodeError,
    SpillError,
    StoreError,
    StreamError,
    describe,
)
from bbflow.host.log import tell
from bbflow.units import parse_path

COMMANDS = {
    "demo": "run the example climate simulation and its analysis",
    "run": "run a simulation and fold what it writes while it runs",
    "ensemble": "statistics across members while they run: up, status, lost, down",
    "check": "find what would make a run fail, before it starts",
    "doctor": "find what this host or installation lacks",
    "fold": "fold a stream on running BB nodes",
    "up": "start BB nodes and Dask that live longer than one run",
    "down": "stop what 'up' started",
    "node": "be one BB node",
    "dask": "be a Dask scheduler or worker that asks for a certificate",
    "status": "show BB nodes and their streams",
    "metrics": "print numbers about nodes, files and stagers, or serve them to Prometheus",
    "dashboard": "show the report's pictures in a browser while a run lasts",
    "operators": "list what the configuration may compute, with examples",
    "weights": "make the weights of a remap, for the configuration or for CDO",
    "stage": "stage files to a burst buffer, giving way to others' I/O phases",
    "spark": "run Spark with inputs that come wave by wave",
    "simulate": "say how a scenario of nodes, policies and applications would turn out",
    "plan": "choose nodes, capacity, fetchers and policy for a scenario",
    "files": "files on BB nodes: look at them, copy them, write them back",
    "phase": "announce an I/O phase, or list those that last",
    "register": "hand a stream to functions of a shared library, map and reduce",
    "mount": "show the files on BB nodes as a directory",
    "upload": "bring to its bucket what a run has left in its work directory",
    "merge": "merge the states of separate runs, and publish the result",
    "rescue": "write the steps that BB nodes hold of a stream to raw.zarr, and fold nothing",
    "replay": "write the steps of a raw.zarr again, to have statistics of them",
    "drop": "forget an ended stream, with steps that were not folded",
}
EXIT_CODES = {
    ConfigError: os.EX_USAGE,
    CapacityError: os.EX_TEMPFAIL,
    MissingToolError: os.EX_UNAVAILABLE,
    NodeError: os.EX_NOHOST,
    SpillError: os.EX_IOERR,
    StoreError: os.EX_IOERR,
    StreamError: os.EX_DATAERR,
}


_GONE = "the current directory was removed: cd to one that is there, also if it has the same name"


def _has_directory() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


class _Parser(argparse.ArgumentParser):
    """Reads paths as the configuration does: a shell leaves the ``~`` of ``--output=~/results`` alone."""

    def __init__(self, *words: Any, **keys: Any) -> None:
        super().__init__(*words, **keys)
        self.register("type", Path, parse_path)
        self.set_defaults(default_of=self.get_default)  # an action's own, where a command has actions


@dataclass(frozen=True, slots=True)
class Program:
    """A program with subcommands, each of them a module with `add_arguments` and `run`.

    A command that runs what stands after ``--`` declares so by a default for `simulation`.
    """

    name: str
    """As users type it."""
    package: str
    """Whose modules are the subcommands."""
    description: str
    """One sentence."""
    commands: Mapping[str, str]
    """What each does, in the order of the help."""

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Run a subcommand and return its exit code."""
        words = list(sys.argv[1:] if arguments is None else arguments)
        # What is imported stays: to look for garbage among it again and again takes a tenth of a command's start.
        gc.set_threshold(50_000)
        if isinstance(sys.stdout, TextIOWrapper):  # names of files are bytes: what they are doesn't follow the language
            sys.stdout.reconfigure(encoding=sys.getfilesystemencoding(), errors="surrogateescape")
        try:
            try:
                return self._run(words)
            finally:
                print(end="", flush=True)
        except BbflowError as error:
            tell(str(error), program=self.name)
            return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)
        except OSError as error:  # such as a full file system
            if isinstance(error, BrokenPipeError) and unread.is_unread():
                unread.drop()
                return unread.EXIT_CODE
            is_gone = isinstance(error, FileNotFoundError) and not _has_directory()
            tell(_GONE if is_gone else describe(error), program=self.name)
            return os.EX_IOERR
        except KeyboardInterrupt:
            return 130

    def _run(self, words: list[str]) -> int:
        end = words.index("--") if "--" in words else len(words)
        parser = self._parser(words)
        options, more = parser.parse_known_args(words[:end])
        if more and "simulation" in options and end == len(words) and not more[0].startswith("-"):
            example = shlex.join([self.name, *words[: words.index(more[0])], "--", *more])
            raise ConfigError(f"{shlex.join(more)}: a program that is to run stands after --, as in {example!r}")
        if more:
            parser.error(f"unrecognized arguments: {shlex.join(more)}")
        if end < len(words) and "simulation" not in options:
            raise ConfigError(f"{self.name} {options.command} runs no program, so nothing may stand after --")
        options.simulation = words[end + 1 :]
        code: int = import_module(f"{self.package}.{options.command}").run(options)
        return code

    def _parser(self, words: list[str]) -> argparse.ArgumentParser:
        parser = _Parser(prog=self.name, description=self.description)
        parser.add_argument("--version", action="version", version=f"{self.name} {__version__}")
        commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
        for name, summary in self.commands.items():
            command = commands.add_parser(name, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter)
            # Only the command in use is imported: a node must not load what the analysis needs.
            if name in words[:1]:
                module = import_module(f"{self.package}.{name}")
                command.description, _, command.epilog = str(module.__doc__).partition("\n\n")
                module.add_arguments(command)
        return parser


BBFLOW = Program("bbflow", __name__, "In-transit analysis and workflow staging around burst buffers.", COMMANDS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command of bbflow and return its exit code."""
    return BBFLOW.main(arguments)

"""Run ADIOS2's own staging tests with BP5, which shows that they are driven rightly, and with bbflow.

Usage: python adios2-engine/conformance FOLDER-OF-THE-BUILT-PROGRAMS
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import bbflow_adios2
from cases import CASES, Case

from bbflow.landing.embedded import EmbeddedNodes

PATIENCE_S = 120
POOL_BYTES = 256 << 20
STEP_DELAY_MS = "20"
"""The writers' pause after each step: at once, the reader must follow them."""

Outcome = tuple[bool, str]


class Bp5:
    """How the programs are told to use BP5."""

    def __init__(self, folder: Path) -> None:
        self.environment = dict(os.environ)
        self._folder = folder

    def words(self, name: str) -> list[str]:
        """First words of a program's command line."""
        return ["BP5", str(self._folder / name), "OpenTimeoutSecs=30,BeginStepPollingFrequencySecs=0.01"]


class Bbflow:
    """How the programs are told to use bbflow."""

    def __init__(self, contact: Path) -> None:
        self.environment = os.environ | bbflow_adios2.environment(contact)

    def words(self, name: str) -> list[str]:
        """First words of a program's command line."""
        # Some programs open two streams, of one IO even: `{open}` tells them apart.
        parameters = {
            "PluginName": "bbflow",
            "PluginLibrary": bbflow_adios2.LIBRARY,
            "Stream": f"{name}.{{open}}",
            "OpenTimeoutSecs": "30",
        }
        return ["Plugin", name, ",".join(f"{key}={value}" for key, value in parameters.items())]


@contextlib.contextmanager
def program(command: list[str], environment: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """Start a program; it is killed if it is still there afterwards."""
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()


def finish(process: "subprocess.Popen[str]") -> Outcome:
    """Wait for a program; return whether all of its tests passed, and what it said."""
    try:
        said, _ = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return False, f"it still ran after {PATIENCE_S} s"
    return process.returncode == 0 and "[  PASSED  ] 1 test." in said, said


def run(case: Case, engine: Bp5 | Bbflow, programs: Path, at_once: bool) -> Outcome:
    """Run a case's writer and reader one after the other, or at once."""
    words = engine.words(f"{case.name}{'.at-once' if at_once else ''}")
    writer = [str(programs / case.writer), *words, "--ms_delay", STEP_DELAY_MS, *case.writer_words]
    reader = [str(programs / case.reader), *words, *case.reader_words]
    with program(writer, engine.environment) as writing:
        if not at_once:
            wrote, writer_said = finish(writing)
        with program(reader, engine.environment) as reading:
            read, reader_said = finish(reading)
        if at_once:
            wrote, writer_said = finish(writing)
    return wrote and read, f"writer:\n{writer_said}\nreader:\n{reader_said}"


def run_all(programs: Path, folder: Path) -> bool:
    """Run every case in every way; print a line for each; return whether all passed."""
    all_passed = True
    with EmbeddedNodes(1, POOL_BYTES) as nodes:
        engines = {"BP5": Bp5(folder), "bbflow": Bbflow(nodes.contact)}
        ways = [(name, at_once) for at_once in (False, True) for name in engines]
        titles = [f"{name}, {'at once' if at_once else 'in sequence'}" for name, at_once in ways]
        print(f"{'test':24}" + "".join(f"{title:22}" for title in titles))
        for case in CASES:
            outcomes = [run(case, engines[name], programs, at_once) for name, at_once in ways]
            marks = ["passed" if passed else "FAILED" for passed, _ in outcomes]
            print(f"{case.name:24}" + "".join(f"{mark:22}" for mark in marks), flush=True)
            for title, (passed, said) in zip(titles, outcomes, strict=True):
                if not passed:
                    print(f"--- {case.name} with {title}\n{said}\n---", file=sys.stderr)
                    all_passed = False
    return all_passed


def main() -> int:
    """Run the tests; return the exit code."""
    programs = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="bbflow-conformance-") as folder:
        return 0 if run_all(programs, Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Fuzz whole runs: python tests/fuzz/runs.py [--runs N] [--seed FIRST].

Each seed is a program of a few steps. It writes through the real engine while a real analysis folds and drains it, and
writes a BP5 file too. What xarray reads of the results, the raw steps and NetCDF must be what that file says, or the
run must be refused in one line. Seeds whose runs are neither are printed, with what was wrong.
"""

import argparse
import faulthandler
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

import bbflow_adios2
from random_programs import draw

RUNS_PER_NODE = 50
LONGEST_S = 300.0
"""A run that takes longer ends all, and says where it hangs."""


def one_run(seed: int, buffer: "BurstBuffer", folder: Path) -> str:
    """Do the run of a seed; return what is wrong, and print how it ended."""
    faulthandler.dump_traceback_later(LONGEST_S, exit=True)
    try:
        run(draw(seed), buffer, folder)
        said = "equal"
    except (RefusedError, BbflowError) as error:
        if "\n" in str(error):
            return f"more than a line: {error}"
        said = f"refused: {error}"
    except Exception:
        return traceback.format_exc(chain=False)
    finally:
        faulthandler.cancel_dump_traceback_later()
    print(f"{seed}: {said}", flush=True)
    return ""


def rounds(first: int, runs: int) -> Iterator[range]:
    """Cut seeds into those that share a node."""
    for begin in range(first, first + runs, RUNS_PER_NODE):
        yield range(begin, min(begin + RUNS_PER_NODE, first + runs))


def main() -> int:
    """Do the runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the first run; the next ones count on from it")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ.update(bbflow_adios2.environment("unused"))
    faults = []
    for seeds in rounds(options.seed, options.runs):
        with start_nodes(1, "64MiB") as buffer:
            for seed in seeds:
                with tempfile.TemporaryDirectory(prefix="bbflow-fuzz-") as folder:
                    wrong = one_run(seed, buffer, Path(folder))
                if wrong:
                    print(f"{seed}: WRONG\n{wrong}", flush=True)
                    faults.append(seed)
    print(f"{options.runs} runs from seed {options.seed}; wrong are {faults or 'none'}")
    return 1 if faults else 0


if __name__ == "__main__":  # processes that write import this module anew, and need none of these
    from whole_runs import RefusedError, run

    from bbflow import start_nodes
    from bbflow.api import BurstBuffer
    from bbflow.errors import BbflowError

    sys.exit(main())

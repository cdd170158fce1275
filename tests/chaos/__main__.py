"""Harm real runs and judge what they leave; prints a line for each, with the seed that repeats it.

python -m chaos random --runs 200 --seed 1     # kills of anything but the simulation, at random
python -m chaos table --times 20               # each line of docs/trust.md
python -m chaos whole --runs 10                # the same kills with other grids, levels, pyramids, chunks and functions
python -m chaos bucket --runs 10               # the same with the output in a bucket
python -m chaos nodes --runs 100               # kills at a hundred nodes
python -m chaos ranks --runs 100               # kills where ranks fold, over shared memory, TCP and libfabric
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random

from chaos.harm import kill_at_random
from chaos.lines import Line, folding_line, lines
from chaos.nodes import many_nodes
from chaos.runs import PATIENCE_S, Run, Shape, build, oracle
from chaos.verdict import Verdict, judged, load
from chaos.whole import random_lines, whole_run
from testsupport.object_server import credentials_of
from testsupport.servers import object_server


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="chaos")
    parser.add_argument("what", choices=["all", "random", "table", "whole", "bucket", "nodes", "ranks"])
    parser.add_argument("--runs", type=int, default=200, help="of random kills")
    parser.add_argument("--times", type=int, default=20, help="for each line of the table")
    parser.add_argument("--only", default="", help="lines whose name has this regular expression in it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=1, help="this many runs beside each other: a hang costs no CPU")
    parser.add_argument("--keep", action="store_true", help="keep the folders of all runs, not only of wrong ones")
    options = parser.parse_args()
    if options.what == "nodes":
        with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="bbflow-") as folder:
            return int(not many_nodes(Path(folder), 100, options.runs, options.seed))
    scratch = Path(tempfile.mkdtemp(prefix="bbflow-chaos-"))
    print(f"in {scratch}; a run may take {PATIENCE_S:.0f} s", flush=True)
    program = build(scratch / "build")
    truth = load(oracle(program, scratch / "oracle"))
    tried: list[tuple[Line, int]] = []
    if options.what in ("all", "table"):
        chosen = [line for line in lines() if re.search(options.only, line.name)]
        tried += [(line, options.seed + n) for n in range(options.times) for line in chosen]
    if options.what in ("all", "random"):
        tried += [_random_line(options.seed + n) for n in range(options.runs)]
    if options.what in ("all", "ranks"):
        tried += [(folding_line(options.seed + n), options.seed + n) for n in range(options.runs)]
    reference = whole_run(scratch / "reference", program) if options.what in ("all", "whole", "bucket") else None
    for what in ("whole", "bucket"):
        if reference is not None and options.what in ("all", what):
            seeds = range(options.seed, options.seed + options.runs)
            tried += random_lines(reference, seeds, bucket=what == "bucket")

    def one(number: int, line: Line, seed: int) -> str:
        folder = scratch / f"{number}"  # short, as a path to a socket must be
        verdict = _run(line, seed, folder, program, truth)
        if not (verdict.wrong or options.keep):
            shutil.rmtree(folder)
        return f"{line.name}: {'WRONG' if verdict.wrong else verdict.outcome.split(',')[0]}"

    with ThreadPoolExecutor(options.at_once) as pool, _bucket(scratch / "server"):
        counts = Counter(pool.map(one, range(len(tried)), *zip(*tried, strict=True)))
    for name, count in sorted(counts.items()):
        print(f"{count:5d} {name}")
    wrong = any("WRONG" in name for name in counts)
    if not wrong and not options.keep:
        shutil.rmtree(scratch)
    return int(wrong)


@contextmanager
def _bucket(log: Path) -> Iterator[None]:
    """Run an S3 server, which all that is started finds."""
    with object_server(log) as url:
        os.environ |= credentials_of(url)
        yield


def _random_line(seed: int) -> tuple[Line, int]:
    return Line("random", kill_at_random, Shape.random(Random(seed))), seed


def _run(line: Line, seed: int, folder: Path, program: Path, truth: object) -> Verdict:
    began_s = time.monotonic()
    with line.around(folder) as setting:
        run = Run(folder, program, line.shape, setting, tells_code=line.tells_code, **line.changes(folder))
        done = line.harm(run, Random(seed))
        verdict = judged(line.judge, run, run.finish(), truth)
    mark = "WRONG: " if verdict.wrong else ""
    took_s = time.monotonic() - began_s
    what = f"{folder.name}: seed {seed} {line.name} {line.shape}"
    print(f"{what}: {done}: {mark}{verdict.outcome} ({took_s:.0f} s)", flush=True)
    return verdict


if __name__ == "__main__":
    sys.exit(main())

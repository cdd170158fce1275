"""Kill a master, an IOnode or the mount at a random moment under a writing load; check what is there then.

Nothing that was closed may be lost, nothing half may be seen, nothing may be left. Run it by `make chaos-mount`.
"""

import argparse
import hashlib
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from testsupport.files_servers import Servers  # noqa: E402
from testsupport.mounts import BOUND_S, Mounts, missing  # noqa: E402

VICTIMS = ("master", "master-io0", "master-io1", "mount")
FILES = 60
LOAD = """
import os, sys
where, seed, first, last = sys.argv[1], *map(int, sys.argv[2:])
sys.path.insert(0, sys.argv[0])
from chaos import content
for number in range(first, last):
    part, whole = f"{where}/{number}.part", f"{where}/{number}"
    with open(part, "wb", buffering=0) as file:
        data = content(seed, number)
        for start in range(0, len(data), 50_000):
            file.write(data[start : start + 50_000])
    print(part, flush=True)
    if number % 3:
        os.rename(part, whole)
        print(whole, flush=True)
"""


def content(seed, number):
    """Return what a file holds: of 1 byte to some hundred kilobytes, and no two alike."""
    source = random.Random(f"{seed} {number}")
    return source.randbytes(source.choice([1, 4_000, 100_000, 400_000]))


def load(where, seed, first):
    """Start writing files; each line that it prints names a file that is closed, or renamed."""
    program = LOAD.replace("sys.argv[0]", repr(str(HERE)))
    words = [sys.executable, "-c", program, where, seed, first, FILES]
    return subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def fate_of(seed):
    """Choose what is killed, and after how many of the load's calls."""
    choice = random.Random(seed)
    return choice.choice(VICTIMS), choice.randrange(1, 2 * FILES - 25)


def run(seed, victim, moment):
    """One run, with servers and a mount of its own."""
    with tempfile.TemporaryDirectory(prefix="bbflow-chaos-") as folder:
        directory = Path(folder)
        (directory / "mounts").mkdir()
        with Servers(directory) as servers, Mounts(directory / "mounts") as mounts:
            client = servers.start(nodes=2, master=("--piece", "64KiB"))
            client.mkdir("/d")
            where = mounts.start("m", contact=servers.contact)
            said = _load_with_kill(servers, mounts, where / "d", seed, victim, moment)
            _check(where / "d", seed, said)
            result = client.flush(wait_s=BOUND_S)
            assert not result.left, result
            assert not result.failed, result
            _check(servers.storage / "d", seed, said)
            held = sorted(path.name for path in (where / "d").iterdir())
            stored = sorted(path.name for path in _visible(servers.storage / "d"))
            assert stored == held, (
                f"in the storage alone {set(stored) - set(held)}, not there {set(held) - set(stored)}"
            )


def _visible(directory):
    """Return the files; a directory as storage may have the hidden part of an upload that was killed."""
    return [path for path in directory.iterdir() if not path.name.startswith(".")]


def _load_with_kill(servers, mounts, where, seed, victim, moment):
    said, first = [], 0
    writer = load(where, seed, first)
    while line := writer.stdout.readline():
        said.append(Path(line.strip()).name)
        if len(said) == moment:
            if victim == "mount":
                mounts.kill("m")
            else:
                servers.restart(victim)
    code = writer.wait(BOUND_S)
    if victim != "mount":
        assert code == 0, f"the load failed when {victim} was killed"
        return said
    mounts.start("m", contact=servers.contact)
    first = max(int(name.partition(".")[0]) for name in said) + 1 if said else 0
    end_s = time.monotonic() + BOUND_S
    while (again := load(where, seed, first)).wait(BOUND_S):  # until the dead mount's lease is over
        assert time.monotonic() < end_s, "the load never went on"
        again.stdout.close()
        time.sleep(0.5)
    said += [Path(line.strip()).name for line in again.stdout]
    return said


def _check(directory, seed, said):
    there = {path.name: path.read_bytes() for path in _visible(directory)}
    for name in said:
        number = int(name.partition(".")[0])
        names = {name, name.removesuffix(".part")} & there.keys()
        assert names, f"{name} was closed and is lost from {directory}"
        for found in names:
            assert there[found] == content(seed, number), f"{found} holds something else than was closed"
    for name, data in there.items():
        assert name.partition(".")[0].isdigit(), f"{name} is left in {directory.name}"
        whole = content(seed, int(name.partition(".")[0]))
        assert data in (b"", whole), f"{name} is seen half: {hashlib.sha256(data).hexdigest()}"


def main():
    """Do this many runs; each prints a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if reason := missing():
        sys.exit(reason)
    failed = 0
    for seed in range(options.seed, options.seed + options.runs):
        victim, moment = fate_of(seed)
        try:
            run(seed, victim, moment)
            said = "all there"
        except AssertionError as error:
            failed += 1
            said = f"WRONG: {error}"
        print(f"seed {seed}: {victim} killed after {moment} of the load's calls: {said}", flush=True)
    sys.exit(f"{failed} of {options.runs} runs went wrong" if failed else 0)


if __name__ == "__main__":
    main()

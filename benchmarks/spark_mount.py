"""Spark's Sort and Wordcount of texts on a disk: read there, through a mount of BB nodes, or by `bbflow spark`.

`python -m benchmarks.spark_mount` needs pyspark, a JDK and /dev/fuse. The last two ways are warm: copies lie in memory.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from bbflow_spark.classes import find_spark

from benchmarks.rows import Row, markdown
from benchmarks.testbed.bed import ROOT
from testsupport.namespaces import folder_in_memory

APPS = ("sort", "wordcount")
RUN_S = 300.0
BBFLOW = [sys.executable, "-m", "bbflow"]
QUIETLY = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

Start = Callable[[str, Path], list[str]]
"""Returns the words that run an application with an output."""


def measure(files: int, size: str, repeat: int) -> list[Row]:
    """Run both applications every way in turns; give medians of wall clock and CPU time."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    with TemporaryDirectory(dir="/var/tmp") as disk, folder_in_memory() as memory, ExitStack() as stack:
        texts = _write(Path(disk) / "texts", files, size)
        ways = _ways(stack, texts, Path(memory))
        for number, app, way in product(range(repeat + 1), APPS, ways):
            with TemporaryDirectory(dir=memory) as folder:
                _forget(texts)
                wall_s, cpu_s = _timed(ways[way](app, Path(folder, "output")))
            print(f"{number} {app}, {way}: {wall_s:.1f} s, CPU {cpu_s:.1f} s", file=sys.stderr, flush=True)
            if number:  # the first round warms
                found[app, way].append((wall_s, cpu_s))
    return [row for app, way in found for row in _rows(f"{app}, {way}", found[app, way], found[app, "disk"])]


def _rows(name: str, runs: Sequence[tuple[float, float]], base: Sequence[tuple[float, float]]) -> Iterator[Row]:
    for at, what in enumerate(("wall clock", "CPU")):
        value = statistics.median(run[at] for run in runs)
        yield Row(f"{name}: {what}", value, "s", value / statistics.median(run[at] for run in base))


def _write(texts: Path, files: int, size: str) -> Path:
    """Write the texts, without the checksums that only Hadoop's own local files have beside them."""
    words = ["write", str(texts), "--files", str(files), "--size", size]
    subprocess.run([sys.executable, "-m", "bbflow_workflows.spark", *words], check=True, timeout=RUN_S, **QUIETLY)
    for path in texts.glob(".*.crc"):
        path.unlink()
    os.sync()  # only what is on the disk can leave the memory
    return texts


def _ways(stack: ExitStack, texts: Path, memory: Path) -> dict[str, Start]:
    mount = stack.enter_context(_mounted(texts, memory))
    prefetched = [*BBFLOW, "spark", "--to", str(memory / "bb"), "--capacity", "2GiB", "--no-shuffle", "--"]

    def submit(app: str, inputs: Path, output: Path) -> list[str]:
        told = {"spark.ui.enabled": "false", "spark.local.dir": str(memory / "local")}
        confs = [word for name, value in told.items() for word in ("--conf", f"{name}={value}")]
        program = ROOT / "workflows" / "spark" / "apps" / f"{app}.py"
        words = [str(find_spark().home / "bin" / "spark-submit"), "--master", "local[2]", *confs, str(program)]
        return [*words, f"{inputs}/part-*", "--output", str(output)]

    return {
        "disk": lambda app, output: submit(app, texts, output),
        "mount": lambda app, output: submit(app, mount, output),
        "file system": lambda app, output: [*prefetched, *submit(app, texts, output)],
    }


@contextmanager
def _mounted(texts: Path, memory: Path) -> Iterator[Path]:
    contact, mount = str(memory / "contact.json"), memory / "mount"
    mount.mkdir()
    nodes = ["up", "--contact", contact, "--capacity", "4GiB", "--directory", str(memory), "--files", texts.as_uri()]
    subprocess.run([*BBFLOW, *nodes], check=True, timeout=RUN_S, **QUIETLY)
    try:
        subprocess.run([*BBFLOW, "mount", "--read-only", contact, str(mount)], check=True, timeout=RUN_S, **QUIETLY)
        try:
            yield mount
        finally:
            subprocess.run([*BBFLOW, "mount", "--unmount", str(mount)], check=True, timeout=RUN_S)
    finally:
        subprocess.run([*BBFLOW, "down", "--contact", contact], check=True, timeout=RUN_S, **QUIETLY)


def _forget(texts: Path) -> None:
    """Make the kernel forget what it has of the texts in memory."""
    for path in texts.iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _timed(words: list[str]) -> tuple[float, float]:
    """Run a command; return its wall clock and CPU time, with all that it has started."""
    began_s = time.monotonic()
    process = subprocess.Popen(words, env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}, **QUIETLY)
    try:
        _, status, used = os.wait4(process.pid, 0)
    except BaseException:
        process.terminate()
        process.wait(RUN_S)
        raise
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words)
    return time.monotonic() - began_s, used.ru_utime + used.ru_stime


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--size", default="32MiB", help="of each (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print(markdown({"Spark's inputs": measure(options.files, options.size, options.repeat)}))


if __name__ == "__main__":
    main()

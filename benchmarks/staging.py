"""Staging of small files: files a second, beside cp -r and rclone."""

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bbflow.staging import File, Sources, Stager, Task, expand
from bbflow.staging.actions import Action, Ready, Stage
from bbflow.staging.waves import Waves
from benchmarks.rows import Row
from testsupport.servers import object_servers

FILES, FILE_BYTES = 3000, 2000
PLANNED = 100_000
MEMORY = "/dev/shm"
"""Only directories of our own are used in it."""


def measure(quick: bool = False) -> list[Row]:
    """Stage files of 2 kB from a local directory and from object stores, and plan 100,000."""
    repeat = 1 if quick else 5
    with tempfile.TemporaryDirectory() as disk, tempfile.TemporaryDirectory(prefix="bbflow-", dir=MEMORY) as memory:
        source, target = Path(disk) / "many", Path(memory)
        source.mkdir()
        for number in range(FILES):
            (source / f"tile-{number:05}.fits").write_bytes(os.urandom(FILE_BYTES))
        return [*_local(source, target, repeat), *_objects(source, target, repeat), *_planning()]


def _local(source: Path, target: Path, repeat: int) -> list[Row]:
    ways: dict[str, Callable[[Path], object]] = {
        "cp -r": lambda to: _run("cp", "-r", source, to),
        "bbflow, sizes asked for": lambda to: _stage([File(str(path)) for path in sorted(source.iterdir())], to),
        "bbflow, a directory": lambda to: _stage_all(f"{source}/", to),
    }
    if shutil.which("rclone"):
        ways["rclone copy"] = lambda to: _rclone(source, to)
    return _rows("local directory", ways, target, repeat, "cp -r")


def _objects(source: Path, target: Path, repeat: int) -> Iterator[Row]:
    """Of each server; moto's own work limits all that read from it."""
    for name, start in object_servers().items():
        with start() as options:
            _fill(Sources({"s3": options}), source)
            yield from _rows(name, _object_ways(source, options), target, repeat, "rclone copy")


def _object_ways(source: Path, options: dict[str, str]) -> dict[str, Callable[[Path], object]]:
    ways: dict[str, Callable[[Path], object]] = {
        "bbflow, sizes asked for": lambda to: _stage(_urls(source), to, {"s3": options}),
        "bbflow, s3://bucket/many/*.fits": lambda to: _stage_all("s3://bucket/many/*.fits", to, {"s3": options}),
    }
    if shutil.which("rclone"):
        ways["rclone copy"] = lambda to: _rclone(":s3:bucket/many", to, options)
    return ways


def _rows(where: str, ways: dict[str, Callable[[Path], object]], target: Path, repeat: int, base: str) -> list[Row]:
    """Go each way once before the next repetition: the machine drifts; what is measured first finds cold caches."""
    times: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(repeat + 1):
        for way, copy in ways.items():
            with tempfile.TemporaryDirectory(dir=target) as made:
                begun_s = time.perf_counter()
                copy(Path(made, "to"))
                if number or repeat == 1:
                    times[way].append(time.perf_counter() - begun_s)
    rates = {way: FILES / statistics.median(spent_s) for way, spent_s in times.items()}
    ratios = {way: rate / rates[base] if base in rates else None for way, rate in rates.items()}
    return [Row(f"{where}: {way}", rate, "files/s", ratios[way]) for way, rate in rates.items()]


def _stage(files: list[File], to: Path, options: dict[str, Any] | None = None) -> None:
    with Stager(to, 1 << 30, 1, options=options) as stager:
        places = stager.submit("all", files).result()
        assert len(places) == FILES


def _stage_all(word: str, to: Path, options: dict[str, Any] | None = None) -> None:
    _stage([File(found.url, found.size_bytes) for found in expand(word, Sources(options))], to, options)


def _urls(source: Path) -> list[File]:
    return [File(f"s3://bucket/many/{path.name}") for path in sorted(source.iterdir())]


def _fill(sources: Sources, source: Path) -> None:
    for path in source.iterdir():
        with sources.create(f"s3://bucket/many/{path.name}") as file:
            file.write(path.read_bytes())


def _rclone(source: Path | str, to: Path, options: dict[str, Any] | None = None) -> None:
    words = ["--config", os.devnull, "copy", source, to, "--transfers", "8", "--checkers", "8"]
    if options:
        words += ["--s3-provider", "Other", "--s3-endpoint", options["endpoint_url"], "--s3-region", options["region"]]
        words += ["--s3-access-key-id", options["key"], "--s3-secret-access-key", options["secret"]]
    _run("rclone", *words)


def _run(*words: object) -> None:
    # rclone refuses to run with a bundle of certificates for its S3 client, which needs none on loopback.
    environment = {name: value for name, value in os.environ.items() if name != "AWS_CA_BUNDLE"}
    subprocess.run([str(word) for word in words], check=True, env=environment, stderr=subprocess.DEVNULL)


def _planning() -> list[Row]:
    """Plan as many files, of one task and of as many tasks, that are staged at once."""
    one = Task("all", tuple(File(f"/pfs/{n}", FILE_BYTES) for n in range(PLANNED)))
    many = [Task(f"t{n}", (File(f"/pfs/{n}", FILE_BYTES), File("/pfs/shared", FILE_BYTES))) for n in range(PLANNED)]
    return [
        Row("plan of 100,000 files in one task", _plan(Waves(1, 1 << 40), [one]), "s"),
        Row("plan of 100,000 tasks, 64 slots, room for 200 files", _plan(Waves(64, 200 * FILE_BYTES), many), "s"),
    ]


def _plan(waves: Waves, tasks: list[Task]) -> float:
    """Return seconds of CPU time: this is all Python's, and who else is on the core doesn't matter then."""
    begun_s = time.process_time()
    actions: deque[Action] = deque(action for task in tasks for action in waves.add(task))
    ended = 0
    while actions:
        match actions.popleft():
            case Stage(file):
                actions.extend(waves.staged(file.url))
            case Ready(key):
                ended += 1
                actions.extend(waves.final(key))
    assert ended == len(tasks)
    return time.process_time() - begun_s

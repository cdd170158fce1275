"""Files through a mount: BB nodes' files beside tmpfs."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bbflow.errors import NodeError
from bbflow.files.client.client import FilesClient
from bbflow.host.waiting import until
from bbflow.mount.mounting import PROGRAM, READY
from benchmarks.namespaces import folder_in_memory
from benchmarks.rows import Row

BLOCK = 1 << 20
RANDOM = 4096
PATIENCE_S = 120.0


def measure(quick: bool = False) -> list[Row]:
    """Measure sequential and random access, and calls on names, in tmpfs and through mounts of it."""
    size = (256 if quick else 1024) << 20
    names = 1000 if quick else 5000
    rows: list[Row] = []
    with folder_in_memory() as folder:
        memory = Path(folder)
        base = _all(memory / "plain", size, names)
        places = {
            "tmpfs": base,
            "BB node, one piece": _mounted(memory, size, names, "4GiB"),
            "BB node, pieces of 64 MiB": _mounted(memory, size, names, "64MiB"),
            "BB node, one piece, no passthrough": _mounted(memory, size, names, "4GiB", "--no-passthrough"),
        }
    for what, (_, unit) in base.items():
        for place, figures in places.items():
            value = figures[what][0]
            rows.append(Row(f"{what}, {place}", value, unit, value / base[what][0]))
    return rows


def _mounted(memory: Path, size: int, names: int, piece: str, *words: str) -> dict[str, tuple[float, str]]:
    with (
        tempfile.TemporaryDirectory(dir=memory) as folder,
        _nodes(Path(folder), piece) as contact,
        _mount(Path(folder, "mount"), (*words, "--contact", str(contact))) as where,
    ):
        return _all(where, size, names)


@contextmanager
def _nodes(directory: Path, piece: str) -> Iterator[Path]:
    contact = directory / "contact.json"
    files = [sys.executable, "-m", "bbflow", "files"]
    master = [*files, "master", "--contact", contact, "--directory", directory / "master", "--piece", piece]
    ionode = [
        *files,
        "ionode",
        "--contact",
        contact,
        "--name",
        "io",
        "--directory",
        directory / "io",
        "--capacity",
        "6GiB",
    ]
    with (directory / "nodes.log").open("wb") as log:
        started = [subprocess.Popen(list(map(str, words)), stdout=log, stderr=log) for words in (master, ionode)]
    try:
        _wait(lambda: _is_up(contact))
        yield contact
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(PATIENCE_S)


def _is_up(contact: Path) -> bool:
    try:
        client = FilesClient(contact)
    except NodeError:
        return False
    try:
        return any(node.up for status in client.status() for node in status.nodes)
    finally:
        client.close()


@contextmanager
def _mount(where: Path, words: tuple[str, ...]) -> Iterator[Path]:
    where.mkdir()
    log = where.with_suffix(".log")
    with log.open("wb") as file:
        process = subprocess.Popen([str(PROGRAM), *words, str(where)], stderr=file)
    try:
        _wait(lambda: READY in log.read_text())
        yield where / "d"
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _wait(condition: Callable[[], bool]) -> None:
    if not until(condition, PATIENCE_S):
        raise TimeoutError("the nodes or the mount didn't start")


def _all(where: Path, size: int, names: int) -> dict[str, tuple[float, str]]:
    where.mkdir()
    return {**_bytes(where / "f", size), **_names(where, names)}


def _bytes(path: Path, size: int) -> dict[str, tuple[float, str]]:
    """Write, write again, read, and read 4 KiB here and there; the best of three reads."""
    block = os.urandom(BLOCK)

    def write(flags: int) -> float:
        descriptor = os.open(path, os.O_WRONLY | flags, 0o644)
        begin_s = time.perf_counter()
        for _ in range(size // BLOCK):
            os.write(descriptor, block)
        os.close(descriptor)
        return size / (time.perf_counter() - begin_s) / 1e9

    def read() -> float:
        buffer = bytearray(BLOCK)
        with path.open("rb", buffering=0) as file:
            begin_s = time.perf_counter()
            while file.readinto(buffer):
                pass
            return size / (time.perf_counter() - begin_s) / 1e9

    def at_random() -> float:
        descriptor = os.open(path, os.O_RDONLY)
        step = 1_000_003 * RANDOM
        begin_s = time.perf_counter()
        for number in range(20_000):
            os.pread(descriptor, RANDOM, number * step % (size - RANDOM))
        elapsed_s = time.perf_counter() - begin_s
        os.close(descriptor)
        return 20_000 / elapsed_s

    return {
        "write in sequence": (write(os.O_CREAT), "GB/s"),
        "read in sequence": (max(read() for _ in range(3)), "GB/s"),
        "read 4 KiB at random": (at_random(), "1/s"),
    }


def _names(where: Path, count: int) -> dict[str, tuple[float, str]]:
    paths = [f"{where}/n{number}" for number in range(count)]

    def rate(call: Callable[[str], object]) -> tuple[float, str]:
        begin_s = time.perf_counter()
        for path in paths:
            call(path)
        return count / (time.perf_counter() - begin_s), "1/s"

    figures = {
        "create": rate(lambda path: os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))),
        "stat": rate(os.stat),
        "rename": rate(lambda path: os.rename(path, path + "x")),
    }
    begin_s = time.perf_counter()
    listed = sum(entry.stat().st_size == 0 for entry in os.scandir(where) if entry.name != "f")
    figures["readdir with stat"] = (listed / (time.perf_counter() - begin_s), "1/s")
    figures["unlink"] = rate(lambda path: os.unlink(path + "x"))
    return figures

"""A master with many names and clients, and a wave with many inputs: what each takes, and a master's way back."""

import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil

from bbflow.files.inodes import DIRECTORY, FILE, Inode
from bbflow.files.master.database import Database
from bbflow.files.master.master import Master
from bbflow.files.master.records import InodeRecord
from bbflow.files.options import Options
from bbflow.files.requests import parse_heard
from bbflow.staging.actions import Ready, Stage
from bbflow.staging.files import File, Task
from bbflow.staging.waves import Waves
from benchmarks.rows import Row

IN_DIRECTORY = 1_000
"""Names in each directory."""
GROUP = 20_000
"""Names that are stored together."""
SIZES = {"quick": (10_000, 100, 1_000, 10_000), "full": (1_000_000, 1_000, 10_000, 100_000)}
"""Names (a million takes 1 GiB), clients that ask, clients that only beat, inputs of a wave."""
ASKED = 20_000


def measure(*, quick: bool) -> list[Row]:
    """Measure; a master's messages are told to it without a socket, so its own cost is seen."""
    names, clients, beating, inputs = SIZES["quick" if quick else "full"]
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="bbflow-") as folder:
        for part in ("fill", "serve"):
            words = [sys.executable, "-m", "benchmarks.names", part, folder, *map(str, (names, clients, beating))]
            told = subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout
    rows = [Row(f"{names:,} names: {name}", value, unit) for name, (value, unit) in json.loads(told).items()]
    for count in (inputs // 10, inputs):
        rows.append(Row(f"a wave of {count:,} inputs: added, staged and done, each", 1e6 * _wave_s(count), "us"))
    return rows


def _wave_s(count: int) -> float:
    """Return how long the planning of a wave takes for each of its inputs (seconds)."""
    waves, began_s = Waves(count, count), time.process_time()
    actions = [action for n in range(count) for action in waves.add(Task(f"t{n}", (File(f"f{n}", 1),)))]
    staged = [action.file.url for action in actions if isinstance(action, Stage)]
    ready = [action.key for url in staged for action in waves.staged(url) if isinstance(action, Ready)]
    for key in ready:
        waves.final(key)
    assert len(ready) == count
    return (time.process_time() - began_s) / count


def _opened(folder: str) -> Master:
    return Master(Database(Path(folder, "metadata.db")), Options(write_back_after_s=0.0), time.time)


def fill(folder: str, names: int) -> None:
    """Store so many files, in directories of the root, as a master does."""
    root = _root(folder)
    database = Database(Path(folder, "metadata.db"))
    for number in range(names):
        directory = root + 1 + number // IN_DIRECTORY
        if number % IN_DIRECTORY == 0:
            database.store(InodeRecord(_inode(directory, root, f"d{number // IN_DIRECTORY:05d}", DIRECTORY, 0o755)))
        file = _inode(root + 1 + names + number, directory, f"file-{number:08d}.nc", FILE, 0o644)
        database.store(InodeRecord(file))
        if number % GROUP == GROUP - 1:
            database.commit()
    database.commit()


def _root(folder: str) -> int:
    """Make a master's root, and return its number."""
    database = Database(Path(folder, "metadata.db"))
    Master(database, Options(), time.time)
    database.commit()
    (root,) = (inode.ino for inode in database.inodes())
    database.close()
    return root


def _inode(ino: int, parent: int, name: str, kind: str, mode: int) -> Inode:
    now_ns = time.time_ns()
    return Inode(ino, parent, name, kind, mode, os.getuid(), os.getgid(), now_ns, now_ns, now_ns)


class Clients:
    """Peers of a master.

    Parameters
    ----------
    master
        It.
    """

    def __init__(self, master: Master) -> None:
        self._master = master
        self.root = 0

    def say(self, peer: int, **asked: object) -> dict[str, object]:
        """Send a request as it comes out of its frame, and return what the peer is told."""
        self._master.handle(peer, parse_heard(msgspec.msgpack.encode(asked)), None)
        told = [message for to, message in self._master.take_out() if to == peer]
        answer: dict[str, object] = msgspec.msgpack.decode(msgspec.msgpack.encode(told[0]))
        assert answer["ok"], answer
        return answer

    def enter(self, count: int) -> None:
        """Begin sessions."""
        for peer in range(count):
            answer = self.say(peer, op="session", host="h", pid=1, uid=os.getuid(), gid=os.getgid())
            self.root = answer["root"]["ino"]  # type: ignore[index]


def serve(folder: str, names: int, clients: int, beating: int) -> dict[str, tuple[float, str]]:
    """Start on what was filled, and measure."""
    process = psutil.Process()
    gc.collect()
    before = process.memory_info().rss
    began_s = time.perf_counter()
    master = _opened(folder)
    found = {"start after a kill": (time.perf_counter() - began_s, "s")}
    gc.freeze()
    found["memory of a name"] = ((process.memory_info().rss - before) / names, "B")
    peers, dice = Clients(master), random.Random(1)
    peers.enter(clients)

    def some() -> tuple[int, int]:
        number = dice.randrange(names)
        return number, peers.root + 1 + number // IN_DIRECTORY

    def lookup(number: int) -> None:
        file, directory = some()
        peers.say(number % clients, op="lookup", parent=directory, name=f"file-{file:08d}.nc")

    def make(number: int) -> None:
        peers.say(number % clients, op="mkdir", parent=some()[1], name=f"made-{number}", mode=0o755)

    found[f"lookups of {clients:,} clients"] = (_rate(lookup), "1/s")
    found[f"new names of {clients:,} clients, each stored"] = (_rate(make), "1/s")
    beaters = Clients(_opened(tempfile.mkdtemp(dir=folder)))
    beaters.enter(beating)
    found[f"heartbeats of {beating:,} clients"] = (
        _rate(lambda number: beaters.say(number % beating, op="ping")),
        "1/s",
    )
    began_s = time.perf_counter()
    for _ in range(100):
        beaters._master.expire()
    found[f"a look at the leases of {beating:,} clients"] = (1e3 * (time.perf_counter() - began_s) / 100, "ms")
    return found


def _rate(ask: Callable[[int], None]) -> float:
    began_s = time.perf_counter()
    for number in range(ASKED):
        ask(number)
    return ASKED / (time.perf_counter() - began_s)


if __name__ == "__main__":
    part, folder, *counts = sys.argv[1:]
    names, clients, beating = map(int, counts)
    if part == "fill":
        fill(folder, names)
        print("{}")
    else:
        print(json.dumps(serve(folder, names, clients, beating)))

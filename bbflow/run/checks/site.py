"""A site's first day: what this host does, beside what a scenario says of one."""

import math
import mmap
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np

from bbflow.errors import ConfigError, describe
from bbflow.operators import Operator, StateLayout, fold_steps, parse_operators
from bbflow.run.checks.finding import FINE, NOTE, Finding
from bbflow.simulate.scenario import load_scenario
from bbflow.simulate.transit import TransitScenario
from bbflow.units import format_bytes

ALIKE = 1.3
"""A scenario's rate may be so many times what is measured, or the other way round, and count as the same."""
MESSAGE_BYTES = 1 << 20
INTERFACES = Path("/sys/class/net")


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is moved for a measurement, and how long it lasts at most: a site knows within two minutes."""

    memory_bytes: int = 256 << 20
    stored_bytes: int = 1 << 30
    longest_s: float = 20.0


ALL = Effort()


@dataclass(frozen=True, slots=True)
class Measured:
    """One input of the model."""

    key: str
    """The scenario's."""
    what: str
    """What was measured for it."""
    bytes_per_s: float
    """How much; NaN if it can't be measured here."""
    why: str = ""
    """Then why."""


def check_site(
    scenario: Path, memory: Path, storage: Path, effort: Effort = ALL, interfaces: Path = INTERFACES
) -> Iterator[Finding]:
    """Measure what the model of a stream needs, and compare it with what a scenario says.

    Parameters
    ----------
    scenario
        Its file.
    memory
        A directory in memory, as BB nodes have their pools in.
    storage
        A directory of the shared storage.
    effort
        How much is moved.
    interfaces
        Where the kernel tells of the network's interfaces.

    Raises
    ------
    ConfigError
        If the scenario isn't one of a stream, or a directory isn't there.
    """
    setting = load_scenario(scenario).setting
    if not isinstance(setting, TransitScenario):
        raise ConfigError(f"{scenario} isn't a scenario of kind 'transit': --site compares what a stream needs")
    for directory in (memory, storage):
        if not directory.is_dir():
            raise ConfigError(f"{directory} isn't a directory that is there")
    buffer, pfs = setting.burst_buffer, setting.file_system
    told = {
        "burst_buffer.landing_bytes_per_s": buffer.landing_bytes_per_s,
        "burst_buffer.fold_bytes_per_s": buffer.fold_bytes_per_s,
        "burst_buffer.link_bytes_per_s": buffer.link_bytes_per_s,
        "file_system": pfs.servers * pfs.server_bytes_per_s,
    }
    return (compared(item, told[item.key]) for item in _measured(memory, storage, effort, interfaces))


def compared(item: Measured, told: float) -> Finding:
    """Return what is to be said of a measured rate beside a scenario's, in bytes a second."""
    if math.isnan(item.bytes_per_s):
        return Finding(NOTE, item.key, f"{item.what} can't be measured: {item.why}")
    here = f"{item.what}: {format_bytes(item.bytes_per_s)}/s here, {format_bytes(told)}/s in the scenario"
    if item.key == "file_system":  # all hosts together reach more
        is_more = item.bytes_per_s > ALIKE * told
        return Finding(NOTE if is_more else FINE, item.key, f"{here} from all hosts")
    ratio = item.bytes_per_s / told
    if 1 / ALIKE <= ratio <= ALIKE:
        return Finding(FINE, item.key, here)
    return Finding(NOTE, item.key, f"{here}, {ratio:.2g} times as much: --set {item.key}={item.bytes_per_s:.3g}")


def _measured(memory: Path, storage: Path, effort: Effort, interfaces: Path) -> Iterator[Measured]:
    cores = len(os.sched_getaffinity(0))
    yield _tried(
        "burst_buffer.landing_bytes_per_s", "copying into a warm pool, one core", lambda: _copying(memory, effort)
    )
    yield _tried(
        "burst_buffer.fold_bytes_per_s",
        f"mean, std, min and max of float32, on {cores} cores if each does what one does",
        lambda: cores * _folding(effort),
    )
    speed = _link_bytes_per_s(interfaces)
    if speed is not None:
        yield Measured("burst_buffer.link_bytes_per_s", "the fastest interface, as it says itself", speed)
    else:
        what = "TCP over loopback, one stream, as no interface tells its speed"
        yield _tried("burst_buffer.link_bytes_per_s", what, lambda: _loopback(effort))
    yield _tried("file_system", f"writing {storage}, one stream, to the disk", lambda: _writing(storage, effort))


def _tried(key: str, what: str, measure: Callable[[], float]) -> Measured:
    try:
        return Measured(key, what, measure())
    except OSError as error:
        return Measured(key, what, math.nan, describe(error))


def _rate(act: Callable[[], object], size: int, longest_s: float) -> float:
    """Return the bytes a second of the best of some repetitions: others on the host only take from them."""
    best_s, until_s = math.inf, time.perf_counter() + longest_s / 4
    for _ in range(16):
        began_s = time.perf_counter()
        act()
        best_s = min(best_s, time.perf_counter() - began_s)
        if time.perf_counter() > until_s:
            break
    return size / best_s


def _copying(memory: Path, effort: Effort) -> float:
    size = effort.memory_bytes
    source = np.ones(size, np.uint8)
    with TemporaryFile(dir=memory) as file:
        os.posix_fallocate(file.fileno(), 0, size)
        target = np.frombuffer(mmap.mmap(file.fileno(), size), np.uint8)
        np.copyto(target, source)  # touches the pages, as a node does when it starts
        return _rate(lambda: np.copyto(target, source), size, effort.longest_s)


def _folding(effort: Effort) -> float:
    points = effort.memory_bytes // 64
    operators = [item for item in parse_operators(["mean", "std", "min", "max"]) if isinstance(item, Operator)]
    layout = StateLayout.of(operators, dtype=np.dtype("f4"), points=points)
    state, block = np.zeros(layout.nbytes, np.uint8), np.linspace(0, 1, points, dtype="f4")
    blocks = [block + np.float32(step) for step in range(8)]
    fold_steps(layout, None, state, blocks)
    size = sum(item.nbytes for item in blocks)
    return _rate(lambda: fold_steps(layout, state, state, blocks), size, effort.longest_s)


def _link_bytes_per_s(interfaces: Path) -> float | None:
    """Return what the fastest network interface says that it does; None if none says anything."""
    found = []
    for interface in interfaces.glob("*") if interfaces.is_dir() else ():
        with suppress(OSError, ValueError):  # one that is down doesn't say
            found.append(int((interface / "speed").read_text()) * 1e6 / 8)
    return max((speed for speed in found if speed > 0), default=None)


def _loopback(effort: Effort) -> float:
    message, total = bytes(MESSAGE_BYTES), effort.memory_bytes
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as there:
        server.settimeout(effort.longest_s)
        there.settimeout(effort.longest_s)
        here, _ = server.accept()

        def send() -> None:
            with suppress(OSError):  # the other side says what has failed
                for _ in range(total // MESSAGE_BYTES):
                    there.sendall(message)

        with here:
            here.settimeout(effort.longest_s)
            sender = threading.Thread(target=send, daemon=True)
            began_s = time.perf_counter()
            sender.start()
            left, room = total, bytearray(MESSAGE_BYTES)
            while left:
                count = here.recv_into(room)
                if not count:
                    raise ConnectionResetError("the connection broke")
                left -= count
            took_s = time.perf_counter() - began_s
            sender.join()
            return total / took_s


def _writing(storage: Path, effort: Effort) -> float:
    """Return the rate of writing a new file until it is on the disk."""
    block, written = os.urandom(MESSAGE_BYTES), 0
    with TemporaryFile(dir=storage, buffering=0) as file:
        began_s = time.perf_counter()
        while written < effort.stored_bytes and time.perf_counter() - began_s < effort.longest_s:
            written += file.write(block)
            # Now and then, not at the end alone: the page cache would take all at memory's speed, and the limit never
            # end it.
            if written % (64 * MESSAGE_BYTES) == 0:
                os.fsync(file.fileno())
        os.fsync(file.fileno())
        return written / (time.perf_counter() - began_s)

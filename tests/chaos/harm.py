"""What is done to a run: whom it hits, when, and how."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import psutil

from chaos.runs import STEPS, Run, Shape

HANG_S = 60.0
FULL_S = 20.0
"""So long a file system stays full."""
BATCHES = STEPS // 2
"""Of two steps each."""
Harm = Callable[[Run, Random], str]
"""Does it, and says what was done."""


def kill_at_random(run: Run, dice: Random) -> str:
    """Kill one to four processes, anything but the simulation, at any time from the start to the end."""
    done = []
    for folds in sorted(dice.choice((0, dice.randint(1, BATCHES))) for _ in range(dice.randint(1, 4))):
        run.wait_until(lambda folds=folds: run.folds() >= folds and run.others())
        time.sleep(dice.uniform(0.0, 1.0))
        there = sorted(run.others().items())
        if there:
            kind, processes = dice.choice(there)
            done.append(f"{kind} at {run.folds()}")
            with suppress(psutil.Error):
                dice.choice(processes).kill()
    return "killed " + ", ".join(done) if done else "nothing was left to kill"


def at_start(run: Run, victim: str, dice: Random) -> bool:
    """Wait for the process itself, and a moment."""
    there = run.wait_until(lambda: victim in run.others())
    time.sleep(dice.uniform(0.0, 0.5))
    return there


def steady(run: Run, victim: str, dice: Random) -> bool:
    """Wait until some batches are folded."""
    count = dice.randint(2, 20)
    return run.wait_until(lambda: run.folds() >= count)


def at_window_end(run: Run, victim: str, dice: Random) -> bool:
    """Wait for the batch before the first month's end, and a moment."""
    there = run.wait_until(lambda: run.folds() >= 61)
    time.sleep(dice.uniform(0.0, 0.2))
    return there


def at_end(run: Run, victim: str, dice: Random) -> bool:
    """Wait until the simulation has ended, and a moment."""
    there = run.wait_until(lambda: run.simulation_code is not None)
    time.sleep(dice.uniform(0.0, 0.3))
    return there


MOMENTS = {"start": at_start, "steady": steady, "window end": at_window_end, "end": at_end}


def signalled(victim: str, moment: str, number: signal.Signals) -> Harm:
    """Send a signal to one of the processes of a kind."""

    def harm(run: Run, dice: Random) -> str:
        if not MOMENTS[moment](run, victim, dice) or not (there := run.others().get(victim)):
            return f"no {victim} there any more"
        process = dice.choice(there)
        with suppress(psutil.Error):
            process.send_signal(number)
            if number == signal.SIGSTOP:
                until_s = time.monotonic() + HANG_S
                run.wait_until(lambda: time.monotonic() > until_s)
                process.send_signal(signal.SIGCONT)
        return f"{number.name} to {victim} {process.pid}"

    return harm


def filled(moment: str, what: str) -> Harm:
    """Fill the file system of the output, or of the nodes, for a while."""

    def harm(run: Run, dice: Random) -> str:
        if moment != "start" and not MOMENTS[moment](run, "", dice):
            return "it had ended"
        filler = run.folder / what / "filler"
        filler.parent.mkdir(exist_ok=True)
        with suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(bytes(1 << 16))
                file.flush()
        until_s = time.monotonic() + FULL_S
        run.wait_until(lambda: time.monotonic() > until_s)
        filler.unlink()
        return f"{what} was full for up to {FULL_S:.0f} s"

    return harm


@contextmanager
def nothing(folder: Path) -> Iterator[None]:
    """Give a run what it has anyway."""
    yield


def mounted(name: str, size: str) -> Callable[[Path], Any]:
    """Give a run a small file system in memory, which only root can make."""

    @contextmanager
    def around(folder: Path) -> Iterator[None]:
        place = folder / name
        place.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)], check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", "--lazy", str(place)], check=False)

    return around


@dataclass(frozen=True)
class Line:
    """A line of the table."""

    name: str
    """Whom, when, how."""
    harm: Harm
    """Does it."""
    shape: Shape = field(default_factory=lambda: Shape(2, 2))
    """Of the run."""
    around: Callable[[Path], Any] = nothing
    """What the run needs around it."""
    refuses: bool = False
    """Whether the run must not even start."""
    hurts: bool = False
    """Whether the simulation itself is meant to be hurt."""
    keys: Mapping[str, Any] = field(default_factory=dict)
    """Of the configuration, by the folder."""

    def changes(self, folder: Path) -> dict[str, Any]:
        """Give the configuration's keys for a run in a folder."""
        return {key: value(folder) for key, value in self.keys.items()}


def _signal_lines() -> Iterator[Line]:
    for victim in ("analysis", "worker", "agent"):
        for moment in MOMENTS:
            for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP):
                yield Line(f"{victim}, {moment}, {number.name}", signalled(victim, moment, number))


def _full_lines() -> Iterator[Line]:
    if os.geteuid() != 0:
        return
    for moment in ("start", "steady", "window end"):
        at = {"refuses": moment == "start"}
        yield Line(f"results, {moment}, full disk", filled(moment, "out"), around=mounted("out", "3m"), **at)
        directory = {"nodes": lambda folder: {"count": 2, "capacity": "512KiB", "directory": str(folder / "memory")}}
        harm, around = filled(moment, "memory"), mounted("memory", "3m")
        yield Line(f"nodes, {moment}, full memory", harm, around=around, keys=directory, **at)


LINES = [*_signal_lines(), *_full_lines()]
assert STEPS > 124  # the second month must have begun

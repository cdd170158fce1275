"""What is done to a run: whom it hits, when, and how."""

import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import psutil

from bbflow.events import read_events
from bbflow.net.contact import read_contact
from chaos.beds import NODES, cut, lose_way
from chaos.runs import BATCH_STEPS, STEPS, Run

HANG_S = 60.0
FULL_S = 20.0
"""How long a file system stays full."""
CUT_S = 20.0
"""How long the network is cut."""
BATCHES = STEPS // BATCH_STEPS
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
    there = run.wait_until(lambda: run.victims(victim))
    time.sleep(dice.uniform(0.0, 0.5))
    return there


def steady(run: Run, victim: str, dice: Random) -> bool:
    """Wait until some batches are folded."""
    count = dice.randint(2, 20)
    return run.wait_until(lambda: run.folds() >= count)


def at_window_end(run: Run, victim: str, dice: Random) -> bool:
    """Wait for the batch before the first month's end, and a moment."""
    there = run.wait_until(lambda: run.folded() >= 61 * BATCH_STEPS)
    time.sleep(dice.uniform(0.0, 0.2))
    return there


def at_end(run: Run, victim: str, dice: Random) -> bool:
    """Wait until the simulation ends or will do so soon, and a moment: what comes after it is short."""
    last = STEPS - dice.randint(0, 4 * BATCH_STEPS)
    there = run.wait_until(lambda: run.folded() >= last or run.simulation_code is not None)
    time.sleep(dice.uniform(0.0, 0.1))
    return there


def rescuing(run: Run, victim: str, dice: Random) -> bool:
    """Wait until some steps are rescued."""
    count = dice.randint(1, STEPS // 2)
    return run.wait_until(lambda: run.rescued() >= count)


MOMENTS = {"start": at_start, "steady": steady, "window end": at_window_end, "end": at_end, "rescuing": rescuing}


def signalled(victim: str, moment: str, number: signal.Signals) -> Harm:
    """Send a signal to one of the processes of a kind."""

    def harm(run: Run, dice: Random) -> str:
        if not MOMENTS[moment](run, victim, dice) or not (there := run.victims(victim)):
            return f"no {victim} there any more"
        process = dice.choice(there)
        run.note()
        with suppress(psutil.Error):
            process.send_signal(number)
            if number == signal.SIGSTOP:
                until_s = time.monotonic() + HANG_S
                run.wait_until(lambda: time.monotonic() > until_s)
                process.send_signal(signal.SIGCONT)
        return f"{number.name} to {victim} {process.pid}"

    return harm


def filled(moment: str, what: str, seconds: float = FULL_S) -> Harm:
    """Fill the file system of the output, or of the nodes, for a while, or until the run's end."""

    def harm(run: Run, dice: Random) -> str:
        if moment != "start" and not MOMENTS[moment](run, "", dice):
            return "it had ended"
        filler = run.folder / what / "filler"
        filler.parent.mkdir(exist_ok=True)
        with suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(bytes(1 << 16))
                file.flush()
        until_s = time.monotonic() + seconds
        run.wait_until(lambda: time.monotonic() > until_s)
        filler.unlink()
        return f"{what} was full for up to {seconds:.0f} s"

    return harm


def cut_off(moment: str) -> Harm:
    """Cut the network between the simulation and the nodes for a while."""

    def harm(run: Run, dice: Random) -> str:
        hosts = run.setting.hosts
        assert hosts is not None
        if not MOMENTS[moment](run, "rank", dice):
            return "it had ended"
        cut(hosts, off=True)
        until_s = time.monotonic() + CUT_S
        run.wait_until(lambda: time.monotonic() > until_s)
        cut(hosts, off=False)
        return f"the network was cut for up to {CUT_S:.0f} s"

    return harm


def without_way(run: Run, dice: Random) -> str:
    """Cut the simulation off from one of the nodes for good."""
    assert run.setting.hosts is not None
    if not steady(run, "rank", dice):
        return "it had ended"
    address = dice.choice(NODES)
    lose_way(run.setting.hosts, address)
    return f"the way to {address} was lost for good"


def lose_host(run: Run, dice: Random) -> str:
    """Kill a node that nobody starts again, and remove all that it held."""
    count = dice.randint(2, 4)
    if not run.wait_until(lambda: sum(event["event"] == "safe" for event in read_events(run.output)) >= count):
        return "it had ended"
    name = dice.choice(sorted(run.setting.nodes))
    (directory,) = (node.directory for node in read_contact(run.folder / "contact.json") if node.name == name)
    run.setting.nodes[name].kill()
    run.setting.nodes[name].wait()
    shutil.rmtree(Path(directory))
    return f"{name} was lost"

"""Many BB nodes, each a process of its own: any of them, the analysis or its worker is killed at any time.

There is a rank on each, which nobody harms; whoever is killed is started again at once, and so is an analysis that ends
since a node is gone, as `bbflow run` does it.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random

import bbflow_adios2
import numpy as np
import psutil
import yaml

from bbflow.events import read_events
from bbflow.host.waiting import until
from bbflow.transit.output.decoding import open_results
from testsupport.nodes import count_nodes
from testsupport.ranks import field, shape_of

STEPS, DAY = 240, 24
"""Of each stream."""
EVERY_S = 0.25
PATIENCE_S = 900.0
PROGRESS_S = 15.0
"""How long a further batch is waited for."""
PAUSE_S = 1.0
"""Before an analysis that has failed is started again."""
OPERATORS = ["mean", "std", "min", "max", "count"]


class Machine:
    """Nodes that are started again when they are killed.

    Parameters
    ----------
    folder
        For all that they keep.
    count
        How many.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.contact = folder, folder / "contact.json"
        self._said = (folder / "nodes.said").open("wb")
        self.nodes = {name: self._start(name) for name in (f"bb{number:03d}" for number in range(count))}
        wait_until(lambda: count_nodes(self.contact) == count, "the nodes don't start")

    def _start(self, name: str) -> psutil.Popen:
        words = ["node", "--name", name, "--capacity", "256KiB", "--directory", self.folder, "--contact", self.contact]
        command = [sys.executable, "-m", "bbflow", *map(str, words)]
        return psutil.Popen(command, stdout=self._said, stderr=self._said)

    def kill(self, name: str) -> None:
        """Kill a node, and start it again; a `RuntimeError` if it had ended by itself."""
        if self.nodes[name].poll() is not None:
            raise RuntimeError(f"{name} had ended with {self.nodes[name].returncode}")
        end(self.nodes[name])
        self.nodes[name] = self._start(name)

    def close(self) -> None:
        """End all."""
        for node in self.nodes.values():
            end(node)
        self._said.close()


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait until something is so; a `RuntimeError` says what is not after `PATIENCE_S`."""
    if not until(condition, PATIENCE_S):
        raise RuntimeError(what)


class Fold:
    """An analysis that is started again when it is killed, or ends because of a node.

    Parameters
    ----------
    machine
        The nodes.
    name
        Of the stream, and of the folder of its output.
    """

    def __init__(self, machine: Machine, name: str) -> None:
        self._folder, self.output, self._contact = machine.folder, machine.folder / name, machine.contact
        self.output.mkdir()
        self._config = machine.folder / f"{name}.yml"
        content = {
            "stream": name,
            "output": str(self.output),
            "operators": {"tas": OPERATORS},
            "windows": ["day", "run"],
            "workers": {"processes": 1, "batch_steps": 4},
        }
        self._config.write_text(yaml.safe_dump(content))
        self.starts = 0
        """How often it was started."""
        self.start()

    def start(self) -> None:
        """Start it, or go on with it."""
        self.starts += 1
        words = [sys.executable, "-m", "bbflow", "fold", str(self._config), "--contact", str(self._contact)]
        with (self._folder / "fold.said").open("ab") as said:
            self.process = psutil.Popen(words, stdout=said, stderr=said)

    def kill(self) -> None:
        """Kill it, and start it again; its workers end by themselves."""
        with suppress(psutil.NoSuchProcess):
            self.process.kill()
        self.process.wait()
        self.start()

    @property
    def is_over(self) -> bool:
        """Whether it has ended well; if it has ended otherwise, it is started again."""
        code = self.process.poll()
        if code:
            time.sleep(PAUSE_S)
            self.start()
        return code == 0

    @property
    def workers(self) -> list[psutil.Process]:
        """Its worker processes."""
        with suppress(psutil.Error):
            return [child for child in self.process.children() if "resource_tracker" not in " ".join(child.cmdline())]
        return []

    @property
    def folded(self) -> int:
        """How many batches were folded."""
        return sum(event["event"] == "fold" for event in read_events(self.output))


@contextmanager
def writing(machine: Machine, name: str) -> Iterator[psutil.Popen]:
    """Run the ranks, one for each node."""
    words = [sys.executable, "-m", "testsupport.ranks", name, len(machine.nodes), STEPS, EVERY_S]
    words += ["RanksPerNode=1", "NodeLossTimeoutSecs=900"]
    environment = dict(psutil.Process().environ()) | bbflow_adios2.environment(machine.contact)
    with (machine.folder / "ranks.said").open("ab") as said:
        process = psutil.Popen(list(map(str, words)), stdout=said, stderr=said, env=environment)
    try:
        yield process
    finally:
        end(process)


def end(process: psutil.Popen) -> None:
    """Kill a process and its children, if it is still there."""
    with suppress(psutil.NoSuchProcess):
        for child in [*process.children(), process]:
            child.kill()
    process.wait()


def harm(machine: Machine, fold: Fold, dice: Random) -> str:
    """Kill one process that lives: at any time, or after a further batch."""
    seen = fold.folded
    until_s = time.monotonic() + dice.choice((dice.uniform(0.5, 5.0), PROGRESS_S))
    while fold.folded == seen and not fold.is_over and time.monotonic() < until_s:
        time.sleep(0.02)
    time.sleep(dice.uniform(0.0, 0.5))
    kind = dice.choice(("node", "node", "analysis", "worker"))
    if kind == "analysis" and fold.process.poll() is None:
        fold.kill()
        return f"analysis at {seen}"
    if kind == "worker" and (workers := fold.workers):
        with suppress(psutil.NoSuchProcess):
            dice.choice(workers).kill()
            return f"worker at {seen}"
    machine.kill(dice.choice(sorted(machine.nodes)))
    return f"node at {seen}"


def wrong_of(output: Path, ranks: int) -> list[str]:
    """Compare results with NumPy's; say which are not right."""
    shape = shape_of(ranks)
    steps = np.array([field(step, ranks) for step in range(STEPS)])
    expected = {
        "mean": lambda own: own.mean(axis=0, dtype="f8"),
        "std": lambda own: own.std(axis=0, dtype="f8"),
        "min": lambda own: own.min(axis=0),
        "max": lambda own: own.max(axis=0),
        "count": lambda own: np.full(shape, len(own)),
    }
    wrong = []
    with open_results(output / "results.zarr") as results:
        for name in OPERATORS:
            spans = [("run", 0, steps)]
            spans += [("day", at, steps[at * DAY : (at + 1) * DAY]) for at in range(STEPS // DAY)]
            for window, at, own in spans:
                found = results[f"tas_{window}_{name}"]
                exact = name in ("min", "max", "count")
                tolerance = 0.0 if exact else 1e-5
                if len(found) <= at or not np.allclose(found[at], expected[name](own), rtol=tolerance, atol=tolerance):
                    wrong.append(f"{name} of {window} {at}")
    return wrong


def many_nodes(folder: Path, count: int, kills: int, seed: int, each: int = 20) -> bool:
    """Kill so many processes, some in each of several streams, and say what came of it; whether all was right."""
    dice, done, right = Random(seed), 0, True
    with ExitStack() as stack:
        machine = Machine(folder, count)
        stack.callback(machine.close)
        while done < kills:
            name, began_s, harmed = f"stream{done}", time.monotonic(), []
            fold = Fold(machine, name)
            with writing(machine, name) as ranks:
                wait_until(lambda fold=fold: fold.is_over or fold.folded, "nothing is folded")
                while len(harmed) < min(each, kills - done) and not fold.is_over:
                    harmed.append(harm(machine, fold, dice))
                wait_until(lambda fold=fold: fold.is_over, "the analysis doesn't end")
                wait_until(lambda ranks=ranks: ranks.poll() is not None, "the ranks don't end")
            done += max(len(harmed), 1)
            wrong = [f"the ranks' exit code {ranks.returncode}"] if ranks.returncode else wrong_of(fold.output, count)
            right = right and not wrong
            mark = f"WRONG: {', '.join(wrong)}" if wrong else "right"
            told = f"killed {', '.join(harmed)}; {fold.starts} analyses"
            print(f"{count} nodes, seed {seed}, {told}: {mark} ({time.monotonic() - began_s:.0f} s)", flush=True)
    return right

"""One run of the example simulation with its analysis, whose processes can be found and harmed."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import bbflow_adios2
import psutil
import yaml
from bbflow_workflows import climate

from bbflow.events import read_events
from bbflow.run.ending import Left
from testsupport.namespaces import Hosts
from testsupport.processes import words_of

STEPS = 130
"""A year of the model in 130 steps has 130 / 4 days: two months."""
FLAGS = {"nlat": 24, "nlon": 48, "levels": 3, "steps_per_day": 4, "seed": 3, "calendar": "noleap"}
OPERATORS = {"tas": ["mean", "std", "min", "max", "count"], "pr": ["mean", "max"], "ta": ["mean", "count"]}
WINDOWS = ["day", "month", "run"]
"""A day has four steps, so something ends all the time."""
BATCH_STEPS = 2
PATIENCE_S = 1800.0
SIMULATION = ("climate", "mpiexec", "hydra")
"""In the names of the simulation's processes, which nobody harms."""
KINDS = {
    "analysis": ("bbflow fold",),
    "rescue": ("bbflow rescue",),
    "agent": ("bbflow node",),
    "worker": ("spawn_main", "dask worker"),  # Dask renames its workers where it can
}
"""What a process is by its command line."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a run is made of."""

    ranks: int = 2
    """Of the simulation."""
    nodes: int = 1
    """BB nodes."""
    transport: str = "auto"
    """The engine's."""
    workers: int = 1
    """Dask worker processes; with none the analysis has their threads."""

    @classmethod
    def random(cls, dice: Random, transports: tuple[str, ...] = ("shm", "tcp")) -> "Shape":
        """Choose one."""
        return cls(dice.randint(1, 4), dice.randint(1, 2), dice.choice(transports), dice.randint(0, 2))


@dataclass(frozen=True)
class Setting:
    """What a run has around it."""

    before_run: tuple[str, ...] = ()
    """Words before `bbflow run`: where it runs."""
    before_simulation: tuple[str, ...] = ()
    """Words before the simulation."""
    options: tuple[str, ...] = ()
    """Of `bbflow run`."""
    engine: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the engine."""
    nodes: Mapping[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    """Nodes that were started by hand."""
    hosts: Hosts | None = None
    """Hosts that a network joins."""


class Run:
    """A run in a folder of its own.

    Parameters
    ----------
    folder
        Gets the configuration, the output and what was said.
    program
        The simulation.
    shape
        What it is made of.
    setting
        What is around it.
    tells_code
        Whether a shell around the simulation tells its exit code; signals for the simulation don't pass it.
    changes
        Further keys of the configuration.
    """

    def __init__(
        self, folder: Path, program: Path, shape: Shape, setting: Setting, *, tells_code: bool, **changes: object
    ) -> None:
        self.folder, self.output, self.setting = folder, folder / "out", setting
        self.noted: tuple[list[psutil.Process], int] = [], 0
        """Who was there when it was harmed, and how many steps were folded."""
        self.node_places: list[Path] = []
        """Where the nodes' directories were then."""
        folder.mkdir(parents=True, exist_ok=True)
        content = {
            "stream": "climate",
            "output": str(self.output),
            "operators": OPERATORS,
            "windows": WINDOWS,
            "nodes": {"count": shape.nodes, "capacity": "512KiB"},
            "workers": {"batch_steps": BATCH_STEPS, "processes": shape.workers, "threads": 1},
        } | changes
        (folder / "analysis.yml").write_text(yaml.safe_dump(content))
        xml = folder / "climate.xml"
        xml.write_text(bbflow_adios2.engine_xml("climate", Transport=shape.transport, **setting.engine))
        model = climate.command(program, shape.ranks, config=xml, steps=STEPS, **FLAGS)
        words = [*setting.before_run, sys.executable, "-m", "bbflow", "run", str(folder / "analysis.yml")]
        words += [*setting.options, "--no-report", "--"]
        # The shell tells the simulation's own exit code, whatever becomes of all others.
        words += ["sh", "-c", f'"$@"; code=$?; echo $code > {folder}/code; exit $code', "sh"] if tells_code else []
        words += [*setting.before_simulation, *model]
        with (folder / "said").open("wb") as said:
            self.process = psutil.Popen(words, stdout=said, stderr=said, start_new_session=True)
        self._program, self._began_s = program, time.monotonic()

    def others(self) -> dict[str, list[psutil.Process]]:
        """Return the living processes besides the simulation and the supervisor, by what they are."""
        found: dict[str, list[psutil.Process]] = {}
        for child in self._descendants():
            if kind := kind_of(child):
                found.setdefault(kind, []).append(child)
        return found

    def victims(self, kind: str) -> list[psutil.Process]:
        """Return the living processes of a kind: one of `KINDS`, rank, or run, which is the supervisor."""
        if kind == "run":
            return [self.process]
        if kind == "rank":
            return [child for child in self._descendants() if words_of(child)[:1] == [str(self._program)]]
        return self.others().get(kind, [])

    def note(self) -> None:
        """Remember who is there, and how far it is."""
        self.noted = self._descendants(), self.folded()
        nodes = [words_of(process) for process in self.others().get("agent", [])]
        self.node_places = [Path(words[words.index("--directory") + 1]) for words in nodes]

    def rescued(self) -> int:
        """How many steps were rescued."""
        return Left.of(self.output).rescued

    def _descendants(self) -> list[psutil.Process]:
        try:
            return list(self.process.children(recursive=True))
        except psutil.NoSuchProcess:
            return []

    def folds(self) -> int:
        """How many batches were folded."""
        return sum(event["event"] == "fold" for event in read_events(self.output))

    def folded(self) -> int:
        """How many steps were folded."""
        last = [int(event["last_step"]) for event in read_events(self.output) if event["event"] == "fold"]
        return max(last, default=-1) + 1

    def published(self) -> int:
        """How many spans were published."""
        return sum(event["event"] == "publish" for event in read_events(self.output))

    def wait_until(self, condition: Callable[[], object]) -> bool:
        """Wait until something is so; False if the run ends before."""
        while self.process.poll() is None:
            if condition():
                return True
            time.sleep(0.005)
        return False

    def finish(self) -> int | None:
        """Wait for its end; None if it doesn't come, and it was killed."""
        try:
            return int(self.process.wait(max(PATIENCE_S - (time.monotonic() - self._began_s), 1.0)))
        except psutil.TimeoutExpired:
            for process in [*self._descendants(), self.process]:
                process.kill()
            self.process.wait()
            return None

    @property
    def simulation_code(self) -> int | None:
        """The simulation's own exit code; None if it never ended."""
        path = self.folder / "code"
        return int(path.read_text()) if path.exists() else None

    @property
    def said(self) -> str:
        """What the run said."""
        return (self.folder / "said").read_text(errors="replace")


def kind_of(process: psutil.Process) -> str | None:
    """Return what a process is: analysis, rescue, agent, worker; None for others and the simulation's."""
    words = words_of(process)
    if not words or any(name in Path(words[0]).name for name in SIMULATION):
        return None
    line = " ".join(words)
    return next((kind for kind, parts in KINDS.items() if any(part in line for part in parts)), None)


def build(folder: Path) -> Path:
    """Build the simulation."""
    return Path(climate.build(folder))


def oracle(program: Path, folder: Path) -> Path:
    """Write the same simulation's steps as BP5."""
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / "oracle.bp"
    xml = Path(__file__).parents[2] / "catalogs" / "adios2" / "climate-bp5.xml"
    command = climate.command(program, 1, config=xml, steps=STEPS, output=output, **FLAGS)
    subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, env=dict(os.environ))
    return output

"""The lines of docs/trust.md: whom, when, how, and what must be left."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from chaos.beds import Around, apart, by_hand, by_libfabric, has_networks, mounted, nothing
from chaos.harm import Harm, cut_off, filled, kill_at_random, lose_host, signalled, without_way
from chaos.runs import OPERATORS, PATIENCE_S, Shape
from chaos.verdict import Judge, held, hurt, interrupted, killed, lacking, means_in_space, refused, unharmed

KILLS = signal.SIGKILL, signal.SIGTERM
MOMENTS = "start", "steady", "window end", "end"
KIB = 1024


@dataclass(frozen=True)
class Line:
    """A line of the table."""

    name: str
    """Whom, when, how."""
    harm: Harm
    """Does it."""
    shape: Shape = field(default_factory=lambda: Shape(2, 2))
    """Of the run."""
    around: Around = nothing
    """What the run needs around it."""
    judge: Judge = unharmed
    """Says what must be left."""
    keys: Mapping[str, Callable[[Path], Any]] = field(default_factory=dict)
    """Of the configuration, by the folder."""
    tells_code: bool = True
    """Whether the simulation's own exit code is told, by a shell that lets no signal pass."""

    def changes(self, folder: Path) -> dict[str, Any]:
        """Return the configuration's keys for a run in a folder."""
        return {key: value(folder) for key, value in self.keys.items()}


def _beside() -> Iterator[Line]:
    """Analysis, workers and agents: nothing is lost."""
    for victim in ("analysis", "worker", "agent"):
        for moment in MOMENTS:
            for number in (*KILLS, signal.SIGSTOP):
                yield Line(f"{victim}, {moment}, {number.name}", signalled(victim, moment, number))


def _rescues() -> Iterator[Line]:
    """The rescue, of an analysis that has failed for good at its first step."""
    wrong = {"operators": lambda folder: {"tass": ["mean"]}}
    for moment in ("start", "rescuing"):
        for number in (*KILLS, signal.SIGSTOP):
            yield Line(f"rescue, {moment}, {number.name}", signalled("rescue", moment, number), keys=wrong)


def _simulations() -> Iterator[Line]:
    """Ranks, and the command itself."""
    for moment in ("start", "steady"):
        for transport in ("shm", "tcp"):
            harm = signalled("rank", moment, signal.SIGSTOP)
            yield Line(f"rank over {transport}, {moment}, SIGSTOP", harm, Shape(2, 2, transport))
    for number in KILLS:
        yield Line(f"rank, steady, {number.name}", signalled("rank", "steady", number), judge=hurt)
    for moment in ("start", "steady", "end"):
        yield Line(f"run, {moment}, SIGSTOP", signalled("run", moment, signal.SIGSTOP))
    for number, judge in ((signal.SIGTERM, interrupted), (signal.SIGKILL, killed)):
        yield Line(f"run, steady, {number.name}", signalled("run", "steady", number), judge=judge, tells_code=False)


def _hosts() -> Iterator[Line]:
    keys = {
        "raw": lambda folder: "none",
        "safe_every_s": lambda folder: 0.1,
        "nodes": lambda folder: {"back_s": 3},
    }
    yield Line("host, steady, lost", lose_host, around=by_hand, judge=lacking, keys=keys)


def _networks() -> Iterator[Line]:
    for moment in ("start", "steady", "window end"):
        yield Line(f"network, {moment}, cut", cut_off(moment), around=apart)
    yield Line("network, steady, no way to a node", without_way, around=apart)


def _full() -> Iterator[Line]:
    for moment in ("start", "steady", "window end"):
        judge = refused if moment == "start" else unharmed
        yield Line(f"results, {moment}, full disk", filled(moment, "out"), around=mounted("out", "3m"), judge=judge)
        memory = {"nodes": lambda folder: {"count": 2, "capacity": 512 * KIB, "directory": str(folder / "memory")}}
        harm, around = filled(moment, "memory"), mounted("memory", "3m")
        yield Line(f"nodes, {moment}, full memory", harm, around=around, keys=memory, judge=judge)
    # The pools have room for all steps: else the simulation waits for as long as the disk is full.
    pools = {"nodes": lambda folder: {"count": 2, "capacity": 4096 * KIB}}
    harm = filled("steady", "out", PATIENCE_S)
    yield Line("results, steady, full disk for good", harm, around=mounted("out", "3m"), judge=held, keys=pools)


def folding_line(seed: int) -> Line:
    """Return a line of ranks that fold: a kill of one, or kills of anything else."""
    dice = Random(seed)
    shape, every = Shape.random(dice, ("shm", "tcp", "fabric")), dice.choice((4, 9, 30))
    keys = {
        "fold": lambda folder: {"on": "rank", "land_states_every": every},
        "operators": lambda folder: OPERATORS | means_in_space(folder),
        "windows": lambda folder: ["month", "run"],
    }
    if dice.random() < 0.2:
        harm = signalled("rank", "steady", signal.SIGKILL)
        return Line("ranks fold, rank", harm, shape, by_libfabric, hurt, keys)
    return Line("ranks fold, others", kill_at_random, shape, by_libfabric, keys=keys)


def lines() -> list[Line]:
    """Return all lines that can be tried here: some need root, and networks of their own."""
    found = [*_beside(), *_rescues(), *_simulations(), *_hosts()]
    found += _full() if os.geteuid() == 0 else ()
    found += _networks() if has_networks() else ()
    return found

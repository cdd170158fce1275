"""A simulated HPC application: its I/O phases, and how long each lasted."""

import math

import numpy as np

from bbflow.phases import PFS, Phase
from bbflow.simulate.scenario_sections import Application, FileSystem
from bbflow.simulate.world import Process, Signal, World

NAME = "hpc"


class SimulatedApplication:
    """Writes to the file system in phases until it is told to stop; a `PhaseSource` of them.

    Parameters
    ----------
    world
        Where it lives.
    given
        What it does.
    servers
        What it writes to.
    file_system
        The resource that they are.
    seed
        Of its irregularity.
    """

    def __init__(self, world: World, given: Application, servers: FileSystem, file_system: int, seed: int) -> None:
        self._world, self._given, self._file_system = world, given, file_system
        rate = servers.servers * servers.server_bytes_per_s / (1 + servers.loss * (given.ranks - 1)) / given.ranks
        self._alone_s = given.rank_bytes / min(rate, given.rank_bytes_per_s)
        self._random = np.random.default_rng(seed)
        self._lasting: Phase | None = None
        self.ended: list[Phase] = []
        """Phases, in their order."""
        self.warmed_up = Signal()
        """Comes when it has shown its rhythm: `phases_before` phases."""
        self.stopping = False
        world.start(self._run())

    def now(self, own_bytes: int = 0) -> list[Phase]:
        """Return the phase that lasts now, if any."""
        return [self._lasting] if self._lasting else []

    def past(self) -> list[Phase]:
        """Return the phases that have ended."""
        return list(self.ended)

    def _run(self) -> Process:
        given = self._given
        while not self.stopping:
            if len(self.ended) >= given.phases_before and not self.warmed_up.has_come:
                self.warmed_up.come()
            yield given.pause_s * max(1 + given.jitter * self._random.standard_normal(), 0.0)
            if self.stopping:
                return
            began_s = self._world.now_s
            self._lasting = Phase(NAME, PFS, began_s)
            yield self._world.flow(given.rank_bytes, self._file_system, limit=given.rank_bytes_per_s, count=given.ranks)
            self._lasting = None
            self.ended.append(Phase(NAME, PFS, began_s, self._world.now_s))

    def slowdown(self, begin_s: float, end_s: float) -> float:
        """End it, and return how long the phases whose middle lies in a span took, to one alone; NaN without any.

        Parameters
        ----------
        begin_s, end_s
            Seconds since the world began.
        """
        self.stopping = True
        self._world.run()  # a phase that lasts counts too
        lasted = [
            phase.duration_s
            for phase in self.ended
            if phase.ended_s and phase.duration_s and begin_s <= (phase.began_s + phase.ended_s) / 2 < end_s
        ]
        return sum(lasted) / len(lasted) / self._alone_s if lasted else math.nan

"""A simulated simulation whose steps go to the file system, or to BB nodes that analyse them and move them on.

The ways are those of the paper on active burst buffers (section IV.B.1), and bbflow's own.
"""

import itertools
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bbflow.errors import CapacityError, ConfigError, nearest
from bbflow.landing.admission import take
from bbflow.models.rates import NodeRates, StreamBalance, StreamLoad, stream_balance
from bbflow.simulate.application import SimulatedApplication
from bbflow.simulate.gate import FluidGate
from bbflow.simulate.scenario_sections import AnalysisSection, Application, BurstBufferSection, FileSystem, Simulation
from bbflow.simulate.world import Process, Signal, World
from bbflow.staging.policies import parse_policy
from bbflow.staging.watching import POLL_S, Load, Watch
from bbflow.store.extents import Extents
from bbflow.units import format_bytes


@dataclass(frozen=True, slots=True)
class SimulatedWay:
    """How steps go, and where they are analysed."""

    forwards: bool = True
    """Through the BB nodes, not from each compute node straight to the PFS."""
    keeps: bool = True
    """BB nodes hold steps, and move them to the PFS beside the simulation."""
    analyses: str = "nowhere"
    """``nowhere``, ``after`` (on a cluster of its own, reading from the PFS), ``before`` a write returns, or ``beside``
    the landing."""


WAYS = {
    "pfs": SimulatedWay(forwards=False, keeps=False),
    "iof": SimulatedWay(keeps=False),
    "bb": SimulatedWay(),
    "pfs+analysis": SimulatedWay(forwards=False, keeps=False, analyses="after"),
    "bb+analysis": SimulatedWay(analyses="after"),
    "abb": SimulatedWay(analyses="before"),
    "bbflow": SimulatedWay(analyses="beside"),
}


@dataclass(frozen=True, slots=True)
class TransitScenario:
    """A simulation, BB nodes, a file system and an analysis."""

    file_system: FileSystem
    """Where raw steps end."""
    burst_buffer: BurstBufferSection
    """What lies before it."""
    simulation: Simulation
    """Who writes."""
    analysis: AnalysisSection
    """What is made of the steps."""
    application: Application | None = None
    """Who else writes to the file system, and is not to suffer from the drain; no one if None."""
    resolution_s: float = 0.0
    """As for `World`."""


@dataclass(frozen=True, slots=True)
class TransitOutcome:
    """What came of one run."""

    way: str
    """Name of the way."""
    simulation_s: float
    """Until the simulation had ended."""
    total_s: float
    """Until raw steps and results were where they belong."""
    waited_s: float
    """Mean time in which a group of compute nodes wrote, or waited for room."""
    held_bytes: int
    """The most that lay on one BB node."""
    slowdown: float = math.nan
    """Mean duration of the application's phases while steps were written and drained, to one alone."""


@dataclass(slots=True)
class _Node:
    """One BB node, and the compute nodes that it serves; or these alone, without one."""

    clients: int
    link: int
    landing: int
    storage: int
    extents: Extents
    queue: deque[tuple[tuple[int, int], list[Signal]]]
    filled: Signal
    freed: Signal
    balance: StreamBalance
    """What a step costs it."""
    waited_s: float = 0.0
    held_bytes: int = 0
    done: bool = False
    folded: int = 0
    """Steps that its cores have folded, or will."""
    folds_until_s: float = 0.0
    """When they will have done so, one after the other."""


class SimulatedTransit:
    """Runs a scenario once.

    Parameters
    ----------
    scenario
        What to run.
    way
        One of `WAYS`.
    seed
        Of everything irregular.

    Raises
    ------
    ConfigError
        If there is no such way.
    CapacityError
        If a step doesn't fit its BB node.
    """

    def __init__(self, scenario: TransitScenario, way: str, seed: int = 0) -> None:
        if way not in WAYS:
            raise ConfigError(f"unknown way {way!r}; {nearest(way, WAYS)}")
        self._scenario, self._name, self._way = scenario, way, WAYS[way]
        self.world = world = World(scenario.resolution_s)
        self._random = np.random.default_rng(seed)
        pfs = scenario.file_system
        self._pfs = world.resource(pfs.servers * pfs.server_bytes_per_s, pfs.loss)
        self._application: SimulatedApplication | None = None
        self._gate: FluidGate | None = None
        self._drains = itertools.count()
        if scenario.application is not None:
            # With random numbers of its own: in all ways it is the same, however many each of them draws.
            self._application = SimulatedApplication(world, scenario.application, pfs, self._pfs, seed + 1)
        self._client_bytes = scenario.simulation.node_step_bytes
        self._count = scenario.burst_buffer.count(scenario.simulation.nodes)
        self._nodes = list(self._make_nodes())
        self._arrived, self._together = 0, Signal()

    def _make_nodes(self) -> Iterator[_Node]:
        given, nodes, world = self._scenario.burst_buffer, self._scenario.simulation.nodes, self.world
        for number in range(self._count):
            clients = nodes * (number + 1) // self._count - nodes * number // self._count
            if clients == 0:
                continue
            step_bytes, capacity = self._client_bytes * clients, given.node_capacity_bytes
            if self._way.keeps and step_bytes > capacity:
                raise CapacityError(
                    f"a step of {clients} compute nodes has {format_bytes(step_bytes)}, but their BB node holds "
                    f"{format_bytes(capacity)}: give burst_buffer more node_capacity_bytes or more nodes"
                )
            yield _Node(
                clients,
                world.resource(given.link_bytes_per_s),
                world.resource(given.landing_bytes_per_s),
                world.resource(given.storage_bytes_per_s),
                Extents(capacity),
                deque(),
                Signal(),
                Signal(),
                self._balance(step_bytes),
            )

    def run(self) -> TransitOutcome:
        """Run to the end of everything."""
        world, application = self.world, self._application
        if application is not None:
            world.run(application.warmed_up)
            self._give_way(application)
        began_s = world.now_s
        drains = [world.start(self._drain(node)) for node in self._nodes] if self._way.keeps else []
        for written in [world.start(self._simulate(node)) for node in self._nodes]:
            world.run(written)
        simulation_s = world.now_s - began_s
        for drained in drains:
            world.run(drained)
        if self._way.analyses == "after":
            world.run(world.start(self._analyse_after()))
        total_s = world.now_s - began_s
        waited_s = sum(node.waited_s for node in self._nodes) / len(self._nodes)
        held_bytes = max(node.held_bytes for node in self._nodes)
        slowdown = application.slowdown(began_s, world.now_s) if application else math.nan
        return TransitOutcome(self._name, simulation_s, total_s, waited_s, held_bytes, slowdown)

    def _give_way(self, application: SimulatedApplication) -> None:
        """Put all drains behind one gate, which a policy watches over as it does over the real drain's."""
        policy = parse_policy(self._scenario.analysis.drain_policy)
        self._gate = gate = FluidGate(self.world, len(self._nodes))
        watch = Watch(
            policy,
            gate,
            application,
            lambda: Load(remaining_bytes=1, deadline_s=None),
            lambda: self.world.now_s,
            lambda _: None,
            lambda _: None,
        )

        watch.recall()

        def look() -> Process:
            while not application.stopping:
                watch.step()
                yield POLL_S

        self.world.start(look())

    def _simulate(self, node: _Node) -> Process:
        given = self._scenario.simulation
        for _ in range(given.steps):
            yield self._begin_together()
            yield given.compute_s * max(1 + given.jitter * self._random.standard_normal(), 0.0)
            began_s = self.world.now_s
            yield from self._write(node)
            node.waited_s += self.world.now_s - began_s
        node.done = True
        node.filled.come()

    def _begin_together(self) -> Signal:
        """Return what comes when all groups have ended their step: ranks exchange their borders in each."""
        together = self._together
        self._arrived += 1
        if self._arrived == len(self._nodes):
            self._arrived, self._together = 0, Signal()
            together.come()
        return together

    def _write(self, node: _Node) -> Process:
        way, link_bytes_per_s = self._way, self._scenario.simulation.link_bytes_per_s
        through = [node.link, node.landing] if way.forwards else []
        through.append(node.storage if way.keeps else self._pfs)
        if not way.keeps:
            yield self.world.flow(self._client_bytes, *through, limit=link_bytes_per_s, count=node.clients)
            return
        while (extent := take(node.extents, self._client_bytes * node.clients, [])) is None:
            node.freed = Signal()
            yield node.freed
        node.held_bytes = max(node.held_bytes, node.extents.capacity - node.extents.free_bytes)
        yield self.world.flow(self._client_bytes, *through, limit=link_bytes_per_s, count=node.clients)
        folded = self._fold(node)
        if way.analyses == "before":
            yield folded
        node.queue.append((extent, [folded]))
        node.filled.come()

    def _fold(self, node: _Node) -> Signal:
        """Analyse a step where it lies; the signal comes when that is done."""
        analyses = self._way.analyses
        folded = Signal()
        if analyses == "before":
            size = self._client_bytes * node.clients
            self.world.at(self.world.now_s + size / self._scenario.analysis.bytes_per_s, folded.come)
        elif analyses == "beside":
            node.folds_until_s = max(node.folds_until_s, self.world.now_s) + self._fold_s(node)
            self.world.at(node.folds_until_s, folded.come)
        else:
            folded.come()
        return folded

    def _fold_s(self, node: _Node) -> float:
        """Return how long a node's cores are busy with its next step, and with the results of windows that it ends."""
        balance, windows = node.balance, self._scenario.analysis.window_steps
        node.folded += 1
        is_last = node.folded == self._scenario.simulation.steps
        ends = is_last or (windows and node.folded % windows == 0)
        begins_s = balance.first_touch_s if node.folded == 1 else 0.0
        return begins_s + balance.fold_s + (balance.publish_s if ends else 0.0)

    def _balance(self, size: float) -> StreamBalance:
        """Return what a step of some bytes costs a node."""
        given = self._scenario
        analysis, buffer, pfs = given.analysis, given.burst_buffer, given.file_system
        load = StreamLoad(
            size,
            given.simulation.compute_s,
            analysis.drained_share,
            analysis.states_share * size,
            analysis.results_share * size,
            analysis.window_steps or math.inf,
        )
        drain_bytes_per_s = pfs.servers * pfs.server_bytes_per_s
        rates = NodeRates(
            buffer.landing_bytes_per_s,
            buffer.fold_bytes_per_s,
            drain_bytes_per_s,
            page_s=buffer.page_s,
            publish_bytes_per_s=buffer.publish_bytes_per_s,
        )
        return stream_balance(load, rates)

    def _drain(self, node: _Node) -> Process:
        """Move steps to the PFS, the oldest first, and yield their room back."""
        given = self._scenario
        share = given.analysis.drained_share if self._way.analyses == "beside" else 1.0
        kept = given.analysis.kept_share if self._way.analyses in ("before", "beside") else 0.0
        while node.queue or not node.done:
            if not node.queue:
                node.filled = Signal()
                yield node.filled
                continue
            extent, needed = node.queue.popleft()
            yield from needed
            size = self._client_bytes * node.clients * (share + kept)
            if size:
                through = (node.storage, node.link, self._pfs)
                if self._gate is None:
                    yield self.world.flow(size, *through)
                else:
                    yield self._gate.begin(next(self._drains), size, *through)
            node.extents.give_back([extent])
            node.freed.come()

    def _analyse_after(self) -> Process:
        """Read everything back on a cluster with as many nodes as the BB has, analyse it, write what is kept."""
        given, world = self._scenario, self.world
        nodes = self._count
        each = self._client_bytes * given.simulation.nodes * given.simulation.steps / nodes
        link_bytes_per_s = given.burst_buffer.link_bytes_per_s
        read_bytes_per_s = min(link_bytes_per_s, given.analysis.read_bytes_per_s)
        yield world.flow(each, self._pfs, limit=read_bytes_per_s, count=nodes)
        yield each / given.analysis.bytes_per_s
        if given.analysis.kept_share:
            yield world.flow(each * given.analysis.kept_share, self._pfs, limit=link_bytes_per_s, count=nodes)


def run_transit(scenario: TransitScenario, way: str, seed: int = 0) -> TransitOutcome:
    """Run a scenario in one way; see `SimulatedTransit`."""
    return SimulatedTransit(scenario, way, seed).run()

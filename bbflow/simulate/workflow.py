"""A simulated workflow beside an HPC application, its inputs brought as Parsl or Pegasus would plan it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from bbflow.errors import ConfigError, nearest
from bbflow.simulate.announced import AnnouncedStager
from bbflow.simulate.fetching import SimulatedFetchers
from bbflow.simulate.graph import Graph
from bbflow.simulate.nodes import ComputeNodes, Slot
from bbflow.simulate.planned import PlannedStager
from bbflow.simulate.scenario_sections import Application, BurstBufferSection, FileSystem, Workflow
from bbflow.simulate.staged_job import NAIVE, SimulatedStaging, StagingOutcome
from bbflow.simulate.world import Process, Signal, World
from bbflow.staging.files import File, Task
from bbflow.staging.policies import parse_policy

PLANNERS = (NAIVE, "parsl", "pegasus")
"""Who plans: no one (inputs are read from the file system), a program that announces inputs as it runs, or a planner
that knows the workflow as a whole."""


def split_way(way: str) -> tuple[str, str]:
    """Part ``parsl+full-delay`` into planner and delay policy; without one it is no-action.

    Raises
    ------
    ConfigError
        If there is no such planner or policy.
    """
    planner, plus, policy = way.partition("+")
    if planner not in PLANNERS:
        raise ConfigError(f"unknown planner {planner!r}; {nearest(planner, PLANNERS)}")
    if plus and planner == NAIVE:
        raise ConfigError(f"{way}: what reads the file system directly has no delay policy")
    parse_policy(policy or "no-action")
    return planner, policy or "no-action"


@dataclass(frozen=True, slots=True)
class WorkflowScenario:
    """A workflow and an HPC application on one file system."""

    file_system: FileSystem
    """What they share."""
    burst_buffer: BurstBufferSection
    """What the workflow has for itself."""
    workflow: Workflow
    """Where its tasks run."""
    graph: Graph
    """Its tasks."""
    application: Application | None = None
    """Who is not to suffer; no one if None."""
    resolution_s: float = 0.0
    """As for `World`."""


class Stages(Protocol):
    """Who brings a workflow's inputs, and keeps what its tasks make."""

    @property
    def held_bytes(self) -> int:
        """The most that lay on the BB."""

    def ready(self, task: Task) -> Signal:
        """Return what comes when a task may run."""

    def place(self, file: File) -> int | None:
        """Return the link of the BB node where a file lies, or is to be written; None for the file system."""

    def final(self, task: Task) -> None:
        """Take in that a task has ended."""


class _Directly:
    """Without a planner: a task may run when its makers are over; only what tasks make lies on the BB."""

    held_bytes = 0

    def __init__(self, world: World, graph: Graph, made: Mapping[str, int]) -> None:
        self._made = made
        self._ended = {task.key: Signal() for task in graph.tasks}
        self._ready = {task.key: world.start(self._wait(graph.parents[task.key])) for task in graph.tasks}

    def ready(self, task: Task) -> Signal:
        return self._ready[task.key]

    def place(self, file: File) -> int | None:
        return self._made.get(file.url)

    def final(self, task: Task) -> None:
        self._ended[task.key].come()

    def _wait(self, parents: tuple[str, ...]) -> Process:
        yield from [self._ended[parent] for parent in parents]


class SimulatedWorkflow(SimulatedStaging):
    """Runs a scenario once.

    Parameters
    ----------
    scenario
        What to run.
    way
        Planner and policy, as `split_way` reads it.
    seed
        Of everything irregular.
    """

    def __init__(self, scenario: WorkflowScenario, way: str, seed: int = 0) -> None:
        super().__init__(way, scenario.file_system, scenario.application, scenario.resolution_s, seed)
        self._scenario, world, given = scenario, self._world, scenario.workflow
        self._node_links = [world.resource(given.link_bytes_per_s) for _ in range(given.nodes)]
        self._nodes = ComputeNodes(world, given, seed + 2)
        self._count = scenario.burst_buffer.count(given.nodes)
        self._links = [world.resource(scenario.burst_buffer.link_bytes_per_s) for _ in range(self._count)]
        self._made = {url: self._links[number % self._count] for number, url in enumerate(scenario.graph.makers)}
        self._fetchers: SimulatedFetchers | None = None
        self._lost = 0

    def run(self) -> StagingOutcome:
        """Run the workflow until its results are on the file system.

        Raises
        ------
        CapacityError
            If a task's files can't fit the burst buffer.
        StandstillError
            If nothing can continue.
        """
        world = self._world
        if self._application is not None:
            world.run(self._application.warmed_up)
        began_s = world.now_s
        stages = self._stages()
        ended = [world.start(self._task(task, stages)) for task in self._scenario.graph.tasks]
        for each in ended:
            world.run(each)
        self._nodes.close()
        if self._fetchers is not None:
            self._fetchers.close()
        given, buffer = self._scenario.workflow, self._scenario.burst_buffer
        price = given.nodes * given.price_per_h + self._count * buffer.price_per_h
        return self._outcome(began_s, price, stages.held_bytes, self._lost)

    def _stages(self) -> Stages:
        planner, text = split_way(self._way)
        given, graph, world = self._scenario.workflow, self._scenario.graph, self._world
        if planner == NAIVE:
            return _Directly(world, graph, self._made)
        policy, buffer = parse_policy(text), self._scenario.burst_buffer
        capacity_bytes = self._count * buffer.node_capacity_bytes
        self._fetchers = fetchers = SimulatedFetchers(
            world, buffer, given.slots, self._pfs, self._links, policy, self._application, self._share
        )
        if planner == "pegasus":
            return PlannedStager(world, fetchers, graph, self._made, given.slots, capacity_bytes, given.lookahead)
        outputs_bytes = int(capacity_bytes * given.outputs_share)
        rooms = capacity_bytes - outputs_bytes, outputs_bytes
        return AnnouncedStager(world, fetchers, graph, self._made, given.slots, rooms, given.lookahead)

    def _task(self, task: Task, stages: Stages) -> Process:
        nodes = self._nodes
        yield stages.ready(task)
        while True:
            while not nodes.has_idle:
                yield nodes.wait()
            slot = nodes.take()
            yield from self._try(task, stages, slot)
            if not nodes.is_lost(slot):
                break
            self._lost += 1
        nodes.give_back(slot)
        yield from self._deliver(task, stages)
        stages.final(task)

    def _try(self, task: Task, stages: Stages, slot: Slot) -> Process:
        """Run a task; if its node goes down, up to then. A transfer that has begun still ends."""
        world = self._world
        began_s = world.now_s
        yield from self._move(self._bytes_at(task.inputs, stages), slot.node)
        if self._nodes.is_lost(slot):
            return
        self._read_s.append(world.now_s - began_s)
        compute_s = self._scenario.graph.compute_s[task.key]
        jitter = self._scenario.workflow.jitter
        yield min(compute_s * max(1 + jitter * self._random.standard_normal(), 0.0), self._nodes.left_s(slot))
        if not self._nodes.is_lost(slot):
            yield from self._move(self._bytes_at(task.outputs, stages), slot.node)

    def _deliver(self, task: Task, stages: Stages) -> Process:
        """Write results, which no task reads, to the file system; the task has ended when they are there."""
        for file in task.outputs:
            link = stages.place(file)
            if file.url not in self._scenario.graph.users and file.size_bytes and link is not None:
                if self._fetchers is not None:
                    yield self._fetchers.stage_out(file.size_bytes, link)
                else:
                    yield self._world.flow(file.size_bytes, link, self._pfs)

    def _bytes_at(self, files: tuple[File, ...], stages: Stages) -> Mapping[int, int]:
        """Sum the sizes of files by the resource through which they are read or written."""
        sums: dict[int, int] = {}
        for file in dict.fromkeys(files):
            link = stages.place(file)
            place = self._pfs if link is None else link
            sums[place] = sums.get(place, 0) + (file.size_bytes or 0)
        return sums

    def _move(self, sums: Mapping[int, int], node: int) -> Process:
        given = self._scenario.workflow
        for place, size_bytes in sums.items():
            weight = self._share() if place == self._pfs else 1.0
            limit = given.stream_bytes_per_s if place == self._pfs else math.inf
            if size_bytes:
                yield self._world.flow(size_bytes, place, self._node_links[node], limit=limit, weight=weight)


def run_workflow(scenario: WorkflowScenario, way: str, seed: int = 0) -> StagingOutcome:
    """Run a workflow in one way; see `SimulatedWorkflow`.

    Raises
    ------
    ConfigError
        If there is no such way, or its policy could never see a phase.
    """
    _, policy = split_way(way)
    if scenario.application is None and policy != "no-action":
        raise ConfigError(f"way {way}: the scenario has no application whose phases it could give way to")
    return SimulatedWorkflow(scenario, way, seed).run()

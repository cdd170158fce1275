"""A simulated job in waves beside an HPC application: reading the file system itself, or what is staged."""

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from bbflow.errors import ConfigError
from bbflow.simulate.application import SimulatedApplication
from bbflow.simulate.fetching import SimulatedFetchers
from bbflow.simulate.scenario_sections import Application, BurstBufferSection, FileSystem, JobSection
from bbflow.simulate.stager import SimulatedStager
from bbflow.simulate.world import Process, World
from bbflow.staging.files import File, Task
from bbflow.staging.policies import parse_policy

NAIVE = "naive"
"""The job reads the file system itself, each time it reads (Eley's NaiveBB, section III.A.4)."""


@dataclass(frozen=True, slots=True)
class StagingScenario:
    """A job and an HPC application on one file system."""

    file_system: FileSystem
    """What they share."""
    burst_buffer: BurstBufferSection
    """What the job has for itself."""
    job: JobSection
    """Whose inputs are staged."""
    application: Application | None = None
    """Who is not to suffer; no one if None."""
    resolution_s: float = 0.0
    """As for `World`."""


@dataclass(frozen=True, slots=True)
class StagingOutcome:
    """What came of one run."""

    policy: str
    """How inputs came: `NAIVE`, or a delay policy."""
    job_s: float
    """From the first submission to the end of the last task."""
    read_s: float
    """Mean time in which a task's slot stood without computing, in seconds."""
    slowdown: float
    """Mean duration of the application's phases in that time, to one alone; NaN without any."""
    phases: int
    """How many began in that time."""
    held_bytes: int
    """The most that lay on the burst buffer, or was reserved."""
    cost: float
    """Of the job's nodes and the BB's for that time, in the scenario's currency."""
    lost_tasks: int = 0
    """How often a task was lost with its node, and ran again."""


class SimulatedStaging:
    """A world with a file system and what is staged from it beside an HPC application: a job, or a workflow.

    Parameters
    ----------
    way
        How inputs come.
    file_system, application, resolution_s
        As the scenario has them.
    seed
        Of everything irregular.
    """

    def __init__(
        self, way: str, file_system: FileSystem, application: Application | None, resolution_s: float, seed: int
    ) -> None:
        self._way, self._unfairness = way, file_system.unfairness
        self._world = world = World(resolution_s)
        self._pfs = pfs = world.resource(file_system.servers * file_system.server_bytes_per_s, file_system.loss)
        self._random = np.random.default_rng(seed)
        self._application: SimulatedApplication | None = None
        if application is not None:
            # With random numbers of its own: with all policies it is the same, however many each of them draws.
            self._application = SimulatedApplication(world, application, file_system, pfs, seed + 1)
        self._read_s: list[float] = []

    def _outcome(self, began_s: float, price_per_h: float, held_bytes: int, lost_tasks: int = 0) -> StagingOutcome:
        """Return what came of it, now that it has ended."""
        ended_s, slowdown, phases = self._world.now_s, math.nan, 0
        if self._application is not None:
            slowdown = self._application.slowdown(began_s, ended_s)
            phases = sum(began_s <= phase.began_s < ended_s for phase in self._application.ended)
        return StagingOutcome(
            policy=self._way,
            job_s=ended_s - began_s,
            read_s=sum(self._read_s) / len(self._read_s),
            slowdown=slowdown,
            phases=phases,
            held_bytes=held_bytes,
            cost=price_per_h * (ended_s - began_s) / 3600,
            lost_tasks=lost_tasks,
        )

    def _share(self) -> float:
        """Return the next stream's share of the servers, to an equal share."""
        return math.exp(self._unfairness * self._random.standard_normal())


class SimulatedJob(SimulatedStaging):
    """Runs a scenario once.

    Parameters
    ----------
    scenario
        What to run.
    policy
        `NAIVE`, or as `parse_policy` reads it.
    seed
        Of everything irregular.
    """

    def __init__(self, scenario: StagingScenario, policy: str, seed: int = 0) -> None:
        super().__init__(policy, scenario.file_system, scenario.application, scenario.resolution_s, seed)
        self._scenario, job = scenario, scenario.job
        self._nodes = [self._world.resource(job.link_bytes_per_s) for _ in range(job.nodes)]
        self._bb_nodes = scenario.burst_buffer.count(job.nodes)
        self._tasks = deque(
            Task(str(number), (File(f"/{number}", job.input_bytes),)) for number in range(job.slots * job.waves)
        )

    def run(self) -> StagingOutcome:
        """Run the job to its end.

        Raises
        ------
        CapacityError
            If a task's input can't fit the burst buffer.
        StandstillError
            If nothing can continue.
        """
        world, application = self._world, self._application
        if application is not None:
            world.run(application.warmed_up)
            world.run(world.after(self._scenario.job.start_s))
        began_s = world.now_s
        stager = None if self._way == NAIVE else self._stager()
        world.run(world.start(self._run_job(stager)))
        if stager is not None and stager.errors:
            raise stager.errors[0]
        given, job = self._scenario.burst_buffer, self._scenario.job
        price = job.nodes * job.price_per_h + self._bb_nodes * given.price_per_h
        return self._outcome(began_s, price, stager.held_bytes if stager else 0)

    def _stager(self) -> SimulatedStager:
        job, given, world = self._scenario.job, self._scenario.burst_buffer, self._world
        links = [world.resource(given.link_bytes_per_s) for _ in range(self._bb_nodes)]
        policy, phases = parse_policy(self._way), self._application
        fetchers = SimulatedFetchers(world, given, job.slots, self._pfs, links, policy, phases, self._share)
        return SimulatedStager(fetchers, job.slots, self._bb_nodes * given.node_capacity_bytes, job.lookahead)

    def _run_job(self, stager: SimulatedStager | None) -> Process:
        ready = {} if stager is None else {task.key: stager.submit(task) for task in self._tasks}

        def slot(node: int) -> Process:
            while self._tasks and not (stager and stager.errors):
                task = self._tasks.popleft()
                began_s = self._world.now_s
                if stager is not None:
                    yield ready[task.key]
                waited_s = self._world.now_s - began_s
                if not (stager and stager.errors):
                    yield from self._run_task(task, node, stager, waited_s)
                if stager is not None:
                    stager.final(task.key)

        slots = range(self._scenario.job.slots)
        yield from [self._world.start(slot(self._nodes[number % len(self._nodes)])) for number in slots]
        if stager is not None:
            stager.close()

    def _run_task(self, task: Task, node: int, stager: SimulatedStager | None, stood_s: float) -> Process:
        job, world = self._scenario.job, self._world
        compute_s = job.compute_s * max(1 + job.jitter * self._random.standard_normal(), 0.0)
        for _ in range(job.passes):
            began_s = world.now_s
            source = self._pfs if stager is None else stager.link(task.inputs[0].url)
            weight = job.stream_weight * self._share()
            yield world.flow(job.input_bytes, source, node, limit=job.stream_bytes_per_s, weight=weight)
            stood_s += world.now_s - began_s
            yield compute_s / job.passes
        self._read_s.append(stood_s)


def run_staging(scenario: StagingScenario, policy: str, seed: int = 0) -> StagingOutcome:
    """Run a scenario with one policy.

    Raises
    ------
    ConfigError
        If there is no such policy, or it could never see a phase.
    """
    if scenario.application is None and policy not in (NAIVE, "no-action"):
        raise ConfigError(f"policy {policy}: the scenario has no application whose phases it could give way to")
    return SimulatedJob(scenario, policy, seed).run()

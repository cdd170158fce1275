"""The compute nodes of a simulated workflow: they wait in a batch queue, and go down now and then."""

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from bbflow.simulate.scenario_sections import Workflow
from bbflow.simulate.world import Process, Signal, StandstillError, World

MOST_OUTAGES = 1000
"""Of each node while no task ends: then none ever will."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Where one task runs."""

    node: int
    """Number of the compute node."""
    outage: int
    """How many outages the node had had when the slot was taken: with the next one, the task is lost."""


class ComputeNodes:
    """Hands out slots, those that were given back first.

    Parameters
    ----------
    world
        Where they live.
    given
        How many there are, how long they wait in the queue, and how often they go down.
    seed
        Of waits and outages.
    """

    def __init__(self, world: World, given: Workflow, seed: int) -> None:
        self._world, self._given = world, given
        self._random = np.random.default_rng(seed)
        self._idle: deque[int] = deque()
        self._waiting: deque[Signal] = deque()
        self._outages = [0] * given.nodes
        self._next_outage_s = [math.inf] * given.nodes
        self._without_end = 0
        self._is_over = False
        if not given.queue_wait_s and not given.node_mtbf_s:
            self._idle.extend(number % given.nodes for number in range(given.slots))
            return
        for node in range(given.nodes):
            world.start(self._live(node))

    @property
    def has_idle(self) -> bool:
        """Whether a slot can be taken."""
        return bool(self._idle)

    def wait(self) -> Signal:
        """Return what comes when a slot may have become idle."""
        self._waiting.append(Signal())
        return self._waiting[-1]

    def take(self) -> Slot:
        """Take an idle slot."""
        node = self._idle.popleft()
        return Slot(node, self._outages[node])

    def give_back(self, slot: Slot) -> None:
        """Take a slot back; those of a node that has gone down meanwhile come back with its repair."""
        if not self.is_lost(slot):
            self._without_end = 0
            self._add(slot.node, 1)

    def is_lost(self, slot: Slot) -> bool:
        """Whether the slot's node has gone down since the slot was taken."""
        return self._outages[slot.node] != slot.outage

    def left_s(self, slot: Slot) -> float:
        """Return the seconds until the slot's node goes down."""
        return self._next_outage_s[slot.node] - self._world.now_s

    def close(self) -> None:
        """End the outages of nodes, since the workflow has ended."""
        self._is_over = True

    def _add(self, node: int, count: int) -> None:
        self._idle.extend([node] * count)
        for _ in range(min(count, len(self._waiting))):
            self._waiting.popleft().come()

    def _live(self, node: int) -> Process:
        given = self._given
        slots = len(range(node, given.slots, given.nodes))
        yield self._random.exponential(given.queue_wait_s) if given.queue_wait_s else 0.0
        while True:
            self._add(node, slots)
            if not given.node_mtbf_s:
                return
            until_s = self._random.exponential(given.node_mtbf_s)
            self._next_outage_s[node] = self._world.now_s + until_s
            yield until_s
            if self._is_over:
                return
            self._go_down(node)
            yield given.repair_s

    def _go_down(self, node: int) -> None:
        self._outages[node] += 1
        self._idle = deque(each for each in self._idle if each != node)
        self._without_end += 1
        if self._without_end > MOST_OUTAGES * self._given.nodes:
            raise StandstillError(
                f"no task has ended while the nodes went down {MOST_OUTAGES} times each: tasks compute for longer than "
                "nodes stay up, or nothing can continue; give a larger node_mtbf_s, or a burst buffer with more room"
            )

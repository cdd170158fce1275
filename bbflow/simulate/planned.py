"""Waves planned before anything runs, as the Pegasus planner gets them, on world time."""

from collections.abc import Iterator, Mapping, Sequence

from bbflow.simulate.fetching import SimulatedFetchers
from bbflow.simulate.graph import Graph
from bbflow.simulate.world import Process, Signal, World
from bbflow.staging.ahead import PlannedWave, plan_ahead
from bbflow.staging.files import File, Task


class PlannedStager:
    """Brings inputs as a planned workflow's stage-in jobs do: wave after wave, when what the plan names is over.

    The plan is the real one (`plan_ahead`), and what a wave waits for is what the edges of Pegasus's graph say: the
    stage-in jobs of the wave before, and all tasks of the waves that must be over.

    Parameters
    ----------
    world
        Where it lives.
    fetchers
        That copy.
    graph
        The workflow, known as a whole.
    made
        By the URL of a file that tasks make, the link of the BB node where it lies.
    slots, capacity_bytes, lookahead
        As for `plan_ahead`.

    Raises
    ------
    CapacityError
        If a task's files have no room.
    """

    def __init__(
        self,
        world: World,
        fetchers: SimulatedFetchers,
        graph: Graph,
        made: Mapping[str, int],
        slots: int,
        capacity_bytes: int,
        lookahead: int,
    ) -> None:
        self._world, self._fetchers, self._graph, self._made = world, fetchers, graph, made
        self.waves: Sequence[PlannedWave] = plan_ahead(graph.tasks, graph.parents, slots, capacity_bytes, lookahead)
        """In the order in which their files come."""
        self._tasks = {task.key: task for task in graph.tasks}
        self._ready = {task.key: Signal() for task in graph.tasks}
        self._ended = {task.key: Signal() for task in graph.tasks}
        self._files = {file.url: file for task in graph.tasks for file in (*task.inputs, *task.outputs)}
        self._left = dict(graph.users)
        self._held: set[str] = set()
        self._held_bytes = 0
        self.held_bytes = 0
        """The most that lay on the BB."""
        world.start(self._stage_in())

    def ready(self, task: Task) -> Signal:
        """Return what comes when a task's inputs have come, and its makers are over."""
        return self._ready[task.key]

    def place(self, file: File) -> int:
        """Return the link of the BB node where a file lies, or is to be written."""
        return self._made[file.url] if file.url in self._made else self._fetchers.link(file.url)

    def final(self, task: Task) -> None:
        """Take in that a task has ended: its outputs lie on the BB, and inputs no longer needed go."""
        for file in task.outputs:
            self._come(file)
        for file in dict.fromkeys(task.inputs):
            self._left[file.url] -= 1
            if not self._left[file.url]:
                self._go(file.url)
        self._ended[task.key].come()

    def _stage_in(self) -> Process:
        over = 0
        for number, wave in enumerate(self.waves):
            for ended in self.waves[over : wave.over]:
                yield from [self._ended[key] for key in ended.tasks]
            over = max(over, wave.over)
            for url in wave.gone:
                self._go(url)
            arrivals = dict(self._arrivals(number, wave))
            for key in wave.tasks:
                self._world.start(self._make_ready(key, arrivals))
            yield from arrivals.values()

    def _arrivals(self, number: int, wave: PlannedWave) -> Iterator[tuple[str, Signal]]:
        for url in (url for urls in wave.staged for url in urls):
            arrived = Signal()
            self._come(self._files[url])
            self._fetchers.fetch(self._files[url], number, arrived.come)
            yield url, arrived

    def _make_ready(self, key: str, arrivals: dict[str, Signal]) -> Process:
        yield from [arrivals[file.url] for file in self._tasks[key].inputs if file.url in arrivals]
        yield from [self._ended[parent] for parent in self._graph.parents[key]]
        self._ready[key].come()

    def _come(self, file: File) -> None:
        if file.url not in self._held:
            self._held.add(file.url)
            self._held_bytes += file.size_bytes or 0
            self.held_bytes = max(self.held_bytes, self._held_bytes)

    def _go(self, url: str) -> None:
        if url in self._held:
            self._held.remove(url)
            self._held_bytes -= self._files[url].size_bytes or 0

"""Files announced in program order, as Parsl tells its staging provider of them, on world time."""

from collections.abc import Mapping

from bbflow.simulate.fetching import SimulatedFetchers
from bbflow.simulate.graph import Graph
from bbflow.simulate.stager import SimulatedStager
from bbflow.simulate.world import Process, Signal, World
from bbflow.staging.buffer_room import FileState
from bbflow.staging.files import File, Task
from bbflow.staging.makings import Making, has_room, victims


class AnnouncedStager:
    """Brings inputs as Parsl's provider does, and keeps what tasks make as its executor does.

    A program calls its apps one after the other and waits for none, so all inputs that no task makes are announced to
    the waves at once. What tasks make has room of its own (`bbflow.staging.makings` decides).

    Parameters
    ----------
    world
        Where it lives.
    fetchers
        That copy.
    graph
        The workflow; only its program order is used.
    made
        By the URL of a file that tasks make, the link of the BB node where it lies.
    slots, lookahead
        As for `Waves`.
    capacity_bytes
        Room for inputs, and room for outputs.
    """

    def __init__(
        self,
        world: World,
        fetchers: SimulatedFetchers,
        graph: Graph,
        made: Mapping[str, int],
        slots: int,
        capacity_bytes: tuple[int, int],
        lookahead: int,
    ) -> None:
        self._world, self._fetchers, self._graph, self._made = world, fetchers, graph, made
        inputs_bytes, self._capacity_bytes = capacity_bytes
        self._stager = SimulatedStager(fetchers, slots, inputs_bytes, lookahead)
        self._ended = {task.key: Signal() for task in graph.tasks}
        self._makings: dict[str, Making] = {}
        self._known: dict[str, Making] = {}
        self._taken_bytes = self._most_bytes = 0
        self._ready = {task.key: self._announce(task) for task in graph.tasks}

    @property
    def held_bytes(self) -> int:
        """The most that inputs took on the BB, or had reserved, and the most that outputs did."""
        return self._stager.held_bytes + self._most_bytes

    def ready(self, task: Task) -> Signal:
        """Return what comes when a task may run."""
        return self._ready[task.key]

    def place(self, file: File) -> int | None:
        """Return the link of the BB node where a file lies, or is to be written; None for the file system."""
        if file.url not in self._makings:
            return self._fetchers.link(file.url)
        return self._made[file.url] if self._makings[file.url].state is not FileState.GONE else None

    def final(self, task: Task) -> None:
        """Take in that a task has ended, its outputs are written, and its results aren't waited for."""
        self._stager.final(task.key)
        for file in task.outputs:
            making = self._makings[file.url]
            if making.state is FileState.AWAITED:
                making.state, making.version = FileState.HERE, (file.size_bytes or 0, 0)
                making.is_clean = making.is_result
        for file in dict.fromkeys(task.inputs):
            if file.url in self._makings:
                self._makings[file.url].readers -= 1
        self._ended[task.key].come()
        self._make_room()

    def _announce(self, task: Task) -> Signal:
        """Hold what other tasks make, and let the rest come; a task without any isn't told to the waves."""
        for file in dict.fromkeys(task.inputs):
            if file.url in self._makings:
                self._makings[file.url].readers += 1
        for file in task.outputs:
            making = Making(url=file.url, is_result=file.url not in self._graph.users)
            self._makings[file.url] = self._known[file.url] = making
        fetched = self._graph.sources(task)
        staged = self._stager.submit(Task(task.key, fetched)) if fetched else None
        return self._world.start(self._launch(task, staged))

    def _launch(self, task: Task, staged: Signal | None) -> Process:
        """Wait for a task's inputs, and reserve room for its outputs: without room they go to the file system."""
        yield from [self._ended[parent] for parent in self._graph.parents[task.key]]
        if staged is not None:
            yield staged
        if self._stager.errors:
            raise self._stager.errors[0]
        for file in task.outputs:
            making = self._makings[file.url]
            making.reserved_bytes = file.size_bytes or 0
            self._taken_bytes += making.room_bytes
            self._make_room()
            if not has_room(self._known.values(), making, self._capacity_bytes):
                self._forget(making)
        self._most_bytes = max(self._most_bytes, self._taken_bytes)

    def _forget(self, making: Making) -> None:
        self._taken_bytes -= making.room_bytes
        making.state, making.reserved_bytes, making.is_clean = FileState.GONE, 0, True
        del self._known[making.url]

    def _make_room(self) -> None:
        if self._taken_bytes <= self._capacity_bytes:
            return  # as `victims` would find after a look at all of them
        for making in victims(self._known.values(), self._capacity_bytes):
            if making.is_clean:
                self._forget(making)
            else:
                making.state = FileState.LEAVING
                self._world.start(self._leave(making))

    def _leave(self, making: Making) -> Process:
        yield self._fetchers.stage_out(making.size_bytes, self._made[making.url])
        making.is_clean, making.state = True, FileState.HERE
        if making.may_go:
            self._forget(making)
        self._make_room()

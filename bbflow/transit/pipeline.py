"""The pipeline: one loop that folds, publishes and drains a stream until it ends."""

import queue
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from distributed import Future, KilledWorker

from bbflow.cf import StreamAttributes
from bbflow.config import Config
from bbflow.drain.draining import DrainBatch, Draining, RawStep
from bbflow.drain.raw import assemble, drain_steps
from bbflow.errors import BbflowError, ConfigError, NodeError, StreamError, nearest
from bbflow.events import EventLog
from bbflow.landing.client import NodeClient
from bbflow.landing.contact import NodeAddress
from bbflow.operators.calendars import Clock
from bbflow.operators.windows import Window
from bbflow.records import Block
from bbflow.transit.cluster import Cluster
from bbflow.transit.fold import FoldReceipt, FoldWork, fold_batch
from bbflow.transit.folding import Batch, Folding, step_time
from bbflow.transit.live import live_dataset
from bbflow.transit.publishing import Publishing
from bbflow.transit.results import Field
from bbflow.transit.watch import StreamView, Watcher

FOLD, DRAIN = "fold", "drain"
WORKER_DEATHS = 5
"""A task whose workers die so often is at fault itself."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a stream ended."""

    complete: bool
    """Whether every writer closed it in order."""
    steps: int
    """Steps that were folded."""
    discarded: int
    """Steps that the engine discarded for lack of room."""


@dataclass(slots=True)
class InFlight:
    """Tasks that run now."""

    batch: Any
    """What they do."""
    futures: list[Future]
    """Their results to be."""
    started_s: float
    """When they were submitted."""
    arguments: list[tuple[Callable[..., Any], Any, str]]
    """Function, argument and host, to submit them again."""
    deaths: int = 0
    """How often their workers have died."""


class Pipeline:
    """Folds one stream.

    Parameters
    ----------
    nodes
        The BB nodes.
    config
        The run's configuration.
    cluster
        Where tasks run.

    Raises
    ------
    NodeError
        If a node doesn't answer.
    """

    def __init__(self, nodes: Sequence[NodeAddress], config: Config, cluster: Cluster) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._config = config
        self._cluster = cluster
        self._news: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._clients = {node.name: NodeClient(node) for node in nodes}
        self._epochs: dict[str, int] = {}
        self._rows_directory = config.output / ".rows"
        self._rows_directory.mkdir(parents=True, exist_ok=True)
        self._log = EventLog(config.output)
        cursors = self._attach()
        self._folding = Folding(config, {name: (c[FOLD][0], c[FOLD][1]) for name, c in cursors.items()})
        pools = {node.name: node.pool for node in nodes}
        drained = {name: c[DRAIN][0] for name, c in cursors.items() if DRAIN in c}
        self._draining = Draining(config, drained, pools)
        self._publishing = Publishing(config, self._nodes, cluster, self._log)
        done = {name: min(cursor[0] for cursor in c.values()) for name, c in cursors.items()}
        self._view = StreamView(list(self._nodes), done)
        self._landed = max(done.values())
        self._watchers = [Watcher(node, config.stream, done[node.name], self._news) for node in nodes]
        self._clock: Clock | None = None
        self._fold: InFlight | None = None
        self._drain: InFlight | None = None
        self._stopped = False

    def _attach(self) -> dict[str, dict[str, tuple[int, bytes]]]:
        consumers = [FOLD, DRAIN] if self._config.raw.wanted else [FOLD]
        cursors = {}
        for name, client in self._clients.items():
            reply = client.request("attach", stream=self._config.stream, consumers=consumers)
            self._epochs[name] = reply["epoch"]
            cursors[name] = {key: (step, checkpoint) for key, (step, checkpoint) in reply["cursors"].items()}
        return cursors

    # What others may call while it runs

    def stop(self) -> None:
        """Make `run` end without publishing; another pipeline can carry on. Safe in any thread."""
        self._news.put(("stop", None))

    def live(self, timeout_s: float = 60.0) -> xr.Dataset:
        """Give the statistics as they are now, open spans included.

        Raises
        ------
        StreamError
            If nothing was folded within `timeout_s`.
        """
        answer: queue.SimpleQueue[xr.Dataset] = queue.SimpleQueue()
        self._news.put(("live", answer))
        try:
            return answer.get(timeout=timeout_s)
        except queue.Empty:
            raise StreamError(
                f"nothing of stream {self._config.stream!r} was folded yet: try again later"
            ) from None

    # The loop

    def run(self) -> Outcome | None:
        """Fold, publish and drain until the stream ends.

        Returns
        -------
        Outcome or None
            None if it was stopped before the end.

        Raises
        ------
        StreamError
            If nobody opens the stream in time, or another analysis takes over.
        ConfigError
            If the stream lacks what the configuration names.
        NodeError
            If a node is gone.
        """
        deadline_s = time.monotonic() + self._config.open_timeout_s
        for watcher in self._watchers:
            watcher.start()
        waiting: list[queue.SimpleQueue[xr.Dataset]] = []
        try:
            while not self._stopped:
                self._begin_fold()
                self._begin_drain()
                if waiting and self._folding.spans:
                    dataset = self._live_dataset()
                    for answer in waiting:
                        answer.put(dataset)
                    waiting = []
                if self._is_finished():
                    return self._finish()
                self._take_news(waiting)
                if self._view.status == "expected" and time.monotonic() > deadline_s:
                    raise StreamError(
                        f"nobody opened stream {self._config.stream!r} within {self._config.open_timeout_s:.0f} s: "
                        "check the engine's XML (Stream, else the IO's name) and BBFLOW_CONTACT"
                    )
            return None
        finally:
            self._close()

    def _take_news(self, waiting: list["queue.SimpleQueue[xr.Dataset]"]) -> None:
        try:
            source, news = self._news.get(timeout=1.0)
        except queue.Empty:
            return
        match source:
            case "stop":
                self._stopped = True
            case "live":
                waiting.append(news)
            case "task":
                self._take_fold()
                self._take_drain()
            case _ if isinstance(news, BbflowError):
                raise news
            case _:
                self._view.update(source, news)
                self._note_landed()

    def _note_landed(self) -> None:
        for number in self._view.steps_after(self._landed):
            parts = [part for part in (self._view.step(node, number) for node in self._nodes) if part]
            if parts:
                self._log.add(
                    "landed",
                    step=number,
                    began_s=min(part.began_s for part in parts),
                    committed_s=max(part.committed_s for part in parts),
                    bytes=sum(part.bytes for part in parts),
                )
            self._landed = number

    # Fold

    def _begin_fold(self) -> None:
        if self._fold is not None or not self._prepare():
            return
        assert self._clock is not None
        batch = self._folding.next_batch(self._view, self._clock)
        if batch is None:
            self._pass_discarded()
            return
        self._know_fields(batch)
        for window in self._folding.closing(batch):
            self._publish(window)
        works = self._folding.works(
            batch, self._view, self._attributes, self._nodes, str(self._rows_directory)
        )  # fmt: skip
        self._fold = self._submit(batch, fold_batch, self._lanes(works))
        if not works:
            self._news.put(("task", None))

    def _lanes(self, works: dict[str, list[FoldWork]]) -> list[tuple[Any, str]]:
        count = max(self._cluster.threads // max(len(works), 1), 1)
        return [
            (lane, self._nodes[node].host)
            for node, node_works in works.items()
            for lane in self._folding.lanes(node_works, count)
        ]

    def _take_fold(self) -> None:
        receipts = self._gather(self._fold)
        if self._fold is None or receipts is None:
            return
        batch: Batch = self._fold.batch
        done: list[FoldReceipt] = receipts
        self._folding.take(batch, done)
        self._log.add(
            "fold",
            node=",".join(self._nodes),
            first_step=batch.steps[0],
            last_step=batch.steps[-1],
            started_s=min((receipt.started_s for receipt in done), default=self._fold.started_s),
            ended_s=max((receipt.ended_s for receipt in done), default=time.time()),
            bytes=sum(receipt.bytes for receipt in done),
        )
        self._fold = None
        self._commit_fold()

    def _pass_discarded(self) -> None:
        if self._view.frontier > self._folding.cursor and not self._view.steps_after(self._folding.cursor):
            self._folding.skip_to(self._view.frontier)
            self._commit_fold()

    def _commit_fold(self) -> None:
        self._commit(FOLD, self._folding.cursor, self._folding.checkpoint)
        self._forget()

    def _commit(self, consumer: str, step: int, checkpoint: Callable[[str], bytes]) -> None:
        # The node with the time values comes last: its cursor is then never ahead of another's.
        for name in sorted(self._view.taking_part, key=self._has_time):
            self._clients[name].request(
                "done",
                stream=self._config.stream,
                consumer=consumer,
                epoch=self._epochs[name],
                step=step,
                checkpoint=checkpoint(name),
            )

    def _has_time(self, node: str) -> bool:
        step = self._view.step(node, self._folding.cursor)
        return step is not None and any(block.name == self._config.time.variable for block in step.blocks)

    def _forget(self) -> None:
        through = self._folding.cursor
        if self._config.raw.wanted:
            through = min(through, self._draining.cursor)
        self._view.forget(through)

    # Drain

    def _begin_drain(self) -> None:
        if self._drain is not None or not self._config.raw.wanted or not self._prepare():
            return
        ready = self._view.steps_after(self._draining.cursor)[: self._config.workers.batch_steps]
        if not ready and self._view.frontier <= self._draining.cursor:
            return
        through = ready[-1] if ready else self._view.frontier
        steps = [self._raw_step(number) for number in ready if self._draining.keeps(number)]
        batch = self._draining.next_batch(steps, through)
        work = [(batch.work, next(iter(self._nodes.values())).host)] if batch.numbers else []
        self._drain = self._submit(batch, drain_steps, work)
        if not work:
            self._take_drain()

    def _raw_step(self, number: int) -> RawStep:
        parts = {name: self._view.step(name, number) for name in self._view.taking_part}
        time_s = step_time(self._view, number, self._config.time.variable)
        return RawStep(number, time_s, {name: part for name, part in parts.items() if part})

    def _take_drain(self) -> None:
        sizes = self._gather(self._drain)
        if self._drain is None or sizes is None:
            return
        batch: DrainBatch = self._drain.batch
        self._draining.take(batch)
        if batch.numbers:
            self._log.add(
                "drain",
                node=",".join(self._nodes),
                first_step=batch.numbers[0],
                last_step=batch.numbers[-1],
                started_s=self._drain.started_s,
                ended_s=time.time(),
                bytes=sum(sizes),
            )
        self._drain = None
        self._commit(DRAIN, self._draining.cursor, lambda _: b"")
        self._forget()

    # Tasks

    def _submit(self, batch: Any, function: Callable[..., Any], works: list[tuple[Any, str]]) -> InFlight:
        arguments = [(function, argument, host) for argument, host in works]
        return InFlight(batch, self._submit_all(arguments), time.time(), arguments)

    def _submit_all(self, arguments: list[tuple[Callable[..., Any], Any, str]]) -> list[Future]:
        return [
            self._cluster.submit(function, argument, host=host, done=lambda: self._news.put(("task", None)))
            for function, argument, host in arguments
        ]

    def _gather(self, tasks: InFlight | None) -> list[Any] | None:
        """Results of tasks that are all done, else None; a batch whose workers died is submitted again."""
        if tasks is None or not all(future.done() for future in tasks.futures):
            return None
        try:
            return [future.result() for future in tasks.futures]
        except KilledWorker as error:
            tasks.deaths += 1
            if tasks.deaths >= WORKER_DEATHS:
                raise NodeError(
                    f"the Dask workers die again and again ({error}): give them more memory"
                ) from None
            tasks.futures = self._submit_all(tasks.arguments)
            return None

    # What is known of the stream

    @property
    def _attributes(self) -> StreamAttributes:
        return StreamAttributes(self._view.attributes)

    def _prepare(self) -> bool:
        """Open the stores when the first step is there; False before that."""
        if self._clock is not None:
            return True
        ready = self._view.steps_after(self._folding.cursor)
        first = ready[0] if ready else None
        if first is None and not (self._view.ended and self._folding.spans):
            return False
        self._clock = self._make_clock()
        results = self._publishing.open(self._config.output / "results.zarr", self._attributes, self._clock)
        stores: list[Any] = [results]
        if self._config.raw.wanted:
            stores.append(self._draining.open(self._config.output / "raw.zarr", self._attributes))
        if first is not None:
            self._check_variables(first)
            self._write_coordinates(first, stores)
        for key, state in self._folding.states.items():
            self._know(key.variable, state.dtype, self._global_shape(key.variable, first))
        return True

    def _make_clock(self) -> Clock:
        name = self._config.time.variable
        units = self._config.time.units or self._view.attributes.get(f"{name}/units")
        if units is None:
            raise ConfigError(
                f"the stream has no attribute {name}/units: set time: units, such as 'days since 2000-01-01'"
            )
        calendar = self._config.time.calendar or self._view.attributes.get(f"{name}/calendar", "standard")
        return Clock(units, calendar)

    def _check_variables(self, number: int) -> None:
        names = {block.name for _, block in self._blocks(number)}
        for name in self._config.variables:
            if name not in names:
                raise ConfigError(
                    f"stream {self._config.stream!r} has no variable {name!r} in its first step; {nearest(name, names)}"
                )
        for name in self._config.raw.variables or ():
            if name not in names:
                raise ConfigError(f"raw: the stream has no variable {name!r}; {nearest(name, names)}")

    def _blocks(self, number: int) -> list[tuple[str, Block]]:
        parts = ((node, self._view.step(node, number)) for node in self._view.taking_part)
        return [(node, block) for node, part in parts if part for block in part.blocks]

    def _write_coordinates(self, number: int, stores: Sequence[Any]) -> None:
        blocks = self._blocks(number)
        dims = {
            dim
            for _, block in blocks
            if len(block.shape) > 0
            for dim in self._attributes.dimensions(block.name, len(block.shape))
        }
        for dim in sorted(dims):
            own = [(node, block) for node, block in blocks if block.name == dim and len(block.shape) == 1]
            if own:
                values = self._read(own)
                for store in stores:
                    if not store.is_coordinate(dim):
                        store.add_coordinate(dim, values)

    def _read(self, blocks: Sequence[tuple[str, Block]]) -> np.ndarray[Any, Any]:
        parts = [(self._nodes[node].pool, block) for node, block in blocks]
        host = self._nodes[blocks[0][0]].host
        values: np.ndarray[Any, Any] = self._cluster.submit(
            _copy, parts, host=host, done=lambda: None
        ).result()
        return values

    def _know_fields(self, batch: Batch) -> None:
        for number in batch.steps:
            for _, block in self._blocks(number):
                if block.name in self._config.variables and block.type != "string":
                    self._know(block.name, block.dtype.str, block.shape)

    def _know(self, name: str, dtype: str, shape: tuple[int, ...]) -> None:
        self._publishing.know_field(Field(name, dtype, shape, self._attributes.dimensions(name, len(shape))))

    def _global_shape(self, variable: str, number: int | None) -> tuple[int, ...]:
        for _, block in self._blocks(number) if number is not None else ():
            if block.name == variable:
                return block.shape
        keys = [key for key in self._folding.states if key.variable == variable]
        ends = [[at + size for at, size in zip(key.start, key.count, strict=True)] for key in keys]
        return tuple(max(axis) for axis in zip(*ends, strict=True))

    # Publish and finish

    def _publish(self, window: Window) -> None:
        self._publishing.publish(window, self._folding.spans[window.name], self._folding)
        files = self._publishing.publish_rows(self._folding)
        if files:
            self._commit_fold()
            for file in files:
                file.unlink(missing_ok=True)

    def _live_dataset(self) -> xr.Dataset:
        assert self._clock is not None and self._publishing.results is not None
        fields = {
            window: (self._folding.spans[window.name], self._publishing.reduce(window, self._folding))
            for window in self._folding.windows
            if window.name in self._folding.spans
        }
        return live_dataset(self._publishing.results.path, fields, self._clock)

    def _is_finished(self) -> bool:
        if not self._view.ended or self._fold is not None or self._drain is not None:
            return False
        folded = self._folding.cursor >= self._view.frontier
        return folded and (not self._config.raw.wanted or self._draining.cursor >= self._view.frontier)

    def _finish(self) -> Outcome:
        complete = self._view.status == "closed"
        discarded = set().union(*(view.discarded for view in self._view.taking_part.values()))
        steps = max((span.steps for span in self._folding.spans.values()), default=0)
        if self._folding.spans and self._prepare():
            for window in self._folding.closing(None):
                self._publish(window)
            assert self._publishing.results is not None
            self._publishing.results.commit(bbflow_status="complete" if complete else "incomplete")
        statuses = [
            client.request("status")["streams"][self._config.stream] for client in self._clients.values()
        ]
        self._log.add(
            "end",
            status="complete" if complete else "incomplete",
            waited_s=max(status["waited_s"] for status in statuses),
            discarded=len(discarded),
            steps=self._folding.cursor + 1 - len(discarded),
            ended_s=time.time(),
        )
        for name, client in self._clients.items():
            client.request("drop", stream=self._config.stream, epoch=self._epochs[name])
        self._remove_states()
        return Outcome(complete, steps, len(discarded))

    def _remove_states(self) -> None:
        for state in self._folding.states.values():
            for file in state.files.values():
                for other in Path(file).parent.glob(f"{state.key.label}.*"):
                    other.unlink(missing_ok=True)
        shutil.rmtree(self._rows_directory, ignore_errors=True)

    def _close(self) -> None:
        for watcher in self._watchers:
            watcher.stop()
        for client in self._clients.values():
            client.close()
        self._log.close()


def _copy(parts: Sequence[tuple[str, Block]]) -> np.ndarray[Any, Any]:
    return assemble(parts).copy()

"""What comes in during a run: from nodes, whose news become the view of a stream's steps, and other threads."""

import queue
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bbflow.configuring.settings import Config
from bbflow.errors import BbflowError, StreamError
from bbflow.events import EventLog
from bbflow.host.log import log
from bbflow.net.contact import NodeAddress
from bbflow.transit.driver.first_step import asks_for_extremes, read_as
from bbflow.transit.driver.safe import read_safe_copy
from bbflow.transit.driver.stage import NODE_S
from bbflow.transit.folding.patterns import parts_of
from bbflow.transit.output.claiming import FIELDS_DIRECTORY
from bbflow.view.adapting import Adapting
from bbflow.view.blocks import BlockReader
from bbflow.view.consumers import LOST_PATIENCE_S, PATIENCE_S, Consumers, Forsaken
from bbflow.view.spills import readable
from bbflow.view.stream import StreamView
from bbflow.view.watch import StreamWatch

if TYPE_CHECKING:  # xarray takes a third of a second, which a run has no time for before its first fold
    import xarray as xr

REST_S = 0.02
"""A node that has told of steps isn't asked for further ones sooner than this (seconds)."""
MANY = 100
"""On more nodes than that it isn't for half of what a step may wait: news cost the driver as much as batches."""
LiveAnswer = queue.SimpleQueue["xr.Dataset | None"]
Told = tuple[str | None, Any]
"""Name of a node and its news; None and what is asked of the loop: to stop, or for statistics, or just to look."""
STOP = "stop"


class Inbox:
    """What the loop of a run waits for: takes news in from any thread, and gives it to one.

    Parameters
    ----------
    stream
        Name of the stream.
    """

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self.queue: queue.SimpleQueue[Told] = queue.SimpleQueue()
        """Gets the name of each node that has news, and these."""
        self.stopped = False
        """Whether the loop is to end."""
        self._asked: list[LiveAnswer] = []
        self._closed = False

    def wake(self) -> None:
        """Make the loop look at its tasks."""
        self.queue.put((None, None))

    def stop(self) -> None:
        """End the loop."""
        self.queue.put((None, STOP))

    def live(self, timeout_s: float) -> "xr.Dataset":
        """Wait for the statistics as they are now.

        Raises
        ------
        StreamError
            If nothing was folded within `timeout_s`.
        """
        answer: LiveAnswer = queue.SimpleQueue()
        self.queue.put((None, answer))
        try:
            dataset = None if self._closed else answer.get(timeout=timeout_s)
        except queue.Empty:
            dataset = None
        if dataset is None:
            raise StreamError(f"nothing of stream {self._stream!r} is being folded: try again later")
        return dataset

    def take(self, wait_s: float) -> list[tuple[str, Any]]:
        """Wait for news, and return all that nodes have told: to look at it for each of a thousand takes long.

        Raises
        ------
        BbflowError
            What a node's watcher has failed with.
        """
        try:
            found = [self.queue.get(timeout=wait_s)]
            found += [self.queue.get_nowait() for _ in range(self.queue.qsize())]
        except queue.Empty:
            return []
        self._heed(news for source, news in found if source is None)
        told = [(source, news) for source, news in found if source is not None]
        for _, news in told:
            if isinstance(news, BbflowError):
                raise news
        return told

    def _heed(self, asked: Iterable[Any]) -> None:
        for what in asked:
            if what == STOP:
                self.stopped = True
            elif what is not None:
                self._asked.append(what)

    def answer(self, live: "Callable[[], xr.Dataset | None]") -> None:
        """Answer those who wait for the statistics with what these are now."""
        asked = self._asked
        dataset = live() if asked else None
        self._asked = []
        for answer in asked:
            answer.put(dataset)

    def close(self) -> None:
        """End all waits."""
        self._closed = True  # first: who asks after that is found below, or sees it
        while not self.queue.empty():
            source, what = self.queue.get()
            self._heed([what] if source is None else [])
        self.answer(lambda: None)


class Intake:
    """Takes in what the nodes tell.

    Parameters
    ----------
    contact
        The contact file.
    config
        The run's configuration.
    nodes
        Those that are left.
    consumers
        What earlier analyses have done; learns how steps are numbered.
    inbox
        Where the nodes' news come in.
    log
        Gets an event for each step that has landed.
    lost
        Names of nodes that are gone for good.
    """

    def __init__(
        self,
        contact: Path,
        config: Config,
        nodes: Sequence[NodeAddress],
        consumers: Consumers,
        inbox: Inbox,
        log: EventLog,
        lost: Collection[str] = (),
    ) -> None:
        self._config, self._nodes, self._consumers, self._inbox, self._log = config, nodes, consumers, inbox, log
        names, done = [node.name for node in nodes], consumers.done_before()
        safe = read_safe_copy(config.output)
        before = safe.attributes if lost and safe.states else None
        self.view = StreamView(names, done, whole=not lost, before=before)
        """The stream over all nodes."""
        self._seen = consumers.landed_before()
        read, folder = BlockReader(contact, config.stream, consumers.returning).read, config.output / FIELDS_DIRECTORY
        self.adapting = Adapting(
            names, self._seen, read_as(config), read, consumers.numbering, whole=not lost, folder=folder
        )
        """Makes the stream's own steps of those that land."""
        self._forsaken = Forsaken(self.view, consumers, LOST_PATIENCE_S if lost else PATIENCE_S)
        self._landed, self._forgotten = max(done.values()), -1
        self._watch: StreamWatch | None = None
        self._deadline_s = 0.0
        self._began_s = time.time()

    def start(self) -> None:
        """Begin to watch the nodes."""
        self._deadline_s = time.monotonic() + self._config.open_timeout_s
        self._watch = StreamWatch(
            self._nodes,
            self._config.stream,
            self._inbox.queue,
            self._seen,
            extremes=asks_for_extremes(self._config),
            rest_s=REST_S if len(self._nodes) <= MANY else NODE_S * len(self._nodes) / 2,
            epochs=self._consumers.epochs,
            returning=self._consumers.returning,
        )
        self._watch.start()

    def take(self, wait_s: float) -> None:
        """Wait for news for a while, and take them in.

        Raises
        ------
        StreamError
            If no program has opened the stream in time, or a step isn't as its schema has it.
        BbflowError
            What a node's watcher has failed with.
        """
        told = self._inbox.take(wait_s)
        for source, news in told:
            # What is there when this analysis begins: the one before may have ended since it couldn't read that.
            news, lost = readable(source, news, self._began_s)
            for line in lost:
                log(f"bbflow: {line}")
            for node, own in self.adapting.take(source, news):
                self.view.update(node, own)
        if told:
            self._log_landed()
        self._forsaken.look()
        if self.view.status == "expected" and time.monotonic() > self._deadline_s:
            if self.view.lacks_ranks:
                raise StreamError(
                    f"some ranks of stream {self._config.stream!r} are on no BB node that answers after "
                    f"{self._config.open_timeout_s:.0f} s, so no step is whole: they never opened it, or had ended on "
                    "a node that is lost"
                )
            raise StreamError(
                f"no program opened stream {self._config.stream!r} within {self._config.open_timeout_s:.0f} "
                "s: check the engine's XML (Stream, else the IO's name) and BBFLOW_CONTACT"
            )

    def _log_landed(self) -> None:
        numbers = self.view.steps_after(self._landed)
        landed = ((number, parts_of(self.view, number).values()) for number in numbers)
        self._log.add_all(
            {
                "event": "landed",
                "step": number,
                "began_s": min(part.began_s for part in parts),
                "committed_s": max(part.committed_s for part in parts),
                "bytes": sum(part.bytes for part in parts),
            }
            for number, parts in landed
            if parts
        )
        self._landed = max(numbers, default=self._landed)

    def forget(self, cursor: int) -> None:
        """Release the steps up to one."""
        if cursor > self._forgotten:
            self._forgotten = cursor
            self.view.forget(cursor)
            self._consumers.numbering.let_go(cursor)

    def check_found(self) -> None:
        """Check that a schema has found steps in what has landed.

        Raises
        ------
        StreamError
            If it has found none.
        """
        if landed := self.adapting.without_frames:
            raise StreamError(
                f"none of the {landed} steps of stream {self._config.stream!r} that landed has a variable of its "
                "schema's, so there is nothing to fold: set schema: none to take the stream as it is"
            )

    def close(self) -> None:
        """End the watching."""
        if self._watch is not None:
            self._watch.stop()

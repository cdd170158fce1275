"""The rescue: what nodes hold of a stream goes to a ``raw.zarr`` of its own, by nothing but the stream's name.

It needs no Dask, no operators, no calendar and not all nodes: what has ended an analysis must not end the rescue.
"""

import math
import os
import queue
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bbflow.configuring.settings import Config, RawConfig
from bbflow.configuring.step_time import TimeConfig
from bbflow.drain.coordinates import write_coordinates
from bbflow.drain.drain_task import drain_steps
from bbflow.drain.draining import Draining, RawStep
from bbflow.drain.stores import check_there, left_out_of, unused_store
from bbflow.errors import BbflowError, ConfigError, NodeError, StreamError
from bbflow.host.belongings import claim
from bbflow.host.log import tell
from bbflow.host.waiting import Lasting
from bbflow.landing.client import NodeClient
from bbflow.net.contact import NodeAddress, read_contact
from bbflow.stream.cf import STEP, StreamAttributes
from bbflow.stream.records import Step
from bbflow.view.adapting import Adapting, StreamConfig
from bbflow.view.blocks import Array, BlockReader
from bbflow.view.consumers import LOST_PATIENCE_S, RESCUE, Consumers, Forsaken
from bbflow.view.layout import PlacedBlock
from bbflow.view.spills import readable
from bbflow.view.stream import STEPS_PER_REPLY, StreamView, described_discards, told_refusal
from bbflow.view.times import StepTimes, clock_of, told_by
from bbflow.view.watch import StreamWatch
from bbflow.zarr_store.growing import shown_dimension, shown_shapes, zarr_files

BATCH_STEPS = 16
"""How many steps become visible at once."""


@dataclass(frozen=True, slots=True)
class Rescued:
    """What a rescue has done."""

    store: Path
    """Where the steps are."""
    steps: int
    """How many."""
    left_out: tuple[str, ...]
    """Variables that the store can't have, at least of some steps, each with the reason."""
    complete: bool
    """Whether every writer closed the stream in order, and nothing of it was refused or discarded."""
    refused: Sequence[str]
    """What the program was refused, or was discarded or lost since, and the stream lacks."""


@dataclass(frozen=True, slots=True)
class HeldStep:
    """A step as the coordinates are taken from it."""

    number: int
    """Its number."""
    placed: Sequence[PlacedBlock]
    """Its blocks."""
    reader: BlockReader
    """Reads them."""

    def whole(self, names: Sequence[str]) -> list[Array]:
        """Read variables that are there."""
        owns = ([(node, block) for node, block in self.placed if block.name == name] for name in names)
        return [self.reader.assemble(self.number, own).copy() for own in owns]


class Rescue:
    """Drains all variables of all steps that are held, until the stream ends; what no store can have is left out.

    Parameters
    ----------
    contact
        The contact file; nodes that don't answer are left out, and with them their part of the steps.
    stream
        The stream.
    output
        Directory for the store. A rescue that is started again continues with its own; those of other streams stay as
        they are.
    time
        What tells the steps' time; steps are counted if nothing tells that of the first one.
    schema
        By which conventions the stream is written; None: by those that recognise it.
    owner
        Whose analysis it continues for.
    take_over
        Whether the stream may be another analysis' until now.
    batch_steps, reply_steps
        How many steps are written together at most, and how many a node tells of at once.
    absent_s
        How long ranks of nodes that don't answer may come to another (seconds); then steps count without them.

    Raises
    ------
    NodeError
        If no node answers.
    StreamError
        If the stream is another analysis'.
    """

    def __init__(
        self,
        contact: Path,
        stream: str,
        output: Path,
        time: TimeConfig,
        *,
        schema: str | None = None,
        owner: str = "",
        take_over: bool = False,
        batch_steps: int = BATCH_STEPS,
        reply_steps: int = STEPS_PER_REPLY,
        absent_s: float = LOST_PATIENCE_S,
    ) -> None:
        known = read_contact(contact)
        nodes = _answering(known)
        self._contact, self._stream, self._time, self._batch_steps = contact, stream, time, batch_steps
        self._consumers = Consumers(nodes, stream, [RESCUE], owner, take_over=take_over)
        self._store, self._is_begun = self._own_store(output)
        names = [node.name for node in nodes]
        cursors = {node: step for node, (step, _) in self._consumers.of(RESCUE).items()}
        whole = len(nodes) == len(known)
        self._view = StreamView(names, dict.fromkeys(names, -1), whole=whole)
        self._forsaken = Forsaken(self._view, self._consumers)
        self._news: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._watch = StreamWatch(nodes, stream, self._news, extremes=True, reply_steps=reply_steps)
        config = Config(stream, {}, output, time=time, raw=RawConfig())
        self._draining = Draining(config, contact, cursors)
        self._first, self._told = self._draining.cursor, set[int]()
        read_as, read = StreamConfig(time, schema, is_dated=True), BlockReader(contact, stream).read
        done = dict.fromkeys(names, -1)
        self._adapting = Adapting(names, done, read_as, read, self._consumers.numbering, whole=whole)
        self._times: StepTimes | None = None
        self._is_open = False
        self._lost: list[str] = []
        self._absent_s, self._lacking = absent_s, Lasting(math.inf if whole else absent_s)

    def run(self) -> Rescued:
        """Drain until the stream has ended, and let the nodes forget it.

        Raises
        ------
        NodeError
            If a node is gone.
        StreamError
            If another analysis takes over, or steps have landed that weren't written.
        ConfigError
            If the store of an earlier rescue is gone.
        """
        self._watch.start()
        try:
            if self._is_begun and any(step >= 0 for step, _ in self._consumers.of(RESCUE).values()):
                check_there(self._store)
            while not (self._view.ended and self._draining.cursor >= self._view.frontier):
                self._take_news()
                self._forsaken.look()
                self._look_for_absent()
                self._drain()
            self._draining.commit_late(self._view.attributes)
            self._check_all_is_there()
            dropped = described_discards(self._view.discarded, self._view.frontier + 1)
            refused = [*self._view.refused, *self._lost, *dropped]
            self._consumers.drop(self._view.unaware, lambda whys: refused.extend(map(told_refusal, whys)))
            refused = list(dict.fromkeys(refused))
            steps = shown_shapes(self._store).get(STEP, (0,))[0]  # it may all have been done before this was started
            left_out = tuple(self._draining.lacking) if self._is_open else left_out_of(self._store)
            return Rescued(self._store, steps, left_out, self._view.status == "closed" and not refused, refused)
        finally:
            self._watch.stop()
            self._consumers.close()

    def _look_for_absent(self) -> None:
        """Go without ranks of lost nodes that come to no other: the others may wait for the room that this frees."""
        if self._lacking.is_enough(self._view.lacks_ranks):
            self._view.go_without()
            self._adapting.go_without()
            self._lost.append(
                f"ranks of lost nodes have come to no other for {self._absent_s:g} s: their values aren't there"
            )

    def _check_all_is_there(self) -> None:
        """Check that what has landed is what was written, before the nodes forget it.

        Raises
        ------
        StreamError
            If not; the nodes keep what they hold.
        """
        unwritten = sorted(self._told - self._view.discarded - {*self._draining.numbers})
        lacking = [number for number in unwritten if number <= self._view.frontier]
        left = [steps for node, steps in self._consumers.left_after(self._draining.cursor).items() if self._lands(node)]
        lacking += sorted(set[int]().union(*left)) if left and all(left) else []  # else no further step is whole
        if lacking:
            raise StreamError(
                f"stream {self._stream!r}: {len(lacking)} steps have landed, the first of them {lacking[0]}, that "
                f"{self._store} doesn't have, which has those up to {self._draining.cursor}: the BB nodes keep them; "
                "start the rescue again"
            )

    def _lands(self, node: str) -> bool:
        return node in self._view.taking_part and node not in self._view.unaware

    def _take_news(self) -> None:
        node, news = self._news.get()
        if isinstance(news, BbflowError):
            raise news
        news, lost = readable(node, news)
        self._lost += lost
        for name, own in self._adapting.take(node, news):
            self._view.update(name, own)
            self._told.update(step.number for step in own.steps if step.number > self._first)

    def _drain(self) -> None:
        while numbers := self._view.held_after(self._draining.cursor)[: self._batch_steps]:
            if not self._is_open:
                self._open(numbers[0])
            steps = [self._raw_step(number) for number in numbers]
            batch = self._draining.next_batch(steps, numbers[-1], 1, self._view.changes)
            for work in batch.works:
                drain_steps(work)
            self._draining.take(batch)
            self._pass(batch.through)  # after the store has them: the nodes may free them now
        if self._view.frontier > self._draining.cursor:  # what is between was discarded, or is done with
            self._pass(self._view.frontier)

    def _pass(self, through: int) -> None:
        self._draining.cursor = through
        self._consumers.commit(RESCUE, through, self._view.taking_part, self._checkpoint)
        self._view.forget(through)

    def _own_store(self, output: Path) -> tuple[Path, bool]:
        """Return the store that an earlier rescue of this stream has begun in a directory, or a new one; and which."""
        begun = (Path(os.fsdecode(checkpoint)) for _, checkpoint in self._consumers.of(RESCUE).values() if checkpoint)
        names = [path.name for path in begun if path.parent == output.resolve()]
        return (output / names[0], True) if names else (unused_store(output), False)

    def _checkpoint(self, node: str) -> bytes:
        # Of steps that were done with, or discarded, before the first that is held there is no store to be missed.
        return os.fsencode(self._store.resolve()) if self._is_begun else b""

    def _open(self, number: int) -> None:
        self._is_begun = True
        for node, (step, _) in self._consumers.of(RESCUE).items():  # before anything is in the store
            self._consumers.commit(RESCUE, max(step, self._draining.cursor), [node], self._checkpoint)
        # Of the first step that is held, a node may have let go of the time; steps follow what is there already.
        axis = shown_dimension(self._store, STEP)
        clock = self._find_clock(number)
        has_time = self._time_of(number) is not None if axis is None else axis != STEP
        blocks = [block for _, block in self._view.blocks(number)]
        shapes = {block.name: block.shape for block in blocks if block.kind == "GlobalArray"}
        reserved = frozenset({self._time.variable if has_time else STEP})
        names = {block.name for block in blocks}
        maps = self._adapting.maps
        attributes = StreamAttributes(self._view.attributes, reserved, variables=names, maps=maps).agreeing(shapes)
        claim(self._store.parent, *zarr_files(self._store.name))
        store = self._draining.open(self._store, attributes, clock if has_time else None)
        reader = BlockReader(self._contact, self._stream)
        write_coordinates(HeldStep(number, self._view.blocks(number), reader), [store], attributes)
        self._is_open = True

    def _find_clock(self, number: int) -> dict[str, str]:
        """Find in which units steps have their times; gives the attributes of these, none if they can't be read."""
        told, attributes = told_by(self._parts(number), self._time.variable), StreamAttributes(self._view.attributes)
        clock = None
        with suppress(ConfigError):  # what has ended an analysis must not end the rescue
            clock = clock_of(self._time, attributes, told)
        self._times = StepTimes(self._time, clock)
        return {} if clock is None else clock.attributes

    def _parts(self, number: int) -> dict[str, Step]:
        parts = ((node, self._view.step(node, number)) for node in self._view.taking_part)
        return {node: part for node, part in parts if part is not None}

    def _raw_step(self, number: int) -> RawStep:
        time = self._time_of(number)
        return RawStep(number, math.nan if time is None else time, self._parts(number))

    def _time_of(self, number: int) -> float | None:
        assert self._times is not None
        with suppress(ConfigError):
            return self._times.find(number, self._parts(number))
        return None


def check_known(contact: Path, stream: str) -> None:
    """Check that some node has a stream: a rescue would wait for it.

    Raises
    ------
    NodeError
        If no node answers.
    StreamError
        If none has.
    """
    there: set[str] = set()
    for node in _answering(read_contact(contact)):
        with NodeClient(node) as client:
            there.update(client.status().streams)
    if stream not in there:
        others = f"they have {', '.join(map(repr, sorted(there)))}" if there else "they have none"
        raise StreamError(f"the BB nodes of {contact} know no stream {stream!r}, {others}: nothing is left to rescue")


def _answering(nodes: Sequence[NodeAddress]) -> list[NodeAddress]:
    """Return the nodes that can be had, and say which can't.

    Raises
    ------
    NodeError
        If there is none.
    """
    found: list[NodeAddress] = []
    lost: list[NodeError] = []
    for node in nodes:
        try:
            NodeClient(node).close()
            found.append(node)
        except NodeError as error:
            lost.append(error)
    if not found:
        raise lost[0] if lost else NodeError("the contact file names no BB node")
    for reason in lost:
        tell(f"{reason}: its part of the steps is not rescued")
    return found

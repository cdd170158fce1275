"""What is folded next, and which states count: the fold's bookkeeping, without any I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgpack

from bbflow.cf import StreamAttributes
from bbflow.config import Config
from bbflow.errors import ConfigError, StreamError, nearest
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.space import Local, Placement
from bbflow.operators.windows.calendars import Clock
from bbflow.records import Block
from bbflow.transit.chain.heritage import Heritage
from bbflow.transit.chain.taking_over import inheriting
from bbflow.transit.folding.inputs import Inputs
from bbflow.transit.folding.series import join_partials
from bbflow.transit.folding.shards import ShardKey, ShardState
from bbflow.transit.folding.slots import Keys
from bbflow.transit.folding.task import FoldReceipt, FoldWork
from bbflow.transit.folding.timeline import Closing, Timeline
from bbflow.view.stream import StreamView


@dataclass(frozen=True, slots=True)
class Batch:
    """Steps that are folded together: all in one span of every window."""

    steps: tuple[int, ...]
    """Their numbers; none if all that is there is late."""
    times: tuple[float, ...]
    """Their times."""
    keys: Keys
    """Window name to the span that they are in."""
    through: int
    """Every step up to this one is folded or left out with this batch."""
    late: int = 0
    """Steps that are left out."""
    offset: int = 0
    """Steps of the runs before, in a chain of jobs."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The steps' numbers as operators see them: counted through a chain of jobs."""
        return tuple(number + self.offset for number in self.steps)


class Folding:
    """Keeps the states that count and cuts the work.

    Parameters
    ----------
    config
        The run's configuration.
    cursors
        For each node, how far it is folded and the checkpoint stored with that.
    heritage
        What an earlier run has left, if this one goes on from it.
    """

    def __init__(
        self, config: Config, cursors: Mapping[str, tuple[int, bytes]], heritage: Heritage | None = None
    ) -> None:
        self.config = config
        """The run's configuration."""
        self.heritage = heritage
        """What an earlier run has left."""
        self._offset: int | None = None if heritage else 0
        self.last_number = heritage.saved.number if heritage else -1
        """Number of the last step that was folded, counted through a chain of jobs."""
        self.cursor = min(step for step, _ in cursors.values())
        """Every step up to this one is folded."""
        self.errors: dict[str, str] = {}
        """What failed in users' operators, which are called no more."""
        self.states: dict[ShardKey, ShardState] = {}
        """The states that count."""
        self.placements: dict[str, Placement] = {}
        """Diagnostic to where its field lies, of those that have a `space`."""
        diagnostics = config.diagnostics.values()
        published = [window for item in diagnostics for window in item.windows]
        inner = [item.each.window for item in diagnostics if item.each]
        unique = list({window.name: window for window in published}.values())
        self.timeline = Timeline(unique, inner, config.time.interval)
        """The spans of time that are alive."""
        if heritage is not None:
            self.timeline.go_on(heritage.saved.timeline)
            self.errors.update(heritage.saved.errors)
        for step, checkpoint in cursors.values():
            if checkpoint:
                self._restore(msgpack.unpackb(checkpoint), is_oldest=step == self.cursor)
        self._lanes: dict[ShardKey, int] = {}
        self._locals: dict[ShardKey, Local | None] = {}

    @property
    def number(self) -> int:
        """The cursor, counted through a chain of jobs."""
        return self.cursor + (self._offset or 0)

    @property
    def late(self) -> int:
        """Steps of this run that were left out."""
        return self.timeline.late - (self.heritage.saved.late if self.heritage else 0)

    @property
    def missing(self) -> int:
        """Steps that were expected in gaps of this run, or between it and the one before."""
        return self.timeline.missing - (self.heritage.saved.missing if self.heritage else 0)

    def next_batch(self, view: StreamView, clock: Clock) -> Batch | None:
        """Give the next steps to fold, or None if none is complete.

        Raises
        ------
        StreamError
            If a step isn't later than the one before, and the configuration makes that an error.
        """
        batch: Batch | None = None
        last: float | None = None
        for number in view.steps_after(self.cursor)[: self.config.workers.batch_steps]:
            time = step_time(view, number, self.config.time.variable)
            if self.timeline.is_late(time, last):
                self._refuse_late(number, time)
                batch = replace(batch or Batch((), (), {}, number), through=number)
                batch = replace(batch, late=batch.late + 1)
                continue
            if self._offset is None and self.heritage is not None:
                self._offset = self.heritage.saved.number + 1 - number
            date, offset = clock.date(time), self._offset or 0
            keys = {window.name: window.key(date, number + offset) for window in self.timeline.windows}
            if batch is not None and batch.steps and batch.keys != keys:
                break
            batch = batch or Batch((), (), keys, number)
            batch = replace(batch, steps=(*batch.steps, number), times=(*batch.times, time), keys=keys, through=number)
            batch = replace(batch, offset=offset)
            last = time
        return batch

    def _refuse_late(self, number: int, time: float) -> None:
        if self.config.time.late == "error":
            raise StreamError(
                f"step {number} has the time {time:g}, which isn't later than the step before: let the simulation "
                "write ascending times, or set time: late: skip to leave such steps out"
            )

    def works(
        self,
        batch: Batch,
        view: StreamView,
        attributes: StreamAttributes,
        places: Mapping[str, Any],
        rows: str,
    ) -> dict[str, list[FoldWork]]:
        """Cut a batch into the work of each node.

        Parameters
        ----------
        batch
            The steps.
        view
            Where their blocks are.
        attributes
            Fill values are taken from them.
        places
            Node name to its address (pool and state directory).
        rows
            Directory for rows that pass filters.

        Raises
        ------
        ConfigError
            If a variable has blocks without a place in a global array, or those of an expression's variables don't
            cover the same regions.
        """
        works: dict[str, list[FoldWork]] = {}
        for diagnostic in self.config.diagnostics.values():
            fills = {name: attributes.fill_value(name) for name in diagnostic.variables}
            for key, steps in self._blocks(diagnostic, batch, view).items():
                local = self._local(key)
                if local is None and diagnostic.key in self.placements:
                    continue
                region = (local.start, local.count) if local else (key.start, key.count)
                numbers = tuple(number + batch.offset for number, _ in steps)
                inputs = Inputs(
                    numbers,
                    tuple(batch.times[batch.numbers.index(number)] for number in numbers),
                    fills,
                    places[key.node].pool,
                    tuple(blocks for _, blocks in steps),
                )
                state = self.states.get(key) or ShardState(key, *region, first_step=numbers[0])
                directory = places[key.node].state_directory
                work = FoldWork(state, diagnostic, inputs, batch.keys, local, directory, rows, self.errors)
                works.setdefault(key.node, []).append(work)
        return inheriting(self.heritage, works, self.states)

    def _local(self, key: ShardKey) -> Local | None:
        placement = self.placements.get(key.diagnostic)
        if placement is not None and key not in self._locals:
            self._locals[key] = placement.local(key.start, key.count)
        return self._locals.get(key)

    def _blocks(
        self, diagnostic: Diagnostic, batch: Batch, view: StreamView
    ) -> dict[ShardKey, list[tuple[int, dict[str, Block]]]]:
        found: dict[ShardKey, list[tuple[int, dict[str, Block]]]] = {}
        for number in batch.steps:
            for key, blocks in regions(diagnostic, view.blocks(number)).items():
                known = self.states.get(key)
                if known is None or known.last_step < number + batch.offset:
                    found.setdefault(key, []).append((number, blocks))
        return found

    def series_works(
        self, batch: Batch, receipts: Sequence[FoldReceipt], places: Mapping[str, Any], rows: str
    ) -> tuple[str, list[FoldWork]]:
        """Cut the work on what blocks of several ranks have contributed to.

        Returns
        -------
        tuple
            The node that keeps such states, and its work.
        """
        node = min(places)
        partials = [part for item in receipts for part in item.partials]
        works = []
        for name, numbers, arrays in join_partials(partials, self.placements, self._local):
            count = self.placements[name].shape
            key = ShardKey(node, name, (), ())
            state = self.states.get(key) or ShardState(key, (0,) * len(count), count, first_step=numbers[0])
            new = [(number, values) for number, values in zip(numbers, arrays, strict=True) if number > state.last_step]
            inputs = Inputs(
                tuple(number for number, _ in new),
                tuple(batch.times[batch.numbers.index(number)] for number, _ in new),
                {},
                places[node].pool,
                arrays=tuple(values for _, values in new),
            )
            diagnostic = self.config.diagnostics[name]
            directory = places[node].state_directory
            work = FoldWork(state, diagnostic, inputs, batch.keys, None, directory, rows, self.errors)
            works += [work] if new else []
        return node, inheriting(self.heritage, {node: works}, self.states)[node]

    def lanes(self, works: Sequence[FoldWork], count: int) -> list[list[FoldWork]]:
        """Share a node's work out over `count` workers; a shard stays with the lane it began in."""
        loads = [0] * count
        shared: list[list[FoldWork]] = [[] for _ in range(count)]
        for work in sorted(works, key=lambda work: -work.inputs.bytes):
            lane = self._lanes.setdefault(work.state.key, loads.index(min(loads))) % count
            loads[lane] += work.inputs.bytes
            shared[lane].append(work)
        return [lane for lane in shared if lane]

    def take(self, batch: Batch, receipts: Iterable[FoldReceipt]) -> None:
        """Let the results of a batch's tasks count."""
        for receipt in receipts:
            self.states.update({state.key: state for state in receipt.states})
            self.errors.update(receipt.errors)
        self.timeline.take(batch.times, batch.keys, batch.late)
        self.last_number = max((*batch.numbers, self.last_number))
        self.cursor = batch.through

    def was_published(self, closing: Closing) -> bool:
        """Whether an earlier analysis has published a span, and dropped states of it, before it died.

        It dies between the commits to two nodes: then the states of one are ahead of the cursor. A span is published
        before the first step after it is folded.
        """
        name = closing.window.name
        ahead = [state for state in self.states.values() if state.last_step > self.last_number and state.keys]
        return any(state.keys[name] not in closing.keys for state in ahead if state.keys and name in state.keys)

    def take_rows(self) -> list[ShardState]:
        """Give the states with rows that were not published, and let go of the rows."""
        holding = [state for state in self.states.values() if state.rows]
        self.states.update({state.key: replace(state, rows=()) for state in holding})
        return holding

    def checkpoint(self, node: str) -> bytes:
        """Give what a node must store with its cursor."""
        packed: bytes = msgpack.packb(
            {
                "shards": [state.to_wire() for key, state in self.states.items() if key.node == node],
                "timeline": self.timeline.to_wire(),
                "errors": self.errors,
                "numbers": [self._offset, self.last_number],
            }
        )
        return packed

    def _restore(self, checkpoint: Mapping[str, Any], *, is_oldest: bool) -> None:
        for message in checkpoint["shards"]:
            state = ShardState.from_wire(message)
            self.states[state.key] = state
        if is_oldest:
            self.timeline.restore(checkpoint["timeline"])
            self.errors.update(checkpoint["errors"])
            self._offset, self.last_number = checkpoint["numbers"]


def regions(diagnostic: Diagnostic, blocks: Iterable[tuple[str, Block]]) -> dict[ShardKey, dict[str, Block]]:
    """Find the regions of a step that have a block of each of a diagnostic's variables.

    Parameters
    ----------
    diagnostic
        What is computed.
    blocks
        All blocks of the step, each with the name of its node.

    Raises
    ------
    ConfigError
        If a block can't be folded, or the variables' blocks don't cover the same regions.
    """
    found: dict[ShardKey, dict[str, Block]] = {}
    single: dict[str, tuple[str, Block]] = {}
    for node, block in blocks:
        if block.name in diagnostic.variables:
            _check_foldable(block)
            if block.shape:
                key = ShardKey(node, diagnostic.key, block.start, block.count)
                found.setdefault(key, {})[block.name] = block
            else:
                single[block.name] = node, block
    if not found and len(single) == len(diagnostic.variables):
        node = next(iter(single.values()))[0]
        return {ShardKey(node, diagnostic.key, (), ()): {name: block for name, (_, block) in single.items()}}
    present = {name for own in found.values() for name in own} | set(single)
    if not present.issuperset(diagnostic.variables):
        return {}
    _check_regions(diagnostic, found, set(single))
    return {key: own | {name: block for name, (_, block) in single.items()} for key, own in found.items()}


def _check_regions(diagnostic: Diagnostic, found: Mapping[ShardKey, Mapping[str, Block]], single: set[str]) -> None:
    wanted = set(diagnostic.variables) - single
    for key, own in found.items():
        lacking = sorted(wanted - set(own))
        if lacking:
            raise ConfigError(
                f"operators of {diagnostic.name}: {', '.join(sorted(own))} has a block at {key.start} of shape "
                f"{key.count} on BB node {key.node}, but {', '.join(lacking)} has none there: variables of one "
                "expression must be decomposed in the same way"
            )


def step_time(view: StreamView, number: int, variable: str) -> float:
    """Give a step's time, in the stream's units.

    Raises
    ------
    ConfigError
        If the step has no such single value.
    """
    blocks = [block for _, block in view.blocks(number)]
    for block in blocks:
        if block.name == variable and isinstance(block.value, int | float):
            return float(block.value)
    names = {block.name for block in blocks}
    raise ConfigError(
        f"step {number} has no single value {variable!r} that tells its time; {nearest(variable, names)} "
        "(set time: variable)"
    )


def _check_foldable(block: Block) -> None:
    if block.kind not in ("GlobalArray", "GlobalValue") or block.type == "string":
        raise ConfigError(
            f"{block.name} is a {block.kind} of type {block.type}: operators need numbers in a global array or "
            "a global value; take it out of 'operators'"
        )
    if block.dtype.kind == "c":
        raise ConfigError(f"{block.name} is complex: operators need real numbers; take it out of 'operators'")

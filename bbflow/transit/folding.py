"""What is folded next, and which states count: the fold's bookkeeping, without any I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgpack

from bbflow.cf import StreamAttributes
from bbflow.config import Config
from bbflow.errors import ConfigError, nearest
from bbflow.operators.calendars import Clock
from bbflow.operators.windows import Window
from bbflow.records import Block
from bbflow.transit.fold import FoldReceipt, FoldWork
from bbflow.transit.shards import ShardKey, ShardState, WindowKey, shard_of
from bbflow.view.stream import StreamView


@dataclass(frozen=True, slots=True)
class Span:
    """The part of a window's current span that was folded."""

    key: WindowKey
    """Which span, such as (2000, 1)."""
    first: float
    """Time of its first step, in the stream's units."""
    last: float
    """Time of its last step."""
    steps: int
    """How many steps are in it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Steps that are folded together: all in one span of every window."""

    steps: tuple[int, ...]
    """Their numbers."""
    times: tuple[float, ...]
    """Their times."""
    keys: Mapping[str, WindowKey]
    """Window name to the span that they are in."""


class Folding:
    """Keeps the states that count and cuts the work.

    Parameters
    ----------
    config
        The run's configuration.
    cursors
        For each node, how far it is folded and the checkpoint stored with that.
    """

    def __init__(self, config: Config, cursors: Mapping[str, tuple[int, bytes]]) -> None:
        self._config = config
        self.cursor = min(step for step, _ in cursors.values())
        """Every step up to this one is folded."""
        self.states: dict[ShardKey, ShardState] = {}
        """The states that count."""
        self.spans: dict[str, Span] = {}
        """Window name to its open span."""
        for step, checkpoint in cursors.values():
            if checkpoint:
                self._restore(msgpack.unpackb(checkpoint), is_oldest=step == self.cursor)
        self._lanes: dict[ShardKey, int] = {}

    @property
    def windows(self) -> tuple[Window, ...]:
        """All windows that any variable uses, finest first."""
        longest = max((item.windows for item in self._config.variables.values()), key=len, default=())
        others = [w for item in self._config.variables.values() for w in item.windows if w not in longest]
        return tuple(dict.fromkeys([*longest, *others]))

    def next_batch(self, view: StreamView, clock: Clock) -> Batch | None:
        """Give the next steps to fold, or None if none is complete."""
        steps: list[int] = []
        times: list[float] = []
        keys: dict[str, WindowKey] = {}
        for number in view.steps_after(self.cursor)[: self._config.workers.batch_steps]:
            time = step_time(view, number, self._config.time.variable)
            date = clock.date(time)
            step_keys = {window.name: window.key(date, number) or () for window in self.windows}
            if steps and step_keys != keys:
                break
            steps.append(number)
            times.append(time)
            keys = step_keys
        return Batch(tuple(steps), tuple(times), keys) if steps else None

    def closing(self, batch: Batch | None) -> list[Window]:
        """Windows whose open span ends before `batch`; all of them if there is no further batch."""
        return [
            window
            for window in self.windows
            if window.name in self.spans and (batch is None or self.spans[window.name].key != batch.keys[window.name])
        ]

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
            If a variable has blocks without a place in a global array.
        """
        reset = frozenset(window.name for window in self.closing(batch))
        works: dict[str, list[FoldWork]] = {}
        for key, blocks in self._blocks(batch, view).items():
            config = self._config.variables[key.variable]
            state = self.states.get(key) or ShardState(key, blocks[0][1].dtype.str)
            works.setdefault(key.node, []).append(
                FoldWork(
                    state=state,
                    config=config,
                    steps=tuple(blocks),
                    base_key=batch.keys[config.windows[0].name],
                    reset=reset,
                    fill_value=attributes.fill_value(key.variable),
                    times=dict(zip(batch.steps, batch.times, strict=True)),
                    pool=places[key.node].pool,
                    state_directory=places[key.node].state_directory,
                    rows_directory=rows,
                )
            )
        return works

    def _blocks(self, batch: Batch, view: StreamView) -> dict[ShardKey, list[tuple[int, Block]]]:
        blocks: dict[ShardKey, list[tuple[int, Block]]] = {}
        for number in batch.steps:
            for node in view.taking_part:
                step = view.step(node, number)
                for block in step.blocks if step else ():
                    if block.name in self._config.variables:
                        _check_foldable(block)
                        key = shard_of(node, block)
                        known = self.states.get(key)
                        if known is None or known.last_step < number:
                            blocks.setdefault(key, []).append((number, block))
        return blocks

    def lanes(self, works: Sequence[FoldWork], count: int) -> list[list[FoldWork]]:
        """Share a node's work out over `count` workers; a shard stays with the lane it began in."""
        loads = [0] * count
        shared: list[list[FoldWork]] = [[] for _ in range(count)]
        for work in sorted(works, key=lambda work: -work.steps[0][1].bytes):
            lane = self._lanes.setdefault(work.state.key, loads.index(min(loads))) % count
            loads[lane] += sum(block.bytes for _, block in work.steps)
            shared[lane].append(work)
        return [lane for lane in shared if lane]

    def take(self, batch: Batch, receipts: Iterable[FoldReceipt]) -> None:
        """Let the results of a batch's tasks count."""
        for window in self.closing(batch):
            del self.spans[window.name]
        for receipt in receipts:
            self.states.update({state.key: state for state in receipt.states})
        for name, key in batch.keys.items():
            old = self.spans.get(name, Span(key, batch.times[0], batch.times[-1], 0))
            self.spans[name] = Span(key, old.first, batch.times[-1], old.steps + len(batch.steps))
        self.cursor = batch.steps[-1]

    def take_rows(self) -> dict[ShardKey, tuple[str, ...]]:
        """Give the files of rows that were not published, and let go of them."""
        rows = {key: state.rows for key, state in self.states.items() if state.rows}
        for key in rows:
            self.states[key] = replace(self.states[key], rows=())
        return rows

    def checkpoint(self, node: str) -> bytes:
        """Give what a node must store with its cursor."""
        packed: bytes = msgpack.packb(
            {
                "shards": [state.to_wire() for key, state in self.states.items() if key.node == node],
                "spans": {name: [span.key, span.first, span.last, span.steps] for name, span in self.spans.items()},
            }
        )
        return packed

    def _restore(self, checkpoint: Mapping[str, Any], *, is_oldest: bool) -> None:
        for message in checkpoint["shards"]:
            state = ShardState.from_wire(message)
            self.states[state.key] = state
        if is_oldest:
            self.spans = {
                name: Span(tuple(key), first, last, steps)
                for name, (key, first, last, steps) in checkpoint["spans"].items()
            }


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

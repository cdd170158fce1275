"""What is drained next, and how far the drain is: bookkeeping around `RawStore`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bbflow.cf import StreamAttributes
from bbflow.config import Config
from bbflow.drain.raw import DrainWork, RawStore, is_drainable, wanted
from bbflow.records import Block, Step
from bbflow.view.layout import PlacedBlock


@dataclass(frozen=True, slots=True)
class RawStep:
    """A step that is complete on all nodes."""

    number: int
    """Its number."""
    time: float
    """Its time, in the stream's units; NaN if it has none."""
    parts: Mapping[str, Step]
    """Node name to what lies there."""


@dataclass(frozen=True, slots=True)
class DrainBatch:
    """Steps that are drained together."""

    numbers: tuple[int, ...]
    """Their numbers; empty if none of the steps is kept."""
    times: tuple[float, ...]
    """Their times."""
    through: int
    """The drain is past this step once they are written."""
    works: tuple[DrainWork, ...]
    """What its tasks do, side by side."""


class Draining:
    """Cuts the drain's work.

    Parameters
    ----------
    config
        The run's configuration.
    contact
        Where the nodes are.
    cursors
        For each node, how far it is drained.
    """

    def __init__(self, config: Config, contact: Path, cursors: Mapping[str, int]) -> None:
        self._config = config
        self._contact = contact
        self._store: RawStore | None = None
        self._time: str | None = None
        self._there: set[int] = set()
        self.cursor = min(cursors.values(), default=-1)
        """Every step up to this one is drained, or not kept."""

    def open(self, path: Path, attributes: StreamAttributes, time: Mapping[str, str] | None) -> RawStore:
        """Open ``raw.zarr``, or make it; with the CF attributes of its time, None if the steps have no time."""
        self._time = None if time is None else self._config.time.variable
        axis = None if time is None else (self._config.time.variable, time)
        self._store = RawStore(path, self._config.raw, attributes, axis)
        self._there = set(self._store.committed_steps())
        return self._store

    @property
    def count(self) -> int:
        """How many steps the store has."""
        return len(self._there)

    def keeps(self, number: int) -> bool:
        """Whether a step is to be drained."""
        return wanted(self._config.raw, number)

    def next_batch(self, steps: list[RawStep], through: int, shares: int) -> DrainBatch:
        """Cut the next batch.

        Parameters
        ----------
        steps
            The next steps to keep, oldest first.
        through
            Last step that the batch settles, kept or not.
        shares
            Most tasks that drain side by side.
        """
        assert self._store is not None
        new = [step for step in steps if step.number not in self._there]
        blocks = [self._blocks(step) for step in new]
        start = len(self._there)
        self._store.make_room(start, [[block for _, block in step] for step in blocks])
        numbers = tuple(step.number for step in new)
        arrays = tuple(tuple((node, block) for node, block in placed if block.shape) for placed in blocks)
        work = DrainWork(str(self._store.path), start, numbers, arrays, self._contact, self._config.stream)
        return DrainBatch(numbers, tuple(step.time for step in new), through, tuple(work.part(shares)))

    def _blocks(self, step: RawStep) -> list[PlacedBlock]:
        return [
            (node, block)
            for node, part in step.parts.items()
            for block in part.blocks
            if is_drainable(block, self._config.raw, self._time) and not self._is_coordinate(block)
        ]

    def _is_coordinate(self, block: Block) -> bool:
        assert self._store is not None
        return len(block.shape) == 1 and self._store.is_coordinate(block.name)

    def take(self, batch: DrainBatch) -> None:
        """Let a batch count that was written."""
        assert self._store is not None
        if batch.numbers:
            self._store.commit(batch.works[0].start, batch.numbers, batch.times)
            self._there.update(batch.numbers)
        self.cursor = batch.through

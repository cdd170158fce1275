"""What a drain task does: it takes fields from where they lie, and writes them as chunks in large pieces."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import astuple, dataclass, field, replace
from itertools import groupby
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.drain.cuts import ChunkGrid
from bbflow.drain.encoding import encoder_of, rounded
from bbflow.drain.forms import File, Form
from bbflow.errors import StreamError
from bbflow.operators.frozen import Frozen
from bbflow.store.pool import map_pool
from bbflow.view.blocks import BlockReader
from bbflow.view.lease import Lease
from bbflow.view.returning import Returning
from bbflow.view.whole_fields import FieldPlace, FieldReader, Parts, layouts_of, offsets_of, places_in
from bbflow.zarr_store.growing import shown_attributes
from bbflow.zarr_store.shard_files import ShardChunks, is_stored, same_bytes

Array = np.ndarray[Any, Any]
PIECE_BYTES = 64 << 20
"""Of an array, this many bytes are written at once; a chunk that is larger is a piece of its own."""


@dataclass(frozen=True, slots=True)
class DrainWork(Frozen):
    """What one drain task does: its own files of one store, which it alone writes."""

    store: str
    """Path of the store."""
    start: int
    """Index of the first step on the time axis."""
    numbers: tuple[int, ...]
    """The steps."""
    steps: tuple[Parts, ...]
    """For each step what lies on the nodes."""
    forms: tuple[Form, ...]
    """How the arrays lie in files."""
    contact: Path
    """Where the nodes are."""
    stream: str
    """Whose steps they are."""
    share: int = 0
    """Which of the tasks that drain side by side this is."""
    shares: int = 1
    """How many there are."""
    back_s: float = 0.0
    """How long a node whose agent is killed is waited for (seconds)."""
    begun: Mapping[str, int] = field(default_factory=dict)
    """Array to the index of the last file into which steps before these were written."""

    def parts(self, shares: int) -> "list[DrainWork]":
        """Part the files among this many tasks; those that have none are left out."""
        parts = [replace(self, share=share, shares=shares) for share in range(shares)]
        return [part for part in parts if any(part.rows(form) for form in self.forms)]

    @property
    def returning(self) -> Returning | None:
        """What waits for such a node."""
        return Returning(self.contact, self.back_s, is_silent=True) if self.back_s else None

    def gone(self, lease: Lease) -> set[int]:
        """Hold steps by a lease, and return those that are no longer there."""
        steps: dict[str, set[int]] = {}
        for parts in self.steps:
            for node, part in parts.items():
                steps.setdefault(node, set()).add(part.landed_in)
        lost = {(node, landed) for node, own in steps.items() for landed in own - lease.pin(node, own)}
        numbered = zip(self.numbers, self.steps, strict=True)
        return {number for number, parts in numbered if any((node, parts[node].landed_in) in lost for node in parts)}

    def rows(self, form: Form) -> dict[int, list[int]]:
        """Return the rows of an array that this task writes, by the index of their file."""
        begin, end = self.start, self.start + len(self.numbers)
        rows: dict[int, list[int]] = {}
        for index in range(begin // form.steps, -(-end // form.steps)):
            if form.owner(index, self.shares) == self.share:
                first = index * form.steps
                rows[index] = [*range(max(begin, first), min(end, first + form.steps))]
        return rows


@dataclass(frozen=True, slots=True)
class Drained:
    """What a drain task has done."""

    bytes: int
    """Bytes of the steps' arrays."""
    stored_bytes: int
    """Bytes that were written of them."""
    repeated_bytes: int
    """Bytes of the arrays that were the same as in the step before, and were not written again."""


def together(done: Iterable[Drained]) -> Drained:
    """Sum up what several tasks have done."""
    sums = [sum(numbers) for numbers in zip((0, 0, 0), *map(astuple, done), strict=True)]
    return Drained(*sums)


def no_gate(size_bytes: int) -> AbstractContextManager[None]:
    """Hold nothing back."""
    return nullcontext()


def drain_steps(work: DrainWork, gate: Callable[[int], AbstractContextManager[None]] = no_gate) -> Drained:
    """Write raw steps; running it again writes the same.

    Parameters
    ----------
    work
        What to write.
    gate
        Is asked before some steps of an array are written, with their bytes; they are written in its ``with``.
    """
    reader = FieldReader(BlockReader(work.contact, work.stream, work.returning))
    places = [places_in(layouts_of(parts)) for parts in work.steps]
    offsets = offsets_of(work.steps)
    size = stored = repeated = 0
    for form in work.forms:
        making = _Making(work, form, [own.get(form.name) for own in places], offsets, reader)
        for at, file, chunks in making.pieces():
            with gate(int(chunks.sizes.sum())):
                stored += file.write(at, chunks)
        size, repeated = size + making.bytes, repeated + making.repeated_bytes
    return Drained(size, stored, repeated)


def get_ready(write: Callable[[DrainWork], Drained], pool: str) -> None:
    """Import what a writing function needs, and map a node's pool: a task, before the first step is there."""
    map_pool(pool, is_backed=False)


def write_next(write: Callable[[DrainWork], Drained], work: DrainWork, *before: Drained) -> Drained:
    """Write; a task, which begins when those that write the same files before it have ended.

    Dask runs it again, with all before it, if what came of it is lost with a worker that dies. Steps that have counted
    meanwhile are in no node's hands any more, and others' blocks may lie in their room: those are not written again.

    Raises
    ------
    StreamError
        If steps are gone that don't count, or as for `drain_steps`.
    """
    lease = Lease(work.contact, work.stream, work.returning)  # holds them until the task ends
    gone = work.gone(lease)
    if not gone:
        return write(work)
    # Steps that the store shows already went since an earlier run of this task had written them.
    if int(shown_attributes(Path(work.store)).get("bbflow_steps", 0)) < work.start + len(work.numbers):
        raise StreamError(f"step {min(gone)} of stream {work.stream!r} is gone from its BB node before it was drained")
    return Drained(0, 0, 0)


class _Making:
    """Makes the chunks of one array."""

    def __init__(
        self,
        work: DrainWork,
        form: Form,
        places: Sequence[FieldPlace | None],
        offsets: Sequence[Mapping[str, Sequence[int]]],
        reader: FieldReader,
    ) -> None:
        self._work, self._form, self._places, self._offsets, self._reader = work, form, places, offsets, reader
        self._encode = encoder_of(form.codec) if form.codec is not None else None
        self._last: tuple[list[Array], list[Array]] | None = None
        """Values of the step before, and what became of them."""
        self._step_bytes = prod(form.shape) * form.dtype.itemsize
        self.bytes = 0
        self.repeated_bytes = 0

    def pieces(self) -> Iterator[tuple[int, File, ShardChunks]]:
        """Iterate over what is written at once: the place of its first step in a file, the file, and the chunks."""
        length = max(PIECE_BYTES // max(self._step_bytes, 1), 1)
        for index, rows in self._work.rows(self._form).items():
            is_begun = self._work.begun.get(self._form.name) == index
            file = self._form.file(self._work.store, index, is_begun=is_begun)
            if self._form.steps > 1:
                self._last = None  # what a shard repeats is in itself
            for begin in range(0, len(rows), length):
                piece = rows[begin : begin + length]
                at = piece[0] - index * self._form.steps
                yield at, file, self._chunks(piece, file.before(at) if self._asks_before else None)

    @property
    def _asks_before(self) -> bool:
        """Whether the next step may repeat what an earlier batch has written."""
        return self._form.dedup and self._last is None

    def _chunks(self, rows: Sequence[int], stored: Array | None) -> ShardChunks:
        """Make the chunks of some steps; the first one may be the same as what is stored of the step before."""
        values = self._values(rows)
        self.bytes += self._step_bytes * sum(map(bool, values))
        if self._form.is_plain:
            return ShardChunks(values, [False] * len(values))
        if self._form.cut is not None:
            cut = [part for own in values for part in self._cut(own, self._form.cut)]
            return ShardChunks(cut, [False] * len(cut))
        made = []
        for own in values:
            made.append(self._chunk(own, stored))
            stored = None
        parts, repeats = zip(*made, strict=True)
        self.repeated_bytes += self._step_bytes * sum(repeats)
        return ShardChunks(parts, repeats)

    def _cut(self, values: list[Array], cut: ChunkGrid) -> list[list[Array]]:
        """Return what is written of each chunk of a step."""
        if not values:
            return [[] for _ in range(cut.pieces)]
        rounded = self._rounded(values)
        whole = (rounded[0] if len(rounded) == 1 else np.concatenate(rounded)).view(self._form.dtype)
        chunks = cut.parts(whole.reshape(self._form.shape), self._form.fill)
        return [self._encoded([chunk.reshape(-1).view("u1")]) for chunk in chunks]

    def _chunk(self, values: list[Array], stored: Array | None) -> tuple[list[Array], bool]:
        """Return what is written of a step, and whether it is the same as in the step before."""
        if not values:
            self._last = None
            return [], False
        values = self._rounded(values)
        if self._form.dedup and self._last is not None and _same(values, self._last[0]):
            parts, repeats = self._last[1], True
        else:
            parts = self._encoded(values)
            repeats = stored is not None and is_stored(parts, stored)
        self._last = values, parts
        return parts, repeats

    def _values(self, rows: Sequence[int]) -> list[list[Array]]:
        """Return the values of some steps as bytes; an empty list for a step that has none."""
        steps = [row - self._work.start for row in rows]
        values: list[list[Array]] = []
        for _, group in groupby(steps, lambda step: id(self._places[step])):
            alike = [*group]
            place = self._places[alike[0]]
            if place is None or not self._step_bytes:
                values += [[] for _ in alike]
                continue
            own = slice(alike[0], alike[-1] + 1)
            values += self._reader.bytes_of(
                self._work.steps[own], self._offsets[own], place, self._form.fill, self._form.map
            )
        return values

    def _rounded(self, values: list[Array]) -> list[Array]:
        form = self._form
        if form.keep_bits is None:
            return values
        return [rounded(part.view(form.dtype), form.keep_bits, form.missing).view("u1") for part in values]

    def _encoded(self, values: list[Array]) -> list[Array]:
        if self._encode is None:
            return values
        whole = values[0] if len(values) == 1 else np.concatenate(values)
        return [np.frombuffer(self._encode(whole.view(self._form.dtype)), "u1")]


def _same(one: list[Array], other: list[Array]) -> bool:
    if [len(part) for part in one] != [len(part) for part in other]:
        one, other = [np.concatenate(one)], [np.concatenate(other)]
    return all(same_bytes(left, right) for left, right in zip(one, other, strict=True))

"""The fewest records that restore a stream's state: what a rewritten index holds."""

from array import array
from collections.abc import Iterator

from bbflow.store.entries import (
    CommitRecord,
    GrantRecord,
    LayoutRecord,
    OfStream,
    StateRecord,
    StatesRecord,
    StepRecord,
)
from bbflow.store.streams import Stream, extents_of
from bbflow.stream.layouts import NO_BLOCKS, Known


def records_of(stream: Stream) -> Iterator[OfStream]:
    """Iterate over the records of what a stream is now."""
    known = Known()
    for step in stream.steps.values():
        yield StepRecord(stream=stream.name, step=step.number, ranks=step.ranks, **step.told(known))
    # Behind the whole steps, which count themselves as they land: the state has the sums with those that are gone.
    yield _state_of(stream)
    yield from _open_parts(stream)
    for number, rank in stream.ranks.items():
        if extents := tuple(extent for extent in rank.granted if extent not in rank.offered):
            yield GrantRecord(stream=stream.name, rank=number, step=rank.settled + 1, extents=extents)
    # Behind its open parts, which name layouts too: this is the one that it has named last.
    for number, rank in stream.ranks.items():
        if rank.layout != NO_BLOCKS:
            forms = rank.layouts[rank.layout].to_wire()
            yield LayoutRecord(stream=stream.name, rank=number, layout=rank.layout, forms=forms)
    if stream.ends:
        states = tuple((number, rank.state_bytes) for number, rank in stream.ranks.items())
        yield StatesRecord(stream=stream.name, ends=array("q", stream.ends).tobytes(), ranks=states)


def _state_of(stream: Stream) -> StateRecord:
    return StateRecord(
        stream=stream.name,
        status=stream.status,
        writers=stream.writers,
        announced=stream.announced,
        epoch=stream.epoch,
        owner=stream.owner,
        last=stream.last,
        landed_steps=stream.landed_steps,
        landed_bytes=stream.landed_bytes,
        ranks=tuple(
            (number, rank.first, rank.committed, rank.expected_bytes, rank.closed, rank.loss_timeout_s)
            for number, rank in stream.ranks.items()
        ),
        moved=tuple(stream.moved.items()),
        base=tuple(stream.base.values()),
        final=tuple(stream.final.values()),
        discarded=tuple(sorted(stream.discarded)),
        consumers={name: (cursor.step, cursor.checkpoint) for name, cursor in stream.consumers.items()},
        refused=tuple(stream.refused),
    )


def _open_parts(stream: Stream) -> Iterator[OfStream]:
    """Iterate over the records of what ranks have committed of steps that aren't whole, each rank's in their order."""
    for step, parts in sorted(stream.parts.items()):
        for rank, part in parts.items():
            yield GrantRecord(stream=stream.name, rank=rank, step=step, extents=tuple(extents_of(part)))
            yield CommitRecord(stream=stream.name, rank=rank, step=step, **part.told(Known()))

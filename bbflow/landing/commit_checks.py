"""What a rank says when it commits, checked against what it was given. All of it is pure."""

from msgspec import UNSET, UnsetType, structs

from bbflow.errors import ProtocolError
from bbflow.landing.requests import CommitRequest
from bbflow.store.entries import CommitRecord, FoldedSteps
from bbflow.store.folded_steps import folded_steps
from bbflow.store.ranks import Rank
from bbflow.store.streams import extents_in
from bbflow.stream.layouts import NO_BLOCKS
from bbflow.stream.records import check_fits


def commit_of(stream: str, rank: int, progress: Rank, asked: CommitRequest, now_s: float) -> CommitRecord:
    """Return the record of a rank's commit.

    Parameters
    ----------
    stream, rank, progress
        Who commits, and what it was given.
    asked
        What it said.
    now_s
        What time it is (seconds since the epoch).

    Raises
    ------
    ProtocolError
        If a block doesn't lie in what the rank was given, or the commit is wrong in another way.
    """
    layout = progress.layouts.find(asked.layout, asked.forms)
    if asked.forms is not UNSET and any(form.rank != rank for form in layout.forms):
        raise ProtocolError(f"rank {rank} committed a block of another rank")
    check_fits(asked, layout)
    granted, used = dict(progress.granted), dict(extents_in(layout, asked.sources))
    if len(used) < len(layout.reach) or any(granted.get(first, 0) < size for first, size in used.items()):
        raise ProtocolError(f"rank {rank} committed a block outside what it was given")
    # An index that was rewritten has each rank's last layout only: a commit with another one brings its forms again.
    is_recorded = asked.forms is UNSET and asked.layout in progress.recorded
    record = CommitRecord(
        stream=stream,
        rank=rank,
        step=asked.step,
        layout=asked.layout,
        sources=asked.sources,
        files=asked.files,
        values=asked.values,
        extremes=asked.extremes,
        forms=UNSET if is_recorded or asked.layout == NO_BLOCKS else layout.to_wire(),
        attributes=asked.attributes,
        began_s=now_s - asked.open_s,
        committed_s=now_s,
        held=_held(asked, rank, progress),
    )
    if not isinstance(asked.held, UnsetType):
        folded_steps(record, progress.layouts.find(asked.held.layout, asked.held.forms))
    return record


def _held(asked: CommitRequest, rank: int, progress: Rank) -> FoldedSteps | UnsetType:
    """Return what stands in the record of the steps that are committed along."""
    held = asked.held
    if isinstance(held, UnsetType):
        return UNSET
    layout = progress.layouts.find(held.layout, held.forms)
    if any(form.rank != rank for form in layout.forms):
        raise ProtocolError(f"rank {rank} committed a block of another rank")
    is_recorded = held.forms is UNSET and held.layout in progress.recorded
    return structs.replace(held, forms=UNSET if is_recorded else layout.to_wire())

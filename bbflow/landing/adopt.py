"""Taking in what ranks without any node have written to their spill directory (FORMAT.md, 'Spill directory')."""

from pathlib import Path

from msgspec import structs

from bbflow.errors import ConfigError, StreamError
from bbflow.store.entries import AbortRecord, CloseRecord, CommitRecord, DiscardRecord, OpenRecord, Record
from bbflow.store.index import replay
from bbflow.store.node import NodeStore
from bbflow.store.streams import ENDED
from bbflow.stream.layouts import NO_BLOCKS, Layouts
from bbflow.stream.records import check_fits

ADOPTED = ".adopted"


def adopt(store: NodeStore, directory: Path) -> int:
    """Put the steps of a spill directory into a node's index; their blocks stay where they are.

    Parameters
    ----------
    store
        The node's store.
    directory
        Where ranks spilled without a node.

    Returns
    -------
    int
        How many ranks were taken in. What is adopted once is not adopted again.

    Raises
    ------
    ConfigError
        If there is no such directory.
    StreamError
        If what a rank wrote doesn't follow what the node has of it.
    """
    if not directory.is_dir():
        raise ConfigError(f"there is no directory {directory} to adopt steps from")
    paths = sorted(directory.glob("*.index"))
    for path in paths:
        layouts = Layouts()
        # All of it is read first: of a file that is damaged nothing is taken.
        for record in list(replay(path)):
            _take(store, record, path, layouts)
        # Last, when all of it is in the index.
        path.rename(path.with_suffix(path.suffix + ADOPTED))
    return len(paths)


def _take(store: NodeStore, record: Record, path: Path, layouts: Layouts) -> None:
    if not isinstance(record, OpenRecord | CommitRecord | DiscardRecord | CloseRecord | AbortRecord):
        return
    stream = store.streams.get(record.stream)
    if stream is not None and stream.status in ENDED:
        raise StreamError(f"{path} belongs to stream {stream.name!r}, which has ended here: drop it first")
    match record:
        case OpenRecord():
            if stream is None or record.rank not in stream.ranks:
                store.record(record)
        case CommitRecord():
            known = stream.ranks.get(record.rank) if stream else None
            whole = _whole(record, path, layouts)
            if known is None or record.step > known.settled + 1:
                raise StreamError(
                    f"{path} brings step {record.step} of rank {record.rank}, but the node lacks one before it"
                )
            if record.step == known.settled + 1:
                store.record(whole)
        case DiscardRecord():
            if stream is None or record.step not in stream.discarded:
                store.record(record)
        case _:
            store.record(record)


def _whole(record: CommitRecord, path: Path, layouts: Layouts) -> CommitRecord:
    """Return a commit with its forms, so that it can be taken in whatever became of those before it."""
    layout = layouts.take_of(record)
    check_fits(record, layout)
    if record.sources:
        raise StreamError(f"{path} brings step {record.step} with blocks in the pool of a node")
    return record if record.layout == NO_BLOCKS else structs.replace(record, forms=layout.to_wire())

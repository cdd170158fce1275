"""Taking in what ranks without any node have written to their spill directory (FORMAT.md, 'Spill directory')."""

from pathlib import Path

from bbflow.errors import ConfigError, StreamError
from bbflow.layouts import NO_BLOCKS, Layouts
from bbflow.records import Message, Step
from bbflow.store.index import replay
from bbflow.store.node import NodeStore
from bbflow.store.streams import ENDED

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
        for record in list(replay(path)):
            _take(store, record, path, layouts)
        path.rename(path.with_suffix(path.suffix + ADOPTED))
    return len(paths)


def _take(store: NodeStore, record: Message, path: Path, layouts: Layouts) -> None:
    stream, rank = store.streams.get(record["stream"]), record["rank"]
    known = stream.ranks.get(rank) if stream else None
    if stream is not None and stream.status in ENDED:
        raise StreamError(f"{path} belongs to stream {stream.name!r}, which has ended here: drop it first")
    match record["record"]:
        case "open":
            if known is None:
                store.record(record)
        case "commit":
            record = _whole(record, path, layouts)
            if known is None or record["step"] > known.committed + 1:
                raise StreamError(
                    f"{path} brings step {record['step']} of rank {rank}, but the node lacks one before it"
                )
            if record["step"] == known.committed + 1:
                store.record(record)
        case "discard":
            if stream is None or record["step"] not in stream.discarded:
                store.record(record)
        case "close" | "abort":
            store.record(record)


def _whole(record: Message, path: Path, layouts: Layouts) -> Message:
    """Give a commit with its forms, so that it can be taken in whatever became of those before it."""
    layout = layouts.take(record)
    if Step.from_wire(record, layout).sources:
        raise StreamError(f"{path} brings step {record['step']} with blocks in the pool of a node")
    return record if record["layout"] == NO_BLOCKS else record | {"forms": layout.to_wire()}

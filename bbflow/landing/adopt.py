"""Taking in what ranks without any node have written to their spill directory (FORMAT.md, 'Spill directory')."""

from pathlib import Path

from bbflow.errors import ConfigError, StreamError
from bbflow.records import Block, Message
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
        records = list(replay(path))
        for record in records:
            _take(store, record, path)
        path.rename(path.with_suffix(path.suffix + ADOPTED))
    return len(paths)


def _take(store: NodeStore, record: Message, path: Path) -> None:
    stream, rank = store.streams.get(record["stream"]), record["rank"]
    known = stream.ranks.get(rank) if stream else None
    if stream is not None and stream.status in ENDED:
        raise StreamError(f"{path} belongs to stream {stream.name!r}, which has ended here: drop it first")
    match record["record"]:
        case "open":
            if known is None:
                store.record(record)
        case "commit":
            if known is None or record["step"] > known.committed + 1:
                raise StreamError(
                    f"{path} brings step {record['step']} of rank {rank}, but the node lacks one before it"
                )
            if record["step"] == known.committed + 1:
                blocks = [Block.from_wire(block).to_wire() | {"rank": rank} for block in record["blocks"]]
                store.record(record | {"blocks": blocks})
        case "discard":
            if stream is None or record["step"] not in stream.discarded:
                store.record(record)
        case "close" | "abort":
            store.record(record)

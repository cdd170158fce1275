"""What a rank says when it commits, checked and turned into records of the index. All of it is pure."""

from bbflow.errors import ProtocolError
from bbflow.records import Block, Message
from bbflow.store.extents import Extent, align
from bbflow.store.ranks import Rank


def commit_of(rank: int, progress: Rank, message: Message) -> Message:
    """Give the blocks, attributes and extents that a rank's commit keeps.

    Parameters
    ----------
    rank, progress
        Who commits, and what it was given.
    message
        What it said.

    Raises
    ------
    ProtocolError
        If a block doesn't lie in what the rank was given.
    """
    blocks = [Block.from_wire(block) for block in message["blocks"]]
    used = [_used(extent, blocks) for extent in progress.granted]
    if sum(count for _, count in used) != sum(1 for block in blocks if block.bytes and not block.file):
        raise ProtocolError(f"rank {rank} committed a block outside of what it was given")
    return {
        "blocks": [block.to_wire() | {"rank": rank} for block in blocks],
        "attributes": plain_attributes(message["attributes"]),
        "extents": [(offset, align(end)) for (offset, _), (end, _) in zip(progress.granted, used, strict=True) if end],
    }


def plain_attributes(attributes: list[Message]) -> list[Message]:
    """Give attributes without what doesn't belong there."""
    return [{key: item[key] for key in ("name", "type", "value")} for item in attributes]


def _used(extent: Extent, blocks: list[Block]) -> tuple[int, int]:
    """Bytes of an extent that blocks reach into, and how many blocks lie in it."""
    offset, size = extent
    ends = [(block.offset, block.offset + block.bytes) for block in blocks if block.bytes and not block.file]
    inside = [end - offset for begin, end in ends if offset <= begin and end <= offset + size]
    return max(inside, default=0), len(inside)

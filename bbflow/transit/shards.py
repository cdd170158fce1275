"""Shards: the parts of a variable that one node folds, and where their partial states lie."""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bbflow.records import Block, Message

WindowKey = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShardKey:
    """One region of one variable on one node: all blocks with this selection are folded together."""

    node: str
    """The BB node that has the blocks."""
    variable: str
    """The variable."""
    start: tuple[int, ...]
    """First index in the global array."""
    count: tuple[int, ...]
    """Shape of the region; empty for a single value."""

    @property
    def label(self) -> str:
        """A short name that fits into a file name and is the same in every process."""
        place = zlib.crc32(repr((self.variable, self.start, self.count)).encode())
        return f"{re.sub(r'[^A-Za-z0-9_-]', '_', self.variable)}-{place:08x}"


@dataclass(frozen=True, slots=True)
class ShardState:
    """How far a shard is folded, and the files with its partial states."""

    key: ShardKey
    """Which shard."""
    dtype: str
    """NumPy's name of the blocks' type."""
    last_step: int = -1
    """Every step up to this one is in the states."""
    base_key: WindowKey | None = None
    """Span of the finest window that is being folded now."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Window name to state file: the finest window's open span, and of the others what closed before it."""
    rows: tuple[str, ...] = ()
    """Files with rows that passed a filter and are not published yet."""

    def to_wire(self) -> Message:
        """Give a map for a checkpoint."""
        return {
            "key": [self.key.node, self.key.variable, self.key.start, self.key.count],
            "dtype": self.dtype,
            "last_step": self.last_step,
            "base_key": self.base_key,
            "files": dict(self.files),
            "rows": self.rows,
        }

    @classmethod
    def from_wire(cls, message: Mapping[str, Any]) -> "ShardState":
        """Take a state out of a checkpoint."""
        node, variable, start, count = message["key"]
        base_key = message["base_key"]
        return cls(
            ShardKey(node, variable, tuple(start), tuple(count)),
            message["dtype"],
            message["last_step"],
            None if base_key is None else tuple(base_key),
            message["files"],
            tuple(message["rows"]),
        )


def shard_of(node: str, block: Block) -> ShardKey:
    """Say which shard a block belongs to."""
    return ShardKey(node, block.name, block.start, block.count)

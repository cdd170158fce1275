"""The records that pass between the layers: blocks, steps and their types."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bbflow.errors import ProtocolError

Message = dict[str, Any]

DTYPES: Mapping[str, np.dtype[Any]] = {
    "char": np.dtype("i1"),
    **{f"{u}int{8 * n}_t": np.dtype(f"{u or 'i'}{n}") for u in ("", "u") for n in (1, 2, 4, 8)},
    "float": np.dtype("f4"),
    "double": np.dtype("f8"),
    "long double": np.dtype(np.longdouble),
    "float complex": np.dtype("c8"),
    "double complex": np.dtype("c16"),
}
"""ADIOS2's type names and what NumPy calls them; ``string`` has no array form."""


@dataclass(frozen=True, slots=True)
class Block:
    """What one Put of one writer rank left in a step."""

    name: str
    """The variable."""
    type: str
    """ADIOS2's name of its type."""
    kind: str
    """GlobalArray, LocalArray, JoinedArray, GlobalValue or LocalValue."""
    shape: tuple[int, ...] = ()
    """Global shape of the variable in this step; empty where it has none."""
    start: tuple[int, ...] = ()
    """Where the block begins in the global array."""
    count: tuple[int, ...] = ()
    """Shape of the block."""
    offset: int = 0
    """First byte in the pool."""
    bytes: int = 0
    """Length in the pool; 0 for a single value."""
    min: float | int | None = None
    """Smallest value that is not NaN, where the engine knows it."""
    max: float | int | None = None
    """Largest value that is not NaN, where the engine knows it."""
    value: Any = None
    """The value itself, for single values."""
    file: str | None = None
    """Where it lies if the pool had no room for it; its offset is in this file then."""
    rank: int = 0
    """The writer."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The block's type in NumPy."""
        return DTYPES[self.type]

    @property
    def points(self) -> int:
        """Number of elements."""
        return math.prod(self.count)

    @property
    def is_well_formed(self) -> bool:
        """Whether its values are of the types and in the ranges that FORMAT.md gives."""
        texts = (self.name, self.type, self.kind, self.file or "")
        counts = (*self.shape, *self.start, *self.count, self.offset, self.bytes, self.rank)
        return (
            all(isinstance(text, str) for text in texts)
            and all(type(count) is int and 0 <= count < 1 << 64 for count in counts)
            and (self.type in DTYPES or (self.type == "string" and not self.bytes))
        )

    @classmethod
    def from_wire(cls, message: Mapping[str, Any]) -> "Block":
        """Check and take a block out of a commit (FORMAT.md, 'Block').

        Raises
        ------
        ProtocolError
            If a key is missing, a value is wrong, or the lengths don't fit together.
        """
        try:
            block = cls(
                name=message["name"],
                type=message["type"],
                kind=message["kind"],
                shape=tuple(message.get("shape", ())),
                start=tuple(message.get("start", ())),
                count=tuple(message.get("count", ())),
                offset=message.get("offset", 0),
                bytes=message.get("bytes", 0),
                min=message.get("min"),
                max=message.get("max"),
                value=message.get("value"),
                file=message.get("file"),
                rank=message.get("rank", 0),
            )
        except KeyError as error:
            raise ProtocolError(f"a block without {error} was committed") from None
        except TypeError as error:
            raise ProtocolError(f"a block with a list of a wrong type was committed ({error})") from None
        if not block.is_well_formed:
            raise ProtocolError(f"block of {str(block.name)[:100]} has a value of a wrong type, or one out of range")
        if block.bytes and block.points * block.dtype.itemsize != block.bytes:
            raise ProtocolError(
                f"block of {block.name} with count {block.count} and type {block.type} can't be {block.bytes} bytes"
            )
        return block

    def to_wire(self) -> Message:
        """Give the map that FORMAT.md describes; keys without a value are left out."""
        values = {key: getattr(self, key) for key in self.__slots__}
        return {key: value for key, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a stream that a node has in full."""

    number: int
    """ADIOS2's step number, from 0."""
    blocks: tuple[Block, ...]
    """All blocks of all ranks of this node, in rank order."""
    began_s: float = 0.0
    """When its first rank began it (seconds since the epoch)."""
    committed_s: float = 0.0
    """When its last rank committed it."""
    ranks: int = 1
    """How many ranks have a part in it on this node."""
    attributes: tuple[Message, ...] = ()
    """Attributes that came with it (FORMAT.md, 'Attribute')."""

    @property
    def bytes(self) -> int:
        """Bytes of its blocks in the pool."""
        return sum(block.bytes for block in self.blocks)

    @classmethod
    def from_wire(cls, message: Mapping[str, Any]) -> "Step":
        """Take a step out of a `watch` reply or an index record."""
        return cls(
            message["step"],
            tuple(Block.from_wire(block) for block in message["blocks"]),
            message.get("began_s", 0.0),
            message.get("committed_s", 0.0),
            message.get("ranks", 1),
            tuple(message.get("attributes", ())),
        )

    def to_wire(self) -> Message:
        """Give the map that FORMAT.md describes."""
        return {
            "step": self.number,
            "blocks": [block.to_wire() for block in self.blocks],
            "began_s": self.began_s,
            "committed_s": self.committed_s,
            "ranks": self.ranks,
            "attributes": list(self.attributes),
        }

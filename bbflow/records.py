"""The records that pass between the layers: blocks, steps and their types."""

import itertools
import math
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

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
        try:
            _pack_extremes(block)
        except struct.error:
            raise ProtocolError(f"block of {block.name} has a minimum or maximum of a wrong type") from None
        return block

    def to_wire(self) -> Message:
        """Give the map that FORMAT.md describes; keys without a value are left out."""
        values = {key: getattr(self, key) for key in self.__slots__}
        return {key: value for key, value in values.items() if value is not None}


EXTREMES_BYTES = 16
"""Bytes of one block's minimum and maximum: two of 8 bytes, as `wide_dtype` says."""


def wide_dtype(name: str) -> np.dtype[Any]:
    """Give the type in which minimum and maximum of blocks of an ADIOS2 type are kept: of 8 bytes, without loss."""
    kind = DTYPES[name].kind if name in DTYPES else "f"
    return np.dtype({"i": "<i8", "u": "<u8"}.get(kind, "<f8"))


@dataclass(frozen=True, slots=True)
class BlockForm:
    """What doesn't change of a block from step to step."""

    name: str
    """The variable."""
    type: str
    """ADIOS2's name of its type."""
    kind: str
    """GlobalArray, LocalArray, JoinedArray, GlobalValue or LocalValue."""
    shape: tuple[int, ...]
    """Global shape of the variable; empty where it has none."""
    start: tuple[int, ...]
    """Where the block begins in the global array."""
    count: tuple[int, ...]
    """Shape of the block."""
    rank: int
    """The writer."""
    source: int
    """Which of the step's `sources` it lies in, or of its `files` if it is spilled; 0 for a single value."""
    place: int
    """Its first byte there, from the source's first."""
    bytes: int
    """Its length; 0 for a single value."""
    spilled: bool = False
    """Whether its source is a file."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its type in NumPy."""
        return DTYPES[self.type]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Layout:
    """How the blocks of a step lie: steps that lie alike have the same object, in one process.

    So ``step.layout is last.layout`` tells a steady step, and what is derived from a layout is kept by it. It is made
    by `of` only, and is gone when nobody has it any more.
    """

    forms: tuple[BlockForm, ...]
    """All blocks of all ranks of the node, in rank order."""
    number: int
    """Its own in this process; never given twice."""
    singles: tuple[int, ...]
    """Which of the forms are of single values, in the order of a step's `values`."""
    source_of: np.ndarray[Any, np.dtype[np.int64]]
    """Source of each form: an index into a step's `sources`, or into its `files` if it is spilled."""
    places: np.ndarray[Any, np.dtype[np.int64]]
    """First byte of each form in its source."""
    nbytes: int
    """Bytes of all its blocks."""

    @classmethod
    def of(cls, forms: "tuple[BlockForm, ...]") -> "Layout":
        """Give the layout of some forms."""
        with _INTERNING:
            known = _LAYOUTS.get(forms)
            if known is None:
                known = _LAYOUTS[forms] = cls(
                    forms,
                    next(_NUMBERS),
                    tuple(at for at, form in enumerate(forms) if not form.bytes),
                    np.array([form.source for form in forms], np.int64),
                    np.array([form.place for form in forms], np.int64),
                    sum(form.bytes for form in forms),
                )
            return known

    def offsets(self, sources: bytes) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Give the first byte in the pool of each block of a step.

        Parameters
        ----------
        sources
            Those of the step.

        Returns
        -------
        numpy.ndarray
            One number for each form; it means nothing for single values and spilled blocks.
        """
        firsts = np.frombuffer(sources, "<i8")
        return firsts.take(self.source_of, mode="clip") + self.places if firsts.size else self.places

    def __reduce__(self) -> tuple[Any, ...]:
        return Layout.of, (self.forms,)


_LAYOUTS: "WeakValueDictionary[tuple[BlockForm, ...], Layout]" = WeakValueDictionary()
_INTERNING = threading.Lock()
_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a stream that a node has in full."""

    number: int
    """ADIOS2's step number, from 0."""
    layout: Layout
    """How its blocks lie."""
    sources: bytes = b""
    """First byte in the pool of each source of the layout: a table of 8-byte integers."""
    files: tuple[str, ...] = ()
    """Where the spilled blocks are."""
    values: tuple[Any, ...] = ()
    """Its single values, in the order of the layout's `singles`."""
    extremes: bytes = b""
    """Minimum and maximum of each form's values that are not NaN, each of `wide_dtype`; where there are none, the first
    is not <= the second. Empty if nobody has asked for them."""
    began_s: float = 0.0
    """When its first rank began it (seconds since the epoch)."""
    committed_s: float = 0.0
    """When its last rank committed it."""
    ranks: int = 1
    """How many ranks have a part in it on this node."""
    attributes: tuple[Message, ...] = ()
    """Attributes that came with it (FORMAT.md, 'Attribute')."""
    _blocks: list[tuple[Block, ...]] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks of all ranks of this node, in rank order; they are made when they are first asked for."""
        if not self._blocks:
            self._blocks.append(tuple(self._make_blocks()))
        return self._blocks[0]

    def _make_blocks(self) -> Iterator[Block]:
        values = iter(self.values)
        offsets = self.layout.offsets(self.sources).tolist()
        for form, offset, (least, most) in zip(self.layout.forms, offsets, self._extremes(), strict=True):
            known = least <= most
            yield Block(
                form.name, form.type, form.kind, form.shape, form.start, form.count,
                offset=form.place if form.spilled else offset if form.bytes else 0,
                bytes=form.bytes,
                min=least if known else None,
                max=most if known else None,
                value=None if form.bytes else next(values),
                file=self.files[form.source] if form.spilled else None,
                rank=form.rank,
            )  # fmt: skip

    def _extremes(self) -> list[Sequence[float]]:
        """Give each form's minimum and maximum as numbers of Python."""
        if not self.extremes:
            return [(1, 0)] * len(self.layout.forms)
        as_type = {kind: np.frombuffer(self.extremes, f"<{kind}8").reshape(-1, 2).tolist() for kind in "iuf"}
        return [as_type[wide_dtype(form.type).kind][at] for at, form in enumerate(self.layout.forms)]

    @property
    def bytes(self) -> int:
        """Bytes of its blocks."""
        return self.layout.nbytes

    @classmethod
    def of_blocks(cls, number: int, blocks: Sequence[Block], **rest: Any) -> "Step":
        """Make a step of its blocks.

        Parameters
        ----------
        number
            Of the step.
        blocks
            In rank order.
        **rest
            Its times, ranks and attributes.
        """
        sources, files = _sources(blocks), list(dict.fromkeys(block.file for block in blocks if block.file))
        at = {rank: index for index, rank in enumerate(sources)}
        forms = tuple(
            BlockForm(
                block.name, block.type, block.kind, block.shape, block.start, block.count, block.rank,
                source=files.index(block.file) if block.file else at.get(block.rank, 0) if block.bytes else 0,
                place=block.offset - (sources[block.rank] if block.bytes and not block.file else 0),
                bytes=block.bytes,
                spilled=block.file is not None,
            )
            for block in blocks
        )  # fmt: skip
        return cls(
            number,
            Layout.of(forms),
            np.array(list(sources.values()), "<i8").tobytes(),
            tuple(files),
            tuple(block.value for block in blocks if not block.bytes),
            b"".join(_pack_extremes(block) for block in blocks),
            **rest,
        )

    @classmethod
    def from_wire(cls, message: Mapping[str, Any]) -> "Step":
        """Take a step out of a `watch` reply or an index record."""
        return cls.of_blocks(
            message["step"],
            [Block.from_wire(block) for block in message["blocks"]],
            began_s=message.get("began_s", 0.0),
            committed_s=message.get("committed_s", 0.0),
            ranks=message.get("ranks", 1),
            attributes=tuple(message.get("attributes", ())),
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


def _sources(blocks: Sequence[Block]) -> dict[int, int]:
    """Give for each rank the first byte of what it has in the pool."""
    firsts: dict[int, int] = {}
    for block in blocks:
        if block.bytes and not block.file:
            firsts[block.rank] = min(block.offset, firsts.get(block.rank, block.offset))
    return firsts


def _pack_extremes(block: Block) -> bytes:
    kind = wide_dtype(block.type).kind
    least, most = (block.min, block.max) if block.min is not None and block.max is not None else (1, 0)
    return struct.pack({"i": "<qq", "u": "<QQ"}.get(kind, "<dd"), least, most)

"""The records that pass between the layers: blocks, steps and their types."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from bbflow.errors import ProtocolError
from bbflow.reading.wire_types import Attribute, Content
from bbflow.stream.items import ITEMS
from bbflow.stream.layouts import EXTREMES_BYTES, Known, dtype_of, joined
from bbflow.stream.layouts import BlockForm as BlockForm
from bbflow.stream.layouts import Layout as Layout

if TYPE_CHECKING:  # the agent does without NumPy
    import numpy as np


_WIDE = {name: {"i": "q", "u": "Q"}.get(code[0], "d") for name, (code, _) in ITEMS.items()}
"""ADIOS2's type names to the type of 8 bytes in which extremes are kept, as `memoryview.cast` calls it."""


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
    folded: int = 0
    """Other than 0 if its values can't be read any more: its rank has folded them (`BlockForm.folded`)."""
    stride: int = 1
    """Its values lie this many items apart (see `BlockForm`)."""

    @property
    def reach(self) -> int:
        """How many bytes there are from its first value to its last one."""
        return self.bytes and self.bytes + (self.points - 1) * (self.stride - 1) * ITEMS[self.type][1]

    @property
    def dtype(self) -> "np.dtype[Any]":
        """The block's type in NumPy."""
        return dtype_of(self.type)

    @property
    def points(self) -> int:
        """Number of elements."""
        return math.prod(self.count)


FOLDED = "its ranks have folded it (fold: on: rank): the values themselves have not landed"


@dataclass(frozen=True, slots=True)
class ToldTime:
    """What tells a step's time."""

    source: str
    """variable, attribute or file (its name)."""
    value: float | str
    """A number in the stream's units, or a date as text."""
    after: int | None = 0
    """How many steps have come since; None if that isn't known."""
    type: str = ""
    """ADIOS2's name of the number's type; empty if it is none, or an attribute's."""
    axis: tuple[str | None, str | None] = (None, None)
    """Units and calendar that the stream says of it, as they were in its step."""


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
    is not <= the second. Empty if they weren't asked for."""
    began_s: float = 0.0
    """When its first rank began it (seconds since the epoch)."""
    committed_s: float = 0.0
    """When its last rank committed it."""
    ranks: int = 1
    """How many ranks have a part in it on this node."""
    attributes: tuple[Attribute, ...] = ()
    """Attributes that came with it."""
    time: ToldTime | None = None
    """What tells its time; None if a single value does, nothing does, or it hasn't been looked for."""
    axis: tuple[str | None, str | None] = (None, None)
    """Units and calendar of its time, as they are in it: they may change from file to file."""
    bounds: tuple[float, float] | None = None
    """The ends of what it stands for, as the variable tells them that CF calls the bounds of its time."""
    landed: int | None = None
    """ADIOS2's number of the step in which it lies, if that isn't its own: several frames may have landed in one."""
    _blocks: list[tuple[Block, ...]] = field(default_factory=list, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[type["Step"], tuple[Any, ...]]:
        # Tasks get thousands of steps: as a dataclass pickles itself, each costs several times as much.
        known = self.number, self.layout, self.sources, self.files, self.values, self.extremes
        more = self.began_s, self.committed_s, self.ranks, self.attributes
        return Step, (*known, *more, None, self.axis, None, self.landed)

    @property
    def landed_in(self) -> int:
        """The number by which its node knows it."""
        return self.number if self.landed is None else self.landed

    @classmethod
    def of_parts(cls, number: int, parts: Sequence["Step"]) -> "Step":
        """Put the parts of several ranks together."""
        return cls(
            number,
            joined(tuple(part.layout for part in parts)),
            b"".join(part.sources for part in parts),
            tuple(file for part in parts for file in part.files),
            tuple(value for part in parts for value in part.values),
            b"".join(part.extremes for part in parts),
            min(part.began_s for part in parts),
            max(part.committed_s for part in parts),
            sum(part.ranks for part in parts),
            tuple(item for part in parts for item in part.attributes),
        )

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks of all ranks of this node, in rank order; they are made when they are first asked for."""
        if not self._blocks:
            self._blocks.append(tuple(self._make_blocks()))
        return self._blocks[0]

    def _make_blocks(self) -> Iterator[Block]:
        values = iter(self.values)
        places = zip(self.layout.offsets(self.sources).tolist(), self.layout.source_of.tolist(), strict=True)
        for form, (offset, source), (least, most) in zip(self.layout.forms, places, self._extremes(), strict=True):
            known = least <= most
            yield Block(
                form.name, form.type, form.kind, form.shape, form.start, form.count,
                offset=form.place if form.spilled else offset if form.bytes else 0,
                bytes=form.bytes,
                min=least if known else None,
                max=most if known else None,
                value=next(values) if form.is_single else None,
                file=self.files[source] if form.spilled else None,
                rank=form.rank,
                folded=form.folded,
                stride=form.stride,
            )  # fmt: skip

    def _extremes(self) -> list[Sequence[float]]:
        """Return each form's minimum and maximum as numbers of Python."""
        if not self.extremes:
            return [(1, 0)] * len(self.layout.forms)
        raw = memoryview(self.extremes)
        numbers: dict[str, list[Any]] = {
            "q": raw.cast("q").tolist(),
            "Q": raw.cast("Q").tolist(),
            "d": raw.cast("d").tolist(),
        }
        as_type = {code: list(zip(found[::2], found[1::2], strict=True)) for code, found in numbers.items()}
        return [as_type[_WIDE.get(form.type, "d")][at] for at, form in enumerate(self.layout.forms)]

    @property
    def bytes(self) -> int:
        """Bytes of its blocks."""
        return self.layout.nbytes

    @classmethod
    def of(cls, number: int, layout: Layout, content: Content, **more: Any) -> "Step":
        """Make a step, or a rank's part of one, from a message or a record.

        Parameters
        ----------
        number
            The step.
        layout
            The one that the content names.
        content
            What was said; `check_fits` tells whether it can be.
        **more
            Its times, ranks and attributes.
        """
        return cls(number, layout, content.sources, content.files, content.values, content.extremes, **more)

    def told(self, known: Known) -> dict[str, Any]:
        """Return what messages and records say of it, beside its number and ranks (FORMAT.md, 'Layout').

        Parameters
        ----------
        known
            Layouts that the other side has already.
        """
        number, is_new = known.number(self.layout)
        return {
            "layout": number,
            "forms": self.layout.to_wire() if is_new else UNSET,
            "sources": self.sources,
            "files": self.files,
            "values": self.values,
            "extremes": self.extremes,
            "attributes": self.attributes,
            "began_s": self.began_s,
            "committed_s": self.committed_s,
        }


Parts = Mapping[str, Step]
"""Node name to what lies there of a step."""


def check_fits(content: Content, layout: Layout) -> None:
    """Refuse what is said of a step, or of a rank's part of one, unless it fits the layout that it names.

    Raises
    ------
    ProtocolError
        If it doesn't.
    """
    lengths = len(content.sources), len(content.files), len(content.values)
    is_whole = lengths == (8 * len(layout.reach), layout.files, len(layout.singles))
    if not is_whole or len(content.extremes) not in (0, EXTREMES_BYTES * len(layout.forms)):
        raise ProtocolError(f"a step of {len(layout.forms)} blocks has other sources, files or values than they need")

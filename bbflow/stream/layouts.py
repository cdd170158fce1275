"""How the blocks of a stream lie: what doesn't change from step to step, known once (FORMAT.md, 'Layout')."""

import itertools
import math
import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, lru_cache, wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

from msgspec import UnsetType
from msgspec.structs import astuple

from bbflow.errors import ProtocolError
from bbflow.reading.wire_types import MAX_INTEGER, Content, Row
from bbflow.stream.folded import state_places
from bbflow.stream.items import ITEMS

if TYPE_CHECKING:  # the agent does without NumPy
    import numpy as np

    from bbflow.stream.dtypes import Numbers

T = TypeVar("T")
EXTREMES_BYTES = 16
"""Bytes of one block's minimum and maximum: two of 8 bytes, integers of its type's kind, else floats."""


@cache
def dtype_of(name: str) -> "np.dtype[Any]":
    """Return what NumPy calls one of ADIOS2's types; `KeyError` if it has no array form."""
    from bbflow.stream.dtypes import DTYPES

    return DTYPES[name]


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
    extent: int = 0
    """Which of its rank's extents it lies in, or of its rank's files if it is spilled; 0 for a single value."""
    place: int = 0
    """Its first byte there, from the extent's first."""
    bytes: int = 0
    """Its length; 0 for a single value."""
    spilled: bool = False
    """Whether it lies in a file."""
    folded: int = 0
    """0 if it has the values; -1 if its rank has folded them, into a state that comes with a later step; else it is
    that state, and these are its accumulators (`state_places`)."""
    stride: int = 1
    """Its values lie this many items apart: a schema makes a column of a table a block of its own."""

    @property
    def reach(self) -> int:
        """How many bytes there are from its first value to its last one."""
        return self.bytes and self.bytes + (math.prod(self.count) - 1) * (self.stride - 1) * ITEMS[self.type][1]

    @property
    def waits(self) -> bool:
        """Whether a later step has the state that its values are in."""
        return self.folded < 0

    @property
    def is_single(self) -> bool:
        """Whether it is a single value, which a message itself has."""
        return not self.bytes and not self.folded

    @property
    def dtype(self) -> "np.dtype[Any]":
        """Its type in NumPy."""
        return dtype_of(self.type)

    @property
    def _can_be(self) -> bool:
        """Whether its values fit together."""
        return (
            self.place + self.bytes <= MAX_INTEGER
            and (self.type in ITEMS or (self.type == "string" and not self.bytes))
            and (self.bytes > 0 or not (self.extent or self.place or self.spilled))
            and (not self.folded or self._can_be_folded)
        )

    @property
    def _can_be_folded(self) -> bool:
        """Whether it can be a state, or values that are in one."""
        if self.kind != "GlobalArray" or self.type not in ITEMS or not math.prod(self.count):
            return False
        _, size = state_places(max(self.folded, 0), ITEMS[self.type][1], math.prod(self.count))
        return (self.waits or bool(self.folded & 1)) and size == self.bytes

    @classmethod
    def from_wire(cls, row: Row) -> "BlockForm":
        """Take in a row of `forms` (FORMAT.md, 'Layout').

        Raises
        ------
        ProtocolError
            If its values don't fit together.
        """
        form = cls(*(row if isinstance(row, tuple) else astuple(row)))  # a tuple if this process has made it
        if not form._can_be:
            raise ProtocolError(f"a block's form has values that don't fit together: {str(row)[:200]}")
        if form.bytes and not form.folded and math.prod(form.count) * ITEMS[form.type][1] != form.bytes:
            raise ProtocolError(
                f"block of {form.name} with count {form.count} and type {form.type} can't be {form.bytes} bytes"
            )
        return form


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Layout:
    """How the blocks of a step lie: steps that lie alike have the same object, in one process.

    So ``step.layout is last.layout`` tells a steady step, and what is derived from a layout is kept by it. It is made
    by `of` only, and is gone when it is no longer referenced.
    """

    forms: tuple[BlockForm, ...]
    """All blocks of all ranks, rank by rank."""
    number: int
    """Its own in this process; never given twice."""
    singles: tuple[int, ...]
    """Which of the forms are of single values, in the order of a step's `values`."""
    reach: tuple[int, ...]
    """How many bytes of each source are in use."""
    files: int
    """How many files the spilled blocks are in."""
    source_of: "memoryview[int]"
    """Source of each form: an index into a step's `sources`, or into its `files` if it is spilled."""
    places: "memoryview[int]"
    """First byte of each form in its source."""
    lengths: "memoryview[int]"
    """Bytes of each form in the pool; 0 for single values and spilled blocks."""
    nbytes: int
    """Bytes of all its blocks."""
    continues: bool = False
    """Whether ranks have folded values of the step into states that come with a later one: it counts with that."""
    has_folded: bool = False
    """Whether ranks have folded any of the blocks."""

    @classmethod
    def of(cls, forms: tuple[BlockForm, ...]) -> "Layout":
        """Return the layout of some forms."""
        with _INTERNING:
            known = _LAYOUTS.get(forms)
            if known is None:
                known = _LAYOUTS[forms] = cls._make(forms)
            return known

    @classmethod
    def _make(cls, forms: tuple[BlockForm, ...]) -> "Layout":
        reach: list[int] = []
        source_of: list[int] = []
        files = 0
        for _, own in itertools.groupby(forms, lambda form: form.rank):
            first, first_file = len(reach), files
            for form in own:
                source_of.append((first_file if form.spilled else first) + form.extent)
                if form.spilled:
                    files = max(files, source_of[-1] + 1)
                elif form.bytes:
                    reach += [0] * (source_of[-1] + 1 - len(reach))
                    reach[source_of[-1]] = max(reach[source_of[-1]], form.place + form.reach)
        singles = tuple(at for at, form in enumerate(forms) if form.is_single)
        return cls(
            forms, next(_NUMBERS), singles, tuple(reach), files,
            source_of=memoryview(array("q", source_of)).toreadonly(),
            places=memoryview(array("q", [form.place for form in forms])).toreadonly(),
            lengths=memoryview(array("q", [0 if form.spilled else form.bytes for form in forms])).toreadonly(),
            nbytes=sum(form.bytes for form in forms),
            continues=any(form.waits for form in forms),
            has_folded=any(form.folded for form in forms),
        )  # fmt: skip

    @classmethod
    def from_wire(cls, rows: tuple[Row, ...]) -> "Layout":
        """Take in `forms` (FORMAT.md, 'Layout').

        Raises
        ------
        ProtocolError
            If a form is wrong, or there is an extent or a file that no block lies in.
        """
        forms = tuple(BlockForm.from_wire(row) for row in rows)
        if any(form.extent >= len(forms) for form in forms):
            raise ProtocolError("a layout with an extent that no block lies in")
        layout = cls.of(forms)
        used = {source for form, source in zip(forms, layout.source_of, strict=True) if form.spilled}
        if 0 in layout.reach or len(used) != layout.files:
            raise ProtocolError("a layout with an extent that no block lies in")
        return layout

    def to_wire(self) -> tuple[Row, ...]:
        """Return its `forms` as FORMAT.md describes them."""
        return tuple(
            cast(
                Row,
                (
                    form.name, form.type, form.kind, form.shape, form.start, form.count,
                    form.rank, form.extent, form.place, form.bytes, form.spilled,
                    *((form.folded,) if form.folded else ()),
                ),
            )
            for form in self.forms
        )  # fmt: skip

    def state_bytes(self, folded: Mapping[tuple[str, str], int]) -> int:
        """Return the bytes of its blocks' states if ranks fold them.

        Parameters
        ----------
        folded
            Accumulators of the states of each variable, by its name and type; of the others there are none.
        """
        once = {(form.name, form.type, form.rank, form.start, form.count) for form in self.forms}  # the last Put counts
        own = [(folded[form[:2]], ITEMS[form[1]][1], form[-1]) for form in once if form[:2] in folded]
        return sum(state_places(bits, item, math.prod(count))[1] for bits, item, count in own)

    def offsets(self, sources: bytes) -> "Numbers":
        """Return the first byte in the pool of each block of a step.

        Parameters
        ----------
        sources
            Those of the step.

        Returns
        -------
        numpy.ndarray
            One number for each form; it means nothing for single values and spilled blocks.
        """
        offsets: Numbers = self.offsets_of([sources])[0]
        return offsets

    def offsets_of(self, steps: Sequence[bytes]) -> "Numbers":
        """Return the first bytes of several steps' blocks, of shape (steps, forms), as `offsets` gives them for one."""
        import numpy as np  # late: of agents only those with readers on other hosts need it

        firsts, places = np.frombuffer(b"".join(steps), "<i8"), np.asarray(self.places)
        if not firsts.size:
            return np.broadcast_to(places, (len(steps), len(places)))
        first_of = firsts.reshape(len(steps), -1).take(np.asarray(self.source_of), axis=1, mode="clip")
        begins: Numbers = first_of + places
        return begins

    def __reduce__(self) -> tuple[Any, ...]:
        # Column by column: form by form takes several times as long, and there may be 200,000.
        return _of_columns, tuple(zip(*map(_TOLD, self.forms), strict=True))


def kept_by_layout(function: Callable[..., T]) -> Callable[..., T]:
    """Cache the result of a function of a layout, and of further values, for as long as the layout is there.

    A stream on a thousand nodes has a thousand layouts: a cache of some number of them would hold too many, or too few.
    """
    known: WeakKeyDictionary[Layout, dict[tuple[Any, ...], T]] = WeakKeyDictionary()

    @wraps(function)
    def kept(layout: Layout, *more: Any) -> T:
        own = known.setdefault(layout, {})
        if more not in own:
            own[more] = function(layout, *more)
        return own[more]

    return kept


_TOLD = attrgetter(*(item.name for item in fields(BlockForm)))


def _of_columns(*columns: tuple[Any, ...]) -> Layout:
    return Layout.of(tuple(map(BlockForm, *columns)) if columns else ())


# Weak: a stream whose layout changes with each step would otherwise keep all of them.
_LAYOUTS: "WeakValueDictionary[tuple[BlockForm, ...], Layout]" = WeakValueDictionary()
_INTERNING = threading.Lock()
_NUMBERS = itertools.count()


@lru_cache(maxsize=16)
def joined(parts: tuple[Layout, ...]) -> Layout:
    """Return the layout of several ranks' parts of a step."""
    return Layout.of(tuple(form for part in parts for form in part.forms))


LAYOUTS_KNOWN = 16
"""How many layouts are known by their number at once, on one way: numbers are below it."""
NO_BLOCKS = -1
"""Number of the layout without blocks, which everybody knows."""


class Layouts:
    """Layouts that came in on one way, by the numbers that they have there."""

    def __init__(self) -> None:
        self._by_number: dict[int, Layout] = {}

    def __getitem__(self, number: int) -> Layout:
        return self._by_number[number]

    def find(self, number: int, forms: tuple[Row, ...] | UnsetType) -> Layout:
        """Return the layout that is named; its forms come along when the number is new, or means another.

        Raises
        ------
        ProtocolError
            If the number is wrong or unknown, or the forms are.
        """
        if not NO_BLOCKS <= number < LAYOUTS_KNOWN:
            raise ProtocolError(f"a layout has the number {str(number)[:30]}, which can't be")
        if number == NO_BLOCKS:
            return Layout.of(())
        if not isinstance(forms, UnsetType):
            return Layout.from_wire(forms)
        if number not in self._by_number:
            raise ProtocolError(f"layout {number} was named before its forms came")
        return self._by_number[number]

    def take(self, number: int, forms: tuple[Row, ...] | UnsetType) -> Layout:
        """Return the layout that is named, and keep its number."""
        layout = self._by_number[number] = self.find(number, forms)
        return layout

    def take_of(self, content: Content) -> Layout:
        """Return the layout that a message or a record names, and keep its number."""
        return self.take(content.layout, content.forms)


class Known:
    """Layouts that the other side of a way knows, and their numbers: the one used longest ago makes place."""

    def __init__(self) -> None:
        self._numbers: dict[Layout, int] = {}

    def __contains__(self, layout: Layout) -> bool:
        return layout in self._numbers

    def number(self, layout: Layout) -> tuple[int, bool]:
        """Return a layout's number, and whether its forms must be sent along."""
        number = self._numbers.pop(layout, None)
        is_new = number is None
        if number is None:
            is_full = len(self._numbers) == LAYOUTS_KNOWN
            number = self._numbers.pop(next(iter(self._numbers))) if is_full else len(self._numbers)
        self._numbers[layout] = number
        return number, is_new

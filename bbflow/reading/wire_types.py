"""Types of what comes in over a socket or out of an index, checked where the bytes are decoded (FORMAT.md)."""

from typing import Annotated, Literal, Protocol

from msgspec import UNSET, Meta, Struct, UnsetType

VERSION = 5
"""Of the format: contact files have it, and peers tell each other theirs."""
MAX_INTEGER = (1 << 63) - 1
"""Largest count, place and number."""
PAGE_BYTES = 4096
"""Extents begin and end at a multiple of this."""

Count = Annotated[int, Meta(ge=0, le=MAX_INTEGER)]
"""How many, or which one."""
Whole = Annotated[int, Meta(ge=-MAX_INTEGER, le=MAX_INTEGER)]
"""A number that fits where it is stored."""
Settled = Annotated[int, Meta(ge=-1, le=MAX_INTEGER)]
"""A step up to which something is done; -1 before the first."""
LONGEST_S = 1e9
"""The longest wait that may be asked for, 30 years: far beyond, the clock's and the kernel's types overflow."""
Span = Annotated[float, Meta(ge=-LONGEST_S, le=LONGEST_S)]
"""How long (seconds); where that means something, below 0 is forever."""
Seconds = Annotated[float, Meta(ge=0, le=LONGEST_S)]
"""How long (seconds)."""
Moment = Annotated[float, Meta(ge=-1e11, le=1e11)]
"""When (seconds since the epoch), within what calendars can tell."""
Number = Annotated[int, Meta(ge=0, lt=1 << 31)]
"""Of a rank, or how many there are."""
Name = Annotated[str, Meta(max_length=255)]
"""Of a stream, a consumer, a node or a host."""
FilePath = Annotated[str, Meta(max_length=4095, pattern=r"^[^\x00]*\Z")]
"""What the operating system takes as one."""
Check = Annotated[bytes, Meta(max_length=16)]
"""What raw bytes are checked by (FORMAT.md, 'Seal')."""
Place = Annotated[int, Meta(ge=0, le=MAX_INTEGER, multiple_of=PAGE_BYTES)]
"""A byte of the pool that an extent may begin at."""
Dims = tuple[Annotated[int, Meta(ge=0)], ...]
"""A shape, or a place in one; a joined dimension has a length of 2^64 - 2."""


class FormRow(Struct, frozen=True, array_like=True):
    """What doesn't change of a block (FORMAT.md, 'Layout'), as `BlockForm` describes it."""

    name: str
    type: str
    kind: str
    shape: Dims
    start: Dims
    count: Dims
    rank: Count
    extent: Count
    place: Count
    bytes: Count
    spilled: bool
    folded: Annotated[int, Meta(ge=-1)] = 0


Row = FormRow
Value = int | float | str | Annotated[list[int | float], Meta(min_length=2, max_length=2)]
"""A single value: a number, a text, or real and imaginary part."""
Named = int | float | str | list[int | float | str | list[int | float]]
"""An attribute's value: a single one, or a list of them; a complex number is a list of two."""
Status = Literal["expected", "open", "closed", "aborted"]
"""How a stream stands on a node."""


class Attribute(Struct, frozen=True):
    """An attribute of the stream or of a variable (FORMAT.md, 'Attribute')."""

    name: str
    """As the writer defined it; a variable's begins with the variable's name."""
    type: str
    """ADIOS2's name of its type."""
    value: Named
    """Its value."""
    since: Count | UnsetType = UNSET
    """The step of which another node was told this, which is lost; unset if it is told with its own step."""


class Content(Protocol):
    """What a message or a record says of a step, or of a rank's part of one (FORMAT.md, 'Layout')."""

    @property
    def layout(self) -> int:
        """Number of the layout."""

    @property
    def forms(self) -> tuple[Row, ...] | UnsetType:
        """Its forms, if the number is new or means another layout."""

    @property
    def sources(self) -> bytes:
        """First byte in the pool of each extent that blocks lie in."""

    @property
    def files(self) -> tuple[str, ...]:
        """Where the spilled blocks are."""

    @property
    def values(self) -> tuple[Value, ...]:
        """The single values."""

    @property
    def extremes(self) -> bytes:
        """Minimum and maximum of each form."""

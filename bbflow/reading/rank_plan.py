"""What an analysis lets the ranks of a stream fold (FORMAT.md, 'Plan')."""

from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from bbflow.reading.wire_types import Count

LONGEST_ENDS = 8 * 65536


class FoldedBins(Struct, frozen=True, array_like=True):
    """How values are found in a histogram's bins (``BbflowBins`` in Histogram.h)."""

    breaks: bytes
    cells: bytes
    start: float
    cells_per_unit: float
    one_step: bool


FoldedRow = tuple[str, str, Annotated[int, Meta(ge=1)], Annotated[bytes, Meta(max_length=8)], FoldedBins | None]
"""A variable's name, ADIOS2's name of its type, what its states have (`stream.folded`), the value that stands for
'missing', none if empty, and its histogram's bins."""


class RankPlan(Struct, frozen=True, kw_only=True):
    """By which ranks fold their blocks, and when the states land."""

    time: str
    """Name of the single value that tells the time; empty if the steps' numbers do."""
    first: Count
    """Number of the first step for which it holds."""
    begins: float
    """That step's time."""
    interval: float
    """How much later each further step must be."""
    tolerance: float
    """By how much a time may be off."""
    ends: Annotated[bytes, Meta(max_length=LONGEST_ENDS)]
    """Last steps of what lands together, ascending: a table. It holds up to the last of them."""
    variables: tuple[FoldedRow, ...]
    """Those that are folded."""
    wanted: tuple[str, ...]
    """Further arrays that must land as they are, if they come; others aren't wanted in these steps."""
    steady: tuple[str, ...] = ()
    """Those of the others whose first steps' values count: one that has changed must land."""
    device_bytes: Count = 0
    """How much of its GPU's memory a rank's states and blocks may take there; 0: the CPU folds."""


class ToldPlan(NamedTuple):
    """What ranks of a stream may fold."""

    number: int
    """Its own."""
    plan: RankPlan | None
    """None: nothing."""
    since: int
    """The first step that all ranks may fold: those ahead have landed earlier ones, which stay until the others' come,
    and there may be no room for states beside them."""


NO_PLAN = ToldPlan(0, None, 0)

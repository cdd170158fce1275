"""Tables of the shards that the kernel takes as they lie: made once for each plan.

These are of variables themselves, with operators that are made of moments and extremes, and no transforms, `each`,
`then`, `space` or filters.
"""

import mmap
from dataclasses import dataclass
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from bbflow.operators.decoding import fills_of, is_bare
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.family import Array
from bbflow.operators.library import FIELDS, TYPES
from bbflow.operators.state import StateLayout
from bbflow.operators.statistics.moments import Moments
from bbflow.operators.windows import Window
from bbflow.transit.folding.layouts import layout_of
from bbflow.transit.folding.plans import FoldPlan, PlannedShard
from bbflow.transit.folding.shards import Extent
from bbflow.transit.folding.slots import OUTER


@dataclass(frozen=True, slots=True)
class Table:
    """The shards of a plan that the kernel takes as they lie; each column has an element for each."""

    at: Array
    """Its position in the plan's roster."""
    forms: Array
    """Which form its block is."""
    types: Array
    """Code of the values' type."""
    points: Array
    """Values of a block."""
    bytes: Array
    """Bytes of a block."""
    extents: Array
    """First byte and size of its states in files of the lane, of shape (shards, 2)."""
    fields: Array
    """First byte of each of the kernel's fields in a state, -1 for none; of shape (shards, fields)."""
    fills: Array
    """Address of the value that stands for 'missing', 0 for none."""
    windows: Array
    """Which of `known_windows` its diagnostic has."""
    known_windows: tuple[tuple[Window, ...], ...]
    """The windows of all its diagnostics."""
    kept: tuple[Array, ...]
    """What the addresses point to."""

    @classmethod
    def of(cls, plan: FoldPlan) -> "Table":
        """Make the table of a plan."""
        rows, fills, windows = [], dict[Any, Array](), dict[tuple[Window, ...], int]()
        layouts: dict[Any, tuple[StateLayout, int, list[int]]] = {}
        shards = (shard for shard in plan.shards if shard.room is not None)
        for position, shard in enumerate(shards):
            form = _steady_form(plan, shard)
            if form is None:
                continue
            at, dtype, count = form
            key = shard.key.diagnostic, dtype, count
            if key not in layouts:
                layout = layout_of(plan.diagnostics[shard.key.diagnostic], OUTER, dtype, count)
                layouts[key] = layout, layout.nbytes, _places(layout)
            layout, nbytes, places = layouts[key]
            if not all(isinstance(family, Moments) for family in layout.families) or not layout.families:
                continue
            (name,) = shard.places
            if (name, dtype) not in fills:
                fills[name, dtype] = next(iter(fills_of(plan.encodings[name], dtype)), np.empty(0))
            fill = fills[name, dtype]
            assert shard.room is not None
            first, points = shard.room.extents[OUTER][0], prod(count)
            own_windows = windows.setdefault(plan.diagnostics[shard.key.diagnostic].windows, len(windows))
            told = position, at, TYPES[dtype], points, points * dtype.itemsize, first, nbytes
            rows.append((*told, fill.ctypes.data if fill.size else 0, own_windows, *places))
        table = np.array(rows, "i8").reshape(-1, 9 + len(FIELDS))
        at, forms, types, points, bytes_ = table.T[:5]
        kept = tuple(fills.values())
        return cls(
            at, forms, types, points, bytes_, table[:, 5:7], table[:, 9:], table[:, 7], table[:, 8], tuple(windows),
            kept,
        )  # fmt: skip

    def addresses(self, rows: Array, first: int) -> Array:
        """Return where the fields of some shards' states are, 0 for none, in a file that is mapped at an address."""
        fields = self.fields[rows]
        return np.where(fields < 0, 0, first + self.extents[rows, :1] + fields)


Rows = tuple[Table, Array]
"""Shards that stand in some rows of a table."""


_tables: WeakKeyDictionary[FoldPlan, Table] = WeakKeyDictionary()


def table_of(plan: FoldPlan) -> Table:
    """Return the table of a plan, made once."""
    if plan not in _tables:
        _tables[plan] = Table.of(plan)
    return _tables[plan]


def _steady_form(plan: FoldPlan, shard: PlannedShard) -> "tuple[int, np.dtype[Any], tuple[int, ...]] | None":
    """Return which form a shard's block is, and its type and shape; None if the kernel can't take it as it lies."""
    if not _is_plain(plan.diagnostics[shard.key.diagnostic]) or shard.local is not None or len(shard.places) != 1:
        return None
    ((name, (node, at)),) = shard.places.items()
    form = plan.layout.forms[at] if node == plan.node else None
    if form is None or form.spilled or not form.bytes or form.stride > 1 or form.dtype not in TYPES:
        return None
    return (at, form.dtype, form.count) if is_bare(plan.encodings[name], form.dtype) else None


def _is_plain(diagnostic: Diagnostic) -> bool:
    bare = not (diagnostic.transforms or diagnostic.each or diagnostic.then or diagnostic.filters)
    return bare and diagnostic.of.is_plain and not diagnostic.others


def _places(layout: StateLayout) -> list[int]:
    places = {field: offset for (_, field), offset in layout.places.items()}
    return [places.get(name, -1) for name in FIELDS]


def joined(extents: Array) -> list[Extent]:
    """Put extents together that follow each other."""
    ordered = extents[np.argsort(extents[:, 0])]
    ends = ordered.sum(axis=1)
    begins = np.flatnonzero(np.append(True, ordered[1:, 0] - ends[:-1] >= mmap.PAGESIZE))
    lasts = np.append(begins[1:], len(ordered)) - 1
    return [(int(first), int(end - first)) for first, end in zip(ordered[begins, 0], ends[lasts], strict=True)]

"""What the kernel must know of the shards of a plan to take their blocks as they lie: found once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from bbflow.errors import StreamError
from bbflow.operators.decoding import fills_of, is_bare
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.library import FAMILY_TASK, FIELDS, TYPES
from bbflow.operators.statistics.moments import Moments
from bbflow.operators.steps import Array
from bbflow.stream.cf import Encoding
from bbflow.stream.folded import state_places
from bbflow.stream.records import BlockForm
from bbflow.transit.folding.plans import FoldPlan
from bbflow.transit.folding.rank_states import is_plain, lacking
from bbflow.transit.folding.slots import OUTER
from bbflow.transit.folding.state_layouts import state_layout_of

TYPE_NAMES = [dtype.str for dtype in TYPES]

ROW = np.dtype(
    [
        *((name, "i8") for name in ("form", "types", "points", "bytes", "fills", "folded")),
        ("fields", "i8", len(FIELDS)),
        ("states", "i8", len(FIELDS)),
    ]
)
"""What the kernel must know of a shard.

Which form its block is, -1 if the kernel can't take it as it lies; code of the values' type; values and bytes of a
block; address of the value that stands for 'missing', 0 for none; whether its rank has folded it (`BlockForm.folded`);
first byte of each of the kernel's fields in files of the lane, and in a block that is a state, -1 for none.
"""


FAMILY_ROW = np.dtype([("row", "i8"), ("family", "u8"), ("begin", "i8")])
"""What a shard's state has besides the kernel's fields.

The shard's row; address of what is the same for all states of a kind (`library.FAMILY`); first byte of the state in
files of the lane.
"""


@dataclass(frozen=True, slots=True)
class KernelTable:
    """What the kernel must know of a plan's shards.

    It takes those of variables themselves, with operators that are made of moments and extremes, percentiles and
    histograms, and no transforms, `each`, `then` or `space`.
    """

    rows: Array
    """A `ROW` for each of the roster's."""
    families: Array
    """`FAMILY_ROW` by row."""
    kept: tuple[Array, ...]
    """What addresses point to."""

    @classmethod
    def of(cls, plan: FoldPlan) -> "KernelTable":
        """Make the table of a plan."""
        rows = np.zeros(len(plan.roster), ROW)
        kept, families = list[Array](), list[tuple[int, int, int]]()
        rows["form"] = -1
        forms = np.array([at if node == plan.node else -1 for node, at in plan.places], "i8")
        for code, key in enumerate(plan.roster.diagnostics):
            diagnostic = plan.diagnostics[key]
            own = np.flatnonzero(plan.roster.rows["diagnostic"] == code) if is_plain(diagnostic) else ()
            if not len(own):
                continue
            at = forms[plan.blocks[own, 0]]
            own, at = own[at >= 0], at[at >= 0]
            for form, alike in _kinds([plan.layout.forms[number] for number in at.tolist()]):
                row, further = _row(diagnostic, form, plan.encodings[form.name], kept)
                if row is not None:
                    rows[own[alike]] = row
                    rows["form"][own[alike]] = at[alike]
                    families += [(shard, item.ctypes.data, 0) for shard in own[alike].tolist() for item in further]
        begins = plan.extents(OUTER)[:, 0]
        rows["fields"] = np.where(rows["fields"] < 0, -1, begins[:, None] + rows["fields"])
        told = np.array(sorted(families), FAMILY_ROW)
        told["begin"] = begins[told["row"]]
        return cls(rows, told, tuple(kept))

    def addresses(self, rows: Array, first: int) -> Array:
        """Return where the fields of some shards' states are, 0 for none, in a file that is mapped at an address."""
        fields = self.rows["fields"][rows]  # no further column: rows are long
        return np.where(fields < 0, 0, fields + first)

    def families_of(self, rows: Array) -> Array:
        """Return a task for each family of some shards, which it names by their positions here.

        It is of `library.FAMILY_TASK`, and has for addresses of states where these begin in files of the lane.
        """
        if not len(self.families):
            return np.zeros(0, FAMILY_TASK)
        places = np.full(len(self.rows), -1)
        places[rows] = np.arange(len(rows))
        at = places[self.families["row"]]
        own, at = self.families[at >= 0], at[at >= 0]
        tasks = np.zeros(len(own), FAMILY_TASK)
        tasks["task"], tasks["family"] = at, own["family"]
        for side in ("left", "right", "target"):
            tasks[side] = own["begin"]
        return tasks[np.argsort(at, kind="stable")]


_tables: WeakKeyDictionary[FoldPlan, KernelTable] = WeakKeyDictionary()


def table_of(plan: FoldPlan) -> KernelTable:
    """Return the table of a plan, made once."""
    if plan not in _tables:
        _tables[plan] = KernelTable.of(plan)
    return _tables[plan]


def _kinds(forms: Sequence[BlockForm]) -> Iterator[tuple[BlockForm, Array]]:
    """Yield a form of each kind, and the positions of all that are like it."""
    found: dict[Any, list[int]] = {}
    for at, form in enumerate(forms):
        found.setdefault((form.type, form.count, form.bytes, form.spilled, form.folded, form.stride), []).append(at)
    return ((forms[own[0]], np.array(own)) for own in found.values())


def _row(diagnostic: Diagnostic, form: BlockForm, encoding: Encoding, kept: list[Array]) -> tuple[Any, list[Array]]:
    """Return the row of shards with blocks of a kind, but for where they lie, and what their states have besides.

    The row is None if the kernel can't take these.
    """
    if (
        form.spilled
        or form.is_single
        or form.stride > 1
        or form.dtype not in TYPES
        or not is_bare(encoding, form.dtype)
    ):
        return None, []
    state_layout = state_layout_of(diagnostic, OUTER, form.dtype, form.count)
    fields, families = (-1,) * len(FIELDS), list[Array]()
    for family in state_layout.families:
        places = {field: offset for (name, field), offset in state_layout.places.items() if name == family.name}
        if isinstance(family, Moments) and not family.is_weighted:
            fields = tuple(places.get(name, -1) for name in FIELDS)
        elif family.in_kernel is not None:
            families.append(family.in_kernel.told([*places.values()]))
        else:
            return None, []
    if form.folded and (families or diagnostic.filters):
        return None, []  # ranks fold histograms too, whose states are merged one by one; others are refused there
    fill = next(iter(fills_of(encoding, form.dtype)), np.empty(0))
    kept += [fill, *families]
    points, address = prod(form.count), fill.ctypes.data if fill.size else 0
    states = _states(diagnostic, form, fields) if form.folded > 0 else (-1,) * len(FIELDS)
    told = 0, TYPES[form.dtype], points, points * form.dtype.itemsize, address, form.folded, fields, states
    return np.array(told, ROW), families


def _states(diagnostic: Diagnostic, form: BlockForm, fields: Sequence[int]) -> tuple[int, ...]:
    """Return where a block that is a state has the kernel's fields."""
    places, _ = state_places(form.folded, form.dtype.itemsize, prod(form.count))
    if absent := [name for name, place in zip(FIELDS, fields, strict=True) if place >= 0 and name not in places]:
        raise StreamError(lacking(diagnostic, form, absent))
    return tuple(places.get(name, -1) for name in FIELDS)

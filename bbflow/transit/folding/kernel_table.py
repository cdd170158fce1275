"""What the kernel must know of a plan's shards to take their blocks, or ranks' states, as they lie: found once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from bbflow.errors import StreamError
from bbflow.operators import library
from bbflow.operators.decoding import fills_of, is_bare
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.family import Family
from bbflow.operators.library import FAMILY_TASK, FIELDS, TYPES
from bbflow.operators.statistics.bins import Bins
from bbflow.operators.statistics.moments import Moments
from bbflow.operators.steps import Array
from bbflow.stream.cf import Encoding
from bbflow.stream.folded import COUNTS, MEAN, folded_of, state_places
from bbflow.stream.layouts import BlockForm
from bbflow.transit.folding.plans import FoldPlan, lacking
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


FAMILY_ROW = np.dtype([("row", "i8"), ("family", "u8"), ("begin", "i8"), ("counts", "i8"), ("state", "i8")])
"""What a shard's state has besides the kernel's fields.

The shard's row; address of what is the same for all states of a kind (`library.FAMILY`); where the state begins in
files of the lane; and where a histogram's counts lie in a state there, and in a block that is one.
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
        kept, families = list[Array](), list[tuple[int, int, int, int, int]]()
        rows["form"] = -1
        forms = np.array([at if node == plan.node else -1 for node, at in plan.places], "i8")
        for code, key in enumerate(plan.roster.diagnostics):
            diagnostic = plan.diagnostics[key]
            own = np.flatnonzero(plan.roster.rows["diagnostic"] == code)
            if diagnostic.is_of_means:
                continue
            if not is_plain(diagnostic):
                _check_blocks(plan, diagnostic, forms, own)
                continue
            at = forms[plan.blocks[own, 0]]
            own, at = own[at >= 0], at[at >= 0]
            for form, alike in _kinds([plan.layout.forms[number] for number in at.tolist()]):
                row, further = _row(diagnostic, form, plan.encodings[form.name], kept)
                if row is not None:
                    rows[own[alike]] = row
                    rows["form"][own[alike]] = at[alike]
                    shards = own[alike].tolist()
                    families += [(shard, item.ctypes.data, 0, *counts) for shard in shards for item, counts in further]
                elif form.folded:
                    raise StreamError(lacking(diagnostic, form, ["the steps themselves"]))
        begins = plan.extents(OUTER)[:, 0]
        rows["fields"] = np.where(rows["fields"] < 0, -1, begins[:, None] + rows["fields"])
        told = np.array(sorted(families), FAMILY_ROW)
        told["begin"] = begins[told["row"]]
        return cls(rows, told, tuple(kept))

    def chosen(self, rows: Array) -> "KernelTable":
        """Return what is known of some of the shards."""
        if len(rows) == len(self.rows) and (rows[1:] > rows[:-1]).all():
            return self
        places = np.full(len(self.rows), -1)
        places[rows] = np.arange(len(rows))
        at = places[self.families["row"]]
        families, at = self.families[at >= 0], at[at >= 0]
        families["row"] = at
        return KernelTable(self.rows[rows], families[np.argsort(at, kind="stable")], self.kept)

    def fields(self, begins: Array) -> Array:
        """Return where the kernel's fields are in states of files that are mapped at these addresses; 0 for none."""
        fields = self.rows["fields"]
        return np.where((fields < 0) | (begins == 0)[:, None], 0, fields + begins[:, None])

    def tasks(self, **sides: Array) -> Array:
        """Return tasks of what states have besides, of `FAMILY_TASK`; as `fields`."""
        tasks = np.zeros(len(self.families), FAMILY_TASK)
        tasks["task"], tasks["family"] = self.families["row"], self.families["family"]
        for side, begins in sides.items():
            own = begins[self.families["row"]]
            tasks[side] = np.where(own == 0, 0, own + self.families["begin"])
        return tasks

    def merge(self, left: Array, right: Array, target: Array, threads: int) -> None:
        """Merge the shards' states that are in files which are mapped at these addresses."""
        tasks = self.tasks(left=left, right=right, target=target)
        self._merge(self.fields(left), self.fields(right), self.fields(target), tasks, threads)

    def merge_blocks(self, left: Array, blocks: Array, target: Array, threads: int) -> None:
        """Merge blocks that are states, at these addresses, into states in files, or copy them where no left one is.

        The target may be the left side: ranks have no families that are merged in another way than by adding.
        """
        tasks, states = self.tasks(left=left, target=target), self.rows["states"]
        tasks["right"] = blocks[self.families["row"]] + self.families["state"] - self.families["counts"]
        nothing = np.zeros(int(self.rows["bytes"].max()), "u1")  # as many bytes as counts have at most
        tasks["left"][tasks["left"] == 0] = nothing.ctypes.data - self.families["counts"][tasks["left"] == 0]
        right = np.where(states < 0, 0, blocks[:, None] + states)
        self._merge(self.fields(left), right, self.fields(target), tasks, threads)

    def _merge(self, left: Array, right: Array, target: Array, families: Array, threads: int) -> None:
        tasks = np.zeros(len(self.rows), library.MERGE_TASK)
        tasks["left"], tasks["right"], tasks["target"], tasks["points"] = left, right, target, self.rows["points"]
        library.merge_many(self.rows["types"], tasks, families, threads)


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


def _check_blocks(plan: FoldPlan, diagnostic: Diagnostic, forms: Array, shards: Array) -> None:
    """Refuse blocks that are states, of shards whose steps are wanted themselves."""
    blocks = plan.blocks[shards]
    for at in set(forms[blocks[blocks >= 0]].tolist()) - {-1}:
        if plan.layout.forms[at].folded:
            raise StreamError(lacking(diagnostic, plan.layout.forms[at], ["the steps themselves"]))


def _row(
    diagnostic: Diagnostic, form: BlockForm, encoding: Encoding, kept: list[Array]
) -> tuple[Any, list[tuple[Array, tuple[int, int]]]]:
    """Return the row of shards with blocks of a kind, but for where they lie, and what their states have besides.

    The row is None if the kernel can't take these. Of each family it is told where counts lie (`FAMILY_ROW`).
    """
    if (form.folded and diagnostic.filters) or not is_whole(form) or not is_bare(encoding, form.dtype):
        return None, []
    state_layout = state_layout_of(diagnostic, OUTER, form.dtype, form.count)
    fields, families = (-1,) * len(FIELDS), list[tuple[Array, tuple[int, int]]]()
    for family in state_layout.families:
        places = {field: offset for (name, field), offset in state_layout.places.items() if name == family.name}
        if isinstance(family, Moments) and not family.is_weighted:
            fields = tuple(places.get(name, -1) for name in FIELDS)
        elif isinstance(family, Bins) or (family.in_kernel is not None and not form.folded):
            assert family.in_kernel is not None
            families.append((family.in_kernel.told([*places.values()]), _counts(diagnostic, form, family, places)))
        else:
            return None, []
    fill = next(iter(fills_of(encoding, form.dtype)), np.empty(0))
    kept += [fill, *(item for item, _ in families)]
    points, address = prod(form.count), fill.ctypes.data if fill.size else 0
    states = _states(diagnostic, form, fields) if form.folded > 0 else (-1,) * len(FIELDS)
    told = 0, TYPES[form.dtype], points, form.bytes, address, form.folded, fields, states
    return np.array(told, ROW), families


def _counts(diagnostic: Diagnostic, form: BlockForm, family: Family, places: Mapping[str, int]) -> tuple[int, int]:
    """Return where a histogram's counts lie in a state of ours, and in a block that is one; nowhere if it isn't."""
    if form.folded <= 0:
        return 0, 0
    assert isinstance(family, Bins)
    if folded_of(0, family.edges) != form.folded & ~((1 << len(FIELDS)) - 1):
        raise StreamError(lacking(diagnostic, form, ["a histogram with these edges"]))
    own, _ = state_places(form.folded, form.dtype.itemsize, prod(form.count))
    return places[COUNTS], own[COUNTS]


def _states(diagnostic: Diagnostic, form: BlockForm, fields: Sequence[int]) -> tuple[int, ...]:
    """Return where a block that is a state has the kernel's fields."""
    places, _ = state_places(form.folded, form.dtype.itemsize, prod(form.count))
    if absent := [name for name, place in zip(FIELDS, fields, strict=True) if place >= 0 and name not in places]:
        raise StreamError(lacking(diagnostic, form, absent))
    return tuple(places.get(name, -1) for name in FIELDS)


def is_plain(diagnostic: Diagnostic) -> bool:
    """Whether it is folded of a variable's own blocks, as they lie."""
    bare = not (diagnostic.transforms or diagnostic.each or diagnostic.then)
    return bare and diagnostic.of.is_plain and diagnostic.space is None and not diagnostic.others


def is_whole(form: BlockForm) -> bool:
    """Whether a block lies in the pool, one value beside the next, of a type that the kernel folds."""
    return not (form.spilled or form.is_single or form.stride > 1) and form.dtype in TYPES


def kept_of(diagnostic: Diagnostic, form: BlockForm, encoding: Encoding) -> tuple[int, tuple[float, ...]] | None:
    """Return which accumulators ranks' states must have for a diagnostic, and the edges of its histogram.

    None if ranks can't fold such blocks.
    """
    if diagnostic.is_of_means and is_whole(form):
        return (sum(1 << FIELDS.index(name) for name in MEAN), ()) if is_bare(encoding, form.dtype) else None
    if diagnostic.filters or not is_plain(diagnostic) or not is_whole(form):
        return None
    families = state_layout_of(diagnostic, OUTER, form.dtype, form.count).families
    moments = [own for own in families if isinstance(own, Moments) and not own.is_weighted]
    bins = [own for own in families if isinstance(own, Bins)]
    if len(moments) + len(bins) < len(families) or len(bins) > 1 or not is_bare(encoding, form.dtype):
        return None
    needed = {name for own in moments for name in own.needed} | {"count"}
    return sum(1 << FIELDS.index(name) for name in needed), bins[0].edges if bins else ()

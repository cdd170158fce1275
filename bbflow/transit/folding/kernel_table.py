"""What the kernel must know of a plan's shards to take their blocks, and their states, as they lie: found once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from bbflow.errors import StreamError
from bbflow.operators import library
from bbflow.operators.decoding import fills_of, is_bare
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.kernel_family import InKernel, KernelFamily
from bbflow.operators.library import FAMILY_TASK, FIELDS, MOST_FIELDS, TYPES
from bbflow.operators.state import StateLayout
from bbflow.operators.statistics.bins import Bins
from bbflow.operators.statistics.moments import Moments
from bbflow.operators.steps import Array, DType
from bbflow.operators.windows.window import Window
from bbflow.stream.cf import Encoding
from bbflow.stream.folded import COUNTS, MEAN, folded_of, state_places
from bbflow.stream.layouts import BlockForm
from bbflow.transit.folding.plans import FoldPlan, lacking
from bbflow.transit.spans.slots import LEVELS, OUTER
from bbflow.transit.states.files import pages_of
from bbflow.transit.states.shards import Extent
from bbflow.transit.states.state_layouts import ends_within, state_layout_of, states_of, written_of
from bbflow.transit.states.tables import Roster, groups, is_all

PYTHON = -1
"""Stands for the type of states that the kernel can't fold: they have a family that is folded in Python."""

STATE_ROW = np.dtype([*((name, "i8") for name in ("layout", "type", "points")), ("fields", "i8", len(FIELDS))])
"""A shard's state of a level.

Which of the table's layouts it has, and points; code of the values' type, or `PYTHON`; first byte of each of the
kernel's fields in files of the lane, -1 for none.
"""
FAMILY_ROW = np.dtype([("row", "i8"), *((name, "u8") for name in InKernel._fields), ("fields", "i8", MOST_FIELDS)])
"""What a shard's state has besides the kernel's fields.

The shard's row; what the kernel must know of the family; and first byte of each of its fields in files of the lane, -1
for none.
"""
BLOCK_ROW = np.dtype(
    [*((name, "i8") for name in ("form", "bytes", "fill", "folded", "counts")), ("fields", "i8", len(FIELDS))]
)
"""A shard's block.

Which form it is, -1 if the kernel can't take it as it lies, but what is made of it; its bytes; address of the value
that stands for 'missing', 0 for none; and whether its rank has folded it (`BlockForm.folded`): then where a histogram's
counts lie in it, and each of the kernel's fields, -1 for none.
"""


@dataclass(frozen=True, eq=False)
class StateTable:
    """Where some shards' states of a level lie, and how the kernel takes moments, extremes, percentiles, histograms."""

    rows: Array
    """A `STATE_ROW` for each shard."""
    begins: Array
    """First byte of each one's states in files of the lane."""
    families: Array
    """`FAMILY_ROW` by row."""
    layouts: tuple[StateLayout, ...]
    """How states lie: one for each diagnostic and shape."""

    @classmethod
    def of(
        cls,
        level: str,
        roster: Roster,
        diagnostics: Mapping[str, Diagnostic],
        dtypes: Mapping[str, DType],
    ) -> "StateTable":
        """Make the table of some shards.

        Parameters
        ----------
        level
            Which states.
        roster
            The shards; those without such states have no layout.
        diagnostics, dtypes
            What is computed, and the type of the values after the transforms, by diagnostic.
        """
        rows, begins = np.zeros(len(roster), STATE_ROW), roster.offsets(level)
        layouts, families = list[StateLayout](), [np.zeros(0, FAMILY_ROW)]
        rows["layout"], rows["type"] = -1, PYTHON
        of = np.column_stack([roster.rows[name] for name in ("diagnostic", "field_dims", "shape")])
        for (code, dims, *shape), own in groups(of):
            diagnostic = diagnostics[roster.diagnostics[code]]
            if level != OUTER and level not in states_of(diagnostic):
                continue
            layout = state_layout_of(diagnostic, level, dtypes[roster.diagnostics[code]], tuple(shape[:dims]))
            rows["layout"][own], rows["points"][own] = len(layouts), layout.points
            layouts.append(layout)
            if (told := _in_kernel(layout)) is not None:
                fields, further = told
                rows["type"][own] = TYPES[layout.dtype]
                rows["fields"][own] = np.where(fields < 0, -1, begins[own, None] + fields)
                all_rows = np.tile(further, len(own))
                all_rows["row"] = np.repeat(own, len(further))
                places = all_rows["fields"]
                all_rows["fields"] = np.where(places < 0, -1, begins[all_rows["row"], None] + places)
                families.append(all_rows)
        all_rows = np.concatenate(families)
        return cls(rows, begins, all_rows[np.argsort(all_rows["row"], kind="stable")], tuple(layouts))

    @cached_property
    def pages(self) -> list[Extent]:
        """The pages of files of the lane in which the states lie."""
        sizes = np.array([*(max(layout.nbytes, 1) for layout in self.layouts), 0])[self.rows["layout"]]
        return pages_of(np.stack([self.begins, sizes], axis=1))

    @property
    def in_kernel(self) -> Array:
        """Whether the kernel folds and merges each one's states; bool of shape (shards,)."""
        in_kernel: Array = np.not_equal(self.rows["type"], PYTHON)
        return in_kernel

    def layout(self, at: int) -> StateLayout:
        """Return how the state of one lies."""
        return self.layouts[int(self.rows["layout"][at])]

    def chosen(self, rows: Array) -> "StateTable":
        """Return what is known of some of the shards."""
        if is_all(rows, len(self.rows)):
            return self
        families = self.families
        if len(families):
            places = np.full(len(self.rows), -1)
            places[rows] = np.arange(len(rows))
            at = places[families["row"]]
            families, at = families[at >= 0], at[at >= 0]
            families["row"] = at
            families = families[np.argsort(at, kind="stable")]
        return StateTable(self.rows[rows], self.begins[rows], families, self.layouts)

    def fields(self, files: Array | int) -> Array:
        """Return where the kernel's fields are in states of files that are mapped at these addresses; 0 for none."""
        fields = self.rows["fields"]
        if isinstance(files, int):
            return np.where(fields < 0, 0, fields + files) if files else np.zeros_like(fields)
        return np.where((fields < 0) | (files == 0)[:, None], 0, fields + files[:, None])

    def tasks(self, **sides: Array | int) -> Array:
        """Return tasks of what states have besides, of `FAMILY_TASK`; as `fields`."""
        tasks, rows, fields = np.zeros(len(self.families), FAMILY_TASK), self.families["row"], self.families["fields"]
        tasks["task"] = rows
        for name in InKernel._fields:
            tasks[name] = self.families[name]
        for side, files in sides.items():
            own = np.full((len(rows), 1), files) if isinstance(files, int) else files[rows][:, None]
            tasks[side]["fields"] = np.where((own == 0) | (fields < 0), 0, own + fields)
            tasks[side]["stride"] = self.rows["points"][rows]
        return tasks

    def merge(self, left: int, right: int, target: int, threads: int) -> None:
        """Merge the shards' states that are in files which are mapped at these addresses."""
        tasks = self.tasks(left=left, right=right, target=target)
        self._merge(self.fields(left), self.fields(right), self.fields(target), tasks, threads)

    def merge_blocks(self, left: Array, blocks: Array, told: Array, target: int, threads: int) -> None:
        """Merge blocks that are states into states in files, or copy them where no left one is.

        The target may be the left side: ranks have no families that are merged in another way than by adding.

        Parameters
        ----------
        left
            Where the file with each one's state is mapped, 0 for none.
        blocks, told
            The blocks' addresses, and `BLOCK_ROW` of each.
        target
            Where the file is mapped that gets the states.
        threads
            How many may merge.
        """
        tasks, of = self.tasks(left=left, target=target), self.families["row"]
        tasks["right"]["fields"][:, 0] = blocks[of] + told["counts"][of]
        tasks["right"]["stride"] = tasks["target"]["stride"]
        right = np.where(told["fields"] < 0, 0, blocks[:, None] + told["fields"])
        self._merge(self.fields(left), right, self.fields(target), tasks, threads)

    def _merge(self, left: Array, right: Array, target: Array, families: Array, threads: int) -> None:
        tasks = np.zeros(len(self.rows), library.MERGE_TASK)
        tasks["left"], tasks["right"], tasks["target"], tasks["points"] = left, right, target, self.rows["points"]
        library.merge(self.rows["type"], tasks, families, threads)


def _in_kernel(layout: StateLayout) -> tuple[Array, Array] | None:
    """Return where the kernel's fields lie in a state, -1 for none, and `FAMILY_ROW` of what it has besides.

    None if the kernel can't fold all of it.
    """
    fields, families = np.full(len(FIELDS), -1), list[Any]()
    for family in layout.families:
        places = {field: offset for (name, field), offset in layout.places.items() if name == family.name}
        if isinstance(family, Moments) and not family.is_weighted:
            fields[:] = [places.get(name, -1) for name in FIELDS]
        elif isinstance(family, KernelFamily):
            families.append((0, *family.in_kernel, (*places.values(), *[-1] * (MOST_FIELDS - len(places)))))
        else:
            return None
    return fields, np.array(families, FAMILY_ROW)


@dataclass(frozen=True, slots=True)
class PlanTable:
    """What the kernel must know of a plan's shards."""

    blocks: Array
    """A `BLOCK_ROW` for each of the roster's; of variables alone, without transforms, `each`, `then` or `space`."""
    states: Mapping[str, StateTable]
    """Their states, by level."""
    sorts: Array
    """Numbers that only shards have in common whose states may be alike: of the same windows, levels and type."""
    kept: tuple[Array, ...]
    """What addresses point to."""

    @classmethod
    def of(cls, plan: FoldPlan) -> "PlanTable":
        """Make the table of a plan.

        Raises
        ------
        StreamError
            If ranks have folded what is wanted step by step.
        """
        states = {level: StateTable.of(level, plan.roster, plan.diagnostics, plan.dtypes) for level in LEVELS}
        rows, kept = np.zeros(len(plan.roster), BLOCK_ROW), list[Array]()
        rows["form"] = -1
        forms = np.array([at if node == plan.node else -1 for node, at in plan.places], "i8")
        for code, key in enumerate(plan.roster.diagnostics):
            diagnostic, own = plan.diagnostics[key], np.flatnonzero(plan.roster.rows["diagnostic"] == code)
            if diagnostic.is_of_means:
                continue
            if not is_plain(diagnostic):
                _check_blocks(plan, diagnostic, forms, own)
                continue
            at = forms[plan.blocks[own, 0]]
            own, at = own[at >= 0], at[at >= 0]
            for form, alike in _kinds([plan.layout.forms[number] for number in at.tolist()]):
                state = states[OUTER].chosen(own[alike[:1]])
                block = _block(diagnostic, form, state, plan.encodings[form.name], kept)
                if block is not None:
                    rows[own[alike]] = block
                    rows["form"][own[alike]] = at[alike]
        return cls(rows, states, _sorts(plan), tuple(kept))


_tables: WeakKeyDictionary[FoldPlan, PlanTable] = WeakKeyDictionary()


def table_of(plan: FoldPlan) -> PlanTable:
    """Return the table of a plan, made once."""
    if plan not in _tables:
        _tables[plan] = PlanTable.of(plan)
    return _tables[plan]


def ready_files(
    plan: FoldPlan, living: Mapping[str, int], ahead: int
) -> tuple[tuple[str, int, tuple[Extent, ...]], ...]:
    """Return which files a lane's next batches need, if they lie as in a plan; as `make_ready` takes them.

    Parameters
    ----------
    plan
        The lane's.
    living
        Level to how many files have states now (`living_files`).
    ahead
        How many batches more than one are folded while what has ended is published.
    """
    needs: dict[str, dict[str, int]] = {}
    for key in plan.roster.diagnostics:
        own = plan.diagnostics[key]
        further = ahead if ends_within(own) else 0
        for level, most in states_of(own).items():
            known = min(max(living.get(level, 0), 1), most)
            needs.setdefault(level, {})[key] = known + written_of(own, level) + further
    files = []
    for level, own_needs in needs.items():
        table = StateTable.of(level, plan.roster, plan.diagnostics, plan.dtypes)
        most = np.array([own_needs.get(key, 0) for key in plan.roster.diagnostics])[plan.roster.rows["diagnostic"]]
        for number in sorted(set(own_needs.values())):
            files.append((level, number, tuple(table.chosen(np.flatnonzero(most >= number)).pages)))
    return tuple(files)


def _sorts(plan: FoldPlan) -> Array:
    known: dict[tuple[tuple[Window, ...], Window | None, bool, DType], int] = {}
    numbers = []
    for key in plan.roster.diagnostics:
        own = plan.diagnostics[key]
        inner = None if own.each is None else own.each.window
        mark = own.windows, inner, bool(own.transforms), plan.dtypes[key]
        numbers.append(known.setdefault(mark, len(known)))
    sorts: Array = np.array(numbers, "i8")[plan.roster.rows["diagnostic"]]
    return sorts


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


def _block(diagnostic: Diagnostic, form: BlockForm, state: StateTable, encoding: Encoding, kept: list[Array]) -> Any:
    """Return the row of blocks of a kind, but for where they lie; None if the kernel can't take them as they lie."""
    layout, lies = state.layout(0), bool(state.in_kernel[0]) and is_whole(form) and is_bare(encoding, form.dtype)
    can_be = not diagnostic.filters and all(isinstance(family, Moments | Bins) for family in layout.families)
    if form.folded and not (lies and can_be):
        raise StreamError(lacking(diagnostic, form, ["the steps themselves"]))
    if not lies:
        return None
    fill = next(iter(fills_of(encoding, form.dtype)), np.empty(0))
    kept.append(fill)
    counts, fields = -1, np.full(len(FIELDS), -1)
    if form.folded > 0:
        counts, fields = _state(diagnostic, form, layout, state.rows["fields"][0])
    return np.array((0, form.bytes, fill.ctypes.data if fill.size else 0, form.folded, counts, fields), BLOCK_ROW)


def _state(diagnostic: Diagnostic, form: BlockForm, layout: StateLayout, fields: Array) -> tuple[int, Array]:
    """Return where a block that is a state has a histogram's counts, and the kernel's fields that a state of ours has.

    Raises
    ------
    StreamError
        If it lacks something.
    """
    own, _ = state_places(form.folded, form.dtype.itemsize, prod(form.count))
    for family in layout.families:
        if isinstance(family, Bins) and folded_of(0, family.edges) != form.folded & ~((1 << len(FIELDS)) - 1):
            raise StreamError(lacking(diagnostic, form, ["a histogram with these edges"]))
    if absent := [name for name, place in zip(FIELDS, fields.tolist(), strict=True) if place >= 0 and name not in own]:
        raise StreamError(lacking(diagnostic, form, absent))
    return own.get(COUNTS, -1), np.array([own.get(name, -1) for name in FIELDS])


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

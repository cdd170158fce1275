"""The fold of shards one by one: transforms, expressions, points and levels, filters, and families in Python."""

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from bbflow.errors import BbflowError, StreamError
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.filter import Extremes
from bbflow.operators.fold import HasTiles, fold_tiles
from bbflow.operators.space.placement import Local
from bbflow.operators.state import StateLayout
from bbflow.operators.steps import Array, DType
from bbflow.stream.records import BlockForm
from bbflow.transit.folding.alike_fold import AlikeFold, AlikeShards
from bbflow.transit.folding.inner import inner_step
from bbflow.transit.folding.inputs import Inputs, extremes_of, open_inputs
from bbflow.transit.folding.rank_states import kept_of, lacking, views_of
from bbflow.transit.folding.shards import StatePlace
from bbflow.transit.folding.slots import BASE, CARRIED, INNER, OUTER, Keys, StateSlot
from bbflow.transit.folding.sources import NewSteps
from bbflow.transit.folding.states import map_file
from bbflow.transit.folding.steps import Carried, Then, WeighedSteps


class _Opened(NamedTuple):
    """The steps of one shard."""

    inputs: Inputs
    """As they lie."""
    local: Local | None
    """Which points of them, or what of them, if not all."""
    steps: HasTiles
    """As they come out of the transforms."""


class OneByOne(AlikeFold):
    """Folds shards of one diagnostic, one after the other.

    Parameters
    ----------
    shards, diagnostic, keys, sources, rows
        As for `AlikeFold`.
    """

    def __init__(
        self,
        shards: AlikeShards,
        diagnostic: Diagnostic,
        keys: Keys,
        sources: Sequence[NewSteps] = (),
        rows: Sequence[Array] = (),
    ) -> None:
        super().__init__(shards, diagnostic, keys, sources, rows)
        self._members = shards.roster.members(shards.rows)
        self._carried: list[tuple[Any, Any]] = []
        self._opened: _Opened | None = None
        self.bytes = 0
        """Bytes of the blocks."""

    def _values_dtype(self) -> DType:
        if self._diagnostic.transforms:
            self._carried = self._next(BASE[CARRIED])
        self._opened = self._open(0)
        if self._opened is None:
            return next(form.dtype for form in self._forms(0) if form is not None)
        return _dtype_of(self._opened)

    def _fold_steps(self) -> list[tuple[tuple[str, ...], Array]]:
        level = OUTER if self._diagnostic.each is None else INNER
        states, found = self._next(BASE[level]), dict[tuple[str, ...], list[int]]()
        for at, row in enumerate(self._shards.rows.tolist()):
            opened, self._opened = self._opened or self._open(at), None
            files: tuple[str, ...] = ()
            if opened is not None:
                if (dtype := _dtype_of(opened)) != np.dtype(self._like.dtype):
                    raise BbflowError(
                        f"{self._diagnostic.name}: some blocks have values of type {self._like.dtype}, others of type "
                        f"{dtype}: let all ranks write one type"
                    )
                extremes = extremes_of(opened.inputs, self._diagnostic, opened.local)
                rows = self._fold_one(level, at, states[at], self._told(level, at, opened), extremes)
                self.bytes += opened.inputs.bytes
                files = self._keep_rows(at, opened.inputs, rows)
            self._merge_states(at, *states[at], has_steps=opened is not None)
            found.setdefault(files, []).append(row)
        return [(files, np.array(own)) for files, own in found.items()]

    def _fold_one(
        self, level: str, at: int, state: tuple[Any, Any], steps: HasTiles, extremes: Sequence[Extremes]
    ) -> dict[str, Array]:
        return fold_tiles(self._layout(level, at), *state, steps, extremes, self._diagnostic.filters)

    def _forms(self, at: int) -> list[BlockForm | None]:
        """Return of each source the form of a shard's blocks if its rank has folded them; else None."""
        found: list[BlockForm | None] = []
        for source, own in zip(self._sources, self._planned, strict=True):
            plan, places = source.blocks.plan, own[at].places.values()
            forms = [plan.layout.forms[number] for node, number in places if node == plan.node]
            folded = next((form for form in forms if form.folded), None)
            if folded is not None and kept_of(self._diagnostic, folded, plan.encodings[folded.name]) is None:
                raise StreamError(lacking(self._diagnostic, folded, ["the steps themselves"]))
            found.append(folded)
        return found

    def _merge_states(self, at: int, source: Any, target: Any, *, has_steps: bool) -> None:
        """Merge what ranks have folded into a shard's state, step by step, after the steps that they have not."""
        forms = self._forms(at)
        if not any(forms):
            return
        layout = self._layout(OUTER, at)
        if not has_steps and all(form is None or form.waits for form in forms):
            raise BbflowError("a batch ends among steps that its ranks have folded together")
        rights = []
        for form, own, planned in zip(forms, self._sources, self._planned, strict=True):
            if form is not None and not form.waits:
                [(_, number)] = planned[at].places.values()
                offsets, pool = own.blocks.offsets(number, own.at), own.blocks.pool
                rights += [views_of(self._diagnostic, layout, form, pool, offset) for offset in offsets]
                self.bytes += form.bytes * len(offsets)
        left = layout.views(target) if has_steps else None if source is None else layout.views(source)
        for right in rights:
            into = layout.views(target)
            for family in layout.families:
                if left is None:
                    for name, values in right[family.name].items():
                        into[family.name][name][...] = values
                else:
                    family.merge(into[family.name], left[family.name], dict(right[family.name]))
            left = into

    def _open(self, at: int) -> _Opened | None:
        """Return a shard's steps, but for those that its rank has folded; None if it has folded all."""
        planned = [own[at] for own in self._planned]
        parts = [
            (source, shard)
            for source, shard, form in zip(self._sources, planned, self._forms(at), strict=True)
            if form is None
        ]
        if not parts:
            return None
        inputs = Inputs.joined([source.blocks.inputs(shard, source.at, self._keys) for source, shard in parts])
        assert inputs is not None
        local, (_, (_, count), _) = planned[0].local, self._members[at]
        steps = open_inputs(inputs, self._diagnostic, local, max(prod(count), 1))
        if self._carried:
            layout, (source, target) = self._layout(CARRIED, at), self._carried[at]
            before = None if source is None else layout.views(source)
            steps = Carried(steps, self._diagnostic.transforms, before, layout.views(target), self._begun, self._keys)
        return _Opened(inputs, local, steps)

    def _told(self, level: str, at: int, opened: _Opened) -> HasTiles:
        """Return a shard's steps as a level's statistics take them."""
        steps, diagnostic = opened.steps, self._diagnostic
        if level == OUTER and (diagnostic.then is not None or diagnostic.fields_after):
            steps = Then(steps, diagnostic.then, diagnostic.parts_after(self._keys, *self._members[at][1]))
        if diagnostic.weights:
            steps = WeighedSteps(steps, np.array(opened.inputs.weights[diagnostic.weights]))
        return steps

    @property
    def _begun(self) -> frozenset[int]:
        """The transforms for which a span has begun since the step before."""
        old, windows = self._like.keys, [item.window for item in self._diagnostic.transforms]
        named = {at: window.name for at, window in enumerate(windows) if window is not None}
        return frozenset(at for at, name in named.items() if old is not None and old.get(name) != self._keys[name])

    def _end_inner(self) -> None:
        states: list[tuple[Any, Any]] = []
        for at, member in enumerate(self._members):
            step = inner_step(self._diagnostic, self._like.at(*member))
            if step is None:  # then there is none of any: they are alike
                return
            states = states or self._next(BASE[OUTER])
            self._fold_one(OUTER, at, states[at], step, [None])

    def _merge(self, level: str, current: StatePlace, base: StatePlace, slot: StateSlot) -> None:
        lefts, rights = self._views(level, current), self._views(level, base)
        for at, (_, target) in enumerate(self._next(slot)):
            self._layout(level, at).merge([lefts[at], rights[at]], target)

    def _next(self, slot: StateSlot) -> list[tuple[Any, Any]]:
        """Map the states of a slot as they are, None if there are none, and the places that get the next ones."""
        place = self._files.get(slot)
        sources = [None] * len(self._members) if place is None else self._views(slot.level, place)
        whole, extents = memoryview(self._target(slot)), self._shards.extents(slot.level)
        return list(zip(sources, [whole[first : first + size] for first, size in extents], strict=True))

    def _views(self, level: str, place: StatePlace) -> list[Any]:
        whole = memoryview(map_file(place.path))
        return [whole[place.offset + first :] for first in self._shards.offsets(level).tolist()]

    def _layout(self, level: str, at: int) -> StateLayout:
        return self._layout_of(level, np.dtype(self._like.dtype or "f8"), self._members[at][1][1])


def _dtype_of(opened: _Opened) -> DType:
    dtype: DType = opened.steps.part(slice(0, 1)).values[0].dtype
    return dtype

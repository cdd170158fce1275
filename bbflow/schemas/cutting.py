"""Steps cut again: the blocks stay where they lie, under other names, shapes and places in the global arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bbflow.stream.dtypes import Numbers
from bbflow.stream.layouts import EXTREMES_BYTES, BlockForm, Layout
from bbflow.stream.records import Step

NEW = -1
"""Stands for the position of a form that the step lacks: a single value that is added."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What steps of one layout become; made once for all of them, by `of`."""

    layout: Layout
    """How the new steps lie: each block has a source of its own, so frames that follow each other lie alike."""
    blocks: Numbers
    """Which of the old forms each block in the pool is."""
    skipped: Numbers
    """How many bytes of that it leaves out at the beginning."""
    files: tuple[int, ...]
    """Which of the old files those of spilled blocks are."""
    values: tuple[int, ...]
    """Which of the old single values the new ones are; `NEW` for one that is added."""
    forms: Numbers
    """Which of the old forms each of the new ones is; `NEW` for one that is added, or has other values."""

    @classmethod
    def of(cls, layout: Layout, chosen: Sequence[tuple[int, BlockForm]]) -> "Cut":
        """Return what steps become.

        Parameters
        ----------
        layout
            How they lie.
        chosen
            For each new form the position of the old one, and what it is now: name, kind, shape, start and count may
            differ, and its bytes be a part of the old one's: from a later `place` on, or with a `stride`, of a table's
            column. `NEW` adds a single value.
        """
        chosen = sorted(chosen, key=lambda item: item[1].rank)
        forms: list[BlockForm] = []
        blocks, skipped, files, values = [], [], [], []
        singles = {at: number for number, at in enumerate(layout.singles)}
        for at, form in chosen:
            extent, place = 0, 0
            if form.bytes and form.spilled:
                extent, place = sum(own.rank == form.rank and own.spilled for own in forms), form.place
                files.append(layout.source_of[at])
            elif form.bytes:
                extent = sum(own.rank == form.rank and bool(own.bytes) and not own.spilled for own in forms)
                blocks.append(at)
                skipped.append(form.place - layout.forms[at].place)
            else:
                values.append(singles.get(at, NEW))
            forms.append(replace(form, extent=extent, place=place))
        return cls(
            Layout.of(tuple(forms)),
            np.array(blocks, np.int64),
            np.array(skipped, np.int64),
            tuple(files),
            tuple(values),
            np.array([at if _has_all(form, layout, at) else NEW for at, form in chosen], np.int64),
        )

    def step(self, old: Step, added: Sequence[Any] = ()) -> Step:
        """Return what a step becomes.

        Parameters
        ----------
        old
            A step of the layout that was cut.
        added
            The single values that are added, in their order.
        """
        more = iter(added)
        return replace(
            old,
            layout=self.layout,
            sources=self._sources(old),
            files=tuple(old.files[at] for at in self.files),
            values=tuple(next(more) if at == NEW else old.values[at] for at in self.values),
            extremes=self._extremes(old.extremes),
        )

    def _sources(self, old: Step) -> bytes:
        if not self.blocks.size:
            return b""
        offsets = old.layout.offsets(old.sources)[self.blocks] + self.skipped
        return bytes(offsets.astype("<i8").tobytes())

    def _extremes(self, extremes: bytes) -> bytes:
        if not extremes:
            return b""
        rows = np.frombuffer(extremes, np.uint8).reshape(-1, EXTREMES_BYTES)
        unknown = np.frombuffer(np.array([1, 0], "<i8").tobytes(), np.uint8)
        return np.vstack([rows, unknown])[self.forms].tobytes()


def _has_all(form: BlockForm, layout: Layout, at: int) -> bool:
    """Whether a form has the values of an old one, all of them and no others: so it has their extremes."""
    return at != NEW and (form.bytes, form.type) == (layout.forms[at].bytes, layout.forms[at].type)

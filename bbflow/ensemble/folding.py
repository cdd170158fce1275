"""Folding members' fields into the states of moments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from bbflow.ensemble.common_grid import CommonGrid, GridField
from bbflow.ensemble.ensemble_settings import AcrossField, EnsembleAnalysis, split_run
from bbflow.ensemble.moment_files import ALIGNMENT_BYTES, Counted, Ledger, Moment, MomentFiles
from bbflow.ensemble.sobol import whole_groups
from bbflow.operators.fold import fold_steps
from bbflow.operators.state import StateLayout
from bbflow.operators.steps import Array, Steps
from bbflow.operators.windows.spans import Run
from bbflow.operators.windows.window import Window


@dataclass(frozen=True, slots=True)
class Contribution:
    """A member's fields of one of its times."""

    member: str
    """Who gives them."""
    instant: int
    """The time (microseconds)."""
    values: Mapping[str, Array]
    """Result to its values, of shape (points,)."""
    weight: float = 1.0
    """How much they count, for operators that are weighted."""


@dataclass(frozen=True, slots=True)
class FieldState:
    """How the state of a field lies in the file of a moment."""

    field: AcrossField
    """Which field."""
    grid: GridField
    """Its grid."""
    layout: StateLayout
    """Of its state."""
    offset: int
    """First byte."""

    def of(self, states: memoryview) -> memoryview:
        """Return its part of a moment's states."""
        return states[self.offset : self.offset + self.layout.nbytes]


@dataclass(frozen=True, slots=True)
class WindowStates:
    """The states of a moment of some window."""

    window: Window
    """Which window."""
    inner: Window
    """The members' own, whose spans go into it."""
    fields: tuple[FieldState, ...]
    """In the order in which they lie."""
    nbytes: int
    """Of all."""

    @property
    def is_inner(self) -> bool:
        """Whether each of the members' times is a moment by itself."""
        return self.window == self.inner

    @property
    def results(self) -> tuple[str, ...]:
        """Names of the results of members that are needed."""
        return tuple(
            dict.fromkeys(name for item in self.fields for name in (item.field.result, *item.field.others.values()))
        )


def states_of(analysis: EnsembleAnalysis, grid: CommonGrid) -> dict[str, WindowStates]:
    """Lay out the states of each window's moments."""
    found: dict[str, WindowStates] = {}
    for window in dict.fromkeys(window for field in analysis.fields for window in field.windows):
        own = [field for field in analysis.fields if window in field.windows]
        placed, end = [], 0
        for field in own:
            gridded = grid.fields[field.result]
            layout = StateLayout.of(field.keeping, dtype=np.dtype(gridded.dtype), points=gridded.points)
            placed.append(FieldState(field, gridded, layout, end))
            end += layout.nbytes + -layout.nbytes % ALIGNMENT_BYTES
        found[window.name] = WindowStates(window, own[0].inner, tuple(placed), end)
    return found


def fold(moments: MomentFiles, states: WindowStates, ledger: Ledger, given: Sequence[Contribution]) -> Ledger:
    """Fold what members give into a moment, each time of each once, and commit it.

    Parameters
    ----------
    moments
        Where it is.
    states
        Of its window.
    ledger
        Says which moment; its own is used if it has one.
    given
        In the order of each member's times; those that are in it already are left out.

    Returns
    -------
    Ledger
        As it is now.
    """
    known = moments.get(ledger.name)
    before = ledger if known is None else known.ledger
    members, new = dict(before.members), []
    for item in given:
        counted = members.get(item.member)
        if counted is None or item.instant > counted.through:
            members[item.member] = Counted(item.instant, (counted.fields if counted else 0) + 1)
            new.append(item)
    if not new:
        return before
    after = msgspec.structs.replace(
        before, serial=before.serial + 1, members=members, numbers=_numbers(states, before, ledger)
    )
    replacement = moments.put(after, states.nbytes)
    for field in states.fields:
        source = field.of(known.states) if known is not None and len(known.states) else None
        _fold_field(field, source, field.of(replacement.states), new)
    replacement.commit()
    return after


def _numbers(states: WindowStates, before: Ledger, now: Ledger) -> tuple[float, float, float]:
    """Return time, begin and end: those of a run follow from the times that are in it."""
    if not isinstance(states.window.spans, Run):
        return before.numbers
    begin, end = min(before.numbers[1], now.numbers[1]), max(before.numbers[2], now.numbers[2])
    return (begin + end) / 2, begin, end


def _fold_field(item: FieldState, source: memoryview | None, target: memoryview, new: Sequence[Contribution]) -> None:
    if item.field.design is not None:
        new = [new[at] for at in whole_groups(item.field.design, [split_run(each.member)[1] for each in new])]
    blocks = [each.values[item.field.result] for each in new]
    numbers = np.arange(len(new), dtype="i8")
    others = {
        text: Steps([each.values[name] for each in new], times=numbers.astype("f8"), numbers=numbers)
        for text, name in item.field.others.items()
    }
    fold_steps(item.layout, source, target, blocks, others=others, weights=[each.weight for each in new])


def finished(item: FieldState, moment: Moment) -> dict[str, Array]:
    """Return the results of a field in a moment, by their operators' names, of shape (axis…, field…)."""
    buffer = item.of(moment.states)
    found = {}
    for operator in item.field.operators:
        values = operator.finalize(item.layout, buffer)
        found[operator.name] = values.reshape(*operator.lead, *item.grid.shape)
    return found

"""Groups of steps: a user's family is handed this many at once, however the steps came in batches."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from bbflow.operators.family import Family, StateField
from bbflow.operators.steps import Array, DType, Steps, Views

HEAD, TAIL, BEGUN = "_head", "_tail", "_begun"
"""The group that the state begins in, the one that it ends in, and whether the family was handed any between."""
NOBODY = -1
"""Number of a group that isn't there."""
ABSENT, MISSING, VALID = 0, 1, 2
"""What a place of a group has: no step, or a step with a missing or a valid value."""


@dataclass(frozen=True, slots=True)
class Marked(Steps):
    """Steps that know which of their values are valid."""

    marks: Array | None = None
    """Of shape (steps, points); as in the state."""

    def valid(self) -> Array:
        """Return what is known."""
        return np.asarray(self.marks == VALID)


@dataclass(frozen=True, slots=True)
class Group:
    """The steps of one group that are there."""

    number: int
    """Its number: that of its steps, divided by the groups' length."""
    places: dict[int, tuple[float, Array, Array]]
    """Place in the group to its step's time, values and marks, the latter of shape (points,)."""


Item = Group | Views
"""A group that waits for steps, or a state of the family."""


@dataclass(frozen=True, slots=True)
class Grouped(Family):
    """Hands steps k n, k n + 1, …, k n + n - 1 of the stream to the family at once, for each k.

    A group is handed on when it is complete, or is known to be cut short: by the window's ends, or by steps that
    are missing. Until then its steps are in the state. So the groups depend neither on batches nor on merges.
    """

    inner: Family
    """Whom the groups are for."""
    length: int
    """Most steps of a group, n."""
    commutes: bool = False
    """Never: the earlier state is the left one."""

    @property
    def name(self) -> str:
        """Name whose groups, and of which length."""
        return f"{self.inner.name}.group{self.length}"

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return the family's fields, and room for the steps of two groups."""
        n = (self.length,)
        held: tuple[tuple[str, str | None, tuple[int, ...]], ...]
        held = (("number", "i8", ()), ("values", None, n), ("times", "f8", n), ("marks", "u1", n))
        sides = (StateField(f"{side}_{name}", kind, inner) for side in (HEAD, TAIL) for name, kind, inner in held)
        return (*self.inner.fields(dtype), *sides, StateField(BEGUN, "?"))

    def clear(self, views: Views) -> None:
        """Hold no step."""
        self.inner.clear(_own(views))
        for name, values in views.items():
            if name.startswith((HEAD, TAIL, BEGUN)):
                values[...] = NOBODY if name.endswith("_number") else 0

    def fold(self, views: Views, steps: Steps) -> None:
        """Take steps in, group by group."""
        marks = np.where(steps.valid(), np.uint8(VALID), np.uint8(MISSING))
        runs = groupby(range(len(steps.values)), key=lambda at: int(steps.numbers[at]) // self.length)
        groups = [self._group(number, places, steps, marks) for number, places in runs]
        if marks.size:
            self._write(self._join([*self._read(views), *groups], views), views)

    def combine(self, left: Views, right: Views) -> dict[str, Array]:
        """Merge two states; a group that lies in both is put together."""
        merged = {name: values.copy() for name, values in left.items()}
        if merged[BEGUN].size:
            self._write(self._join([*self._read(left), *self._read(right)], left), merged)
        return merged

    def finalize(self, views: Views) -> Any:
        """Return the family's result, with the groups that are not complete."""
        items = self._read(views) if views[BEGUN].size else []
        done = [self._handed(item, views) if isinstance(item, Group) else item for item in items]
        return self.inner.finalize(self._chain(done) if done else _own(views))  # type: ignore[attr-defined]

    def _group(self, number: int, places: Iterable[int], steps: Steps, marks: Array) -> Group:
        at = {int(steps.numbers[i]) % self.length: (float(steps.times[i]), steps.values[i], marks[i]) for i in places}
        return Group(number, at)

    def _join(self, items: Sequence[Item], like: Views) -> list[Item]:
        """Put equal groups together, and hand on those that are complete or lie between others."""
        fused: list[Item] = []
        for item in items:
            last = fused[-1] if fused else None
            if isinstance(item, Group) and isinstance(last, Group) and last.number == item.number:
                fused[-1] = Group(item.number, last.places | item.places)
            else:
                fused.append(item)
        ends = (0, len(fused) - 1)
        joined: list[Item] = []
        for at, item in enumerate(fused):
            if isinstance(item, Group) and (at not in ends or len(item.places) == self.length):
                item = self._handed(item, like)
            if joined and not isinstance(item, Group) and not isinstance(joined[-1], Group):
                joined[-1] = self.inner.combine(joined[-1], item)
            else:
                joined.append(item)
        return joined

    def _handed(self, group: Group, like: Views) -> Views:
        """Return the family's state of one group."""
        state = {name: np.empty_like(values) for name, values in _own(like).items()}
        self.inner.clear(state)
        places = sorted(group.places)
        times, values, marks = zip(*(group.places[place] for place in places), strict=True)
        numbers = np.array(places) + group.number * self.length
        self.inner.fold(state, Marked(values, None, np.array(times), numbers, marks=np.stack(marks)))
        return state

    def _chain(self, states: Sequence[Views]) -> Views:
        whole = states[0]
        for state in states[1:]:
            whole = self.inner.combine(whole, state)
        return whole

    def _read(self, views: Views) -> list[Item]:
        """Take a state apart; all points have the same steps."""
        middle = [_own(views)] if views[BEGUN][0] else []
        return [*self._read_group(views, HEAD), *middle, *self._read_group(views, TAIL)]

    def _read_group(self, views: Views, side: str) -> list[Group]:
        number = int(views[f"{side}_number"][0])
        times, values, marks = (views[f"{side}_{name}"] for name in ("times", "values", "marks"))
        # Copied: what is read is written over when the groups continue.
        places = {
            place: (float(times[place, 0]), values[place].copy(), marks[place].copy())
            for place in range(self.length)
            if marks[place, 0] != ABSENT
        }
        return [] if number == NOBODY else [Group(number, places)]

    def _write(self, items: Sequence[Item], views: Views) -> None:
        """Put a state together: the first item may be a head, and the last of several a tail."""
        middle = [item for item in items if not isinstance(item, Group)]
        head = items[0] if items and isinstance(items[0], Group) else None
        tail = items[-1] if len(items) > 1 and isinstance(items[-1], Group) else None
        views[BEGUN][...] = bool(middle)
        for name, values in _own(middle[0]).items() if middle else ():
            views[name][...] = values
        self._write_group(views, HEAD, head)
        self._write_group(views, TAIL, tail)

    def _write_group(self, views: Views, side: str, group: Group | None) -> None:
        views[f"{side}_number"][...] = NOBODY if group is None else group.number
        views[f"{side}_marks"][...] = ABSENT
        for place, (time, values, marks) in group.places.items() if group else ():
            views[f"{side}_times"][place] = time
            views[f"{side}_values"][place] = values
            views[f"{side}_marks"][place] = marks


def _own(views: Views) -> dict[str, Array]:
    return {name: values for name, values in views.items() if not name.startswith((HEAD, TAIL, BEGUN))}

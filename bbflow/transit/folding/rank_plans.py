"""Plans by which ranks fold their own blocks: what, and up to which steps. All of it is pure (FORMAT.md, 'Plan')."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from bbflow.operators.decoding import fills_of
from bbflow.operators.library import FIELDS
from bbflow.operators.windows.calendars import Clock
from bbflow.operators.windows.window import Window
from bbflow.reading.rank_plan import RankPlan
from bbflow.store.extents import align
from bbflow.stream.cf import Encoding
from bbflow.stream.folded import state_places
from bbflow.stream.layouts import Layout
from bbflow.transit.folding.at_once import table_of
from bbflow.transit.folding.plans import FoldPlan
from bbflow.transit.folding.timeline import Passed

FEWEST_STEPS = 256
"""A plan holds for so many steps at least."""
LANDINGS = 4
"""And for so many landings."""
SURE = 0.9
"""The part of what the driver takes as rounding that a time may be off."""


@dataclass(frozen=True, slots=True)
class FoldedArrays:
    """What ranks may fold of steps that lie alike."""

    variables: tuple[tuple[str, str, int, bytes], ...] = ()
    """As `RankPlan.variables`."""
    wanted: tuple[str, ...] = ()
    """Further variables of which something is computed."""
    why_not: str = ""
    """Why they can't; empty if they can."""


def folded_arrays(
    plans: Sequence[FoldPlan],
    layouts: Sequence[Layout],
    encodings: Mapping[str, Encoding],
    fewest: int,
    capacity: int,
    used: Set[str],
) -> FoldedArrays:
    """Find what ranks may fold.

    Parameters
    ----------
    plans
        How the fold takes such steps on the nodes.
    layouts
        How they lie there.
    encodings
        Variable to how its values are written.
    fewest
        So many steps land together at most.
    capacity
        Bytes of the smallest pool.
    used
        Variables of which something is computed, also in other steps.
    """
    if any(plan.joined or (table_of(plan).rows["form"] < 0).any() for plan in plans):
        return FoldedArrays(why_not="their blocks are of types, or written in ways, that only workers decode")
    folded = _accumulators(plans)
    forms = {form.name: form for layout in layouts for form in layout.forms if form.bytes}
    if not folded or len({name for name, _ in folded}) < len(folded):
        return FoldedArrays(why_not="there are no blocks of a single type of each variable")
    for (name, _), own in folded.items():
        value = forms[name].dtype.itemsize
        state = state_places(own, value, 1024)[1] // 1024
        if fewest * value <= state:
            return FoldedArrays(
                why_not=f"at most {fewest} steps would land together, of which a point of {name} takes "
                f"{fewest * value} bytes, and their state {state}"
            )
    if (size := max(layout.state_bytes(folded) for layout in layouts)) > capacity // 2:
        return FoldedArrays(
            why_not=f"a node's ranks have states of {size} bytes, for which its pool of {capacity} must have room twice"
        )
    variables = tuple(
        (name, type_, own, b"".join(fill.tobytes() for fill in fills_of(encodings[name], forms[name].dtype)[:1]))
        for (name, type_), own in folded.items()
    )
    return FoldedArrays(variables, tuple(sorted(used - {name for name, _ in folded})))


def most_together(layouts: Iterable[Layout], capacity: int) -> float:
    """Return how many steps may land together.

    A rank whose steps can't be folded, for their times or further arrays, lands them while the others hold theirs. If
    it found no room meanwhile, all would wait for each other: so one such rank has half of a pool.

    Parameters
    ----------
    layouts
        How steps lie that are not folded, on each node.
    capacity
        Bytes of the smallest pool.
    """
    sizes: Counter[int] = Counter()
    for layout in layouts:
        for form in layout.forms:
            sizes[form.rank] += align(form.bytes)
    return max(capacity // 2 // max(sizes.values()), 1) if len(sizes) > 1 and any(sizes.values()) else math.inf


def _accumulators(plans: Iterable[FoldPlan]) -> dict[tuple[str, str], int]:
    """Return which accumulators the states of each variable must have, by its name and type."""
    found: dict[tuple[str, str], int] = {}
    for plan in plans:
        rows = table_of(plan).rows
        bits = ((rows["fields"] >= 0) << np.arange(len(FIELDS))).sum(axis=1) | 1
        for at, own in zip(rows["form"].tolist(), bits.tolist(), strict=True):
            form = plan.layout.forms[at]
            found[form.name, form.type] = found.get((form.name, form.type), 0) | own
    return found


@dataclass(frozen=True, slots=True)
class StepsToCome:
    """The steps after one, if they go on as those before."""

    number: int
    """The one."""
    in_chain: int
    """The same, counted through a chain of jobs."""
    passed: Passed
    """What has passed by it."""
    clock: Clock
    """The stream's."""
    windows: Sequence[Window]
    """Over which something is computed."""

    @property
    def error(self) -> float:
        """By how much times may be off, in the stream's units."""
        return max(self.passed.error * SURE, 2 * math.ulp(self.time(FEWEST_STEPS)))

    def time(self, after: int) -> float:
        """Return the time of the step that comes so many steps after."""
        assert self.passed.last is not None
        assert self.passed.interval is not None
        return self.passed.last + after * self.passed.interval

    def _keys(self, time: float, after: int) -> tuple[Any, ...] | None:
        """Return the spans that a step with a time would be in, as the fold settles it."""
        date = self.clock.find_date(time)
        if date is None:
            return None
        error_s = self.passed.error * self.clock.unit_s
        _, date = self.clock.settled(time, date, error_s, self.passed.first)
        return tuple(window.key(date, self.in_chain + after) for window in self.windows)

    def ends(self, every: int) -> list[int]:
        """Return the last step of each landing: of a span of any window, and each `every`-th at the latest.

        A step that may be in either of two spans lands alone.
        """
        most = max(FEWEST_STEPS, LANDINGS * every)
        found: set[int] = set()
        before = None
        for after in range(1, most + 1):
            time = self.time(after)
            early, late = self._keys(time - self.error, after), self._keys(time + self.error, after)
            if early is None or late is None:
                break
            number = self.number + after
            if before != early and after > 1:
                found.add(number - 1)
            if early != late:
                found |= {number - 1, number}
            if (number + 1) % every == 0:
                found.add(number)
            before = late
        return sorted(found - {self.number})

    def longest(self, ends: Sequence[int]) -> int:
        """Return how many steps land together at most."""
        return max(np.diff(ends).tolist(), default=0)


def why_no_times(passed: Passed) -> str:
    """Return why it can't be known which times come; an empty text if it can."""
    if passed.interval is None or passed.last is None or passed.steps < 2:
        return "the steps have no interval yet"
    length = passed.interval if passed.length is None else passed.length
    if passed.is_uneven or abs(length - passed.interval) > passed.interval / 1000:
        return "its steps are of several lengths"
    return ""


def plan_of(
    arrays: FoldedArrays, steps: StepsToCome, ends: Sequence[int], time: str, device_bytes: int = 0
) -> RankPlan:
    """Return what nodes are told."""
    assert steps.passed.last is not None
    assert steps.passed.interval is not None
    return RankPlan(
        time=time,
        first=max(steps.number, 0),
        begins=steps.passed.last,
        interval=steps.passed.interval,
        tolerance=float(steps.error),
        ends=np.array(ends, "<i8").tobytes(),
        variables=arrays.variables,
        wanted=arrays.wanted,
        device_bytes=device_bytes,
    )

"""Plans by which ranks fold their own blocks: what, and up to which steps. All of it is pure (FORMAT.md, 'Plan')."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bbflow.configuring.settings import LandingLimit
from bbflow.operators.decoding import fills_of
from bbflow.operators.statistics.bins import cell_table
from bbflow.operators.windows.calendars import Clock
from bbflow.operators.windows.window import Window
from bbflow.reading.rank_plan import FoldedBins, FoldedRow, RankPlan
from bbflow.store.extents import align
from bbflow.stream.cf import Encoding
from bbflow.stream.folded import folded_of, state_places
from bbflow.stream.layouts import Layout
from bbflow.transit.folding.kernel_table import kept_of
from bbflow.transit.folding.plans import FoldPlan
from bbflow.transit.spans.timeline import Passed
from bbflow.transit.states.shards import Place

FEWEST_STEPS = 256
"""A plan holds for so many steps at least."""
LANDINGS = 4
"""And for so many landings."""
SURE = 0.9
"""The part of what the driver takes as rounding that a time may be off."""


@dataclass(frozen=True, slots=True)
class FoldedArrays:
    """What ranks may fold of steps that lie alike."""

    variables: tuple[FoldedRow, ...] = ()
    """As `RankPlan.variables`."""
    wanted: tuple[str, ...] = ()
    """Further variables that something is computed of."""
    steady: tuple[str, ...] = ()
    """Arrays whose first steps' values count."""
    most: float = math.inf
    """How many steps may land together."""
    why_not: str = ""
    """Why they can't; empty if they can."""


def folded_arrays(
    plans: Sequence[FoldPlan],
    layouts: Sequence[Layout],
    encodings: Mapping[str, Encoding],
    fewest: int,
    capacity: int,
    used: Set[str],
    most: float,
    steady: Collection[str],
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
        Variables that something is computed of, also in other steps.
    most
        As `most_together` says.
    steady
        Arrays whose first steps' values count.
    """
    kept = _kept(plans, encodings)
    if kept is None:
        return FoldedArrays(why_not="their blocks are of types, or written in ways, that only workers decode")
    folded = {key: folded_of(bits, *edges) for key, (bits, edges) in kept.items()}
    forms = {form.name: form for layout in layouts for form in layout.forms if form.bytes}
    if not folded or len({name for name, _ in folded}) < len(folded):
        return FoldedArrays(why_not="there are no blocks of a single type of each variable")
    if both := sorted({name for name, _ in folded} & set(steady)):
        return FoldedArrays(why_not=f"{both[0]} is a coordinate of the results as well, whose changes must be seen")
    items = {name: forms[name].dtype.itemsize for name, _ in folded}
    size = max(layout.state_bytes(folded) for layout in layouts)
    if why_not := _why_too_large(folded, items, fewest, size, capacity):
        return FoldedArrays(why_not=why_not)
    variables = tuple(
        (
            name,
            type_,
            own,
            b"".join(fill.tobytes() for fill in fills_of(encodings[name], forms[name].dtype)[:1]),
            _bins(*kept[name, type_][1]),
        )
        for (name, type_), own in folded.items()
    )
    return FoldedArrays(variables, tuple(sorted(used - {name for name, _ in folded})), tuple(sorted(steady)), most)


def _why_too_large(
    folded: Mapping[tuple[str, str], int], items: Mapping[str, int], fewest: int, size: int, capacity: int
) -> str:
    """Return why states take more than the steps that they are of, or too much; an empty text if they don't."""
    for (name, _), own in folded.items():
        state = state_places(own, items[name], 1024)[1] // 1024
        if fewest * items[name] <= state:
            return (
                f"at most {fewest} steps would land together, of which a point of {name} takes {fewest * items[name]} "
                f"bytes, and their state {state}"
            )
    if size > capacity // 2:
        return f"a node's ranks have states of {size} bytes, for which its pool of {capacity} must have room twice"
    return ""


def most_together(layouts: Sequence[Layout], capacity: int, seen_by: Set[str], *, is_all: bool) -> float:
    """Return how many steps may land together.

    A rank whose steps can't be folded, for their times or further arrays, lands them while the others hold theirs. If
    it found no room meanwhile, all would wait for each other: so all that may have such steps have half of a pool.

    Parameters
    ----------
    layouts
        How steps lie that are not folded, on each node.
    capacity
        Bytes of the smallest pool.
    seen_by
        Variables by which ranks that Put them see that a step can't be folded.
    is_all
        Whether any rank may have further arrays.
    """
    ranks = {form.rank for layout in layouts for form in layout.forms}
    may = ranks if is_all else {form.rank for layout in layouts for form in layout.forms if form.name in seen_by}
    if len(ranks) == 1 or (not is_all and may == ranks):
        return math.inf  # no rank holds steps meanwhile
    sizes = [sum(align(form.bytes) for form in layout.forms if form.rank in may) for layout in layouts]
    return max(capacity // 2 // most, 1) if (most := max(sizes)) else math.inf


class StepPace(NamedTuple):
    """How fast a program writes."""

    number: int = -1
    """A step that has landed."""
    committed_s: float = 0.0
    """When (seconds since the epoch)."""
    steps: int = 1
    """How many were timed."""
    step_s: float = 0.0
    """What each of them took."""

    def at(self, number: int, committed_s: float) -> "StepPace":
        """Return the pace of the steps up to a later one."""
        steps = number - self.number
        if self.number < 0 or steps < 1:
            return StepPace(number, committed_s)
        return StepPace(number, committed_s, steps, max(committed_s - self.committed_s, 0.0) / steps)

    def together(self, asked: LandingLimit) -> int:
        """Return how many steps are to land together; no more than four times as many as were timed, if time counts.

        All ranks must end with the same step, so it isn't their own clocks that say which.
        """
        if math.isinf(asked.seconds):
            return asked.steps
        fit = asked.seconds / self.step_s if self.step_s else math.inf
        return int(max(min(fit, 4 * self.steps, asked.steps), 1))


def _kept(
    plans: Iterable[FoldPlan], encodings: Mapping[str, Encoding]
) -> dict[tuple[str, str], tuple[int, set[tuple[float, ...]]]] | None:
    """Return what the states of each variable must have, by its name and type: accumulators, and edges of histograms.

    None if ranks can't fold all.
    """
    found: dict[tuple[str, str], tuple[int, set[tuple[float, ...]]]] = {}
    for plan in plans:
        for key, places in _places(plan):
            if any(node != plan.node for node, _ in places):
                return None
            for form in dict.fromkeys(plan.layout.forms[at] for _, at in places):
                if (own := kept_of(plan.diagnostics[key], form, encodings[form.name])) is None:
                    return None
                bits, edges = found.get((form.name, form.type), (1, set()))
                found[form.name, form.type] = bits | own[0], edges | ({own[1]} if own[1] else set())
    return found


def _places(plan: FoldPlan) -> Iterator[tuple[str, list[Place]]]:
    """Yield where the blocks lie of each diagnostic of a lane."""
    for code, key in enumerate(plan.roster.diagnostics):
        rows = plan.roster.rows["diagnostic"] == code
        yield key, [plan.places[number] for number in np.unique(plan.blocks[rows, 0]).tolist() if number >= 0]
    for shard in plan.joined:
        yield shard.key.diagnostic, [*shard.places.values()]


def _bins(edges: tuple[float, ...] = ()) -> FoldedBins | None:
    """Return how a histogram's bins are found, None for no histogram."""
    if not edges:
        return None
    table = cell_table(edges)
    return FoldedBins(
        table.breaks.astype("<f8").tobytes(),
        table.cells.astype("<i4").tobytes(),
        table.start,
        table.cells_per_unit,
        table.one_step,
    )


@dataclass(frozen=True, slots=True)
class StepsToCome:
    """The steps after one, if they continue as those before."""

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
    in_span: int = 0
    """How many steps, with the one, there are since a span of any of them began."""

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
        """Return the last step of each landing: of a span of any window, and of `every` steps since the last end.

        A step that may be in either of two spans lands alone.
        """
        most, count = max(FEWEST_STEPS, LANDINGS * every), self.in_span % every
        found: set[int] = set()
        before = self._keys(self.time(0), 0)
        for after in range(1, most + 1):
            time = self.time(after)
            early, late = self._keys(time - self.error, after), self._keys(time + self.error, after)
            if early is None or late is None:
                break
            number = self.number + after
            if before != early:
                found.add(number - 1)
                count = 0
            count += 1
            if early != late:
                found |= {number - 1, number}
                count = 0
            if count == every:
                found.add(number)
                count = 0
            before = late
        return sorted(found - {self.number})

    def longest(self, ends: Sequence[int]) -> int:
        """Return how many steps land together at most."""
        return max(np.diff(ends).tolist(), default=0)


def why_no_times(passed: Passed) -> str:
    """Return why it can't be known which times come after steps with an interval; an empty text if it can."""
    length = passed.interval if passed.length is None else passed.length
    if passed.is_uneven or (passed.interval and length and abs(length - passed.interval) > passed.interval / 1000):
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
        steady=arrays.steady,
        device_bytes=device_bytes,
    )

"""Transforms: what is done to each step before the statistics, with a little that is carried from step to step.

They see the steps in order and have no merge: what comes out of a step depends on the steps before it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bbflow.errors import ConfigError, nearest
from bbflow.operators.expressions import Expression, parse_expression
from bbflow.operators.family import ANY_TYPE, StateField
from bbflow.operators.steps import Array, DType, Steps, Views
from bbflow.operators.windows.kinds import QUARTERS
from bbflow.operators.windows.parse_windows import parse_window
from bbflow.operators.windows.spans import Hours, Key, Months, Seasons, Spans
from bbflow.operators.windows.window import Window
from bbflow.reading.sections import Parameter, flag, item_parts, one_of, positive, read_parameters


class Transform(ABC):
    """Makes a step of a step. Instances are frozen dataclasses: hashable, equal if they do the same."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Expressions that it finds among the steps' others, besides their values."""
        return ()

    @property
    def window(self) -> Window | None:
        """Of whose spans `enter` tells; None if it needs none."""
        return None

    def enter(self, views: Views, key: Key | None, *, begins: bool) -> None:
        """Change in place what is carried, before each call of `apply`.

        Parameters
        ----------
        views
            As for `apply`.
        key
            The span of the window in which the next steps are.
        begins
            Whether the steps before were in another one.
        """
        raise NotImplementedError(f"{self.name} has no window")

    @property
    @abstractmethod
    def name(self) -> str:
        """What the configuration calls it."""

    @abstractmethod
    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return what is carried from step to step for an input's type."""

    def clear(self, views: Views) -> None:
        """Set the state before the first step, as its fields say it."""
        for item in self.fields(ANY_TYPE):
            item.clear(views[item.name])

    @abstractmethod
    def apply(self, views: Views, steps: Steps) -> list[Array]:
        """Return the transformed steps, and keep in the views what the next ones need.

        Parameters
        ----------
        views
            The fields, of shape (points,); changed in place.
        steps
            The next ones: each comes once, and in the order of time.

        Returns
        -------
        list of numpy.ndarray
            One new array for each step, float64 of shape (points,); NaN where missing, whatever the fill value.
        """


@dataclass(frozen=True, slots=True)
class Deaccumulate(Transform):
    """Differences from the last valid value of a point, such as a step's rain from the rain so far.

    A value less than the one before tells that the sum started again: then all of it was added since. So a missing
    value loses nothing, unless the sum started again after it. A sum that starts again and at once gets as far as
    the one before, as after a dry day, can't be seen: a window or another variable must tell it.
    """

    first: str = "value"
    """What comes of a point's first valid value: 'value', all of it, as if the sum began at 0; or 'missing'."""
    resets: bool | Window | Expression = True
    """Whether a sum may start again, which a falling value tells; if not, falling values give negative differences. Or
    the window with each of whose spans it does, or what has another value in each sum: then of falling values only 0
    starts it again too."""
    name = "deaccumulate"

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return what has another value in each sum."""
        return (self.resets.text,) if isinstance(self.resets, Expression) else ()

    @property
    def window(self) -> Window | None:
        """The one whose spans begin new sums."""
        return self.resets if isinstance(self.resets, Window) else None

    def enter(self, views: Views, key: Key | None, *, begins: bool) -> None:
        """Start from nothing where a span begins."""
        if begins:
            views["previous"][...] = 0

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return the last valid value, in float64 as a transform before this one makes it, and whether it is there.

        And what the sum is marked by that it belongs to, if anything.
        """
        marks = (StateField("mark", "f8", empty=np.nan) for _ in self.inputs)
        return (StateField("previous", "f8"), StateField("known", "u1"), *marks)

    def apply(self, views: Views, steps: Steps) -> list[Array]:
        """Subtract step by step."""
        return [self._added(views, steps, at) for at in range(len(steps.values))]

    def _added(self, views: Views, steps: Steps, at: int) -> Array:
        for name in self.inputs:
            marks, now = steps.others[name], views["mark"]
            told = marks.valid_in(at)  # where it isn't, the sum is taken for the one before
            views["previous"][..., told & (now == now) & (marks.values[at] != now)] = 0
            np.copyto(now, marks.values[at], where=told)
        return self._difference(views, steps.values[at], steps.valid_in(at))

    def _difference(self, views: Views, block: Array, valid: Array) -> Array:
        previous, known = views["previous"], views["known"]
        with np.errstate(invalid="ignore", over="ignore"):  # infinite values: as in IEEE 754
            added = np.subtract(block, previous, dtype="f8")
        if self.resets:
            np.copyto(added, block, where=block < previous if self.resets is True else block == 0)
        np.copyto(added, block if self.first == "value" else np.nan, where=known == 0)
        np.copyto(added, np.nan, where=~valid)
        np.copyto(previous, block, where=valid)
        np.bitwise_or(known, valid, out=known)
        return np.asarray(added)


@dataclass(frozen=True, slots=True)
class CumulativeSum(Transform):
    """The sum of all values so far, in float64."""

    skipna: bool = True
    """Whether a missing value adds nothing, as in CDO's timcumsum; if not, all that follow are missing."""
    name = "cumsum"

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return the sum so far."""
        return (StateField("sum", "f8"),)

    def apply(self, views: Views, steps: Steps) -> list[Array]:
        """Add step by step."""
        sums = []
        for position, block in enumerate(steps.values):
            valid = steps.valid_in(position)
            with np.errstate(invalid="ignore", over="ignore"):
                np.add(views["sum"], block, out=views["sum"], where=valid)
            if not self.skipna:
                np.copyto(views["sum"], np.nan, where=~valid)
            sums.append(views["sum"].copy())
        return sums


@dataclass(frozen=True, slots=True)
class Shift(Transform):
    """The value of some steps before, in float64: missing in the first ones, as in xarray's shift."""

    steps: int
    """How many."""
    name = "shift"

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return the last steps, the oldest first."""
        return (StateField("past", "f8", (self.steps,), empty=np.nan),)

    def apply(self, views: Views, steps: Steps) -> list[Array]:
        """Return the oldest of the last steps for each, and keep it instead."""
        now = [np.where(steps.valid_in(at), block, np.nan).astype("f8") for at, block in enumerate(steps.values)]
        series = [*views["past"].copy(), *now]
        views["past"][...] = series[len(now) :]
        return series[: len(now)]


@dataclass(frozen=True, slots=True)
class AnomalySoFar(Transform):
    """Anomalies from the mean of the same month, or the like, in all years before.

    The spans that have ended count, and not the one that the step is in: so all steps of one month have one
    reference. Where there is none yet the anomaly is missing.
    """

    by: str
    """Of `BY`."""
    closed: str = "left"
    """On which side spans hold their boundary."""
    name = "anomaly_so_far"

    @property
    def window(self) -> Window:
        """The one whose spans end the means; its key tells which mean a span belongs to, and of which year it is."""
        spans, parts, _ = BY[self.by]
        name = f"anomaly_by_{self.by}{'' if self.closed == 'left' else '_right'}"
        return Window(name, spans, recurs=("year", *parts), closed=self.closed)

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return sums and counts of the spans that have ended, by month or the like, and those of the one that hasn't.

        `span` is the number of that, `NONE` before the first.
        """
        *_, rows = BY[self.by]
        return (
            StateField("sums", "f8", (rows,)), StateField("counts", "i4", (rows,)),
            StateField("sum", "f8"), StateField("count", "i4"), StateField("span", "i8", empty=NONE),
        )  # fmt: skip

    def enter(self, views: Views, key: Key | None, *, begins: bool) -> None:
        """Count the open span if another one begins, which its number tells."""
        assert key is not None, "each step is in a span"
        *_, rows = BY[self.by]
        span = _number_of(self.by, key)
        if not views["span"].size or (before := int(views["span"][0])) == span:
            return
        if before != NONE:
            views["sums"][before % rows] += views["sum"]
            views["counts"][before % rows] += views["count"]
        views["sum"][...], views["count"][...], views["span"][...] = 0, 0, span

    def apply(self, views: Views, steps: Steps) -> list[Array]:
        """Subtract step by step."""
        if not views["span"].size:
            return [np.empty(0) for _ in steps.values]
        *_, rows = BY[self.by]
        row = int(views["span"][0]) % rows
        made = []
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            mean = views["sums"][row] / views["counts"][row]
            for at, values in enumerate(steps.values):
                valid = steps.valid_in(at)
                made.append(np.where(valid, values - mean, np.nan))
                np.add(views["sum"], values, out=views["sum"], where=valid)
                views["count"][...] += valid
        return made


BY: Mapping[str, tuple[Spans, tuple[str, ...], int]] = {
    "month": (Months(1), ("month",), 12),
    "season": (Seasons(QUARTERS), ("season",), 4),
    "dayofyear": (Hours(24), ("month", "day"), 12 * 31),
    "hour": (Hours(1), ("month", "day", "hour"), 24),
}
"""To spans, the parts of a span's begin that tell it from others of the year, and how many means there are."""


NONE = np.iinfo("i8").min


def _number_of(by: str, key: Key) -> int:
    """Return a number of a span that no other has; what is left of it by the number of means says which is its own."""
    year, first, *rest = key
    if by == "season":
        return year * 4 + first // 3
    number = year * 12 + first - 1
    for part, count in zip(rest, (31, 24), strict=False):
        number = number * count + part - (1 if count == 31 else 0)
    return number


@dataclass(frozen=True, slots=True)
class TransformKind:
    """What the configuration may name."""

    name: str
    """What the configuration calls it."""
    summary: str
    """What it does, in one line."""
    make: Callable[..., Transform]
    """Makes the transform of the parameters."""
    parameters: Mapping[str, Parameter]
    """By name."""
    example: str
    """How the configuration writes it."""


def _resets(value: Any) -> bool | Window | Expression:
    """Read whether sums start again, or with which window's spans, which hold sums that are stamped with their end."""
    if isinstance(value, bool):
        return value
    if isinstance(value, Mapping) and [*value] == ["variable"]:
        return parse_expression(value["variable"])
    window = parse_window(value)
    if window.keeps != 1:
        raise ConfigError(f"{window.name} doesn't divide time: take a window such as day, or steps: 24")
    closed = "right" if window.has_boundary and not _says_closed(value) else window.closed
    return replace(window, name=f"{window.name}_resets", closed=closed)


def _says_closed(value: Any) -> bool:
    parameters = next(iter(value.values())) if isinstance(value, Mapping) else None
    return isinstance(parameters, Mapping) and "closed" in parameters


KINDS: Mapping[str, TransformKind] = {
    kind.name: kind
    for kind in (
        TransformKind(
            "deaccumulate",
            "what each step added to a sum that is written as it grows",
            Deaccumulate,
            {
                "first": Parameter(one_of("value", "missing"), "what comes of the first value", "value"),
                "resets": Parameter(
                    _resets,
                    "whether a value less than the one before begins a new sum; or a window whose spans do, or a "
                    "variable whose changes do",
                    True,
                ),
            },
            "deaccumulate: {first: missing}",
        ),
        TransformKind(
            "cumsum",
            "the sum of all steps so far",
            CumulativeSum,
            {"skipna": Parameter(flag, "if false, all is missing after a missing value", True)},
            "cumsum",
        ),
        TransformKind(
            "shift",
            "the value of some steps before, such as for a correlation with a lag",
            Shift,
            {"steps": Parameter(positive, "how many", 1)},
            "shift: {steps: 3}",
        ),
        TransformKind(
            "anomaly_so_far",
            "what differs from the mean of the same month, or the like, in the years before",
            AnomalySoFar,
            {
                "by": Parameter(one_of(*BY), "whose means", "month"),
                "closed": Parameter(one_of("left", "right"), "right: steps are stamped with their end", "left"),
            },
            "anomaly_so_far: {by: month}",
        ),
    )
}
"""All transforms by name."""


def parse_transforms(items: Sequence[Any]) -> tuple[Transform, ...]:
    """Make transforms of a list such as ``["cumsum"]`` or ``[{"deaccumulate": {"first": "missing"}}]``.

    Parameters
    ----------
    items
        Each a name, or a map of one name to its parameters; the first one is applied first. May be empty.

    Raises
    ------
    ConfigError
        If a name or parameter is unknown or wrong, or a transform is given twice.
    """
    transforms = tuple(_parse(item) for item in items)
    names = [transform.name for transform in transforms]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"transform {name!r} is given twice: take one out")
    return transforms


def _parse(item: Any) -> Transform:
    name, parameters = item_parts(item, "a transform")
    if name not in KINDS:
        raise ConfigError(f"unknown transform {name!r}; {nearest(name, KINDS)}")
    return KINDS[name].make(**read_parameters(f"transform {name!r}", KINDS[name].parameters, parameters))

"""Days beyond percentiles of a base period of the same run, and these percentiles themselves.

Each day of the year has the percentile of the days around it in all years of the base period. Within that period each
year is judged by what the others have, as Zhang et al., "Avoiding inhomogeneity in percentile-based indices of
temperature extremes", J. Climate 18 (2005), 1641-1651, say it: once for each other year, which takes its place. That
is xclim's `percentile_doy` and `percentile_bootstrap`: quantiles of type 8 of Hyndman and Fan (1996), days by their
number, those of 365 days stretched to leap years.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.operator import Axis, Operator, OperatorKind
from bbflow.operators.state import parts_of
from bbflow.operators.statistics.daily_series import FEBRUARY_29, LEAP, DailySeries, Days, days_of
from bbflow.operators.steps import Array, Views
from bbflow.reading.sections import Parameter, as_list, flag, number, one_of, positive, whole_number

PART_POINTS = 128
"""Points whose days are looked at together, so that they stay in the cache."""
THIRD = 1 / 3
"""Both of the plotting positions of quantiles of type 8."""
YEAR = (("long_name", "year"), ("units", "1"))


@dataclass(frozen=True, slots=True)
class BasePeriod:
    """A percentile of the days around each day of the year."""

    first: int
    """The first of its years, counted from the first one that is kept."""
    last: int
    """The last."""
    q: float
    """Of 1."""
    days: int
    """How many days each sample is of, in each year."""


def per_part(views: Views, shape: tuple[int, ...], make: Callable[[Days], Array]) -> Array:
    """Return what is made of all points, some at a time; of shape (*shape, points)."""
    points = views["days"].shape[-1]
    result = np.full((*shape, points), np.nan)
    for part in parts_of(points, PART_POINTS):
        result[..., part] = make(days_of(views, part))
    return result


def share_beyond(views: Views, *, base: BasePeriod, above: bool, bootstrap: bool, years: int) -> Array:
    """Return the percentage of each year's valid days that are beyond the percentile of their day."""

    def make(days: Days) -> Array:
        result = np.full((years, days.values.shape[1]), np.nan)
        if (thresholds := _thresholds(days, base)) is None:
            return result
        judged = _bootstrapped(days.some(base.first, base.last), base, above=above) if bootstrap else {}
        for year in range(years):
            at = year - base.first
            result[year] = judged[at] if at in judged else _share(days.of(year), thresholds, above=above)
        return result

    return per_part(views, (years,), make)


def spell_days(views: Views, *, base: BasePeriod, above: bool, at_least: int, years: int) -> Array:
    """Return the days of each year in runs of days beyond the percentile; 0 where none is, NaN without any value."""

    def make(days: Days) -> Array:
        result = np.full((years, days.values.shape[1]), np.nan)
        if (thresholds := _thresholds(days, base)) is None:
            return result
        for year in range(years):
            values = days.of(year)
            limits = thresholds[: len(values)]
            known = (~np.isnan(values) & ~np.isnan(limits)).any(axis=0)
            result[year] = np.where(known, _in_spells(_beyond(values, limits, above=above), at_least), np.nan)
        return result

    return per_part(views, (years,), make)


def percentiles_of_days(views: Views, *, base: BasePeriod, length: int) -> Array:
    """Return the percentile of each day of a year of some length."""

    def make(days: Days) -> Array:
        thresholds = _thresholds(days, base)
        return np.full((length, days.values.shape[1]), np.nan) if thresholds is None else thresholds[:length]

    return per_part(views, (length,), make)


def of_wet_days(views: Views, *, base: BasePeriod, wet: float, what: str, years: int) -> Array:
    """Return the sum of days above the percentile of the base period's wet days, or a percentage of all of a year's."""

    def make(days: Days) -> Array:
        result = np.full((years, days.values.shape[1]), np.nan)
        own = days.some(base.first, base.last)
        if not own.whole.all():
            return result
        limits = _quantile(np.where(own.values >= wet, own.values, np.nan), base.q)
        for year in range(years):
            values = days.of(year)
            wets = values >= wet
            counted = np.where(wets, 1.0 if what == "days" else values, 0)
            totals, above = counted.sum(axis=0), np.where(values > limits, counted, 0).sum(axis=0)
            known = ~np.isnan(values).all(axis=0) & ~np.isnan(limits)
            with np.errstate(invalid="ignore", divide="ignore"):
                result[year] = np.where(known, above if what == "total" else 100 * above / totals, np.nan)
        return result

    return per_part(views, (years,), make)


def _beyond(values: Array, limits: Array, *, above: bool) -> Array:
    return values > limits if above else values < limits


def _share(values: Array, thresholds: Array, *, above: bool) -> Array:
    limits = thresholds[: len(values)]
    valid = ~np.isnan(values) & ~np.isnan(limits)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(100 * _beyond(values, limits, above=above).sum(axis=0) / valid.sum(axis=0))


def _in_spells(met: Array, at_least: int) -> Array:
    """Return how many are in runs of so many or more; of shape (days, points)."""
    run, total = np.zeros(met.shape[1], int), np.zeros(met.shape[1], int)
    for day in met:
        run = np.where(day, run + 1, 0)
        # One that has just become long enough counts with all its days, later days each for themselves.
        total += np.where(run == at_least, at_least, run > at_least)
    return total


def _thresholds(days: Days, base: BasePeriod) -> Array | None:
    """Return the percentiles of the days 1 to 366; None where the base period isn't all there."""
    own = days.some(base.first, base.last)
    if not own.whole.all():
        return None
    tables = [_quantile(sample.values, base.q) for sample in _samples(own, base)]
    tables += [tables[-1]] * (LEAP - 1 - len(tables))  # of 360 days
    found = [tables[at] + share * (tables[min(at + 1, LEAP - 2)] - tables[at]) for at, share in _stretched(own)]
    return np.stack(found)


def _stretched(days: Days) -> list[tuple[int, float]]:
    """Return for each day of a leap year where it is among 365, and how much of the next one counts."""
    if days.lengths.max() < LEAP:
        return [(min(day, LEAP - 2), 0.0) for day in range(LEAP)]
    places = [day * (LEAP - 2) / (LEAP - 1) for day in range(LEAP)]
    return [(int(place), place - int(place)) for place in places]


@dataclass(frozen=True, slots=True)
class _Sample:
    """The days around one day of the year in all years, as far as there are some."""

    values: Array
    """Of shape (days, points)."""
    years: Array
    """Of shape (days,)."""
    numbers: Array
    """Of shape (days,)."""


def _samples(days: Days, base: BasePeriod) -> Iterator[_Sample]:
    """Yield that of each day of a year; of 365, the last day of leap years being none."""
    around = days.around(base.days)
    for day in range(min(days.lengths.max(), LEAP - 1)):
        places = around[days.numbers == day].reshape(-1)
        places = places[places >= 0]
        yield _Sample(days.values[places], days.years[places], days.numbers[places])


def _place(counts: Any, q: float) -> tuple[Any, Any]:
    """Return the rank (from 1) of the value at or below a quantile, and how far it is to the next: type 8."""
    place = counts * q + (THIRD + q * THIRD)
    rank = np.clip(np.floor(place), 1, np.maximum(counts, 1)).astype(int)
    return rank, np.where((place < 1) | (rank >= counts), 0.0, place - rank)


def _quantile(values: Array, q: float) -> Array:
    """Return the quantile of the valid values along the first axis."""
    ordered = np.sort(values, axis=0)
    counts = (~np.isnan(ordered)).sum(axis=0)
    rank, share = _place(counts, q)
    low, high = (
        np.take_along_axis(ordered, np.clip(rank - 1 + more, 0, len(ordered) - 1)[None], axis=0)[0] for more in (0, 1)
    )
    # Where the rank is the last valid one, `high` is NaN, and so would 0 of the difference be.
    return np.where(counts > 0, low + np.where(share > 0, share * (high - low), 0), np.nan)


def _bootstrapped(days: Days, base: BasePeriod, *, above: bool) -> dict[int, Array]:
    """Return for each year the mean percentage over all others that take its place in the samples."""
    years, points = len(days.lengths), days.values.shape[1]
    by_number = np.full((years, LEAP, points), np.nan)
    by_number[days.years, days.numbers] = days.values
    hits, valid = np.zeros((2, years, points, years - 1), "i4")
    earlier = np.empty((years, points, years - 1))
    stretched = _stretched(days)
    target = 0
    for at, sample in enumerate(_samples(days, base)):
        limits = _limits_without(sample, by_number, days, base)
        last = at == min(days.lengths.max(), LEAP - 1) - 1
        # A day of a leap year lies between two samples, and is judged as soon as the later one is there: only two
        # samples' limits are kept, each of (years, points, years - 1).
        while target < days.lengths.max() and (
            stretched[target][0] + (stretched[target][1] > 0) <= at or (last and stretched[target][0] <= at)
        ):
            place, share = stretched[target]
            own = limits if place == at else earlier + share * (limits - earlier)
            values = by_number[:, target, :, None]
            hits += _beyond(values, own, above=above)
            valid += ~np.isnan(values) & ~np.isnan(own)
            target += 1
        earlier = limits
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = (100 * hits / valid).mean(axis=-1)
    return dict(enumerate(shares))


def _limits_without(sample: _Sample, by_number: Array, days: Days, base: BasePeriod) -> Array:
    """Return the percentile of a sample with each year replaced by each other; of shape (years, points, others).

    The k-th smallest of two sorted lists is the smallest, over j, of the larger of the (k-j)-th of the one and the j-th
    of the other; a year's own days are few, so j is small.
    """
    years, points = len(days.lengths), sample.values.shape[1]
    order = np.argsort(sample.values, axis=0)
    ordered, owners = np.take_along_axis(sample.values, order, axis=0).T, sample.years[order].T
    found = np.empty((years, points, years - 1))
    for year in range(years):
        own = sample.numbers[sample.years == year]
        rest = ordered[owners != year].reshape(points, -1)
        others = [
            by_number[other, places] if len(places := _moved(own, days, year, other)) else by_number[other, :0]
            for other in range(years)
            if other != year
        ]
        found[year] = _joint_quantile(rest, others, len(own), base.q)
    return found


def _moved(numbers: Array, days: Days, year: int, other: int) -> Array:
    """Return the numbers in another year of the same dates, those without 29 February for it left out."""
    mine, theirs = days.lengths[year], days.lengths[other]
    if mine == theirs or {mine, theirs} != {LEAP, LEAP - 1}:
        return numbers
    if theirs == LEAP:
        return np.where(numbers >= FEBRUARY_29, numbers + 1, numbers)
    kept = numbers[numbers != FEBRUARY_29]
    return np.asarray(np.where(kept > FEBRUARY_29, kept - 1, kept))


def _joint_quantile(rest: Array, others: list[Array], most: int, q: float) -> Array:
    """Return the quantile of a sorted sample with each of some few values added; of shape (points, others)."""
    points = len(rest)
    added = np.full((points, len(others), most + 1), np.inf)  # sorted, from rank 0, which is below all
    for at, values in enumerate(others):
        added[:, at, 1 : len(values) + 1] = np.where(np.isnan(values), np.inf, values).T
    added[..., 0] = -np.inf
    added.sort(axis=-1)
    kept = (~np.isnan(rest)).sum(axis=1)
    padded = np.full((points, rest.shape[1] + 2 * most + 3), np.inf)
    # So ranks before the first and beyond the last need no case of their own.
    padded[:, : most + 1] = -np.inf
    padded[:, most + 1 : most + 1 + rest.shape[1]] = np.where(np.isnan(rest), np.inf, rest)
    counts = kept[:, None] + np.isfinite(added[..., 1:]).sum(axis=-1)
    rank, share = _place(counts, q)

    def smallest(more: int) -> Array:
        best = np.full(rank.shape, np.inf)
        for j in range(most + 1):
            left = np.take_along_axis(padded, rank + more - j + most, axis=1)
            np.minimum(best, np.maximum(left, added[..., j]), out=best)
        return best

    low, high = smallest(0), smallest(1)
    with np.errstate(invalid="ignore"):
        return np.where(counts > 0, np.where(share > 0, low + share * (high - low), low), np.nan)


def _years(value: Any) -> tuple[int, int]:
    read = tuple(whole_number(item) for item in as_list(value, "years"))
    if len(read) != 2 or not read[0] <= read[1]:
        raise ConfigError(f"{value!r} isn't a period: give its first and its last year, such as [1961, 1990]")
    return read[0], read[1]


def _percent(value: Any) -> float:
    read = float(number(value))
    if not 0 < read < 100:
        raise ConfigError(f"{value!r} isn't a percentage between 0 and 100")
    return read


def _odd(value: Any) -> int:
    read = positive(value)
    if read % 2 == 0:
        raise ConfigError(f"{read} days have no middle one: take an odd number")
    return read


def _family(
    base: tuple[int, int], years: tuple[int, int] | None, q: float, days: int
) -> tuple[DailySeries, BasePeriod]:
    kept = DailySeries(*(years or base))
    if not kept.first <= base[0] <= base[1] <= kept.last:
        raise ConfigError(
            f"the years {kept.first} to {kept.last} don't hold the base period: let 'years' begin earlier"
        )
    return kept, BasePeriod(base[0] - kept.first, base[1] - kept.first, q / 100, days)


def _axis(kept: DailySeries) -> Axis:
    return Axis("year", tuple(map(float, range(kept.first, kept.last + 1))), YEAR)


def _told(base: tuple[int, int], q: float) -> str:
    return f"{q:g} percent quantile of {base[0]} to {base[1]}"


def _make_beyond(
    base: tuple[int, int], years: tuple[int, int] | None, q: float, days: int, side: str, bootstrap: bool
) -> tuple[Operator, ...]:
    kept, period = _family(base, years, q, days)
    if bootstrap and period.first == period.last:
        raise ConfigError("a base period of one year has no others for the bootstrap: take more, or bootstrap: false")
    text = f"of 100 for each value {side} the {_told(base, q)} around its day of the year, and 0 for the others"
    given = {"base": period, "above": side == "above", "bootstrap": bootstrap, "years": kept.years}
    return (
        Operator("beyond_base", kept, share_beyond, f"mean ({text})", f"percentage of days {side} the {_told(base, q)}",
                 own_units="%", parameters=tuple(given.items()), axes=(_axis(kept),)),
    )  # fmt: skip


def _make_spells(
    base: tuple[int, int], years: tuple[int, int] | None, q: float, days: int, side: str, at_least: int
) -> tuple[Operator, ...]:
    kept, period = _family(base, years, q, days)
    text = f"days in runs of {at_least} or more {side} the {_told(base, q)}"
    given = {"base": period, "above": side == "above", "at_least": at_least, "years": kept.years}
    return (
        Operator("base_spell_days", kept, spell_days, f"sum (of 1 for {text})", text, own_units="1",
                 parameters=tuple(given.items()), axes=(_axis(kept),)),
    )  # fmt: skip


def _make_percentile(base: tuple[int, int], q: float, days: int, length: int) -> tuple[Operator, ...]:
    kept, period = _family(base, None, q, days)
    if not 1 <= length <= LEAP:
        raise ConfigError(f"a year has no {length} days")
    axis = Axis(
        "dayofyear", tuple(map(float, range(1, length + 1))), (("long_name", "day of the year"), ("units", "1"))
    )
    text = f"{_told(base, q)} around each day of the year"
    given = {"base": period, "length": length}
    return (
        Operator("base_percentile", kept, percentiles_of_days, f"point ({text})", text,
                 parameters=tuple(given.items()), axes=(axis,)),
    )  # fmt: skip


def _make_wet(
    base: tuple[int, int], years: tuple[int, int] | None, q: float, wet: float, what: str
) -> tuple[Operator, ...]:
    kept, period = _family(base, years, q, 1)
    text = f"of values above the {_told(base, q)}, of those from {wet:g} on"
    words = {"total": "sum", "share": "percentage", "days": "percentage of the number"}[what]
    given = {"base": period, "wet": wet, "what": what, "years": kept.years}
    return (
        Operator("wet_beyond_base", kept, of_wet_days, f"sum ({words} {text})", f"{words} {text}",
                 own_units="{units}" if what == "total" else "%", parameters=tuple(given.items()), axes=(_axis(kept),)),
    )  # fmt: skip


_BASE = Parameter(_years, "first and last year of the base period")
_KEPT = Parameter(_years, "first and last year that there are results of; the base period's by default", None)
PERCENT = _percent
YEARS = Parameter(_years, "first and last year")
AROUND = Parameter(_odd, "how many days around each are in a sample", 5)
_Q = Parameter(PERCENT, "the percentile", 90.0)
_SIDE = Parameter(one_of("above", "below"), "which days count", "above")
KINDS = (
    OperatorKind(
        "beyond_base", "percentage of each year's days above or below a percentile of the base period", _make_beyond,
        {"base": _BASE, "years": _KEPT, "q": _Q, "days": AROUND, "side": _SIDE,
         "bootstrap": Parameter(flag, "whether a year of the base period is judged by the others", True)},
        "beyond_base: {base: [1961, 1990], years: [1951, 2020], q: 90}",
    ),
    OperatorKind(
        "base_spell_days", "days of each year in long runs above or below a percentile of the base period",
        _make_spells,
        {"base": _BASE, "years": _KEPT, "q": _Q, "days": AROUND, "side": _SIDE,
         "at_least": Parameter(positive, "the least number of days of a run", 6)},
        "base_spell_days: {base: [1961, 1990], q: 90}",
    ),
    OperatorKind(
        "base_percentile", "a percentile of the base period for each day of the year: thresholds of another run",
        _make_percentile,
        {"base": _BASE, "q": _Q, "days": AROUND,
         "length": Parameter(positive, "days of the calendar's longest year", LEAP)},
        "base_percentile: {base: [1961, 1990], q: 90}",
    ),
    OperatorKind(
        "wet_beyond_base", "sum, or share, of each year's values above a percentile of the base period's large ones",
        _make_wet,
        {"base": _BASE, "years": _KEPT, "q": Parameter(PERCENT, "the percentile", 95.0),
         "wet": Parameter(number, "values from this on count", 1.0),
         "what": Parameter(one_of("total", "share", "days"), "their sum, its percentage of all that count, or that of "
                           "their number", "total")},
        "wet_beyond_base: {base: [1961, 1990], q: 95}",
    ),
)  # fmt: skip

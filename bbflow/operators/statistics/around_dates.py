"""Spreads and percentiles of the days around each date of all years, as CDO's ydrunstd and ydrunpctl have them."""

from typing import Any

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.operator import Axis, Operator, OperatorKind
from bbflow.operators.statistics.base_period import AROUND, PERCENT, YEARS, per_part
from bbflow.operators.statistics.daily_series import LEAP, DailySeries, Days
from bbflow.operators.steps import Array, Views
from bbflow.reading.sections import Parameter, one_of, whole_number

DATE = (("long_name", "date, as the day of a leap year"), ("units", "1"))


def around_dates(views: Views, *, days: int, what: str, q: float, ddof: int) -> Array:
    """Return a statistic of the values around each date of a leap year: those of all windows that are whole.

    Windows with any day before the first or after the last one of the years are none, as in CDO; of the years those
    count that have come from their first to their last day.
    """

    def make(series: Days) -> Array:
        result = np.full((LEAP, series.values.shape[1]), np.nan)
        places, dates = series.around(days), series.dates()
        whole = (places >= 0).all(axis=1) & series.whole[series.years]
        for date in range(LEAP):
            sample = series.values[places[whole & (dates == date)].reshape(-1)]
            if len(sample):
                result[date] = _nearest_rank(sample, q) if what == "percentile" else _spread(sample, ddof, what)
        return result

    return per_part(views, (LEAP,), make)


def _nearest_rank(sample: Array, q: float) -> Array:
    """Return the value of rank ceil(n q / 100) of n valid ones."""
    ordered, counts = np.sort(sample, axis=0), (~np.isnan(sample)).sum(axis=0)
    # Rounded first: of 3,000 values 1.1 percent are 33.00000000000001, which would be rank 34.
    rank = np.maximum(np.ceil(np.round(counts * q / 100, 9)).astype(int), 1)
    found = np.take_along_axis(ordered, rank[None] - 1, axis=0)[0]
    return np.where(counts > 0, found, np.nan)


def _spread(sample: Array, ddof: int, what: str) -> Array:
    valid = ~np.isnan(sample)
    counts = valid.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(valid, sample, 0).sum(axis=0) / counts
        variance = np.where(valid, (sample - mean) ** 2, 0).sum(axis=0) / (counts - ddof)
    variance = np.where(counts > ddof, variance, np.nan)
    return np.asarray(np.sqrt(variance) if what == "std" else variance)


def _make(what: str, years: tuple[int, int], days: int, q: float | None, ddof: int) -> tuple[Operator, ...]:
    if (q is None) == (what == "percentile"):
        raise ConfigError(f"{what} {'needs' if q is None else 'takes no'} q")
    words = (
        f"{q:g} percent quantile by nearest rank"
        if q is not None
        else {"std": "standard deviation"}.get(what, "variance")
    )
    text = f"{words} of the {days} days around each date"
    given: dict[str, Any] = {"days": days, "what": what, "q": q or 0.0, "ddof": ddof}
    return (
        Operator("around_dates", DailySeries(*years), around_dates, f"point ({text})", text,
                 own_units="({units})2" if what == "var" else "{units}", parameters=tuple(given.items()),
                 axes=(Axis("dayofyear", tuple(map(float, range(1, LEAP + 1))), DATE),)),
    )  # fmt: skip


KINDS = (
    OperatorKind(
        "around_dates", "spread or percentile of the days around each date of all years, as CDO's ydrunstd", _make,
        {"what": Parameter(one_of("std", "var", "percentile"), "which statistic"), "years": YEARS, "days": AROUND,
         "q": Parameter(PERCENT, "the percentile", None),
         "ddof": Parameter(whole_number, "0: of the population; 1: of a sample", 0)},
        "around_dates: {what: std, years: [1961, 1990], days: 5}",
    ),
)  # fmt: skip

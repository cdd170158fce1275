"""The windows that the configuration may name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from bbflow.errors import ConfigError
from bbflow.operators.windows.readers import MONTHS, date, month, season_months, time_of_day, weekday, year
from bbflow.operators.windows.spans import Hours, Months, Run, Seasons, Spans, StepsSpan
from bbflow.operators.windows.window import Window
from bbflow.reading.sections import Parameter, positive

QUARTERS = ((12, 1, 2), (3, 4, 5), (6, 7, 8), (9, 10, 11))
SINCE = (2000, 1, 1)
UNITS: Mapping[str, Callable[[], Spans]] = {
    "steps": lambda: StepsSpan(1),
    "hours": lambda: Hours(1),
    "days": lambda: Hours(24),
    "months": lambda: Months(1),
    "years": lambda: Months(12),
}
"""Of running windows."""

COUNT = Parameter(positive, "how many in each span")
SPAN_SINCE = Parameter(date, "a date at whose midnight a span begins; default 2000-01-01", SINCE)
SINCE_YEAR = Parameter(year, "a year in which a span begins", 2000)
FROM_MONTH = Parameter(month, "the month with which it begins, by name or number", 1)
FROM_TIME = Parameter(time_of_day, "when days begin, such as '12:00' for noon to noon", timedelta(0))
SEASON_MONTHS = Parameter(
    season_months, "seasons as letters or months, such as JJAS, [DJF, JJA] or [6, 7, 8]", QUARTERS
)


@dataclass(frozen=True, slots=True)
class WindowKind:
    """What the configuration may name."""

    name: str
    """What the configuration calls it."""
    summary: str
    """Which steps go together, in one line."""
    make: Callable[..., Window]
    """Makes the window of the parameters."""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    """By name."""
    main: str | None = None
    """The parameter that a bare value stands for, as in ``years: 10``."""
    example: str = ""
    """How the configuration writes it; its name if empty."""


def _constant(name: str, summary: str, spans: Spans, *recurs: str) -> WindowKind:
    return WindowKind(name, summary, lambda: Window(name, spans, None if recurs else 1, recurs))


def _make_hours(count: int, since: tuple[int, int, int]) -> Window:
    return Window(f"hours{count}", Hours(count, None if 24 % count == 0 else since))


def _make_days(count: int, since: tuple[int, int, int], start: timedelta) -> Window:
    return Window(f"days{count}{_time_suffix(start)}", Hours(24 * count, since), start=start)


def _make_day(start: timedelta) -> Window:
    return Window(f"day{_time_suffix(start)}", Hours(24), start=start)


def _time_suffix(start: timedelta) -> str:
    hours, minutes = divmod(start // timedelta(minutes=1), 60)
    if not start:
        return ""
    return "_noon" if (hours, minutes) == (12, 0) else f"_{hours:02d}{minutes:02d}"


def _make_week(start: int) -> Window:
    suffix = "" if start == 0 else f"_{('mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun')[start]}"
    return Window(f"week{suffix}", Hours(7 * 24, weekday=start))


def _make_months(count: int, since: int, start: int) -> Window:
    return Window(f"months{count}{_month_suffix(start)}", Months(count, since, start))


def _make_year(start: int) -> Window:
    return Window(f"year{_month_suffix(start)}", Months(12, month=start))


def _make_years(count: int, since: int, start: int) -> Window:
    return Window(f"years{count}{_month_suffix(start)}", Months(12 * count, since, start))


def _month_suffix(start: int) -> str:
    return "" if start == 1 else f"_{MONTHS[start - 1]}"


def _make_season(months: tuple[tuple[int, ...], ...]) -> Window:
    return Window(f"season{_season_suffix(months)}", Seasons(months))


def _make_clim_season(months: tuple[tuple[int, ...], ...]) -> Window:
    return Window(f"clim_season{_season_suffix(months)}", Seasons(months), None, ("season",))


def _season_suffix(months: tuple[tuple[int, ...], ...]) -> str:
    if months == QUARTERS:
        return ""
    return "".join("_" + "".join(MONTHS[number - 1][0] for number in season) for season in months)


def _make_clim_dayofyear(by: str, middle_of: int) -> Window:
    parts = ("month", "day") if by == "date" else ("dayofyr",)
    if middle_of % 2 == 0:
        raise ConfigError(f"middle_of: {middle_of} days have no middle one: take an odd number")
    name = f"clim_dayofyear{'' if by == 'date' else '_number'}{'' if middle_of == 1 else f'_of{middle_of}'}"
    return Window(name, Hours(24), None, parts, late=timedelta(days=middle_of // 2))


def _day_by(value: Any) -> str:
    if value not in ("date", "number"):
        raise ConfigError(f"{value!r} is neither date nor number")
    return str(value)


def _make_running(**units: int | None) -> Window:
    given = {unit: count for unit, count in units.items() if count is not None}
    if len(given) != 1:
        raise ConfigError(f"a running window needs one of {', '.join(units)}, but got {len(given)} of them")
    ((unit, count),) = given.items()
    if count == 1:
        raise ConfigError(
            f"a running window of 1 isn't a running window: take 'steps: 1' or {unit.removesuffix('s')!r}"
        )
    return Window(f"running{count}{unit.removesuffix('s')}", UNITS[unit](), count)


KINDS: Mapping[str, WindowKind] = {
    kind.name: kind
    for kind in (
        WindowKind("steps", "n steps", lambda count: Window(f"steps{count}", StepsSpan(count)), {"count": COUNT},
                   "count", "steps: 10"),
        _constant("hour", "each hour", Hours(1)),
        WindowKind("hours", "n hours; from midnight if n divides 24", _make_hours,
                   {"count": COUNT, "since": SPAN_SINCE}, "count", "hours: 6"),
        WindowKind("day", "each day, from midnight or 'start'", _make_day, {"start": FROM_TIME}, "start",
                   'day: {start: "12:00"}'),
        WindowKind("days", "n days", _make_days, {"count": COUNT, "since": SPAN_SINCE, "start": FROM_TIME}, "count",
                   "days: 5"),
        WindowKind("week", "each week, from Monday or 'start'; of any calendar, by its Julian day number", _make_week,
                   {"start": Parameter(weekday, "the day with which it begins", 0)}, "start", "week: sunday"),
        _constant("month", "each month", Months(1)),
        WindowKind("months", "n months", _make_months, {"count": COUNT, "since": SINCE_YEAR, "start": FROM_MONTH},
                   "count", "months: 3"),
        WindowKind("season", "DJF, MAM, JJA and SON, or others: steps in other months are in no span", _make_season,
                   {"months": SEASON_MONTHS}, "months", "season: JJAS"),
        WindowKind("year", "each year, from January or 'start'", _make_year, {"start": FROM_MONTH}, "start",
                   "year: oct"),
        WindowKind("years", "n years", _make_years, {"count": COUNT, "since": SINCE_YEAR, "start": FROM_MONTH},
                   "count", "years: 10"),
        _constant("run", "all steps", Run()),
        WindowKind("running", "the n last steps, hours, days, months or years, published with each of them",
                   _make_running, {unit: Parameter(positive, f"how many {unit}", None) for unit in UNITS}, "steps",
                   "running: {days: 5}"),
        _constant("clim_hour", "the same hour of all days", Hours(1), "hour"),
        _constant("clim_hourofyear", "the same hour of the same date of all years", Hours(1), "month", "day", "hour"),
        WindowKind("clim_dayofyear", "the same day of all years", _make_clim_dayofyear,
                   {"by": Parameter(_day_by, "date: 1 March is one day, 29 February has its own, as in CDO; number: "
                                    "the 60th day is one day, as in xarray", "date"),
                    "middle_of": Parameter(positive, "of how many days, the last a step's, it is the middle one", 1)},
                   "by"),
        _constant("clim_month", "the same month of all years", Months(1), "month"),
        WindowKind("clim_season", "the same season of all years", _make_clim_season, {"months": SEASON_MONTHS},
                   "months"),
    )
}  # fmt: skip
"""All windows by name."""

"""CDO's names of statistics, by product of what they run over and what they compute.

After the manual of CDO 2, section 2.8 (statistical values).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bbflow.errors import ConfigError
from bbflow.operators.names.meaning import Meaning, Name
from bbflow.operators.space.moves import AVERAGING, HOWS
from bbflow.reading.sections import number, positive

STATISTICS: Mapping[str, tuple[str, Any]] = {
    "mean": ("mean", "mean"),
    "avg": ("mean, missing where any value is", {"mean": {"skipna": False}}),
    "sum": ("sum", "sum"),
    "min": ("minimum", "min"),
    "max": ("maximum", "max"),
    "range": ("range", "range"),
    "std": ("standard deviation", "std"),
    "std1": ("standard deviation of a sample", {"std": {"ddof": 1}}),
    "var": ("variance", "var"),
    "var1": ("variance of a sample", {"var": {"ddof": 1}}),
    "count": ("number of valid values", "count"),
}
"""Suffix to words and operator."""
WINDOWS: Mapping[str, tuple[str, Any]] = {
    "tim": ("all steps", "run"),
    "hour": ("each hour", "hour"),
    "day": ("each day", "day"),
    "mon": ("each month", "month"),
    "seas": ("each season", "season"),
    "year": ("each year", "year"),
    "dhour": ("the same hour of all days", "clim_hour"),
    "yhour": ("the same hour of the same date of all years", "clim_hourofyear"),
    "yday": ("the same date of all years", "clim_dayofyear"),
    "ymon": ("the same month of all years", "clim_month"),
    "yseas": ("the same season of all years", "clim_season"),
}
"""Prefix to words and window."""
COUNTED: Mapping[str, tuple[str, Callable[[int], Any]]] = {
    "timsel": ("each n steps", lambda count: {"steps": count}),
    "run": ("the n last steps", lambda count: {"running": {"steps": count}}),
}
"""Prefix to words and window, for those whose number of steps follows the name."""


def _by_area(how: str) -> str:
    return ", weighted by area" if how in AVERAGING else ""


OVER = {"fld": "of the field", "zon": "of each latitude", "mer": "of each longitude"}
SPACES: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    **{f"fld{how}": (f"{how} of the field{_by_area(how)}", (), ()) for how in HOWS},
    **{f"{over}median": (f"median {words}", (), ()) for over, words in OVER.items()},
    **{f"{over}pctl": (f"percentile {words}", ("90",), ()) for over, words in OVER.items()},
    "vertcum": ("sums from the first level on", (), ()),
    "fldint": ("sum of the field, weighted by area", (), ()),
    **{f"zon{how}": (f"{how} of each latitude", (), ()) for how in HOWS},
    **{f"mer{how}": (f"{how} of each longitude", (), ()) for how in HOWS},
    "vertint": ("sum of all levels, weighted by thickness", (), ()),
    **{f"vert{how}": (f"{how} of all levels", (), ()) for how in HOWS},
    **{f"gridbox{how}": (f"{how} of x times y points", ("4", "4"), ()) for how in HOWS},
    "sellonlatbox": ("a box", ("350", "20", "-30", "30"), ()),
    **{
        f"ml2pl{x}": (
            "pressures, of the coefficients hyam and hybm and the ground's pressure ps",
            ("85000",),
            ("50000",),
        )
        for x in ("", "x")
    },
    **{f"ap2pl{x}": ("pressures, of the fields pfull and ps", ("85000",), ("50000",)) for x in ("", "x")},
    "intlevel": (
        "levels between those of the dimension, of two that are valid, while CDO takes the nearer of one",
        ("10",),
        ("100",),
    ),
    "sellevel": ("some levels", ("85000",), ("50000",)),
}
"""Name to words and example of what must, and what may, follow; `space` reads the rest itself."""
OVER_YEARS = ("mean", "avg", "sum", "min", "max")
"""Statistics that are made of those of each date's days."""
AROUND_DATES: Mapping[str, tuple[str, int]] = {
    "std": ("std", 0), "std1": ("std", 1), "var": ("var", 0), "var1": ("var", 1), "pctl": ("percentile", 0),
}  # fmt: skip
"""Suffix of ydrun to statistics that need all days of the years at once."""
WINDS: Mapping[str, float] = {"strwin": 10.5, "strbre": 10.5, "strgal": 20.5, "hurr": 32.5}
"""Name to wind speed (m/s), which counts itself."""
WITH_CONSTANT: Mapping[str, str] = {
    "addc": "+", "subc": "-", "mulc": "*", "divc": "/",
    "gtc": ">", "gec": ">=", "ltc": "<", "lec": "<=", "eqc": "==", "nec": "!=",
}  # fmt: skip


def cdo_names() -> Iterator[Name]:
    """Yield all names."""
    for suffix, (what, operator) in STATISTICS.items():
        for prefix, (over, window) in WINDOWS.items():
            yield _fixed(f"{prefix}{suffix}", f"{what} over {over}", Meaning(operator, window))
        for prefix, (over, counted) in COUNTED.items():
            yield _counted(f"{prefix}{suffix}", f"{what} over {over}", operator, counted)
    for prefix, window in (("year", "year"), ("seas", "season")):
        for suffix in ("mean", "avg"):
            what, operator = STATISTICS[suffix]
            summary = f"{what}, of each {window}'s months, by days"
            yield _fixed(f"{prefix}mon{suffix}", summary, Meaning(operator, window, weights="month"))
    yield from _percentiles()
    for suffix in OVER_YEARS:
        yield _over_years(f"ydrun{suffix}", *STATISTICS[suffix])
    for suffix, (what, ddof) in AROUND_DATES.items():
        yield _around_dates(f"ydrun{suffix}", what, ddof)
    for name, speed in WINDS.items():
        yield _windy(name, speed)
    for name, (summary, takes, may_take) in SPACES.items():
        yield _space(name, summary, takes, may_take)
    for name, sign in WITH_CONSTANT.items():
        yield _constant(name, sign)
    yield _fixed("timcumsum", "sum of all steps so far", Meaning(transform="cumsum"))
    difference = {"deaccumulate": {"first": "missing", "resets": False}}
    yield _fixed("deltat", "difference from the step before", Meaning(transform=difference))
    for name, operator in (("timcor", "correlation"), ("timcovar", "covariance")):
        yield _with_other(name, operator)


def _fixed(name: str, summary: str, meaning: Meaning) -> Name:
    return Name(name, summary, lambda: meaning, name)


def _over_years(name: str, what: str, operator: Any) -> Name:
    def make(days: Any) -> Meaning:
        count = _whole(days)
        if count % 2 == 0:
            raise ConfigError(f"{count} days have no middle one: take an odd number")
        each = {"window": {"running": {"days": count}}, "operator": operator}
        return Meaning(operator, {"clim_dayofyear": {"middle_of": count}}, each=each)

    return Name(name, f"{what} over the n days around each date of all years", make, f"{name},5", ("days",))


def _around_dates(name: str, what: str, ddof: int) -> Name:
    q = ("percentage",) if what == "percentile" else ()

    def make(*given: Any) -> Meaning:
        numbers = [float(number(item)) for item in given]
        days, *years = map(int, numbers[len(q) :])
        said: dict[str, Any] = {"what": what, "days": days, "years": years, "name": name, "ddof": ddof}
        said |= {"q": numbers[0]} if q else {}
        return Meaning({"around_dates": said}, "run", each={"window": "day", "operator": "mean"})

    example = f"{name},{'90,' if q else ''}5,1961,1990"
    summary = f"{what} of the n days around each date of all years, from the first to the last one that is said"
    return Name(name, summary, make, example, (*q, "days", "year", "year"))


def _windy(name: str, speed: float) -> Name:
    def make(threshold: Any = speed) -> Meaning:
        counted = {"above": float(number(threshold)), "inclusive": True, "min_count": 1, "name": name}
        return Meaning({"exceedance": counted}, "run", each={"window": "day", "operator": "max"})

    return Name(name, f"days whose largest wind speed is at least {speed} m/s", make, name, may_take=("speed",))


def _counted(name: str, summary: str, operator: Any, window: Callable[[int], Any]) -> Name:
    return Name(name, summary, lambda count: Meaning(operator, window(_whole(count))), f"{name},5", ("steps",))


def _percentiles() -> Iterator[Name]:
    for prefix, (over, window) in WINDOWS.items():
        name = f"{prefix}pctl"
        make = _percentile_of(window)
        yield Name(name, f"percentile over {over}", make, f"{name},90", ("percentage",))
    for prefix, (over, counted) in COUNTED.items():
        name = f"{prefix}pctl"
        summary = f"percentile over {over}"
        yield Name(name, summary, _percentile_of_steps(counted), f"{name},90,5", ("percentage", "steps"))


def _percentile_of(window: Any) -> Callable[[Any], Meaning]:
    return lambda percent: Meaning(_percentile(percent), window)


def _percentile_of_steps(window: Callable[[int], Any]) -> Callable[[Any, Any], Meaning]:
    return lambda percent, count: Meaning(_percentile(percent), window(_whole(count)))


def _percentile(percent: Any) -> Any:
    return {"percentiles": {"q": [number(percent)]}}


def _space(name: str, summary: str, takes: tuple[str, ...], may_take: tuple[str, ...]) -> Name:
    example = ",".join((name, *takes))
    whole = ("number",) * len(takes)
    # Of some any number may follow, such as levels.
    return Name(name, summary, lambda *given: Meaning(space=",".join((name, *map(str, given)))), example, whole,
                ("number",) * 1000 if may_take else ())  # fmt: skip


def _constant(name: str, sign: str) -> Name:
    def make(constant: Any) -> Meaning:
        return Meaning(then=f"value {sign} ({number(constant)!r})")

    return Name(name, f"value {sign} a number", make, f"{name},273.15", ("number",))


def _with_other(name: str, operator: str) -> Name:
    def make(other: str) -> Meaning:
        return Meaning({operator: {"with": other}}, "run")

    return Name(name, f"{operator} with another variable over all steps", make, f"{name},psl", ("variable",))


def _whole(value: Any) -> int:
    return positive(int(value) if isinstance(value, str) and value.isdigit() else value)

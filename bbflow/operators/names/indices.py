"""The ETCCDI's indices of extremes, and further ones of CDO and xclim, as data, in the terms of a diagnostic.

Definitions: Zhang et al. (2011), WIREs Climate Change 2, table 1; http://etccdi.pacificclimate.org/list_27_indices.shtml.
Each day's mean or extreme temperature, or amount of rain, is the step of the outer statistic. Spells (CDD, WSDI) begin
again with each span of the window, and the five days of Rx5day belong to the span that their last day is in. Days that
are missing are left out, as in CDO; where all are, as over the sea, so is the index. Percentiles (TX90p) are those of a
file of thresholds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bbflow.errors import ConfigError, nearest
from bbflow.operators.file_fields import units_of
from bbflow.operators.names.meaning import Meaning, Name
from bbflow.operators.windows.parse_windows import parse_window
from bbflow.reading.sections import check_keys, number, one_of, positive

DAY_S = 86400.0
FREEZING_K = 273.15
TEMPERATURES: Mapping[str, float] = {
    "K": FREEZING_K, "kelvin": FREEZING_K, "degC": 0.0, "Celsius": 0.0, "celsius": 0.0, "C": 0.0, "deg_C": 0.0,
    "degrees_C": 0.0, "degree_Celsius": 0.0, "degrees_Celsius": 0.0, "°C": 0.0,
}  # fmt: skip
"""Units to what stands for 0 degrees Celsius."""
RATES: Mapping[str, float] = {
    "kg m-2 s-1": DAY_S, "kg/m2/s": DAY_S, "mm s-1": DAY_S, "mm/s": DAY_S, "m s-1": 1000 * DAY_S, "m/s": 1000 * DAY_S,
    "mm h-1": 24.0, "mm/h": 24.0, "kg m-2 h-1": 24.0, "mm day-1": 1.0, "mm d-1": 1.0, "mm/day": 1.0, "mm/d": 1.0,
    "kg m-2 day-1": 1.0, "kg m-2 d-1": 1.0,
}  # fmt: skip
"""Units of a rate of rain to what makes mm in a day of its mean."""
AMOUNTS: Mapping[str, float] = {"mm": 1.0, "kg m-2": 1.0, "kg/m2": 1.0, "m": 1000.0, "cm": 10.0}
"""Units of an amount of rain in a step to what makes mm of its sum."""


COUNTS = ("exceedance", "longest_spell", "spell_count", "spell_steps", "season_length")
"""Statistics that are 0, and not missing, without any value."""
WET = "where({x} >= {limit}, {x}, %s)"
SEASON = "where(month %s 7, {x} > {limit}, -({x} < {limit}))"
"""1 for a warm day of a year's first half, -1 for a cold one of its second half."""


@dataclass(frozen=True, slots=True)
class ClimateIndex:
    """An index: what is made of each day, and the statistic of the days."""

    name: str
    """The ETCCDI's name, or what it is called here."""
    summary: str
    """What it is, in one line."""
    day: str
    """What is made of each day: max, min, mean or range of temperature, or 'rain', its amount."""
    statistic: str
    """The outer operator."""
    limit: str | None = None
    """The operator's parameter that takes the threshold: above or below; None if it has none."""
    threshold: float | None = None
    """In degrees Celsius or mm; None if it must be said, or there is none."""
    inclusive: bool = False
    """Whether the threshold itself counts."""
    days: int = 1
    """Of how many days the rain is summed up."""
    made: str = "{x}"
    """What the statistic gets of each day: an expression of `x`, its temperature or mm of rain, `limit`, the threshold
    on the same scale, `by`, the same as a difference, and `t`, the thresholds of a file."""
    units: str = ""
    """Those of the result, where they aren't the variable's."""
    at_least: int | None = None
    """The statistic's parameter of that name."""

    @property
    def needs_file(self) -> bool:
        """Whether thresholds of a file are needed."""
        return "{t}" in self.made

    @property
    def has_threshold(self) -> bool:
        """Whether it has one number as its threshold."""
        return self.limit is not None or "{limit}" in self.made or "{by}" in self.made

    @property
    def takes_units(self) -> bool:
        """Whether it matters in which units the variable is."""
        return self.day == "rain" or self.has_threshold or self.needs_file


def _against(name: str, summary: str, day: str, made: str) -> ClimateIndex:
    return ClimateIndex(name, summary, day, "mean", made=f"100 * ({made})", units="%")


def _spell(name: str, summary: str, day: str, made: str, threshold: float | None = None) -> ClimateIndex:
    """Return days in spells, of which the operator gets 1 and 0."""
    summary = f"days in spells of 6 or more with {summary}"
    return ClimateIndex(name, summary, day, "spell_steps", threshold=threshold, made=made, at_least=6)


def _wet_share(percent: int) -> ClimateIndex:
    summary = f"percentage of wet days with more rain than the {percent}th percentile of a file"
    made = "where({x} >= {limit}, 100 * ({x} > {t}), nan)"
    return ClimateIndex(f"R{percent}p", summary, "rain", "mean", threshold=1.0, made=made, units="%")


def _wet_total(percent: int) -> ClimateIndex:
    summary = f"rain of days with more than the {percent}th percentile of a file"
    made = "where({x} >= {limit} and {x} > {t}, {x}, 0)"
    return ClimateIndex(f"R{percent}pTOT", summary, "rain", "sum", threshold=1.0, made=made)


def _wet_fraction(percent: int) -> ClimateIndex:
    summary = f"percentage of the rain of wet days that days above the {percent}th percentile of a file have"
    made = "where({x} >= {limit}, where({x} > {t}, {x}, -{x}), 0)"
    return ClimateIndex(f"R{percent}pFRAC", summary, "rain", "positive_share", threshold=1.0, made=made)


def _degree_days(name: str, summary: str, threshold: float, sign: str) -> ClimateIndex:
    made = f"max({'{x} - {limit}' if sign == '>' else '{limit} - {x}'}, 0)"
    return ClimateIndex(name, summary, "mean", "sum", threshold=threshold, made=made, units="K d")


_DAYS = {"TX": ("max", "maxima"), "TN": ("min", "minima"), "TG": ("mean", "means")}
INDICES: Mapping[str, ClimateIndex] = {
    index.name: index
    for index in (
        ClimateIndex("TXx", "warmest day: largest daily maximum", "max", "max"),
        ClimateIndex("TNx", "warmest night: largest daily minimum", "min", "max"),
        ClimateIndex("TXn", "coldest day: smallest daily maximum", "max", "min"),
        ClimateIndex("TNn", "coldest night: smallest daily minimum", "min", "min"),
        ClimateIndex("DTR", "mean of the daily temperature range", "range", "mean"),
        ClimateIndex("CSU", "longest run of summer days", "max", "longest_spell", "above", 25.0),
        ClimateIndex("CFD", "longest run of frost days", "min", "longest_spell", "below", 0.0),
        ClimateIndex("SU", "summer days: maximum above 25 degC", "max", "exceedance", "above", 25.0),
        ClimateIndex("FD", "frost days: minimum below 0 degC", "min", "exceedance", "below", 0.0),
        ClimateIndex("TR", "tropical nights: minimum above 20 degC", "min", "exceedance", "above", 20.0),
        ClimateIndex("ID", "icing days: maximum below 0 degC", "max", "exceedance", "below", 0.0),
        ClimateIndex("Rx1day", "most rain in a day", "rain", "max"),
        ClimateIndex("Rx5day", "most rain in five days", "rain", "max", days=5),
        ClimateIndex("R1mm", "days with at least 1 mm", "rain", "exceedance", "above", 1.0, True),
        ClimateIndex("R10mm", "days with at least 10 mm", "rain", "exceedance", "above", 10.0, True),
        ClimateIndex("R20mm", "days with at least 20 mm", "rain", "exceedance", "above", 20.0, True),
        ClimateIndex("Rnnmm", "days with at least as much rain as you say", "rain", "exceedance", "above", None, True),
        ClimateIndex("CDD", "longest dry spell: days below 1 mm", "rain", "longest_spell", "below", 1.0),
        ClimateIndex("CWD", "longest wet spell: days with at least 1 mm", "rain", "longest_spell", "above", 1.0, True),
        # A year without a wet day has no rain, but no mean of wet days.
        ClimateIndex("PRCPTOT", "rain of days with at least 1 mm", "rain", "sum", threshold=1.0, made=WET % "0"),
        ClimateIndex("SDII", "mean rain of days with at least 1 mm", "rain", "mean", threshold=1.0, made=WET % "nan"),
        *(_against(f"{name}90p", f"percentage of daily {words} above the 90th percentile of a file", day, "{x} > {t}")
          for name, (day, words) in _DAYS.items()),
        *(_against(f"{name}10p", f"percentage of daily {words} below the 10th percentile of a file", day, "{x} < {t}")
          for name, (day, words) in _DAYS.items()),
        _spell("WSDI", "maxima above the 90th percentile of a file", "max", "{x} > {t}"),
        _spell("CSDI", "minima below the 10th percentile of a file", "min", "{x} < {t}"),
        _spell("HWFI", "means above the 90th percentile of a file", "mean", "{x} > {t}"),
        _spell("CWFI", "means below the 10th percentile of a file", "mean", "{x} < {t}"),
        _spell("HWDI", "maxima more than 5 K above those of a file", "max", "{x} > {t} + {by}", 5.0),
        _spell("CWDI", "minima more than 5 K below those of a file", "min", "{x} < {t} - {by}", 5.0),
        *map(_wet_total, (95, 99)),
        *map(_wet_share, (75, 90, 95, 99)),
        *map(_wet_fraction, (75, 90, 95, 99)),
        ClimateIndex(
            "GSL", "growing season: days from the first 6 above 5 degC to the first 6 below it in the second half-year",
            "mean", "season_length", threshold=5.0, made=SEASON % "<", at_least=6,
        ),
        _degree_days("HD", "heating degree days: what daily means lack of 17 degC", 17.0, "<"),
        _degree_days("GD", "growing degree days: by what daily means exceed 4 degC", 4.0, ">"),
        _degree_days("CD", "cooling degree days: by what daily means exceed 18 degC", 18.0, ">"),
    )
}  # fmt: skip
"""By name: all 27 of the ETCCDI, and those that CDO and xclim have besides."""
SAME_IN_CDO: Mapping[str, str] = {
    "su": "SU", "fd": "FD", "tr": "TR", "id": "ID", "cdd": "CDD", "cwd": "CWD", "r1mm": "R1mm", "rr1": "R1mm",
    "r10mm": "R10mm", "r20mm": "R20mm", "csu": "CSU", "cfd": "CFD", "pd": "Rnnmm", "rx1day": "Rx1day",
    "rx5day": "Rx5day", "sdii": "SDII", "hd": "HD", "gsl": "GSL", "hwdi": "HWDI", "cwdi": "CWDI", "hwfi": "HWFI",
    "cwfi": "CWFI", **{f"{day}{percent}": f"{day.upper()}{percent}" for day in ("tx", "tn", "tg")
                       for percent in ("10p", "90p")},
    **{f"r{percent}p": f"R{percent}p" for percent in (75, 90, 95, 99)},
    **{f"r{percent}ptot": f"R{percent}pFRAC" for percent in (75, 90, 95, 99)},
}  # fmt: skip
"""CDO's names after eca_ (over all steps, but for eca_gsl, which is of each year)."""
ONLY_ECA = (
    *("csu", "cfd", "pd", "rr1", "hwdi", "cwdi", "hwfi", "cwfi", "tg10p", "tg90p"),
    *(f"r{percent}{what}" for percent in (75, 90, 95, 99) for what in ("p", "ptot")),
)
"""CDO has these by years only with other operators, or means something else."""
CROSSING: Mapping[str, str] = {f"etccdi_{name}": name.upper() for name in ("cdd", "cwd", "wsdi", "csdi")}
"""CDO's names of indices whose runs continue into the next year there, and count in it: ours end with the year."""
ONLY_ETCCDI: Mapping[str, str] = {"r95p": "R95pTOT", "r99p": "R99pTOT"}
"""CDO's names after etccdi_ (of each year), where they aren't those after eca_."""
SAME_IN_XCLIM: Mapping[str, str] = {
    "tx_max": "TXx", "tn_max": "TNx", "tx_min": "TXn", "tn_min": "TNn", "frost_days": "FD", "ice_days": "ID",
    "tropical_nights": "TR", "tx_days_above": "SU", "maximum_consecutive_dry_days": "CDD",
    "maximum_consecutive_wet_days": "CWD", "maximum_consecutive_frost_days": "CFD", "wetdays": "R1mm",
    "max_1day_precipitation_amount": "Rx1day", "daily_pr_intensity": "SDII", "daily_temperature_range": "DTR",
    "warm_spell_duration_index": "WSDI", "cold_spell_duration_index": "CSDI", "heating_degree_days": "HD",
    "cooling_degree_days": "CD", "growing_degree_days": "GD",
}  # fmt: skip
"""Names of xclim.indices that mean the same."""
DEFAULT_UNITS = {"max": "K", "min": "K", "mean": "K", "range": "K", "rain": "kg m-2 s-1"}
"""The CF conventions' canonical ones of air_temperature and precipitation_flux."""
SOUTH = "south"
PARAMETERS = ("threshold", "thresholds", "at_least", "hemisphere", "units", "window", "name", "min_count")
OF_BASE = ("base", "years", "days", "bootstrap")
"""What an index takes whose thresholds are of a base period of the same run."""
BASE_TAKES: Mapping[str, tuple[str, ...]] = {
    "beyond_base": OF_BASE, "base_spell_days": (*OF_BASE[:3], "at_least"),
    "wet_beyond_base": (*OF_BASE[:2], "threshold"),
}  # fmt: skip
"""What the operators of a base period take."""
BASED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    **{f"{day}{q}p": ("beyond_base", {"q": q, "side": side})
       for day in _DAYS for q, side in ((90, "above"), (10, "below"))},
    **{name: ("base_spell_days", {"q": q, "side": side})
       for name, q, side in (("WSDI", 90, "above"), ("CSDI", 10, "below"), ("HWFI", 90, "above"),
                             ("CWFI", 10, "below"))},
    **{f"R{q}p{suffix}": ("wet_beyond_base", {"q": q, "what": what})
       for q in (75, 90, 95, 99) for suffix, what in (("TOT", "total"), ("FRAC", "share"), ("", "days"))},
}  # fmt: skip
"""Index to the operator of a base period and what it takes."""


def index_meaning(
    index: ClimateIndex,
    units: str | None = None,
    window: Any = "year",
    name: str | None = None,
    min_count: int | None = None,
    thresholds: Any = None,
) -> Meaning:
    """Return an index in the terms of a diagnostic.

    Parameters
    ----------
    index
        With the threshold in degrees Celsius or mm.
    units
        Of the variable: one of `TEMPERATURES`, `RATES` or `AMOUNTS`; by default `DEFAULT_UNITS`.
    window
        Over which the days are counted.
    name
        What the result is called; by default as the index.
    min_count
        Points with fewer valid days are missing (SDII: with fewer wet ones); by default those without any.
    thresholds
        A file with thresholds, or a map that says more of it.

    Raises
    ------
    ConfigError
        If the units are unknown, or a threshold is lacking.
    """
    taken = DEFAULT_UNITS[index.day] if units is None and index.takes_units else None
    units = units or DEFAULT_UNITS[index.day]
    least = 1 if min_count is None and index.statistic in COUNTS else min_count  # others have it so
    called: dict[str, Any] = {"name": name or index.name} | ({} if least is None else {"min_count": least})
    called |= {} if index.at_least is None else {"at_least": index.at_least}
    zero, factor, inner = _scale(index, units)
    told = {"units": index.units or ("mm" if index.day == "rain" else "")}
    fields: dict[str, Any] = {"month": {"calendar": "month"}} if "month" in index.made else {}
    if index.needs_file:
        if thresholds is None:
            wanted = f"say the file of its thresholds: {index.name}: {{thresholds: thresholds.nc}}"
            raise ConfigError(f"{wanted}, or the base period of the run that they are of: {{base: [1961, 1990]}}")
        fields["thresholds"] = thresholds
    then = index.made.format(
        x="value" if factor == 1 else f"value * {factor!r}" if index.made == "{x}" else f"(value * {factor!r})",
        limit=repr(_threshold(index, zero)) if "{limit}" in index.made else "",
        by=repr(index.threshold),
        t=_converted(thresholds, index.day, zero) if index.needs_file else "",
    )
    if index.statistic == "spell_steps":
        called["above"] = 0.5  # of 1 and 0
    return Meaning(
        {index.statistic: called | _limits(index, zero)},
        window,
        each=_each(index, inner, parse_window(window).closed),
        then=None if then == "value" else then,
        attributes={key: value for key, value in told.items() if value},
        units=taken,
        fields=fields,
    )


def _each(index: ClimateIndex, statistic: str, closed: str) -> dict[str, Any]:
    """Return what makes the values of an index's days, or runs of days, from the steps; days end as their window."""
    if index.days > 1:  # what is missing of some days can't be made good by the others, as it can in one day
        days = {"running": {"days": index.days, "closed": closed}}
        return {"window": days, "operator": {statistic: {"skipna": False}}}
    return {"window": "day" if closed == "left" else {"day": {"closed": closed}}, "operator": statistic}


def _scale(index: ClimateIndex, units: str) -> tuple[float, float, str]:
    """Return what stands for 0 degrees Celsius, what makes mm of a value, and the statistic of a day."""
    if index.day == "rain":
        factor = _known(units, {**RATES, **AMOUNTS}) * (index.days if units in RATES else 1)
        return 0.0, factor, "mean" if units in RATES else "sum"
    return _known(units, TEMPERATURES), 1.0, index.day


def base_meaning(index: ClimateIndex, name: str, given: Mapping[str, Any]) -> Meaning:
    """Return an index whose thresholds are percentiles of a base period of the same run.

    Parameters
    ----------
    index
        Whose.
    name
        What the result is called.
    given
        What the configuration says, `base` at least.

    Raises
    ------
    ConfigError
        If it takes something of it otherwise, or has no percentiles.
    """
    if index.name not in BASED:
        raise ConfigError("it has no base period")
    kind, parameters = BASED[index.name]
    takes = BASE_TAKES[kind]
    check_keys(given, (*takes, "units", "name"), kind="parameter beside 'base'")
    is_rain = index.day == "rain"
    units = str(given.get("units", DEFAULT_UNITS[index.day]))
    _, factor, inner = _scale(index, units)
    chosen = {"wet" if key == "threshold" else key: given[key] for key in takes if key in given}
    return Meaning(
        {kind: {**parameters, **chosen, "name": given.get("name", name)}},
        "run",
        each={"window": "day", "operator": inner},
        then=None if factor == 1 else f"value * {factor!r}",
        attributes={"units": "mm"} if is_rain else {},
        units=DEFAULT_UNITS["rain"] if is_rain and "units" not in given else None,
    )


def _limits(index: ClimateIndex, zero: float) -> dict[str, Any]:
    if index.limit is None:
        return {}
    return {index.limit: _threshold(index, zero)} | ({"inclusive": True} if index.inclusive else {})


def _threshold(index: ClimateIndex, zero: float) -> float:
    if index.threshold is None:
        raise ConfigError(f"say the threshold in mm: {index.name}: {{threshold: 25}}")
    return round(index.threshold + zero, 10)


def _converted(thresholds: Any, day: str, zero: float) -> str:
    """Return an expression of a file's thresholds that is on the scale of the days; without units they are on it."""
    told = thresholds if isinstance(thresholds, Mapping) else {"file": thresholds}
    units = units_of(told.get("file"), str(told.get("variable", "")))
    if not units:
        return "thresholds"
    if day == "rain":
        factor = _known(units, {**RATES, **AMOUNTS})
        return "thresholds" if factor == 1 else f"(thresholds * {factor!r})"
    shift = zero - _known(units, TEMPERATURES)
    return f"(thresholds + {shift!r})" if shift else "thresholds"


def _known(units: Any, valid: Mapping[str, float]) -> float:
    if not isinstance(units, str) or units not in valid:
        raise ConfigError(f"units {units!r} can't be converted; {nearest(units, valid)}")
    return valid[units]


def same_units(left: str, right: str) -> bool:
    """Whether two of the units that indices know are the same, however they are written."""
    tables = (TEMPERATURES, RATES, AMOUNTS)
    return left == right or any(left in table and table[left] == table.get(right) for table in tables)


def index_names() -> Iterator[Name]:
    """Yield the names of all indices: the ETCCDI's own and CDO's."""
    for index in INDICES.values():
        if index.needs_file:
            more = "thresholds: thresholds.nc"
        else:
            more = f"units: {'degC' if index.day != 'rain' else 'mm/day'}"
            more = f"threshold: 25, {more}" if index.limit is not None and index.threshold is None else more
        yield _name(index.name, index, "year", f"{index.name}: {{{more}}}")
    for suffix, name in SAME_IN_CDO.items():
        given = ",25" if suffix == "pd" else ",thresholds.nc" if INDICES[name].needs_file else ""
        yield _name(f"eca_{suffix}", INDICES[name], "year" if name == "GSL" else "run", f"eca_{suffix}{given}")
        if suffix not in ONLY_ECA and f"etccdi_{suffix}" not in CROSSING:
            yield _name(f"etccdi_{suffix}", INDICES[name], "year", f"etccdi_{suffix}{given}")
    for suffix, name in ONLY_ETCCDI.items():
        yield _name(f"etccdi_{suffix}", INDICES[name], "year", f"etccdi_{suffix},thresholds.nc")
    for suffix in ("rx1day", "rx5day"):
        yield _name(f"etccdi_{suffix}mon", INDICES[SAME_IN_CDO[suffix]], "month", f"etccdi_{suffix}mon")
    yield Name("eca_etr", "largest value less the smallest", lambda: Meaning("range", "run"), "eca_etr")


def xclim_names() -> Iterator[Name]:
    """Yield the names that xclim.indices has for them."""
    for name, own in SAME_IN_XCLIM.items():
        yield _name(name, INDICES[own], "year", f"{name},thresholds.nc" if INDICES[own].needs_file else name)


def _name(name: str, index: ClimateIndex, window: str, example: str) -> Name:
    with_base = name.startswith("etccdi_") and index.name in BASED

    def make(value: Any = None, *more: Any) -> Meaning:
        if more:
            raise ConfigError(_with_years(name, index, value, *more))
        single = "thresholds" if index.needs_file else "threshold"
        given = value if isinstance(value, Mapping) else {} if value is None else {single: value}
        check_keys(given, (*PARAMETERS, *OF_BASE), kind="parameter")
        if "base" in given:
            return base_meaning(index, name, given)
        if told := [key for key in OF_BASE if key in given]:
            raise ConfigError(f"{told[0]} needs base: [1961, 1990]")
        chosen, over = _chosen(index, given, window)
        own = ("threshold", "at_least", "hemisphere")
        rest = {key: item for key, item in given.items() if key not in own}
        return index_meaning(chosen, **{"window": over, "name": name, **rest})

    may_take = ("days", "year", "year", "output") if with_base else ("threshold",)
    return Name(name, index.summary, make, example, may_take=may_take, one_value=True)


def _with_years(name: str, index: ClimateIndex, days: Any, *base: Any) -> str:
    """Return how what CDO calls ``etccdi_tx90p,5,1961,1990`` is written: that doesn't say which years there will be."""
    window = f", days: {days}" if "days" in BASE_TAKES[BASED[index.name][0]] else ""
    first, last = (*base, "LAST")[:2]
    told = f"{name}: {{base: [{first}, {last}]{window}, years: [FIRST, LAST]}}"
    return f"write {told}, with the run's years; CDO's form doesn't say them, and results of months aren't made"


def _chosen(index: ClimateIndex, given: Mapping[str, Any], window: str) -> tuple[ClimateIndex, Any]:
    """Return an index with what the configuration says of it, and the years that it is of."""
    for key, takes in (("threshold", index.has_threshold), ("thresholds", index.needs_file),
                       ("at_least", index.at_least is not None), ("hemisphere", "month" in index.made)):  # fmt: skip
        if key in given and not takes:
            raise ConfigError(f"it has no {key}")
    if "threshold" in given:
        index = replace(index, threshold=float(number(given["threshold"])))
    if "at_least" in given:
        index = replace(index, at_least=positive(given["at_least"]))
    if "month" not in index.made:
        return index, window
    begin = "jan"
    if one_of("north", SOUTH)(given.get("hemisphere", "north")) == SOUTH:
        begin, index = "jul", replace(index, made=SEASON % ">=")
    over = {"year": begin}
    own = parse_window(given.get("window", over))
    if replace(own, name="", closed="left") != replace(parse_window(over), name=""):
        raise ConfigError(f"window: {own.name}: a growing season is of years from {begin}: leave the window out")
    return index, over

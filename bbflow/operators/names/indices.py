"""The ETCCDI's indices of extremes as data, in the terms of a diagnostic.

Definitions: Zhang et al. (2011), WIREs Climate Change 2, table 1; http://etccdi.pacificclimate.org/list_27_indices.shtml.
Each day's extreme temperature, or amount of rain, is the step of the outer statistic. Spells (CDD, CWD) begin anew
with each span of the window, and the five days of Rx5day belong to the span that their last day is in. Days that are
missing are left out, as in CDO; where all are, as over the sea, so is the index.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bbflow.errors import ConfigError, nearest
from bbflow.operators.names.meaning import Meaning, Name
from bbflow.reading.sections import check_keys, number

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


@dataclass(frozen=True, slots=True)
class ClimateIndex:
    """An index: what is made of each day, and the statistic of the days."""

    name: str
    """The ETCCDI's name."""
    summary: str
    """What it is, in one line."""
    day: str
    """What is made of each day: max, min or range of temperature, or 'rain', its amount."""
    statistic: str
    """The outer operator."""
    limit: str | None = None
    """The operator's parameter that takes the threshold: above or below; None if it has none."""
    threshold: float | None = None
    """In degrees Celsius or mm; None if it must be said."""
    inclusive: bool = False
    """Whether the threshold itself counts."""
    days: int = 1
    """Of how many days the rain is summed up."""
    wet: float | None = None
    """Only days with at least this many mm count."""


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
        ClimateIndex("PRCPTOT", "rain of days with at least 1 mm", "rain", "sum", wet=1.0),
        ClimateIndex("SDII", "mean rain of days with at least 1 mm", "rain", "mean", wet=1.0),
    )
}
"""By the ETCCDI's name."""
SAME_IN_CDO: Mapping[str, str] = {
    "su": "SU", "fd": "FD", "tr": "TR", "id": "ID", "cdd": "CDD", "cwd": "CWD", "r1mm": "R1mm", "r10mm": "R10mm",
    "r20mm": "R20mm", "csu": "CSU", "cfd": "CFD", "pd": "Rnnmm", "rx1day": "Rx1day", "rx5day": "Rx5day", "sdii": "SDII",
}  # fmt: skip
"""CDO's names after eca_ (over all steps) and etccdi_ (of each year)."""
ONLY_ECA = ("csu", "cfd", "pd")
"""CDO has these by years only with other operators."""
DEFAULT_UNITS = {"max": "K", "min": "K", "range": "K", "rain": "kg m-2 s-1"}
"""The CF conventions' canonical ones of air_temperature and precipitation_flux."""
PARAMETERS = ("threshold", "units", "window", "name", "min_count")


def index_meaning(
    index: ClimateIndex,
    units: str | None = None,
    window: Any = "year",
    name: str | None = None,
    min_count: int | None = None,
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

    Raises
    ------
    ConfigError
        If the units are unknown.
    """
    matters = index.day == "rain" or index.limit is not None
    taken = DEFAULT_UNITS[index.day] if units is None and matters else None
    units = units or DEFAULT_UNITS[index.day]
    least = 1 if min_count is None and index.limit is not None else min_count  # extremes, sums and means have it so
    called: dict[str, Any] = {"name": name or index.name} | ({} if least is None else {"min_count": least})
    if index.day != "rain":
        zero = _known(units, TEMPERATURES)
        limits = _limits(index, zero)
        return Meaning({index.statistic: called | limits}, window, each=_each("day", index.day), units=taken)
    factor = _known(units, {**RATES, **AMOUNTS})
    per_day: Any = "mean" if units in RATES else "sum"
    inner: Any = "day"
    if index.days > 1:  # what is missing of some days can't be made good by the others, as it can in one day
        inner, per_day = {"running": {"days": index.days}}, {per_day: {"skipna": False}}
    factor *= index.days if units in RATES else 1
    rain = "value" if factor == 1 else f"value * {factor!r}"
    dry = "0" if index.statistic == "sum" else "nan"  # a year without a wet day has no rain, but no mean of wet days
    then = rain if index.wet is None else f"where({rain} >= {index.wet!r}, {rain}, {dry})"
    return Meaning(
        {index.statistic: called | _limits(index, 0.0)},
        window,
        each=_each(inner, per_day),
        then=None if then == "value" else then,
        attributes={"units": "mm"},
        units=taken,
    )


def _limits(index: ClimateIndex, zero: float) -> dict[str, Any]:
    if index.limit is None:
        return {}
    if index.threshold is None:
        raise ConfigError(f"say the threshold in mm: {index.name}: {{threshold: 25}}")
    limit = {index.limit: round(index.threshold + zero, 10)}
    return limit | ({"inclusive": True} if index.inclusive else {})


def _each(window: Any, operator: Any) -> dict[str, Any]:
    return {"window": window, "operator": operator}


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
        more = "threshold: 25, " if index.limit is not None and index.threshold is None else ""
        example = f"{index.name}: {{{more}units: {'degC' if index.day != 'rain' else 'mm/day'}}}"
        yield _name(index.name, index, "year", example)
    for suffix, name in SAME_IN_CDO.items():
        given = ",25" if suffix == "pd" else ""
        yield _name(f"eca_{suffix}", INDICES[name], "run", f"eca_{suffix}{given}")
        if suffix not in ONLY_ECA:
            yield _name(f"etccdi_{suffix}", INDICES[name], "year", f"etccdi_{suffix}")
    for suffix in ("rx1day", "rx5day"):
        yield _name(f"etccdi_{suffix}mon", INDICES[SAME_IN_CDO[suffix]], "month", f"etccdi_{suffix}mon")


def _name(name: str, index: ClimateIndex, window: str, example: str) -> Name:
    def make(value: Any = None) -> Meaning:
        given = value if isinstance(value, Mapping) else {} if value is None else {"threshold": value}
        check_keys(given, PARAMETERS, kind="parameter")
        chosen = _with_threshold(index, given["threshold"]) if "threshold" in given else index
        rest = {key: item for key, item in given.items() if key != "threshold"}
        return index_meaning(chosen, **{"window": window, "name": name, **rest})

    return Name(name, index.summary, make, example, may_take=("threshold",), one_value=True)


def _with_threshold(index: ClimateIndex, value: Any) -> ClimateIndex:
    if index.limit is not None:
        return replace(index, threshold=float(number(value)))
    if index.wet is not None:
        return replace(index, wet=float(number(value)))
    raise ConfigError("it has no threshold")

"""xarray's names of windows in the configuration's own terms: ``resample: MS``, ``groupby: time.month``."""

import re
from collections.abc import Mapping
from typing import Any

from bbflow.operators.windows.readers import MONTHS

GROUPS: Mapping[str, Any] = {
    "time.hour": "clim_hour",
    "time.dayofyear": {"clim_dayofyear": {"by": "number"}},
    "time.month": "clim_month",
    "time.season": "clim_season",
    "time.year": "year",
}
"""What xarray's groupby takes."""
DAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
FREQUENCY = re.compile(r"(\d*)(h|H|D|W|MS|ME|M|QS|QE|Q|YS|YE|Y|AS|A)(?:-([A-Z]{3}))?")
EXAMPLES = ("h", "6h", "D", "5D", "W", "W-SUN", "MS", "QS-DEC", "YS", "YS-OCT", "10YS")


def frequency_window(text: str) -> Any:
    """Return the window of a frequency of pandas and xarray.

    Those that label a span with its end (ME, QE, YE, W) mean the same spans as those that label it with its begin;
    so no bound of them depends on the first step, spans of several units begin where our own do.

    Parameters
    ----------
    text
        Such as ``QS-DEC``.

    Returns
    -------
    str or dict or None
        A name, or a map of one name to its parameters; None if it's no frequency that has a window here.
    """
    found = FREQUENCY.fullmatch(text)
    if found is None:
        return None
    count, unit, anchor = int(found[1] or 1), found[2], found[3]
    if unit in ("h", "H", "D", "MS", "ME", "M"):
        name = {"h": "hour", "D": "day", "M": "month"}[unit.lower() if unit == "H" else unit[0]]
        return None if anchor or count < 1 else name if count == 1 else {f"{name}s": count}
    if unit == "W":
        return _week(anchor or "SUN") if count == 1 else None
    return _anchored(count, unit, anchor)


def _week(last: str) -> Any:
    """Weeks are named after the day that ends them."""
    if last not in DAYS:
        return None
    first = DAYS[(DAYS.index(last) + 1) % len(DAYS)].lower()
    return "week" if first == "mon" else {"week": first}


def _anchored(count: int, unit: str, anchor: str | None) -> Any:
    """Years and quarters; those that are labelled with their end are anchored on their last month."""
    ends = not unit.endswith("S")
    month = (anchor or ("DEC" if ends else "JAN")).lower()
    if month not in MONTHS or count < 1:
        return None
    start = (MONTHS.index(month) + (1 if ends else 0)) % len(MONTHS)
    if unit[0] != "Q":
        years: dict[str, Any] = {} if count == 1 else {"count": count}
        years |= {"start": MONTHS[start]} if start else {}
        return {"year" if count == 1 else "years": years} if years else "year"
    if count > 1:
        return None
    if start % 3 == 2:
        return "season"
    return {"months": {"count": 3} | ({"start": MONTHS[start % 3]} if start % 3 else {})}

"""How near two times are one, and which date a number on a time axis stands for.

Programs write times as numbers of some type, which are rounded: 7 hours after year 730,000 is 06:59:59.999997 in days
of float64. Some add them up, so that they drift, and some restart from times that were kept as float32. So:

- A time may be off by three quarters of the distance between neighbouring numbers of its type (`spacing`), a whole
  number not at all. Where that distance is more than an eighth of the interval, steps can't be told apart: refused.
- Where the stream's interval is a whole number of seconds (but for a millionth of it), its times may have drifted from
  these: by half a second, or by what such steps can come to that are added up (`drift_s`).
- A time that may be a whole second is that second; where it may be off by more, the same goes for the finest of
  `MOMENTS_S` that it can tell apart (`nearest_moment`).
- A first step that lies beside a whole second by more than `BESIDE_S` means it: those after it lie beside theirs.
- A step is later than the one before if it is so by more than `ROUNDED` distances; after a restart by more than float32
  can tell, or a thousandth of the interval, but at most a quarter of it (`restart_margin`).
"""

import math
from datetime import timedelta

import cftime  # type: ignore[import-untyped]

ROUNDED = 2.0
"""By how many distances two numbers may differ that are one, each rounded in a way of its own."""
OFF = 0.75
"""By how many a number may be off: by half a one if it was rounded once."""
COARSE = 1 / 8
"""The part of an interval that a distance may be."""
WHOLE = 1e-6
"""An interval that is a whole number of seconds but for this part of it is meant to be one."""
MOMENTS_S = (1, 10, 60, 300, 600, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 24 * 3600)
"""Moments of a day, by the seconds between them, that a time may stand for."""
BESIDE_S = 0.01
"""By how much the first time of a model that began long before may have drifted."""
MICROSECOND_S = 1e-6
FLOAT32_BITS = 24
FLOATS = ("float", "double", "long double")
"""ADIOS2's types of numbers that are rounded; we keep none in more digits than those of float64."""


def spacing(time: float, type_: str) -> float:
    """Return the distance between a time and its neighbour in the type that a program has written; 0 of whole numbers.

    Parameters
    ----------
    time
        In any units.
    type_
        ADIOS2's name of the type.
    """
    if type_ not in FLOATS or not math.isfinite(time):
        return 0.0
    return _float32_spacing(time) if type_ == "float" else math.ulp(time)


def _float32_spacing(time: float) -> float:
    return math.ldexp(1.0, math.frexp(time)[1] - FLOAT32_BITS)


def beside_us(first: cftime.datetime) -> int:
    """Return by how many microseconds the steps of a stream are meant to lie beside whole seconds, by its first one."""
    off_us = (first.microsecond + 500_000) % 10**6 - 500_000
    return off_us if abs(off_us) > BESIDE_S / MICROSECOND_S else 0


def nearest_moment(date: cftime.datetime, error_s: float, beside_us: int = 0) -> cftime.datetime:
    """Return the moment for which a date stands that may be off by so many seconds; itself if there is none so near.

    Moments lie beside whole seconds by so many microseconds.
    """
    # A number is rounded to the microsecond to become a date: half of one more is no reason to take another.
    error_us = int(error_s / MICROSECOND_S + 0.5)
    if not error_us:
        return date
    moment_us = next((item for item in MOMENTS_S if item >= 2 * error_s), MOMENTS_S[-1]) * 10**6
    of_day_us = ((date.hour * 60 + date.minute) * 60 + date.second) * 10**6 + date.microsecond - beside_us
    off_us = (of_day_us + moment_us // 2) % moment_us - moment_us // 2
    return date - timedelta(microseconds=off_us) if off_us and abs(off_us) <= error_us else date


def drift_s(interval_s: float, steps: int, spacing_s: float) -> float:
    """Return how far times may have drifted that a program adds up; 0 if their interval isn't meant in whole seconds.

    Parameters
    ----------
    interval_s
        Between two steps.
    steps
        How many there were.
    spacing_s
        Between neighbouring numbers.
    """
    whole_s = round(interval_s)
    off_s = abs(interval_s - whole_s)
    if not whole_s or off_s > max(WHOLE * interval_s, ROUNDED * spacing_s):
        return 0.0
    return min(max(steps * spacing_s, min(0.5, interval_s / 1000)), interval_s / 100)


def error_s(interval_s: float | None, steps: int, spacing_s: float) -> float:
    """Return by how many seconds a step's time may be off; the interval is None as long as it isn't known."""
    if not spacing_s or interval_s is None:
        return OFF * spacing_s
    return max(OFF * spacing_s, drift_s(interval_s, steps, spacing_s))


def restart_margin(time: float, interval: float | None, spacing_: float) -> float:
    """Return by how much more than this a step must be later than the last one after a restart, in its time's units."""
    rounded = ROUNDED * spacing_
    if interval is None:
        return rounded
    return max(rounded, min(max(_float32_spacing(time), interval / 1000), interval / 4))

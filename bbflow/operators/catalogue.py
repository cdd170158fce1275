"""All operators that the configuration may name."""

from collections.abc import Mapping

from bbflow.errors import ConfigError, nearest
from bbflow.operators.operator import OperatorKind
from bbflow.operators.own.entry_points import find_own, installed
from bbflow.operators.statistics import (
    around_dates,
    base_period,
    basic,
    comoments,
    ends,
    eofs,
    exceedance,
    extreme_times,
    first_runs,
    harmonics,
    histogram,
    joint_histogram,
    percentiles,
    shape,
    shares,
    spells,
)

MODULES = (basic, ends, extreme_times, percentiles, histogram, exceedance, spells, first_runs, comoments, shape, shares,
           base_period, around_dates, harmonics, joint_histogram, eofs)  # fmt: skip
"""Each has `KINDS`."""

KINDS: Mapping[str, OperatorKind] = {kind.name: kind for module in MODULES for kind in module.KINDS}
"""The built-in ones, by name."""


class OwnNames:
    """The names of all operators, built-in and users'.

    Parameters
    ----------
    *others
        What else counts as one.
    """

    def __init__(self, *others: str) -> None:
        self._others = others

    def __contains__(self, name: object) -> bool:
        return name in KINDS or name in self._others or name in installed()  # last: all packages are looked through


def find_kind(name: str, *others: str) -> OperatorKind:
    """Return the kind of a name; a built-in one comes before a user's.

    Parameters
    ----------
    name
        As the configuration writes it; ``module:name`` is a user's own.
    others
        What else would be valid there, for the message.

    Raises
    ------
    ConfigError
        If there is none, then the message names the nearest, or if the user's own can't be loaded.
    """
    if (kind := KINDS.get(name) or find_own(name)) is None:
        valid = [*KINDS, *installed(), *others]
        parts = name.replace(",", " ").split()
        if len(parts) > 1 and set(parts) <= set(valid):
            raise ConfigError(f"unknown operator {name!r}: write each one by itself, as [{', '.join(parts)}]")
        raise ConfigError(f"unknown operator {name!r}; {nearest(name, valid)}")
    return kind

"""Operators as the configuration writes them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bbflow.errors import ConfigError, nearest
from bbflow.operators.filter import Filter
from bbflow.operators.operator import STATISTICS, Operator

FILTER = "filter"
FILTER_PARAMETERS = ("above", "below", "name")


def parse_operators(items: Sequence[Any]) -> tuple[Operator | Filter, ...]:
    """Make operators of a list such as ``["mean", {"std": {"ddof": 1}}, {"filter": {"above": 310.0}}]``.

    Parameters
    ----------
    items
        Each a name, or a map of one name to its parameters.

    Raises
    ------
    ConfigError
        If a name or parameter is unknown, missing, wrong, or there twice.
    """
    operators = tuple(_parse(item) for item in items)
    names = [operator.name for operator in operators]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"operator {name!r} is there twice: take one out, or give filters a 'name'")
    if not operators:
        raise ConfigError(f"no operators are given; valid are {', '.join(sorted([*STATISTICS, FILTER]))}")
    return operators


def _parse(item: Any) -> Operator | Filter:
    name, parameters = _part(item)
    if name == FILTER:
        return _parse_filter(parameters)
    if name not in STATISTICS:
        raise ConfigError(f"unknown operator {name!r}; {nearest(name, [*STATISTICS, FILTER])}")
    return _with_parameters(STATISTICS[name], parameters)


def _part(item: Any) -> tuple[str, Mapping[str, Any]]:
    if isinstance(item, Mapping) and len(item) == 1:
        ((name, parameters),) = item.items()
        if parameters is None or isinstance(parameters, Mapping):
            return str(name), dict(parameters or {})
        raise ConfigError(f"operator {name!r}: its parameters must be a map, not {parameters!r}")
    if isinstance(item, str):
        return item, {}
    raise ConfigError(f"{item!r} is not an operator: write its name, or a map of one name to its parameters")


def _with_parameters(operator: Operator, parameters: Mapping[str, Any]) -> Operator:
    known = dict(operator.parameters)
    _check_names(operator.name, parameters, known)
    for key, value in parameters.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ConfigError(f"operator {operator.name!r}: {key} is {value!r}, not a whole number from 0")
    return replace(operator, parameters=tuple((known | dict(parameters)).items()))


def _parse_filter(parameters: Mapping[str, Any]) -> Filter:
    _check_names(FILTER, parameters, FILTER_PARAMETERS)
    limits = {key: _limit(key, parameters[key]) for key in ("above", "below") if key in parameters}
    if not limits:
        raise ConfigError("operator 'filter' needs a limit: give it 'above', 'below' or both")
    name = parameters.get("name", "between" if len(limits) == 2 else next(iter(limits)))
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name in STATISTICS:
        raise ConfigError(f"operator 'filter': name {name!r} must be a word of letters, digits and _, and no operator")
    return Filter(name, **limits)


def _limit(key: str, value: Any) -> float:
    # YAML reads 1e5 (without a dot) as a string, so strings that are numbers are taken.
    try:
        number = value if isinstance(value, int) and not isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if isinstance(value, bool) or not abs(number) < float("inf"):
        raise ConfigError(f"operator 'filter': {key} is {value!r}, not a finite number")
    return number


def _check_names(operator: str, parameters: Mapping[str, Any], valid: Any) -> None:
    for key in parameters:
        if not valid:
            raise ConfigError(f"operator {operator!r} takes no parameters, but {key!r} was given")
        if key not in valid:
            raise ConfigError(f"operator {operator!r}: unknown parameter {key!r}; {nearest(str(key), valid)}")

"""Operators as the configuration writes them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bbflow.errors import ConfigError, nearest
from bbflow.operators.catalogue import KINDS, find_kind
from bbflow.operators.filter import Filter
from bbflow.operators.operator import REQUIRED, Operator, OperatorKind, Parameter
from bbflow.operators.readers import flag, number, positive, text

FILTER = "filter"
FILTER_PARAMETERS = ("above", "below", "name")
COMMON = {
    "min_count": Parameter(positive, "points with fewer valid values are missing", None),
    "skipna": Parameter(flag, "if false, points with any missing value are missing", True),
    "name": Parameter(text, "what the result is called", None),
}
"""Parameters that every operator takes."""


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
    operators = tuple(operator for item in items for operator in _parse(item))
    names = [operator.name for operator in operators]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"operator {name!r} is there twice: take one out, or give them a 'name'")
    if not operators:
        raise ConfigError(f"no operators are given; valid are {', '.join(sorted([*KINDS, FILTER]))}")
    return operators


def _parse(item: Any) -> tuple[Operator | Filter, ...]:
    name, parameters = _part(item)
    if name == FILTER:
        return (_parse_filter(parameters),)
    return make_operators(find_kind(name, FILTER), parameters)


def _part(item: Any) -> tuple[str, Mapping[str, Any]]:
    if isinstance(item, Mapping) and len(item) == 1:
        ((name, parameters),) = item.items()
        if parameters is None or isinstance(parameters, Mapping):
            return str(name), dict(parameters or {})
        raise ConfigError(f"operator {name!r}: its parameters must be a map, not {parameters!r}")
    if isinstance(item, str):
        return item, {}
    raise ConfigError(f"{item!r} is not an operator: write its name, or a map of one name to its parameters")


def make_operators(kind: OperatorKind, parameters: Mapping[str, Any]) -> tuple[Operator, ...]:
    """Make a kind's operators of what the configuration says.

    Raises
    ------
    ConfigError
        If a parameter is unknown, missing or wrong.
    """
    own = {name: value for name, value in parameters.items() if name not in COMMON}
    _check_names(kind.name, own, kind.parameters)
    values = {name: _value(kind.name, name, item, own) for name, item in kind.parameters.items()}
    common = {name: _value(kind.name, name, item, parameters) for name, item in COMMON.items()}
    try:
        operators = kind.make(**values)
    except ConfigError as error:
        raise ConfigError(f"operator {kind.name!r}: {error}") from None
    return _with_common(operators, **common)


def _with_common(
    operators: tuple[Operator, ...], min_count: int | None, skipna: bool, name: str | None
) -> tuple[Operator, ...]:
    counted = tuple(replace(item, min_count=min_count, skipna=skipna) for item in operators)
    if name is None:
        return counted
    _check_name("name", name)
    if len(counted) == 1:
        return (replace(counted[0], name=name),)
    return tuple(replace(item, name=f"{name}_{item.name}") for item in counted)


def _value(operator: str, name: str, parameter: Parameter, given: Mapping[str, Any]) -> Any:
    if name not in given:
        if parameter.default is REQUIRED:
            raise ConfigError(f"operator {operator!r} needs {name!r}: {parameter.meaning}")
        return parameter.default
    try:
        return parameter.read(given[name])
    except ConfigError as error:
        raise ConfigError(f"operator {operator!r}: {name}: {error}") from None


def _parse_filter(parameters: Mapping[str, Any]) -> Filter:
    _check_names(FILTER, parameters, FILTER_PARAMETERS)
    limit = Parameter(number, "", None)
    limits = {key: _value(FILTER, key, limit, parameters) for key in ("above", "below") if key in parameters}
    if not limits:
        raise ConfigError("operator 'filter' needs a limit: give it 'above', 'below' or both")
    name = parameters.get("name", "between" if len(limits) == 2 else next(iter(limits)))
    _check_name("operator 'filter': name", name)
    return Filter(name, **limits)


def _check_name(where: str, name: Any) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name in KINDS:
        raise ConfigError(f"{where} {name!r} must be a word of letters, digits and _, and no operator")


def _check_names(operator: str, parameters: Mapping[str, Any], valid: Iterable[str]) -> None:
    known = [*valid, *(() if operator == FILTER else COMMON)]
    for key in parameters:
        if key not in known:
            raise ConfigError(f"operator {operator!r}: unknown parameter {key!r}; {nearest(str(key), known)}")

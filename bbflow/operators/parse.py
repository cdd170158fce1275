"""Operators as the configuration writes them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bbflow.errors import ConfigError
from bbflow.operators.catalogue import KINDS, find_kind
from bbflow.operators.filter import Filter
from bbflow.operators.names.elsewhere import check_elsewhere
from bbflow.operators.names.known import NAMES
from bbflow.operators.operator import Operator, OperatorKind
from bbflow.reading.sections import Parameter, flag, item_parts, number, positive, read_parameters, text

FILTER = "filter"
FILTER_PARAMETERS = {
    "above": Parameter(number, "values greater than this", None),
    "below": Parameter(number, "values less than this", None),
    "name": Parameter(text, "what its rows are called", None),
}
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
        If a name or parameter is unknown, missing, wrong, or given twice.
    """
    made = [(item, operator) for item in items for operator in _parse(item)]
    operators = tuple(operator for _, operator in made)
    known: dict[str, Any] = {}
    for item, operator in made:
        if operator.name in known:
            written = " and ".join(repr(own) for own in (known[operator.name], item))
            raise ConfigError(
                f"operator {operator.name!r} is given twice, by {written}: take one out, or give them a 'name'"
            )
        known[operator.name] = item
    if not operators:
        raise ConfigError(f"no operators are given; valid are {', '.join(sorted([*KINDS, FILTER]))}")
    return operators


def _parse(item: Any) -> tuple[Operator | Filter, ...]:
    name, parameters = item_parts(item, "an operator")
    if name == FILTER:
        return (_parse_filter(parameters),)
    word = name.partition(",")[0].strip()
    if word not in KINDS:
        check_elsewhere(word, "an operator")
    if name in NAMES and name not in KINDS:
        raise ConfigError(f"{name!r} says more than an operator, which is not allowed here: {NAMES[name].summary}")
    return make_operators(find_kind(name, FILTER, *NAMES), parameters)


def make_operators(kind: OperatorKind, parameters: Mapping[str, Any]) -> tuple[Operator, ...]:
    """Make a kind's operators of what the configuration says.

    Raises
    ------
    ConfigError
        If a parameter is unknown, missing or wrong.
    """
    values = read_parameters(f"operator {kind.name!r}", {**kind.parameters, **COMMON}, parameters)
    common = {name: values.pop(name) for name in COMMON}
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


def _parse_filter(parameters: Mapping[str, Any]) -> Filter:
    values = read_parameters(f"operator {FILTER!r}", FILTER_PARAMETERS, parameters)
    limits = {key: value for key, value in values.items() if key != "name" and value is not None}
    if not limits:
        raise ConfigError("operator 'filter' needs a limit: give it 'above', 'below' or both")
    name = values["name"] or ("between" if len(limits) == 2 else next(iter(limits)))
    _check_name("operator 'filter': name", name)
    return Filter(name, **limits)


def _check_name(where: str, name: str) -> None:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name in KINDS:
        raise ConfigError(f"{where} {name!r} must be a word of letters, digits and _, and no operator")

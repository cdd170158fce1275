"""Users' operators: found by entry point or as ``module:name``, and made like any other."""

import inspect
import pickle
from collections.abc import Hashable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.family import Family
from bbflow.operators.operator import Operator, OperatorKind
from bbflow.operators.own.groups import Grouped
from bbflow.operators.own.guard import fails, guarded
from bbflow.operators.own.origin import Origin, check_may_name, origin_of
from bbflow.operators.own.three_functions import NAMES, TAKEN, Functions, has_functions, parameters_of
from bbflow.reading.sections import Parameter, flag, number, positive, text

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "bbflow.operators"
"""Entry points of this group name operators of installed packages."""

ISOLATED = Parameter(flag, "run its code in a process of its own, which it may crash", False)
GROUP = Parameter(positive, "hand this many steps at once to it", None)


@cache
def installed() -> "Mapping[str, EntryPoint]":
    """Return the operators of installed packages, by name."""
    from importlib.metadata import entry_points  # late: it takes as long as a step, and few have operators of their own

    return {item.name: item for item in entry_points(group=ENTRY_POINTS)}


def find_own(name: str) -> OperatorKind | None:
    """Return the kind of a user's operator.

    Parameters
    ----------
    name
        ``module:name``, or that of an entry point of the group ``bbflow.operators``.

    Raises
    ------
    ConfigError
        If it is of that form but can't be loaded, isn't an operator, or stands where no code may be named.
    """
    if ":" in name:
        check_may_name(name)
        return kind_of(name.partition(":")[2].rpartition(".")[2], origin_of(name))
    if (item := installed().get(name)) is None:
        return None
    return kind_of(name, origin_of(f"{item.module}:{item.attr}"))


def kind_of(name: str, origin: Origin) -> OperatorKind:
    """Make a kind of what a user wrote: a kind, a family with `finalize`, or three functions.

    Raises
    ------
    ConfigError
        If it is none of them.
    """
    found = origin.load()
    if isinstance(found, OperatorKind):
        return _guarded_kind(found, origin)
    if _is_family(found):
        return _family_kind(name, origin, found)
    if has_functions(found):
        return _functions_kind(name, origin, found)
    raise ConfigError(
        f"{origin} isn't an operator: it must have the functions {', '.join(NAMES)}, or be an OperatorKind or a Family "
        "with 'finalize'"
    )


def _guarded_kind(kind: OperatorKind, origin: Origin) -> OperatorKind:
    def make(isolated: bool, **values: Any) -> tuple[Operator, ...]:
        try:
            made = kind.make(**values)
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(f"{origin} can't be made: {fails(error)}") from error
        return tuple(_guarded(operator, origin, isolated) for operator in made)

    return replace(kind, make=make, parameters={**kind.parameters, "isolated": ISOLATED})


def _is_family(found: Any) -> bool:
    is_class = isinstance(found, type) and issubclass(found, Family)
    return (is_class or isinstance(found, Family)) and callable(getattr(found, "finalize", None))


def _family_kind(name: str, origin: Origin, found: Any) -> OperatorKind:
    """Return the kind of a family; the parameters of its class are those of the configuration."""
    items = parameters_of(found, 0) if isinstance(found, type) else {}

    def make(isolated: bool, group: int | None, **values: Any) -> tuple[Operator, ...]:
        family = found(**values) if isinstance(found, type) else found
        return (_guarded(_operator(name, found, _grouped(family, group)), origin, isolated),)

    return _kind(name, found, make, items)


def _functions_kind(name: str, origin: Origin, found: Any) -> OperatorKind:
    """Return the kind of three functions; further arguments of `map` and `finalize` are parameters."""
    items = parameters_of(found.map, TAKEN["map"]) | parameters_of(found.finalize, TAKEN["finalize"])

    def make(isolated: bool, group: int | None, **values: Any) -> tuple[Operator, ...]:
        commutes = bool(getattr(found, "commutes", False))
        family = Functions(origin, tuple(sorted(values.items())), commutes)
        return (_guarded(_operator(name, found, _grouped(family, group)), origin, isolated),)

    return _kind(name, found, make, items)


def _grouped(family: Family, group: int | None) -> Family:
    return family if group is None else Grouped(family, group)


def _guarded(operator: Operator, origin: Origin, isolated: bool) -> Operator:
    try:
        return guarded(operator, origin, isolated=isolated)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"{origin} can't be sent to workers ({error}): its functions and classes must stand in the module itself"
        ) from None


def _kind(name: str, found: Any, make: Any, items: Mapping[str, inspect.Parameter]) -> OperatorKind:
    parameters = {key: _parameter(name, item) for key, item in items.items()}
    return OperatorKind(name, _summary(found), make, {**parameters, "isolated": ISOLATED, "group": GROUP}, name)


def _parameter(operator: str, item: inspect.Parameter) -> Parameter:
    if item.default is inspect.Parameter.empty:
        return Parameter(_scalar, "a parameter of its own")
    if not isinstance(item.default, Hashable):
        raise ConfigError(
            f"operator {operator!r}: its parameter {item.name!r} is {item.default!r} by default, which may change: let "
            "it be a number, a text or a tuple"
        )
    readers = {bool: flag, int: number, float: number, str: text}
    return Parameter(readers.get(type(item.default), _scalar), f"by default {item.default!r}", item.default)


def _scalar(value: Any) -> Any:
    if not isinstance(value, bool | int | float | str):
        raise ConfigError(f"{value!r} is not a single value")
    return value


def _summary(found: Any) -> str:
    return (inspect.getdoc(found) or "an operator of your own").strip().partition("\n")[0].rstrip(".")


def _operator(name: str, found: Any, family: Family) -> Operator:
    """Return the operator of a family with `finalize`; its attributes say how the result is described."""
    result = getattr(found, "result", "f8")
    if result is not None and np.dtype(result).kind != "f":
        raise ConfigError(f"operator {name!r}: its result is {result}, but only floats can be missing, if it fails")
    return Operator(
        name,
        family,
        family.finalize,  # type: ignore[attr-defined]
        cell_method=getattr(found, "cell_method", f"point ({name})"),
        long_name=getattr(found, "long_name", name),
        result=result,
        own_units=getattr(found, "units", "{units}"),
        axes=() if (axis := getattr(found, "axis", None)) is None else (axis,),
    )

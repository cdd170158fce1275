"""One item of a list in the configuration: a name, or a map of one name to its parameters, and what these may be."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bbflow.errors import ConfigError
from bbflow.reading.sections import check_keys

REQUIRED = object()
"""Stands for the default of a parameter that has none."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """What the configuration may say of an operator, a transform or a window."""

    read: Callable[[Any], Any]
    """Checks a value of the configuration and gives it in the form that is taken."""
    meaning: str
    """What it does, in a few words."""
    default: Any = REQUIRED
    """Used where the configuration gives none."""


def item_parts(item: Any, what: str) -> tuple[str, Mapping[str, Any]]:
    """Return an item's name and parameters.

    Parameters
    ----------
    item
        As YAML gives it.
    what
        What it should be, with its article, for the message: 'an operator'.

    Raises
    ------
    ConfigError
        If it is neither a name nor such a map.
    """
    if isinstance(item, Mapping) and len(item) == 1:
        ((name, parameters),) = item.items()
        if parameters is None or isinstance(parameters, Mapping):
            return str(name), dict(parameters or {})
        raise ConfigError(f"{what.split()[-1]} {name!r}: its parameters must be a map, not {parameters!r}")
    if isinstance(item, str):
        return item, {}
    raise ConfigError(f"{item!r} is not {what}: write its name, or a map of one name to its parameters")


def read_parameters(where: str, parameters: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of each parameter: what the configuration says, else its default.

    Parameters
    ----------
    where
        Whose they are, for the message, such as "operator 'std'".
    parameters
        The valid ones by name.
    given
        What the configuration says.

    Raises
    ------
    ConfigError
        If one is unknown, missing or wrong.
    """
    check_keys(given, parameters, where, kind="parameter")
    return {name: _value(where, name, parameter, given) for name, parameter in parameters.items()}


def _value(where: str, name: str, parameter: Parameter, given: Mapping[str, Any]) -> Any:
    if name not in given:
        if parameter.default is REQUIRED:
            raise ConfigError(f"{where} needs {name!r}: {parameter.meaning}")
        return parameter.default
    try:
        return parameter.read(given[name])
    except ConfigError as error:
        raise ConfigError(f"{where}: {name}: {error}") from None

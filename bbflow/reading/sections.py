"""Reading what people write: maps into records, and plain values. Whatever is configured is read by one set of rules.

Each reader returns the value or raises a `ConfigError`. A boolean isn't a number, a text that is a number is one (1e5
without a dot is a text in YAML 1.1), and a whole number may be written as 1e6.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar

from bbflow.errors import ConfigError, nearest

T = TypeVar("T")
# A value that fills the screen hides what is wrong with it.
MOST_SHOWN = 80
NOWHERE: Mapping[str, str] = {}
FLAGS = {"yes": True, "on": True, "no": False, "off": False}
REQUIRED = object()
"""Stands for the default of a parameter that has none."""


def read_section(cls: type[T], content: Any, where: str, **readers: Callable[[Any], Any]) -> T:
    """Make a record of a map.

    Parameters
    ----------
    cls
        A dataclass. Its fields are the keys; those without a default must be given.
    content
        What was read; None is an empty map.
    where
        Which section it is, for messages.
    **readers
        Field to what reads its values; a field without one can't be given.

    Raises
    ------
    ConfigError
        If a key is unknown or missing, has no value, or a wrong one; the message names the key.
    """
    given = {} if content is None else content
    check_keys(given, readers, where)
    for item in fields(cls):  # type: ignore[arg-type]
        if item.default is item.default_factory is MISSING and item.name not in given:
            raise ConfigError(f"{where}: the key {item.name!r} is missing")
    return cls(**{key: read_as(readers[key], value, f"{where}: {key}") for key, value in given.items()})


def check_keys(
    content: Any,
    valid: Collection[str],
    where: str = "",
    kind: str = "key",
    *,
    may_be_empty: bool = False,
    elsewhere: Mapping[str, str] = NOWHERE,
) -> None:
    """Check that a map has no other keys than some, and each of them a value: who leaves that out has forgotten it.

    Parameters
    ----------
    content
        What was read.
    valid
        Which keys there are.
    where
        Which section it is, for messages; empty if the caller says so.
    kind
        What keys are called there.
    may_be_empty
        Whether a key without a value is as good as none, as in what programs write.
    elsewhere
        Keys that are looked for here, and where they belong.
    """
    if not isinstance(content, Mapping):
        raise ConfigError(f"{where or repr(content)} must be a map with the keys {', '.join(sorted(valid))}")
    for key in content:
        if key not in valid:
            hint = elsewhere.get(str(key)) or nearest(str(key), valid)
            raise ConfigError(f"{where and where + ': '}unknown {kind} {key!r}; {hint}")
        if content[key] is None and not may_be_empty:
            raise ConfigError(f"{where and where + ': '}the {kind} {key!r} has no value: give it one, or take it out")


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


def read_as(reader: Callable[[Any], T], value: Any, where: str) -> T:
    """Read a value, and name the key in the error if it can't be read."""
    try:
        return reader(value)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    except (TypeError, ValueError):
        raise ConfigError(f"{where}: {value!r} can't be read as {getattr(reader, '__name__', 'its kind')}") from None


def shown(value: Any) -> str:
    """Return a value as messages have it, cut off where it is too long to be read."""
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def number(value: Any) -> float:
    """Read a finite number."""
    try:
        is_finite = not isinstance(value, bool) and math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        is_finite = False
    if not is_finite:
        raise ConfigError(f"{shown(value)} is not a finite number")
    return value if isinstance(value, int) else float(value)


def whole_number(value: Any, least: int = 0) -> int:
    """Read a whole number, from `least` on."""
    try:
        read = number(value)
    except ConfigError:
        read = math.nan
    if math.isnan(read) or read != int(read) or read < least:
        raise ConfigError(f"{shown(value)} is not a whole number from {least}")
    return int(read)


def positive(value: Any) -> int:
    """Read a whole number from 1."""
    return whole_number(value, least=1)


def flag(value: Any) -> bool:
    """Read true or false; also yes, no, on and off, which are booleans in YAML 1.1."""
    read = FLAGS.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(read, bool):
        raise ConfigError(f"{value!r} is neither true nor false")
    return read


def text(value: Any) -> str:
    """Read a text that isn't empty; a number is none, since of 1.10 only 1.1 is left."""
    if not isinstance(value, str) or not value.strip():
        hint = "" if isinstance(value, str | list | tuple | Mapping) else ": quote it"
        raise ConfigError(f"{value!r} is not a text{hint}")
    return value.strip()


def one_of(*names: str) -> Callable[[Any], str]:
    """Return what reads one of some words."""

    def read(value: Any) -> str:
        if value not in names:
            raise ConfigError(f"unknown choice {value!r}; {nearest(str(value), names)}")
        return str(value)

    return read


def as_list(value: Any, where: str) -> list[Any]:
    """Read a list; a single value stands for a list of one."""
    if value is None:
        raise ConfigError(f"{where} must be a list")
    return list(value) if isinstance(value, list | tuple) else [value]


def names_or_all(value: Any) -> tuple[str, ...] | None:
    """Read a list of names; None for all."""
    return None if value in ("all", None) else tuple(map(text, as_list(value, "variables")))

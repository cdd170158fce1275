"""Reading the sections of a configuration: maps into dataclasses, and plain values."""

from dataclasses import fields
from typing import Any, TypeVar

from bbflow.errors import ConfigError, nearest

T = TypeVar("T")


def read_section(cls: type[T], content: Any, where: str, **readers: Any) -> T:
    """Make a dataclass of a map; keys must be its fields, values go through their reader."""
    if content is None:
        return cls()
    check_keys(content, {item.name for item in fields(cls)}, where)  # type: ignore[arg-type]
    given = {key: value for key, value in content.items() if value is not None}
    return cls(**{key: read_as(readers[key], value, f"{where}: {key}") for key, value in given.items()})


def check_keys(content: Any, valid: set[str], where: str) -> None:
    """See that a map has no other keys than some."""
    if not isinstance(content, dict):
        raise ConfigError(f"{where} must be a map with the keys {', '.join(sorted(valid))}")
    for key in content:
        if key not in valid:
            raise ConfigError(f"{where}: unknown key {key!r}; {nearest(str(key), valid)}")


def read_as(reader: Any, value: Any, where: str) -> Any:
    """Read a value, and name the key in the error if it can't be read."""
    try:
        return reader(value)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    except (TypeError, ValueError):
        raise ConfigError(f"{where}: {value!r} can't be read as {reader.__name__}") from None


def read_whole(value: Any, least: int = 1) -> int:
    """Read a whole number, from `least` on."""
    number = int(value)
    if number < least or (isinstance(value, float) and value != number):
        raise ConfigError(f"{value!r} must be a whole number, {least} or more")
    return number


def read_text(value: Any) -> str:
    """Read one text, or a number as text."""
    if isinstance(value, (list, dict)):
        raise ConfigError(f"{value!r} must be one text")
    if isinstance(value, bool | float | None):
        raise ConfigError(f"{value!r} is no text: quote it")
    return str(value)


def read_names(value: Any) -> tuple[str, ...] | None:
    """Read a list of names; None for all."""
    return None if value in ("all", None) else tuple(map(read_text, read_list(value, "variables")))


def read_list(value: Any, where: str) -> list[Any]:
    """Read a list; a single value is one of one."""
    if value is None or isinstance(value, dict):
        raise ConfigError(f"{where} must be a list")
    return list(value) if isinstance(value, list | tuple) else [value]

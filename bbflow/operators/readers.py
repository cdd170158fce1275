"""Reading what the configuration says of operators: each gives the value or raises `ConfigError`."""

from collections.abc import Callable
from typing import Any

from bbflow.errors import ConfigError, nearest

FLAGS = {"yes": True, "on": True, "no": False, "off": False}


def whole_number(value: Any) -> int:
    """Read a whole number from 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"{value!r} is not a whole number from 0")
    return value


def positive(value: Any) -> int:
    """Read a whole number from 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{value!r} is not a whole number from 1")
    return value


def number(value: Any) -> float:
    """Read a finite number; texts that are numbers are taken, as YAML 1.1 has 1e5 without a dot for one."""
    try:
        read = value if isinstance(value, int) and not isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        read = float("nan")
    if isinstance(value, bool) or not abs(read) < float("inf"):
        raise ConfigError(f"{value!r} is not a finite number")
    return read


def flag(value: Any) -> bool:
    """Read true or false; also yes, no, on and off, which are booleans in YAML 1.1."""
    read = FLAGS.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(read, bool):
        raise ConfigError(f"{value!r} is neither true nor false")
    return read


def text(value: Any) -> str:
    """Read a string that isn't empty."""
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{value!r} is not a text" + ("" if isinstance(value, str) else ": quote it"))
    return value.strip()


def one_of(*names: str) -> Callable[[Any], str]:
    """Return what reads one of some words."""

    def read(value: Any) -> str:
        if value not in names:
            raise ConfigError(f"unknown choice {value!r}; {nearest(str(value), names)}")
        return str(value)

    return read

"""Sizes, times, rates and paths as people write and read them."""

import os
import re
from contextlib import suppress
from pathlib import Path

from bbflow.errors import ConfigError

PAGE_BYTES = 4096
MOST_BYTES = (1 << 63) - 1
"""No size is larger: that is where Linux ends, and messages and databases with it."""
_PREFIXES = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def parse_bytes(text: str | int) -> int:
    """Read a size such as ``512MiB``, ``2 GB`` or ``1048576``.

    Parameters
    ----------
    text
        A number with an optional decimal (kB, MB, GB, TB) or binary (KiB, MiB, GiB, TiB) unit.

    Returns
    -------
    int
        Bytes, rounded down.

    Raises
    ------
    ConfigError
        If the text isn't a size, is not positive, or is above `MOST_BYTES`.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?\s*", str(text), re.IGNORECASE)
    if match is None:
        raise ConfigError(f"{text!r} is not a size: write it like 512MiB, 2GB or 1048576")
    number, prefix, binary = match.groups()
    size = float(number) * (1024 if binary else 1000) ** _PREFIXES[prefix.upper()]
    if size < 1:
        raise ConfigError(f"{text!r} is not a size above zero")
    if size > MOST_BYTES:
        raise ConfigError(f"{text!r} is more than 8 EiB, which is more than Linux can count")
    return int(size)


def parse_seconds(value: object) -> float:
    """Read how long something may take.

    Raises
    ------
    ConfigError
        If it isn't a number of seconds, 0 or more.
    """
    with suppress(ValueError):
        seconds = float(str(value))
        if seconds >= 0:
            return seconds
    raise ConfigError(f"{value!r} must be a number of seconds, 0 or more")


def parse_path(value: object) -> Path:
    """Read a path; ``~`` is the home directory, and ``./~`` a directory of that name.

    Raises
    ------
    ConfigError
        If it is none, or there is no such home directory.
    """
    if not isinstance(value, str | Path) or not str(value):
        raise ConfigError(f"{value!r} must be one text, the path of a file or directory")
    expanded = os.path.expanduser(value)
    if str(expanded).startswith("~"):
        raise ConfigError(f"{str(value)!r} begins with a home directory that isn't there; ./~ is a name in this one")
    return Path(expanded)


def parse_capacity(text: str | int) -> int:
    """Read the size of a pool, which is handed out in pages; otherwise as `parse_bytes`.

    Raises
    ------
    ConfigError
        If it is less than one page: perhaps it has lost its unit.
    """
    size = parse_bytes(text)
    if size < PAGE_BYTES:
        raise ConfigError(f"{text!r} is less than a page of {PAGE_BYTES} bytes: write a size with a unit, like 512MiB")
    return size


def format_bytes(size: float) -> str:
    """Write a number of bytes with a binary unit and three digits, such as ``1.50 GiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            # From 999.5 on `.3g` would write 1e+03.
            return f"{size:.0f} {unit}" if unit == "B" or abs(size) >= 999.5 else f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"

"""Delay policies of users and of other packages: found by entry point or as ``module:Name``."""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from bbflow.operators.own.origin import Origin, origin_of

ENTRY_POINTS = "bbflow.policies"
"""Entry points of this group name delay policies of installed packages."""


@cache
def installed() -> Mapping[str, EntryPoint]:
    """Return the policies of installed packages, by name."""
    return {item.name: item for item in entry_points(group=ENTRY_POINTS)}


def find_own(name: str) -> Any:
    """Return what a name stands for: ``module:Name``, or that of an entry point; None if there is no such entry point.

    Raises
    ------
    ConfigError
        If it can't be loaded.
    """
    if ":" in name:
        return origin_of(name).load()
    item = installed().get(name)
    return None if item is None else origin_of(f"{item.module}:{item.attr}").load()


def is_own(kind: type) -> bool:
    """Whether a class is of a module that another process may not find by itself."""
    return kind.__module__ != "__main__" and not kind.__module__.startswith("bbflow")


def remake(origin: Origin, values: Mapping[str, Any]) -> Any:
    """Make an object of a user's class in another process."""
    return origin.load()(**values)

"""All operators that the configuration may name."""

from collections.abc import Mapping

from bbflow.errors import ConfigError, nearest
from bbflow.operators import statistics
from bbflow.operators.operator import OperatorKind

MODULES = (statistics,)
"""Each has `KINDS`."""

KINDS: Mapping[str, OperatorKind] = {kind.name: kind for module in MODULES for kind in module.KINDS}
"""The built-in ones, by name."""


def find_kind(name: str, *others: str) -> OperatorKind:
    """Give the kind of a name.

    Parameters
    ----------
    name
        As the configuration writes it.
    others
        What else would be valid there, for the message.

    Raises
    ------
    ConfigError
        If there is none; the message names the nearest.
    """
    if name not in KINDS:
        raise ConfigError(f"unknown operator {name!r}; {nearest(name, [*KINDS, *others])}")
    return KINDS[name]

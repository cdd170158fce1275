"""Spaces as the configuration writes them."""

from typing import Any

from bbflow.operators.space.space import Space


def parse_space(item: Any) -> Space:
    """Make a space of a name such as ``fldmean``, a map such as ``{box: {lat: [-30, 30]}, mean: [lon]}``, or a list.

    Raises
    ------
    ConfigError
        If a name or key is unknown, or a value wrong.
    """
    raise NotImplementedError

"""Finding a space's points in a grid."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bbflow.operators.family import Array
from bbflow.operators.space.moves import Move
from bbflow.operators.space.placement import Placement


def resolve(
    moves: Sequence[Move],
    dims: tuple[str, ...],
    shape: tuple[int, ...],
    coordinates: Mapping[str, Array],
    variables: Callable[[str], Array],
    attributes: Mapping[str, Mapping[str, Any]],
) -> Placement:
    """Find the points; see `Space.resolve`."""
    raise NotImplementedError

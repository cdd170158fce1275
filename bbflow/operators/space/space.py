"""Spaces: what the configuration says of a variable's points, before the grid is known."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bbflow.operators.family import Array
from bbflow.operators.space.moves import Mask, Move, Reduce
from bbflow.operators.space.placement import Placement
from bbflow.operators.space.resolve import resolve

OWN_WEIGHTS = ("area", "none")
"""Weights that are no variable."""


@dataclass(frozen=True, slots=True)
class Space:
    """Selections of points, and at most one reduction; hashable, equal if they say the same."""

    moves: tuple[Move, ...]
    """In the order in which they apply."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the stream's variables that `resolve` asks for: masks and weights."""
        names: list[str] = []
        for move in self.moves:
            if isinstance(move, Mask):
                names.extend(move.expression.variables)
            elif isinstance(move, Reduce) and move.weights not in (None, *OWN_WEIGHTS):
                names.append(str(move.weights))
        return tuple(dict.fromkeys(names))

    def resolve(
        self,
        dims: tuple[str, ...],
        shape: tuple[int, ...],
        coordinates: Mapping[str, Array],
        variables: Callable[[str], Array],
        attributes: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Placement:
        """Find the points in a variable's grid.

        Parameters
        ----------
        dims, shape
            Names and sizes of the variable's dimensions, one and the same for all steps.
        coordinates
            One-dimensional coordinates by name, and bounds of shape (size, 2) as ``<name>_bnds`` or ``<name>_bounds``.
        variables
            Gives the whole field of one of `variables`, of the shape of the last (or other) dims; raises `ConfigError`
            if there is none.
        attributes
            CF attributes of coordinates by name: units, standard_name and axis tell latitude from longitude; without
            them common names do.

        Raises
        ------
        ConfigError
            If a dimension or coordinate is missing, or nothing is selected.
        """
        return resolve(self.moves, dims, shape, coordinates, variables, attributes or {})

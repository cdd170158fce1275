"""Spaces: which points of a field, or what is computed of them."""

from dataclasses import dataclass

from bbflow.operators.expressions import Expression
from bbflow.operators.space.levels import Levels
from bbflow.operators.space.moves import OF_WHOLE_FIELDS, Mask, Move, Reduce, Remap, Whole

OWN_WEIGHTS = ("area", "thickness", "none")
"""Weights that are no variable."""


@dataclass(frozen=True, slots=True)
class Space:
    """Selections of points, at most one remap, and at most one reduction; hashable, equal if they say the same."""

    moves: tuple[Move, ...]
    """In the order in which they apply."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the stream's variables that `place_space` asks for: masks, weights, and coefficients."""
        names: list[str] = []
        for move in self.moves:
            if isinstance(move, Mask):
                names.extend(move.expression.variables)
            elif isinstance(move, Levels) and move.coordinate is not None:
                names.extend(move.coordinate.of_first_step)
            elif isinstance(move, Reduce) and move.weights not in (None, *OWN_WEIGHTS):
                names.append(str(move.weights).strip("`"))
            elif isinstance(move, Remap) and move.fraction:
                names.append(move.fraction)
        return tuple(dict.fromkeys(names))

    @property
    def of_each_step(self) -> tuple[str, ...]:
        """Names of the stream's variables that each step must have besides those of the field."""
        first = self.moves[0]
        return first.variables if isinstance(first, Levels) else ()

    @property
    def of_columns(self) -> tuple[str, ...]:
        """Names of the stream's variables that say where the points of columns are."""
        first = self.moves[0]
        return first.coordinate.fields if isinstance(first, Levels) and first.coordinate is not None else ()

    @property
    def other(self) -> Expression | None:
        """The second field, of a covariance or correlation."""
        return next((move.other for move in self.moves if isinstance(move, Reduce) and move.other is not None), None)

    @property
    def remap(self) -> Remap | None:
        """The remap, if there is one."""
        return next((move for move in self.moves if isinstance(move, Remap)), None)

    @property
    def takes_means(self) -> bool:
        """Whether there is a remap, and it and what follows make the mean of their results of the mean of some steps.

        That is so as long as the same points are missing in all of them.
        """
        if self.remap is None or any(isinstance(move, Whole) for move in self.moves):
            return False
        return all(map(_is_linear, self.moves[self.moves.index(self.remap) :]))

    @property
    def is_linear(self) -> bool:
        """Whether all of it makes the mean of its results, in float64, of the mean of some steps of a variable.

        That is so as long as the same points are missing in all of them.
        """
        makes = any(isinstance(move, Reduce | Remap) for move in self.moves)
        return makes and all(not isinstance(move, Levels) and _is_linear(move) for move in self.moves)

    @property
    def has_pyramid(self) -> bool:
        """Whether coarser levels of the results are wanted."""
        return self.remap is not None and self.remap.pyramid is not None


def _is_linear(move: Move) -> bool:
    """Whether sums of steps become sums of what it makes of them, where the same points are missing in all."""
    if isinstance(move, Remap):
        return move.method not in OF_WHOLE_FIELDS
    return move.how in ("mean", "sum") if isinstance(move, Reduce) else not isinstance(move, Whole)

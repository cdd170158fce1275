"""Expressions of the variables of one step, such as ``sqrt(u**2 + v**2)`` or ``pr > 1e-5``."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bbflow.operators.family import Array, DType, Steps


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression; hashable and small when pickled. Units are not inferred: the configuration gives them."""

    text: str
    """As it was written."""
    variables: tuple[str, ...] = field(default=())
    """Names of the variables, in the order in which they appear."""
    is_plain: bool = False
    """Whether it is just a variable's name: nothing is to be computed or copied."""

    def dtype(self, dtypes: Mapping[str, DType]) -> DType:
        """Give the type of the values for the variables' types."""
        raise NotImplementedError

    def evaluate(self, steps: Mapping[str, Steps]) -> list[Array]:
        """Give the values for each step, of shape (points,); NaN where any input is missing."""
        raise NotImplementedError


def parse_expression(text: str) -> Expression:
    """Parse an expression.

    Raises
    ------
    ConfigError
        If it isn't one; the message says where, and the nearest function of an unknown one.
    """
    raise NotImplementedError

"""Conditions on whole steps, such as ``max(pr) > 1e-3``: expressions of statistics of their fields."""

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from bbflow.errors import ConfigError
from bbflow.operators.expressions import Expression, parse_expression
from bbflow.operators.steps import Array, Steps

STATISTICS: Mapping[str, Callable[[Array], float]] = {
    "min": lambda values: float(np.min(values)),
    "max": lambda values: float(np.max(values)),
    "mean": lambda values: float(np.mean(values, dtype="f8")),
    "sum": lambda values: float(np.sum(values, dtype="f8")),
}
"""Of the valid values of a field."""
EXTREMES = ("min", "max")


@dataclass(frozen=True, slots=True)
class FieldStatistic:
    """One number of a step's field."""

    how: str
    """One of `STATISTICS`."""
    of: Expression
    """The field."""

    def evaluate(self, values: Callable[[str], Array]) -> float:
        """Compute it; NaN if nothing is valid.

        Parameters
        ----------
        values
            Gives the whole field of a variable, NaN where it is missing.
        """
        fields = {name: Steps([np.ascontiguousarray(values(name)).reshape(-1)]) for name in self.of.variables}
        sizes = {name: steps.values[0].size for name, steps in fields.items()}
        if len(set(sizes.values())) > 1:
            told = ", ".join(f"{name} has {size}" for name, size in sizes.items())
            raise ConfigError(f"{self.how}({self.of.text}): its variables have different sizes: {told} values")
        (found,) = self.of.evaluate(fields)
        valid = found[~np.isnan(found)]
        return STATISTICS[self.how](valid) if len(valid) else float("nan")


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold of a step; what can't be told, since all values are missing, doesn't hold."""

    text: str
    """As it was written."""
    outer: Expression
    """Of the statistics, by their names in `statistics`, and of single values."""
    statistics: Mapping[str, FieldStatistic]
    """By a name that the expression has for each."""

    @property
    def singles(self) -> tuple[str, ...]:
        """Variables of which each step must have a single value."""
        return tuple(name for name in self.outer.variables if name not in self.statistics)

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables of the stream that it needs."""
        inner = (name for item in self.statistics.values() for name in item.of.variables)
        return tuple(dict.fromkeys([*inner, *self.singles]))

    def holds(self, numbers: Mapping[str, float]) -> bool:
        """Return whether it holds, from the numbers that its names stand for."""
        given = {name: Steps([np.array([numbers[name]])]) for name in self.outer.variables}
        value = float(self.outer.evaluate(given)[0][0])
        return value != 0 and not np.isnan(value)


def parse_condition(text: str) -> Condition:
    """Parse a condition.

    Parameters
    ----------
    text
        An expression in which ``min``, ``max``, ``mean`` and ``sum`` of one argument, an expression of fields, are
        one number of the step; other names are single values.

    Raises
    ------
    ConfigError
        If it isn't one, or has no statistic and no single value.
    """
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(f"{text!r} isn't a condition: write one such as 'max(pr) > 1e-3'")
    quoted = re.sub(r"`([^`\"'\\]*)`", r'"\1"', text.strip())
    try:
        tree = ast.parse(quoted, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        parse_expression(text)  # which says where
        raise ConfigError(f"condition {text!r} is not understood") from None
    finder = _Finder()
    outer = ast.unparse(finder.visit(tree))
    return Condition(text.strip(), parse_expression(outer), finder.found)


class _Finder(ast.NodeTransformer):
    """Puts a name in the place of each statistic."""

    def __init__(self) -> None:
        self.found: dict[str, FieldStatistic] = {}

    def visit_Call(self, node: ast.Call) -> ast.AST:
        is_statistic = isinstance(node.func, ast.Name) and node.func.id in STATISTICS and len(node.args) == 1
        if not is_statistic or node.keywords:
            return self.generic_visit(node)
        assert isinstance(node.func, ast.Name)
        own = f"{node.func.id} {len(self.found) + 1}"  # no variable's name that an expression could have otherwise
        self.found[own] = FieldStatistic(node.func.id, parse_expression(ast.unparse(node.args[0])))
        return ast.copy_location(ast.Constant(own), node)

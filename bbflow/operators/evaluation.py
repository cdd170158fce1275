"""Computing a checked expression: what each node of its tree does to arrays and numbers, and to what is missing."""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from bbflow.operators.steps import Array

Value = Array | float
"""A number is as good as an array of it, and doesn't widen float32."""


@dataclass(frozen=True, slots=True)
class ExpressionFunction:
    """A function of expressions."""

    compute: Callable[..., Any]
    """Of arrays and numbers."""
    least: int
    """Fewest arguments."""
    most: int
    """Most arguments."""


def evaluate(tree: ast.expr, values: Mapping[str, Array]) -> Value:
    """Compute a tree.

    Parameters
    ----------
    tree
        Of names, float constants, and the operators and functions below.
    values
        Float arrays of one shape and type, by name; NaN where missing.

    Returns
    -------
    numpy.ndarray or float
        Of the same shape and type; a number if no variable is in it.
    """
    with np.errstate(all="ignore"):
        return _compute(tree, values)


def unlike(tree: ast.expr) -> Iterator[tuple[str, str]]:
    """Yield the pairs of variables that a tree adds, subtracts or compares as they are: they must be of one unit."""
    for node in ast.walk(tree):
        match node:
            case ast.BinOp(left=ast.Name(id=left), op=ast.Add() | ast.Sub(), right=ast.Name(id=right)):
                yield left, right
            case ast.Compare():
                names = [item.id if isinstance(item, ast.Name) else "" for item in (node.left, *node.comparators)]
                yield from ((left, right) for left, right in pairwise(names) if left and right)


def _compute(node: ast.expr, values: Mapping[str, Array]) -> Value:
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.Constant):
        return float(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Compare):
        items = [_compute(item, values) for item in (node.left, *node.comparators)]
        pairs = zip(node.ops, items[:-1], items[1:], strict=True)
        return reduce(_both, [_compare(COMPARISONS[type(op)], left, right) for op, left, right in pairs])
    function, operands = _parts(node)
    return _apply(function, [_compute(item, values) for item in operands])


def _parts(node: ast.expr) -> tuple[Callable[..., Any], Sequence[ast.expr]]:
    match node:
        case ast.BinOp():
            return BINARY[type(node.op)], (node.left, node.right)
        case ast.UnaryOp():
            return UNARY[type(node.op)], (node.operand,)
        case ast.BoolOp():
            logic = _both if isinstance(node.op, ast.And) else _either
            return lambda *items: reduce(logic, items), node.values
        case ast.Call(func=ast.Name(id=name)):
            return FUNCTIONS[name].compute, node.args
    raise AssertionError(f"{type(node).__name__} was not refused")


def _apply(function: Callable[..., Any], operands: Sequence[Value]) -> Value:
    """Numbers alone are computed by NumPy as well, which has no errors; the result is a number again."""
    if any(isinstance(item, np.ndarray) for item in operands):
        return np.asarray(function(*operands))
    return float(function(*(np.float64(item) for item in operands)))


def _missing(*operands: Value) -> Any:
    return reduce(np.logical_or, [np.isnan(item) for item in operands])


def _strict(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Make what is missing stay so: IEEE's pow(nan, 0) is 1, and hypot(nan, inf) is infinite."""

    def strict(*operands: Value) -> Any:
        result = compute(*operands)
        return np.where(_missing(*operands), np.asarray(np.nan, result.dtype), result)

    return strict


def _truth(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Make 1, 0 and NaN of a truth value, in the operands' type."""

    def truth(*operands: Value) -> Any:
        dtype = np.result_type(*operands)
        return np.where(_missing(*operands), np.asarray(np.nan, dtype), compute(*operands).astype(dtype))

    return truth


def _compare(compute: Callable[..., Any], left: Value, right: Value) -> Value:
    """Compare exactly: a float32 with the number as it was written, not with the nearest float32."""
    exact = [item if isinstance(item, np.ndarray) else np.float64(item) for item in (left, right)]
    return _apply(_truth(lambda *_: compute(*exact)), [left, right])


_both = _truth(lambda left, right: np.logical_and(left != 0, right != 0))
_either = _truth(lambda left, right: np.logical_or(left != 0, right != 0))
_negated = _truth(lambda value: np.equal(value, 0))


def _where(condition: Value, chosen: Value, other: Value) -> Any:
    dtype = np.result_type(condition, chosen, other)
    result = np.where(np.not_equal(condition, 0), chosen, other).astype(dtype)
    return np.where(np.isnan(condition), np.asarray(np.nan, dtype), result)


def _isnan(value: Value) -> Any:
    return np.isnan(value).astype(np.result_type(value))


BINARY: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.true_divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: _strict(np.power),
    ast.BitAnd: _both,
    ast.BitOr: _either,
}
UNARY: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.UAdd: np.positive,
    ast.USub: np.negative,
    ast.Not: _negated,
    ast.Invert: _negated,
}
COMPARISONS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}
ANY = 1000
FUNCTIONS: Mapping[str, ExpressionFunction] = {
    "where": ExpressionFunction(_where, 3, 3),
    # Not fmin and fmax, by which what is missing in one operand would be the other one.
    "min": ExpressionFunction(lambda *items: reduce(np.minimum, items), 2, ANY),
    "max": ExpressionFunction(lambda *items: reduce(np.maximum, items), 2, ANY),
    "isnan": ExpressionFunction(_isnan, 1, 1),
    "atan2": ExpressionFunction(np.arctan2, 2, 2),
    "hypot": ExpressionFunction(_strict(np.hypot), 2, 2),
    **{
        name: ExpressionFunction(getattr(np, name), 1, 1)
        for name in ("sqrt", "exp", "log", "log10", "sin", "cos", "tan")
    },
    **{name: ExpressionFunction(getattr(np, name), 1, 1) for name in ("abs", "floor", "ceil")},
}
"""By the names that expressions call them."""

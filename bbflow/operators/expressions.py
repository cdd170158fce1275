"""Expressions of the variables of one step, such as ``sqrt(u**2 + v**2)`` or ``pr > 1e-5``.

They are read with Python's grammar, and every node must be known: nothing is ever handed to Python to run.
"""

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from bbflow.errors import ConfigError, nearest
from bbflow.host.parsing import PARSING
from bbflow.operators import evaluation
from bbflow.operators.kernel_arrays import side_by_side
from bbflow.operators.steps import Array, DType, Steps

MAX_CHARACTERS = 2000
MAX_DEPTH = 100
"""Of brackets, and of operations within operations."""
TILE_POINTS = 1 << 15
"""How many points are computed at once: their intermediate results stay in the cache."""
NAME = re.compile(r"[^\"'`\\#\n]+")
KNOWN = (*evaluation.BINARY, *evaluation.UNARY, *evaluation.COMPARISONS, ast.And, ast.Or, ast.Load)
CONSTANTS = {"pi": float(np.pi), "nan": float("nan")}


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression; hashable and small when pickled.

    Values are numbers: comparisons give 1 and 0. What is missing (NaN or the fill value) makes every result of it
    missing, that of a comparison too. Only ``isnan(x)`` is 1 there, and ``where(c, a, b)`` is missing only where c
    or the chosen one of a and b is. Units are not inferred: the configuration gives those of the result.
    """

    text: str
    """As it was written."""
    variables: tuple[str, ...] = ()
    """Names of the variables, in the order in which they appear."""
    is_plain: bool = False
    """Whether it is just a variable's name: nothing is to be computed or copied."""

    @property
    def tree(self) -> ast.expr:
        """The checked tree of it."""
        return _tree(self.text)

    def dtype(self, dtypes: Mapping[str, DType]) -> DType:
        """Return the type of the values for the variables' types.

        It is float32 if that holds the values of all variables exactly (float32, integers of 8 and 16 bits), else
        float64.
        """
        exact = all(np.can_cast(dtypes[name], np.float32) for name in self.variables)
        return np.dtype("f4" if exact else "f8")

    def evaluate(self, steps: Mapping[str, Steps]) -> list[Array]:
        """Compute it.

        Parameters
        ----------
        steps
            For each variable its values in the same steps, at the same points.

        Returns
        -------
        list
            For each step an array of shape (points,) and of type `dtype`; NaN where a result is missing.
        """
        inputs = {name: steps[name] for name in self.variables}
        dtype = self.dtype({name: item.values[0].dtype for name, item in inputs.items() if len(item.values)})
        blocks = inputs[self.variables[0]].values
        count, points = len(blocks), int(blocks[0].size) if len(blocks) else 0
        most = max(TILE_POINTS // max(points, 1), 1)  # of small blocks some steps at once
        made: list[Array] = []
        for first in range(0, count, most):
            some = slice(first, min(first + most, count))
            own = {name: (side_by_side(item.values[some]), item.fill) for name, item in inputs.items()}
            made.extend(self._evaluate(own, dtype).reshape(some.stop - first, points))
        return made

    def _evaluate(self, inputs: Mapping[str, tuple[Array, Array | None]], dtype: DType) -> Array:
        tree = _tree(self.text)
        points = len(inputs[self.variables[0]][0])
        result = np.empty(points, dtype)
        for first in range(0, points, TILE_POINTS):
            tile = slice(first, first + TILE_POINTS)
            values = {name: _floats(block[tile], fill, dtype) for name, (block, fill) in inputs.items()}
            result[tile] = evaluation.evaluate(tree, values)
        return result


@dataclass(frozen=True, slots=True)
class Paired(Expression):
    """Two expressions at once, as the real and the imaginary part of what they give; missing where either is."""

    parts: tuple[Expression, ...] = ()
    """Both."""

    @property
    def tree(self) -> ast.expr:
        """The tree of the first."""
        return self.parts[0].tree

    def dtype(self, dtypes: Mapping[str, DType]) -> DType:
        """Return complex128."""
        return np.dtype("c16")

    def evaluate(self, steps: Mapping[str, Steps]) -> list[Array]:
        """Compute both; see `Expression.evaluate`."""
        made = []
        for first, second in zip(*(own.evaluate(steps) for own in self.parts), strict=True):
            pair = np.empty(first.shape, "c16")
            pair.real, pair.imag = first, second
            made.append(pair)
        return made


def paired(first: Expression, second: Expression) -> Paired:
    """Return two expressions as one."""
    variables = tuple(dict.fromkeys((*first.variables, *second.variables)))
    return Paired(f"{first.text}, {second.text}", variables, parts=(first, second))


def of_variable(name: str) -> Expression:
    """Return the expression that is a variable itself, whatever its name."""
    return Expression(f"`{name}`", (name,), is_plain=True)


def parse_expression(text: str) -> Expression:
    """Parse an expression.

    Parameters
    ----------
    text
        Variables' names, numbers, ``pi``, ``nan``, ``+ - * / // % **``, comparisons (also ``a < b < c``), ``and or
        not`` or ``& | ~`` (comparisons around these in brackets), and functions (`evaluation.FUNCTIONS`). Names that
        are no Python names stand in backticks or quotes.

    Raises
    ------
    ConfigError
        If it isn't one; the message says where, and the nearest function of an unknown one.
    """
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(f"{text!r} is not an expression: write one such as 'u**2 + v**2'")
    text = text.strip()
    tree = _tree(text)
    variables = tuple(dict.fromkeys(node.id for node in _walk(tree) if isinstance(node, ast.Name)))
    if not variables:
        raise ConfigError(f"expression {text!r} has no variable in it")
    return Expression(text, variables, isinstance(tree, ast.Name))


@lru_cache(maxsize=256)
def _tree(text: str) -> ast.expr:
    """Return the checked tree: names are variables, other constants are floats, calls are of known functions."""
    if len(text) > MAX_CHARACTERS:
        raise ConfigError(f"expression {text[:40]!r}… has {len(text)} characters; the limit is {MAX_CHARACTERS}")
    _check_brackets(text)
    quoted = re.sub(r"`([^`\"'\\]*)`", r'"\1"', text.replace("\n", " "))
    if "\\" in quoted or "#" in quoted or "`" in quoted:
        raise ConfigError(f"expression {text!r}: names in backticks can't have quotes, and nothing may have \\ or #")
    try:
        with PARSING, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(quoted, mode="eval").body
    except SyntaxError as error:
        hint = "; a name with more than letters, digits and _ stands in backticks" if re.search(r"[/.]", text) else ""
        raise _wrong(text, error.offset or 1, f"is not understood{hint}") from None
    except (ValueError, RecursionError, MemoryError):
        raise ConfigError(f"expression {text!r} is not understood") from None
    return _Checker(text).check(tree, 0)


def _check_brackets(text: str) -> None:
    depth = 0
    for place, character in enumerate(text, 1):
        depth += (character == "(") - (character == ")")
        if depth > MAX_DEPTH:
            raise _wrong(text, place, f"is nested deeper than {MAX_DEPTH}")


def _wrong(text: str, place: int, why: str) -> ConfigError:
    rest = text[place - 1 :]
    shown = rest if len(rest) <= 20 else f"{rest[:20]}…"
    return ConfigError(f"expression {text[:80]!r}: {shown!r} (character {place}) {why}")


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes in the order in which they are written."""
    yield node
    # Without the function, whose name is a `Name` as those of variables are.
    children = node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
    for child in children:
        yield from _walk(child)


def _floats(block: Array, fill: Array | None, dtype: DType) -> Array:
    values = block.astype(dtype)
    if fill is not None:
        values[block == fill] = np.nan
    return values


class _Checker:
    """Turns Python's tree into one of known nodes only."""

    def __init__(self, text: str) -> None:
        self._text = text

    def check(self, node: ast.expr, depth: int) -> ast.expr:
        if depth > MAX_DEPTH:
            raise self._wrong(node, f"is nested deeper than {MAX_DEPTH}")
        if isinstance(node, ast.Constant | ast.Name):
            return self._leaf(node)
        if isinstance(node, ast.Call):
            self._check_call(node)
            node.args = [self.check(item, depth + 1) for item in node.args]
            return node
        if not isinstance(node, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Compare):
            raise self._wrong(node, "is not allowed: expressions have variables, numbers, operators and functions")
        self._check_logic(node)
        for name, child in ast.iter_fields(node):
            children = child if isinstance(child, list) else [child]
            checked = [self._part(node, item, depth) for item in children]
            setattr(node, name, checked if isinstance(child, list) else checked[0])
        return node

    def _part(self, node: ast.expr, child: ast.AST, depth: int) -> ast.AST:
        if isinstance(child, ast.expr):
            return self.check(child, depth + 1)
        if not isinstance(child, KNOWN):
            raise self._wrong(node, f"has an operator that is not allowed ({type(child).__name__})")
        return child

    def _leaf(self, node: ast.Constant | ast.Name) -> ast.expr:
        if isinstance(node, ast.Name):
            leaf = ast.Constant(CONSTANTS[node.id]) if node.id in CONSTANTS else node
            return ast.copy_location(leaf, node)
        if isinstance(node.value, str) and NAME.fullmatch(node.value):
            return ast.copy_location(ast.Name(node.value, ast.Load()), node)
        if isinstance(node.value, int | float) and not isinstance(node.value, bool):
            try:
                return ast.copy_location(ast.Constant(float(node.value)), node)
            except OverflowError:
                raise self._wrong(node, "is too large a number") from None
        raise self._wrong(node, "is neither a real number nor a variable's name")

    def _check_call(self, node: ast.Call) -> None:
        if not isinstance(node.func, ast.Name):
            raise self._wrong(node, "is not allowed: only functions can be called")
        name = node.func.id
        if name not in evaluation.FUNCTIONS:
            raise self._wrong(node, f"is an unknown function; {nearest(name, evaluation.FUNCTIONS)}")
        least, most = evaluation.FUNCTIONS[name].least, evaluation.FUNCTIONS[name].most
        if node.keywords or not least <= len(node.args) <= most:
            wanted = str(least) if least == most else f"{least} or more"
            raise self._wrong(node, f"takes {wanted} arguments without names")

    def _check_logic(self, node: ast.expr) -> None:
        """Python's & | ~ bind closer than comparisons: `a > 1 & b > 2` would silently be another thing."""
        mixed = False
        if isinstance(node, ast.Compare):
            mixed = any(_is_logic(item) for item in (node.left, *node.comparators))
        elif isinstance(node, ast.BinOp) and _is_logic(node):
            mixed = _is_number(node.left) or _is_number(node.right)
        if mixed:
            raise self._wrong(node, "mixes & | ~ with comparisons: put each comparison in brackets")

    def _wrong(self, node: ast.expr, why: str) -> ConfigError:
        before = self._text.encode()[: node.col_offset].decode(errors="ignore")  # Python counts bytes
        return _wrong(self._text, len(before) + 1, why)


def _is_logic(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp | ast.UnaryOp) and isinstance(node.op, ast.BitAnd | ast.BitOr | ast.Invert)


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not isinstance(node.value, str)

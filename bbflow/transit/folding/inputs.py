"""What a shard folds: the blocks where they lie, or what an expression and a choice of points make of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from bbflow.operators.blocks import as_blocks
from bbflow.operators.decoding import Encoded, fills_of, is_bare
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.expressions import TILE_POINTS, Expression
from bbflow.operators.filter import Extremes
from bbflow.operators.fold import HasTiles
from bbflow.operators.space.placement import Local
from bbflow.operators.steps import Array, Steps
from bbflow.stream.cf import Encoding


@dataclass(frozen=True, slots=True)
class Inputs:
    """Some steps of one region."""

    numbers: tuple[int, ...]
    """The steps' numbers, oldest first."""
    times: tuple[float, ...]
    """Their times, in the stream's units."""
    encodings: Mapping[str, Encoding]
    """Variable to how its values are written."""
    variables: Mapping[str, tuple[Array, ...]] = field(default_factory=dict)
    """Variable to its values in each step, of shape (points,); none if there are arrays."""
    arrays: tuple[Array, ...] = ()
    """For each step the field's values, of shape (points,), where they were made elsewhere."""
    others: Mapping[str, tuple[Array, ...]] = field(default_factory=dict)
    """The same of the operators' further inputs, by their text."""
    extremes: tuple[Extremes, ...] = ()
    """For each step smallest and largest value of the first variable, where somebody wants to know; none if nobody."""
    bytes: int = 0
    """Bytes of the blocks."""
    weights: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """How much each step counts, by what diagnostics weigh them."""

    @classmethod
    def joined(cls, parts: "Sequence[Inputs]") -> "Inputs | None":
        """Return several parts as one, in their order; None if there are none."""
        if len(parts) < 2:
            return parts[0] if parts else None
        return cls(
            tuple(chain.from_iterable(part.numbers for part in parts)),
            tuple(chain.from_iterable(part.times for part in parts)),
            parts[0].encodings,
            {name: tuple(chain.from_iterable(part.variables[name] for part in parts)) for name in parts[0].variables},
            extremes=tuple(chain.from_iterable(part.extremes for part in parts)),
            bytes=sum(part.bytes for part in parts),
            weights={
                name: tuple(chain.from_iterable(part.weights[name] for part in parts)) for name in parts[0].weights
            },
        )


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Steps that expressions make of variables, tile by tile."""

    of: Expression
    """The field."""
    others: Mapping[str, Expression]
    """Further inputs of the operators."""
    variables: Mapping[str, Steps | Encoded]
    """Their inputs."""

    def part(self, points: slice) -> Steps:
        """Evaluate some of the points."""
        tiles = {name: steps.part(points) for name, steps in self.variables.items()}
        others = {text: evaluate(item, tiles) for text, item in self.others.items()}
        field = evaluate(self.of, tiles)
        return Steps(field.values, field.fill, field.times, field.numbers, others)


def evaluate(expression: Expression, variables: Mapping[str, Steps]) -> Steps:
    """Return an expression's steps; those of a variable itself are not copied."""
    if expression.is_plain:
        return variables[expression.variables[0]]
    like = next(iter(variables.values()))
    return Steps(expression.evaluate(variables), None, like.times, like.numbers)


def open_inputs(inputs: Inputs, diagnostic: Diagnostic, local: Local | None, points: int) -> HasTiles:
    """Return the field's values.

    Parameters
    ----------
    inputs
        Where they come from.
    diagnostic
        What is wanted of them.
    local
        Which points of the blocks, if not all; only if each result depends on these blocks alone.
    points
        How many values a step of the field has.
    """
    order = np.asarray(inputs.times, "f8"), np.asarray(inputs.numbers, "i8")
    if inputs.arrays:
        return Steps(
            inputs.arrays, None, *order, {name: Steps(own, None, *order) for name, own in inputs.others.items()}
        )
    variables = read_variables(inputs)
    if local is None:
        evaluated = Evaluated(diagnostic.of, diagnostic.others, variables)
        plain = diagnostic.of.is_plain and not diagnostic.others
        is_there = plain and all(isinstance(item, Steps) for item in variables.values())
        return evaluated.part(slice(None)) if is_there else evaluated
    others = {text: Steps(_local(local, item, variables), None, *order) for text, item in diagnostic.others.items()}
    return Steps(_local(local, diagnostic.of, variables, averaged=_averages(diagnostic)), None, *order, others)


def _averages(diagnostic: Diagnostic) -> bool:
    """Whether steps may be given as their mean, as often as there are steps."""
    return diagnostic.takes_means and diagnostic.space is not None and diagnostic.space.takes_means


def read_variables(inputs: Inputs) -> dict[str, Steps | Encoded]:
    """Return the steps of each variable, as they lie where that is what is meant."""
    order = np.asarray(inputs.times, "f8"), np.asarray(inputs.numbers, "i8")
    variables: dict[str, Steps | Encoded] = {}
    for name, own in inputs.variables.items():
        encoding, dtype = inputs.encodings[name], own[0].dtype
        values = as_blocks(own, dtype, own[0].size)
        if is_bare(encoding, dtype):
            variables[name] = Steps(values, next(iter(fills_of(encoding, dtype)), None), *order)
        else:
            variables[name] = Encoded(Steps(values, None, *order), encoding)
    return variables


def _local(
    local: Local, expression: Expression, variables: Mapping[str, Steps | Encoded], *, averaged: bool = False
) -> list[Array]:
    """Choose or reduce."""
    values = local.averaged if averaged else local.values
    made = (values(steps) for steps in _evaluated(local, expression, variables))
    return [np.ascontiguousarray(values).reshape(-1) for some in made for values in some]


def _evaluated(local: Local, expression: Expression, variables: Mapping[str, Steps | Encoded]) -> Iterator[Steps]:
    """Yield an expression's values, or what is made of their columns; one step at a time if large ones are computed."""
    needed = (*expression.variables, *(local.column.variables if local.column else ()))
    own = {name: variables[name] for name in dict.fromkeys(needed)}
    count, points = len(next(iter(own.values())).values), next(iter(own.values())).values[0].size
    lie_there = expression.is_plain and all(isinstance(steps, Steps) for steps in own.values())
    most = count if lie_there else max(TILE_POINTS // max(points, 1), 1)
    for first in range(0, count, most):
        some = {name: steps.some(slice(first, first + most)) for name, steps in own.items()}
        field = evaluate(expression, {name: some[name] for name in expression.variables})
        yield field if local.column is None else local.column.apply(field, some)


def partials(inputs: Inputs, diagnostic: Diagnostic, local: Local, *, averages: bool = True) -> Array:
    """Return what the blocks contribute to each step's results.

    Parameters
    ----------
    inputs, diagnostic, local
        As for `open_inputs`.
    averages
        Whether it may be that of the steps' mean, where the diagnostic takes it.

    Returns
    -------
    numpy.ndarray
        Of shape (steps, components, points), or (1, components, points) of the mean.
    """
    averages = averages and _averages(diagnostic)
    found = []
    for steps in _evaluated(local, diagnostic.of, read_variables(inputs)):
        is_all = len(steps.values) == len(inputs.numbers)
        found.append(local.averaged_partial(steps) if averages and is_all else local.partial(steps))
    return np.concatenate(found)


def other_partials(inputs: Inputs, diagnostic: Diagnostic, local: Local) -> dict[str, Array]:
    """Return what the blocks contribute to each step's further inputs, by their text; as `partials` does."""
    variables = read_variables(inputs) if diagnostic.others else {}
    return {
        text: np.concatenate([local.partial(steps) for steps in _evaluated(local, item, variables)])
        for text, item in diagnostic.others.items()
    }


def extremes_of(inputs: Inputs, diagnostic: Diagnostic, local: Local | None) -> list[Extremes]:
    """Return each step's smallest and largest value, where the blocks tell those of what is folded."""
    same = diagnostic.of.is_plain and local is None and not diagnostic.transforms and diagnostic.then is None
    same = same and not any(item.is_packed or item.unsigned is not None for item in inputs.encodings.values())
    return list(inputs.extremes) if same and inputs.extremes else [None] * len(inputs.numbers)

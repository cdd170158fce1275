"""Three functions as a family: what a newcomer writes, kept and merged like any other state."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from bbflow.errors import OperatorError
from bbflow.operators.family import Family, StateField
from bbflow.operators.own.origin import Origin
from bbflow.operators.steps import Array, DType, Steps, Views

NAMES = ("map", "combine", "finalize")
SEEN = StateField("_seen", "?")
"""Whether anything was folded: a user's functions need no identity."""
SAMPLE_STEPS, SAMPLE_POINTS = 2, 3
TAKEN = {"map": 3, "combine": 2, "finalize": 1}
"""How many arguments each takes before its parameters."""


def has_functions(found: Any) -> bool:
    """Whether an object has the three functions."""
    return all(callable(getattr(found, name, None)) for name in NAMES)


@dataclass(frozen=True, slots=True)
class Functions(Family):
    """Keeps what `map` gives, of any names, types and inner shapes.

    The functions are static ones of a class, or those of a module::

        map(values, valid, times, **parameters) -> dict of arrays of shape (inner, points)
        combine(left, right) -> dict of the same
        finalize(state, **parameters) -> array of shape (points,), or (axis, points)

    `values` and `valid` are of shape (steps, points), `times` of shape (steps,), in the stream's units.
    """

    origin: Origin
    """Where they are."""
    parameters: tuple[tuple[str, Any], ...] = ()
    """Names and values that the configuration gave, or their defaults."""
    commutes: bool = False
    """Whether `combine` may get the later state on the left."""

    @property
    def name(self) -> str:
        """Name which functions with which parameters."""
        said = ",".join(f"{name}={value!r}" for name, value in self.parameters)
        return f"{self.origin}({said})"

    def fields(self, dtype: DType) -> tuple[StateField, ...]:
        """Return what `map` gives for a few steps of ones."""
        return (*_fields(self, np.dtype(dtype)), SEEN)

    def clear(self, views: Views) -> None:
        """Nothing seen; the fields' values don't count then."""
        for values in views.values():
            values[...] = 0

    def fold(self, views: Views, steps: Steps) -> None:
        """Map the steps and combine."""
        mapped = self._checked("map", self._map(steps), views)
        seen = np.ones(mapped[SEEN.name].shape, bool)
        for name, values in self.combine(views, mapped | {SEEN.name: seen}).items():
            views[name][...] = values

    def combine(self, left: Views, right: Views) -> dict[str, Array]:
        """Merge two states; of those that nothing was folded into the other is taken."""
        in_left, in_right = left[SEEN.name], right[SEEN.name]
        if not (in_left & in_right).any():
            return {name: np.where(in_right, right[name], values) for name, values in left.items()}
        given = self.origin.load().combine(_own(left), _own(right))
        merged = self._checked("combine", given, left)
        chosen = {
            name: np.where(in_left & in_right, merged[name], np.where(in_right, right[name], left[name]))
            for name in _own(left)
        }
        return chosen | {SEEN.name: in_left | in_right}

    def finalize(self, views: Views) -> Array:
        """Return the result of a state; NaN where nothing was folded."""
        seen = views[SEEN.name]
        finalize = self.origin.load().finalize
        result = np.asarray(finalize(_own(views), **self._taken(finalize, TAKEN["finalize"])))
        if result.shape[-1:] != seen.shape:
            raise OperatorError(f"finalize gave shape {result.shape} where the last axis must be {seen.size} points")
        return result if seen.all() else np.where(seen, result, np.nan)

    def _map(self, steps: Steps) -> Any:
        function = self.origin.load().map
        given = self._taken(function, TAKEN["map"])
        return function(steps.stacked(), steps.valid(), steps.times, **given)

    def _taken(self, function: Any, before: int) -> dict[str, Any]:
        names = parameters_of(function, before)
        return {name: value for name, value in self.parameters if name in names}

    def _checked(self, function: str, given: Any, views: Views) -> dict[str, Array]:
        """Make sure that a function gave the state's fields."""
        expected = _own(views)
        if not isinstance(given, Mapping) or given.keys() != expected.keys():
            said = sorted(given) if isinstance(given, Mapping) else type(given).__name__
            raise OperatorError(f"{function} gave {said}, not a dict of {sorted(expected)}")
        arrays = {name: np.asarray(values) for name, values in given.items()}
        for name, values in arrays.items():
            if values.shape != expected[name].shape:
                raise OperatorError(f"{function} gave {name!r} of shape {values.shape}, not {expected[name].shape}")
            if not np.can_cast(values.dtype, expected[name].dtype, "same_kind"):
                raise OperatorError(f"{function} gave {name!r} of type {values.dtype}, not {expected[name].dtype}")
        return arrays | {SEEN.name: views[SEEN.name]}


def _own(views: Views) -> dict[str, Array]:
    return {name: values for name, values in views.items() if name != SEEN.name}


def parameters_of(function: Any, before: int) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function that the configuration may set, by name.

    Parameters
    ----------
    function
        The user's.
    before
        How many of its arguments are not for the configuration.
    """
    items = list(inspect.signature(function).parameters.values())[before:]
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {item.name: item for item in items if item.kind in kinds}


@lru_cache
def _fields(functions: Functions, dtype: DType) -> tuple[StateField, ...]:
    blocks = [np.ones(SAMPLE_POINTS, dtype)] * SAMPLE_STEPS
    numbers = np.arange(SAMPLE_STEPS)
    given = functions._map(Steps(blocks, None, numbers.astype("f8"), numbers))
    if not isinstance(given, Mapping) or not given:
        raise OperatorError(f"map must give a dict of arrays whose last axis is the points, not {given!r}")
    return tuple(_field(name, np.asarray(values)) for name, values in given.items())


def _field(name: Any, values: Array) -> StateField:
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
        raise OperatorError(f"map gave a field {name!r}: its name must be a word that begins with a letter")
    if values.shape[-1:] != (SAMPLE_POINTS,) or values.dtype.kind not in "biuf":
        raise OperatorError(
            f"map gave {name!r} of shape {values.shape} and type {values.dtype} for {SAMPLE_POINTS} points: the last "
            "axis must be the points, and the type bool, int or float"
        )
    return StateField(name, values.dtype.str, values.shape[:-1])

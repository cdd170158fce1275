"""Diagnostics: what is computed of one field, from the stream's variables to the statistics over windows."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bbflow.operators.expressions import Expression, parse_expression
from bbflow.operators.file_fields import AREA_SHARE, BesideSteps
from bbflow.operators.filter import Filter
from bbflow.operators.frozen import Frozen
from bbflow.operators.operator import Operator
from bbflow.operators.space.space import Space
from bbflow.operators.steps import Array, DType
from bbflow.operators.transforms import Transform
from bbflow.operators.windows.spans import Key
from bbflow.operators.windows.window import Window

VALUE = "value"
"""What `then` calls the values that it gets."""


@dataclass(frozen=True, slots=True)
class Each:
    """An inner statistic: its results are the steps of what follows."""

    window: Window
    """Over which spans."""
    operator: Operator
    """The statistic."""


@dataclass(frozen=True, slots=True)
class Diagnostic(Frozen):
    """A field and its statistics; the parts are applied in the order of the fields below."""

    key: str
    """Its name, unique in the configuration."""
    name: str
    """What its results are called, with the window and the operator."""
    of: Expression
    """Of variables of one step."""
    space: Space | None = None
    """Which points, or what is computed of them."""
    transforms: tuple[Transform, ...] = ()
    """Iterate over the steps in order."""
    each: Each | None = None
    """Makes few steps of many, such as the maximum of each day."""
    then: Expression | None = None
    """Of `value`: of the steps so far, or of what `each` made."""
    operators: tuple[Operator, ...] = ()
    """Statistics, each once."""
    filters: tuple[Filter, ...] = ()
    """What is kept as it is."""
    windows: tuple[Window, ...] = ()
    """Over which spans of time the statistics run."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """CF attributes of the field, such as units, besides those of its variable."""
    skips_absent: bool = False
    """Whether steps that lack its variables are taken as they come."""
    units: str | None = None
    """Units that the variable is taken to have; None if any will do, or the configuration tells them."""
    weights: str = ""
    """How its steps are weighed, of `weighting.WEIGHTS`; empty if all count alike."""
    is_told: bool = True
    """Whether the configuration says that; if not, steps of several lengths are worth a line."""
    fields: Mapping[str, BesideSteps] = field(default_factory=dict)
    """Fields of files, and parts of the date, that its expressions name."""

    @property
    def others(self) -> dict[str, Expression]:
        """Further inputs of the transforms and operators, by their text."""
        of_transforms = (text for item in self.transforms for text in item.inputs)
        of_operators = (text for item in self._all_operators for text in item.inputs)
        return {text: parse_expression(text) for text in (*of_transforms, *of_operators)}

    @property
    def calls_users_code(self) -> bool:
        """Whether any operator is a user's own."""
        return any(item.is_users for item in self._all_operators)

    @property
    def _all_operators(self) -> tuple[Operator, ...]:
        return (*self.operators, self.each.operator) if self.each else self.operators

    def isolated(self) -> "Diagnostic":
        """Return the same diagnostic with users' code in processes of their own; its states stay the same."""
        each = self.each and replace(self.each, operator=self.each.operator.isolated())
        return replace(self, each=each, operators=tuple(item.isolated() for item in self.operators))

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables of the stream that it needs."""
        columns = self.space.of_each_step if self.space else ()
        return tuple(dict.fromkeys([*(name for name in self._of_steps if name not in self.fields), *columns]))

    @property
    def of_variables(self) -> tuple[str, ...]:
        """The variables of the stream that its field is made of."""
        return tuple(name for name in self.of.variables if name not in self.fields)

    @property
    def fields_of_steps(self) -> dict[str, BesideSteps]:
        """Fields of files that go with the variables of a step."""
        return {name: self.fields[name] for name in self._of_steps if name in self.fields}

    @property
    def fields_after(self) -> dict[str, BesideSteps]:
        """Fields of files that go with the values of `then`."""
        names = {*(() if self.then is None else self.then.variables), *self._dates, AREA_SHARE}
        return {name: self.fields[name] for name in names if name in self.fields}

    @property
    def _dates(self) -> tuple[str, ...]:
        return tuple(name for item in self.operators for name in item.family.dates)

    @property
    def _of_steps(self) -> list[str]:
        return [name for item in (self.of, *self.others.values()) for name in item.variables]

    def parts_after(
        self, keys: Mapping[str, Key | None], start: tuple[int, ...], count: tuple[int, ...]
    ) -> dict[str, Array]:
        """Return what `then` needs of files in steps of some spans, in a region; each of shape (points,)."""
        return {name: item.part(keys, start, count) for name, item in self.fields_after.items()}

    @property
    def takes_means(self) -> bool:
        """Whether the first statistic takes the mean of some steps of its field for each of them.

        Then a space may give these where it `takes_means` too.
        """
        operators = (self.each.operator,) if self.each else self.operators
        needs_each = self.transforms or self.filters or self.others or (self.then and not self.each)
        return not needs_each and all(item.takes_means for item in operators)

    @property
    def is_of_means(self) -> bool:
        """Whether the mean of a variable's steps is enough, where the same points are missing in all of them."""
        is_changed = self.each or self.then or self.weights or self.fields
        own = self.takes_means and not is_changed and self.of.is_plain
        return own and self.space is not None and self.space.is_linear

    @property
    def needs_order(self) -> bool:
        """Whether a point's steps must come in their order into one state: two states of it can't be merged anyhow."""
        return bool(self.each or self.transforms) or not all(item.family.commutes for item in self.operators)

    @property
    def inner_windows(self) -> tuple[Window, ...]:
        """Windows of which it needs to know when a span ends, besides those of its results."""
        own = [self.each.window] if self.each else []
        by = [item.window for item in self.fields.values() if item.window is not None]
        return (*own, *(item.window for item in self.transforms if item.window is not None), *by)

    def of_dtype(self, dtypes: Mapping[str, DType]) -> DType:
        """Return the type of the field for those of the stream's variables."""
        return self.of.dtype({**dtypes, **{name: item.dtype for name, item in self.fields.items()}})

    def transformed_dtype(self, dtype: DType) -> DType:
        """Return the type that comes out of the transforms, for the type of the field."""
        return np.dtype("f8") if self.transforms else np.dtype(dtype)

    def outer_dtype(self, dtype: DType) -> DType:
        """Return the type that the statistics fold, for the type that comes out of the transforms."""
        made = self.each.operator.dtype(dtype) if self.each else np.dtype(dtype)
        own = {name: item.dtype for name, item in self.fields.items()}
        return self.then.dtype({VALUE: made, **own}) if self.then else made

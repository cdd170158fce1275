"""Attributes by which numbers are read: what they were first told as counts, and each later change is known.

A reader of files that follow each other decodes each by its own attributes; an analysis folds the numbers of all.
"""

import math
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, NamedTuple

from msgspec import UNSET

from bbflow.stream.attributes import DIMENSIONS, meant
from bbflow.stream.layouts import Layout
from bbflow.stream.records import Step

LATE = frozenset(("units", "formula_terms", DIMENSIONS))
"""Those that hold for what has landed too, if they come after it."""
MEANING = LATE | {
    *("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned"),
    *("valid_min", "valid_max", "valid_range"),
}
"""Attributes of a variable without which its numbers can't be read."""


def tells_meaning(name: str) -> bool:
    """Whether numbers are read by an attribute, which has its variable's name before its own."""
    owner, _, own = name.rpartition("/")
    return bool(owner) and own in MEANING


class MeaningChange(NamedTuple):
    """An attribute that says something else from some step on."""

    step: int
    """The first one of which it does."""
    name: str
    """The attribute's, after its variable's."""
    before: Any
    """What it was; None if there was none."""
    after: Any
    """What it is."""

    @property
    def variable(self) -> str:
        """Whose it is."""
        return self.name.rpartition("/")[0]

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.name} comes with step {self.step}, after steps that have {self.variable}"
        return f"{self.name} is {self.before!r}, but from step {self.step} on {self.after!r}"


class ToldMeanings:
    """Follows these attributes over all nodes; what each piece of news costs depends on what is new in it.

    Parameters
    ----------
    attributes
        Gets what was told first, without what came too late for some steps.
    through
        Step up to which an earlier analysis has used the numbers: what the next one has, they had.
    """

    def __init__(self, attributes: dict[str, Any], through: float = -1) -> None:
        self._attributes, self._through = attributes, through
        self._told: dict[str, dict[str, Any]] = {}
        """Node to what its ranks have told so far."""
        self._layouts: dict[str, Layout] = {}
        self._since: dict[str, int] = {}
        """Variable to the first step that has it."""
        self._values: dict[str, dict[str, dict[str, tuple[int, Any]]]] = {}
        """Variable to its attributes' names to values as text: the first step of which a node has told one, and it."""
        self._changed: dict[str, dict[int, MeaningChange]] = {}
        """Name to what a node has told as a change, by its step."""
        self._changes: dict[str, Mapping[int, MeaningChange]] = {}
        """Name to its changes by their steps, if it has any."""
        self._sorted: list[MeaningChange] | None = []

    def begin(self, node: str, attributes: Mapping[str, Any]) -> None:
        """Take in what held before the steps of a node, or before a rank came to it."""
        told = self._told.setdefault(node, {})
        for name, value in attributes.items():
            if tells_meaning(name) and name not in told:
                told[name] = value
                self._note(MeaningChange(-1, name, None, value))

    def take(self, node: str, step: Step) -> None:
        """Take a step of a node in, and what was told of earlier ones to a node that is lost."""
        if step.layout is not self._layouts.get(node):
            self._layouts[node] = step.layout
            for form in step.layout.forms:
                self._see(form.name, step.number)
        told = self._told.setdefault(node, {})
        for item in step.attributes:
            if item.since is UNSET:
                self._tell(node, step.number, {item.name: meant(item)})
            elif tells_meaning(item.name):
                told[item.name] = meant(item)
                self._note(MeaningChange(min(item.since, step.number), item.name, None, meant(item)))

    def end(self, node: str, number: int, attributes: Mapping[str, Any]) -> None:
        """Take in what was told at the end, after some step."""
        self._tell(node, number + 1, attributes)

    @property
    def changes(self) -> list[MeaningChange]:
        """Those after which a variable's numbers are read in another way than before, in the order of the steps."""
        if self._sorted is None:
            every = (change for changes in self._changes.values() for change in changes.values())
            self._sorted = sorted(every, key=lambda change: change[:2])
        return self._sorted

    def _see(self, variable: str, number: int) -> None:
        number = 0 if 0 <= self._through >= number - 1 else number  # what is told with step 0 comes before any
        if number < self._since.get(variable, math.inf):
            self._since[variable] = number
            for name in self._values.get(variable, ()):
                self._settle(variable, name)

    def _tell(self, node: str, number: int, attributes: Mapping[str, Any]) -> None:
        told = self._told.setdefault(node, {})
        for name, value in attributes.items():
            before = told.get(name)
            if tells_meaning(name) and not _same(before, value):
                told[name] = value
                self._note(MeaningChange(number, name, before, value))

    def _note(self, told: MeaningChange) -> None:
        variable, _, own = told.name.rpartition("/")
        values, as_text = self._values.setdefault(variable, {}).setdefault(own, {}), repr(told.after)
        is_new = as_text not in values or told.step < values[as_text][0]
        if is_new:
            values[as_text] = told.step, told.after
        if told.before is not None and told.step not in self._changed.setdefault(told.name, {}):
            self._changed[told.name][told.step], is_new = told, True
        if is_new:
            self._settle(variable, own)

    def _settle(self, variable: str, own: str) -> None:
        name, values = f"{variable}/{own}", self._values[variable][own].values()
        first, value = min(values, key=itemgetter(0))
        # A node to which a rank has come hears a change as the first that it hears at all.
        found = {step: MeaningChange(step, name, value, after) for step, after in values if step > first}
        found.update(self._changed.get(name, {}))
        if own not in LATE and first > self._since.get(variable, math.inf):
            found[first] = MeaningChange(first, name, None, value)
            self._attributes.pop(name, None)
        else:
            self._attributes[name] = value
        self._changes.pop(name, None)
        self._changes.update({name: found} if found else {})
        self._sorted = None


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) or repr(one) == repr(other)  # NaN is none other than NaN

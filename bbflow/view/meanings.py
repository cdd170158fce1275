"""Attributes by which numbers are read: what they were first told as counts, and each later change is known.

A reader of files that follow each other decodes each by its own attributes; an analysis folds the numbers of all.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from bbflow.reading.wire_types import Attribute
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
    """Follows these attributes over all nodes."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, Any]] = {}
        """Node to what its ranks have told so far."""
        self._layouts: dict[str, Layout] = {}
        self._since: dict[str, int] = {}
        """Variable to the first step that has it."""
        self._events: list[MeaningChange] = []
        self._first: dict[str, Any] = {}
        self._earliest: dict[tuple[str, str], int] = {}
        """Name and value to the first step by which a node has told it: others hear of it with their own first ones."""
        self._put = -1
        """How many were told when they were put into attributes."""

    def begin(self, node: str, base: Mapping[str, Any]) -> None:
        """Take in what was told before the steps of a node."""
        told = {name: value for name, value in base.items() if tells_meaning(name)}
        for name, value in told.items():
            self._note(-1, name, value)
        self._told[node] = {**told, **self._told.get(node, {})}
        self._first = {**told, **self._first}

    def take(self, node: str, step: Step, *, repeats: bool = False) -> None:
        """Take a step of a node in; a rank that comes with it from another node repeats what it has told there."""
        # A node's first one repeats, too, as that of a node does which came back without what it held.
        repeats = repeats or node not in self._layouts
        if step.layout is not self._layouts.get(node):
            self._layouts[node] = step.layout
            for form in step.layout.forms:
                self._since[form.name] = min(step.number, self._since.get(form.name, step.number))
        values = _values(step.attributes)
        if repeats:
            self.begin(node, {name: value for name, value in values.items() if name not in self._told.get(node, {})})
        self._tell(node, step.number, values)

    def end(self, node: str, number: int, attributes: Mapping[str, Any]) -> None:
        """Take in what was told at the end, after some step."""
        self._tell(node, number + 1, attributes)

    def _tell(self, node: str, number: int, attributes: Mapping[str, Any]) -> None:
        told = self._told.setdefault(node, {})
        for name, value in attributes.items():
            if not tells_meaning(name):
                continue
            self._note(number, name, value)
            if not _same(told.get(name), value):
                if told.get(name) is not None or (number > 0 and name.rpartition("/")[2] not in LATE):
                    self._events.append(MeaningChange(number, name, told.get(name), value))
                told[name] = value
                self._first.setdefault(name, value)

    @property
    def changes(self) -> list[MeaningChange]:
        """Those after which a variable's numbers are read in another way than before, in the order of the steps."""
        return sorted(filter(self._is_change, self._events), key=lambda event: event[:2]) if self._events else []

    def _note(self, number: int, name: str, value: Any) -> None:
        told = name, repr(value)
        self._earliest[told] = min(number, self._earliest.get(told, number))

    def _is_change(self, event: MeaningChange) -> bool:
        if event.before is not None:
            return True
        return self._since.get(event.variable, math.inf) < self._earliest[event.name, repr(event.after)]

    def put_into(self, attributes: dict[str, Any]) -> None:
        """Let attributes have what was told first, without what came too late for some steps."""
        known = len(self._first) + len(self._events)
        if known == self._put and not self._events:
            return
        self._put = known
        attributes.update(self._first)
        for event in self.changes:
            if event.before is None:
                attributes.pop(event.name, None)


def _values(attributes: Iterable[Attribute]) -> dict[str, Any]:
    return {item.name: meant(item) for item in attributes}


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) or repr(one) == repr(other)  # NaN is none other than NaN

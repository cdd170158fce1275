"""Patterns: where the blocks of a step lie in the fields, found once for all steps with the same layout."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.space.placement import Placement
from bbflow.stream.records import Layout, Parts
from bbflow.transit.folding.fixed import Fixed
from bbflow.transit.folding.regions import array_shape, check_apart, check_types, forms_by_name, points_of, regions
from bbflow.transit.states.shards import Regions, ShardKey
from bbflow.view.stream import StreamView

KEPT = 16
"""How many patterns are kept: blocks that move come back to where they were, if at all, before long."""

Places = Mapping[str, frozenset[ShardKey]]
"""Diagnostic to where its blocks lie, if their steps must come together."""
Shapes = Mapping[str, tuple[int, ...]]
"""Diagnostic to the shape of its variable, if it has a `space`."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Pattern:
    """Where the blocks of a step lie in the field of each diagnostic."""

    layouts: Mapping[str, Layout]
    """Node name to the layout of what lies there."""
    regions: Mapping[str, Regions]
    """Diagnostic to its regions."""
    places: Places
    """Those of diagnostics whose steps must come together."""
    absent: frozenset[str] = frozenset()
    """Diagnostics whose variables aren't in the step."""
    points: Mapping[str, int] = field(default_factory=dict)
    """Diagnostic to which points of its field are in the step (`points_of`)."""
    shapes: Shapes = field(default_factory=dict)
    """Those of diagnostics that are in the step."""
    fixed: Fixed = field(default_factory=dict)
    """What is held of the first step."""


class LaidStep(NamedTuple):
    """A step of a batch."""

    number: int
    """Its number in the stream."""
    time: float
    """Its time, in the stream's units."""
    pattern: Pattern
    """How it lies."""
    parts: Parts
    """What there is of it on each node."""
    weights: Mapping[str, float]
    """How much it counts, by what diagnostics weigh it."""


def weights_of(steps: Sequence[LaidStep]) -> dict[str, tuple[float, ...]]:
    """Return how much each of some steps counts, by what diagnostics weigh them."""
    return {name: tuple(step.weights[name] for step in steps) for name in steps[0].weights}


def parts_of(view: StreamView, number: int) -> Parts:
    """Return the parts of a step on the nodes that take part."""
    nodes = view.taking_part.items()
    return {name: part for name, node in nodes if (part := node.steps.get(number)) is not None}


class Patterns:
    """Finds where the blocks of a step lie in the field of each diagnostic; keeps what it has found last.

    Parameters
    ----------
    diagnostics
        By key.
    """

    def __init__(self, diagnostics: Mapping[str, Diagnostic]) -> None:
        self._diagnostics = diagnostics
        self.placements: Mapping[str, Placement] = {}
        """Diagnostic to where its field lies, of those that have a `space`."""
        self.fixed: Fixed = {}
        """What is held of the first step; known before the first step is folded."""
        self.given_up: dict[str, str] = {}
        """Diagnostics that can't be had, and why."""
        self._types: dict[str, str] = {}
        """Those of variables, as the first step has them that this analysis has seen."""
        self._known: dict[tuple[object, ...], Pattern] = {}

    def place(self, placements: Mapping[str, Placement]) -> None:
        """Learn where fields lie."""
        self.placements = placements

    def hold(self, fixed: Fixed) -> None:
        """Learn what is held of the first step."""
        self.fixed = fixed

    def give_up(self, key: str, why: str) -> None:
        """Find a diagnostic no more."""
        self.given_up[key] = why

    def of(self, number: int, parts: Parts, *, whole: bool) -> Pattern:
        """Return the pattern of a step.

        Parameters
        ----------
        number, parts
            The step, and its parts.
        whole
            Whether all ranks' parts of it are there.

        Raises
        ------
        ConfigError
            If blocks overlap, can't be folded, or those of an expression's variables don't cover the same regions.
        StreamError
            If a variable has another type than before.
        """
        key = (whole, *((node, part.layout) for node, part in parts.items()))
        pattern = self._known.pop(key, None)
        if pattern is None:
            pattern = self._found(number, {node: part.layout for node, part in parts.items()}, whole=whole)
        self._known[key] = pattern  # at the end: the first one is the one that wasn't needed for longest
        if len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        return pattern

    def _found(self, number: int, layouts: Mapping[str, Layout], *, whole: bool) -> Pattern:
        forms = forms_by_name({node: layout.forms for node, layout in layouts.items()})
        diagnostics = self._diagnostics
        folded = (item.variables for key, item in diagnostics.items() if key not in self.given_up)
        check_types(number, {name for names in folded for name in names}, forms, self._types)
        columns = {key: placement.column for key, placement in self.placements.items()}
        found = {
            key: {} if key in self.given_up else regions(item, forms, columns.get(key), self.fixed)
            for key, item in diagnostics.items()
        }
        if not whole:  # what is joined over all ranks can't be had of some
            found |= {key: {} for key in self.placements}
        # Once for all diagnostics that are of the same blocks.
        for own in {frozenset((key.node, key.start, key.count) for key in own): own for own in found.values()}.values():
            check_apart(number, own)
        # Steps that come in their order, or with those of other ranks.
        bound = [key for key, item in diagnostics.items() if item.needs_order or key in self.placements]
        absent = frozenset(key for key, own in found.items() if not own) if whole else frozenset()
        shapes = {key: array_shape(diagnostics[key], forms, self.fixed) for key in self.placements if found[key]}
        places = {key: frozenset(found[key]) for key in bound if found[key]}
        points = {
            key: points_of(own, array_shape(diagnostics[key], forms, self.fixed))
            for key, own in found.items()
            if own and whole
        }
        return Pattern(layouts, found, places, absent, points, shapes, self.fixed)

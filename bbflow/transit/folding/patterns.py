"""Patterns: what the fold derives from where the blocks of a step lie, once for all steps that lie alike."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bbflow.stream.records import Layout, Step
from bbflow.transit.folding.fixed import Fixed
from bbflow.transit.folding.shards import Regions, ShardKey
from bbflow.view.stream import StreamView

KEPT = 16
"""How many patterns are kept: blocks that move come back to where they were, if at all, before long."""

Parts = Mapping[str, Step]
"""Node name to what lies there of a step."""
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


def parts_of(view: StreamView, number: int) -> Parts:
    """Return what there is of a step on the nodes that take part."""
    parts = ((node, view.step(node, number)) for node in view.taking_part)
    return {node: part for node, part in parts if part is not None}


class Patterns:
    """Keeps the patterns that came last.

    Parameters
    ----------
    derive
        Makes a pattern of a step's number, its layouts, and whether all ranks' parts of it are there.
    """

    def __init__(self, derive: Callable[[int, Mapping[str, Layout], bool], Pattern]) -> None:
        self._derive = derive
        self._known: dict[tuple[object, ...], Pattern] = {}

    def of(self, number: int, parts: Parts, *, whole: bool) -> Pattern:
        """Return the pattern of a step."""
        key = (whole, *((node, part.layout) for node, part in parts.items()))
        pattern = self._known.pop(key, None)
        if pattern is None:
            pattern = self._derive(number, {node: part.layout for node, part in parts.items()}, whole)
        self._known[key] = pattern  # at the end: the first one is the one that wasn't needed for longest
        if len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        return pattern

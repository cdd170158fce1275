"""States that ranks have folded: what they must have for a diagnostic, and how they are read."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from bbflow.errors import StreamError
from bbflow.operators.decoding import is_bare
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.library import FIELDS, TYPES
from bbflow.operators.state import StateLayout
from bbflow.operators.statistics.bins import Bins
from bbflow.operators.statistics.moments import Moments
from bbflow.operators.steps import Array
from bbflow.stream.cf import Encoding
from bbflow.stream.folded import COUNTS, WIDTHS, folded_of, state_places
from bbflow.stream.records import BlockForm
from bbflow.transit.folding.slots import OUTER
from bbflow.transit.folding.state_layouts import state_layout_of


def is_plain(diagnostic: Diagnostic) -> bool:
    """Whether it is folded of a variable's own blocks, as they lie."""
    bare = not (diagnostic.transforms or diagnostic.each or diagnostic.then)
    return bare and diagnostic.of.is_plain and diagnostic.space is None and not diagnostic.others


def kept_of(diagnostic: Diagnostic, form: BlockForm, encoding: Encoding) -> tuple[int, tuple[float, ...]] | None:
    """Return which accumulators ranks' states must have for a diagnostic, and the edges of its histogram.

    None if ranks can't fold such blocks.
    """
    if form.spilled or form.is_single or form.stride > 1 or form.dtype not in TYPES:
        return None
    if diagnostic.filters or not is_plain(diagnostic):
        return None
    families = state_layout_of(diagnostic, OUTER, form.dtype, form.count).families
    moments = [own for own in families if isinstance(own, Moments) and not own.is_weighted]
    bins = [own for own in families if isinstance(own, Bins)]
    if len(moments) + len(bins) < len(families) or len(bins) > 1 or not is_bare(encoding, form.dtype):
        return None
    needed = {name for own in moments for name in own.needed} | {"count"}
    return sum(1 << FIELDS.index(name) for name in needed), bins[0].edges if bins else ()


def views_of(
    diagnostic: Diagnostic, layout: StateLayout, form: BlockForm, buffer: Any, offset: int
) -> Mapping[str, Mapping[str, Array]]:
    """Return the fields of a state as a layout has them, by family and name.

    Parameters
    ----------
    diagnostic, layout
        What is computed, and what must be there for it.
    form, buffer, offset
        What the state has, and where it is.

    Raises
    ------
    StreamError
        If it lacks something.
    """
    points, found = prod(form.count), dict[str, dict[str, Array]]()
    places, _ = state_places(form.folded, form.dtype.itemsize, points)
    for family in layout.families:
        if isinstance(family, Bins):
            shape = (len(family.edges) + 1, points)
            if folded_of(0, family.edges) != form.folded & ~((1 << len(FIELDS)) - 1):
                raise StreamError(lacking(diagnostic, form, ["a histogram with these edges"]))
            found[family.name] = {COUNTS: np.ndarray(shape, "i4", buffer, offset + places[COUNTS])}
            continue
        fields = [item.name for item in family.fields(form.dtype)]
        if absent := [name for name in fields if name not in places]:
            raise StreamError(lacking(diagnostic, form, absent))
        types = {"count": "i4", **dict.fromkeys(set(WIDTHS) - {"count"}, "f8")}
        found[family.name] = {
            name: np.ndarray((points,), types.get(name, form.dtype), buffer, offset + places[name]) for name in fields
        }
    return found


def lacking(diagnostic: Diagnostic, form: BlockForm, what: list[str]) -> str:
    """Return the message about a state that lacks something."""
    return (
        f"{diagnostic.name}: ranks have folded {form.name} by an earlier analysis' configuration, without what "
        f"this one's operators are made of ({', '.join(what)}): let the operators be as they were, or start the "
        "program again"
    )

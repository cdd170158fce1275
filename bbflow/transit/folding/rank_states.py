"""What the kernel and ranks can fold as it lies, and what ranks' states must have for a diagnostic."""

from bbflow.operators.decoding import is_bare
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.library import FIELDS, TYPES
from bbflow.operators.statistics.bins import Bins
from bbflow.operators.statistics.moments import Moments
from bbflow.stream.cf import Encoding
from bbflow.stream.records import BlockForm
from bbflow.transit.folding.slots import OUTER
from bbflow.transit.folding.state_layouts import state_layout_of


def is_plain(diagnostic: Diagnostic) -> bool:
    """Whether it is folded of a variable's own blocks, as they lie."""
    bare = not (diagnostic.transforms or diagnostic.each or diagnostic.then)
    return bare and diagnostic.of.is_plain and diagnostic.space is None and not diagnostic.others


def is_whole(form: BlockForm) -> bool:
    """Whether a block lies in the pool, one value beside the next, of a type that the kernel folds."""
    return not (form.spilled or form.is_single or form.stride > 1) and form.dtype in TYPES


def kept_of(diagnostic: Diagnostic, form: BlockForm, encoding: Encoding) -> tuple[int, tuple[float, ...]] | None:
    """Return which accumulators ranks' states must have for a diagnostic, and the edges of its histogram.

    None if ranks can't fold such blocks.
    """
    if diagnostic.filters or not is_plain(diagnostic) or not is_whole(form):
        return None
    families = state_layout_of(diagnostic, OUTER, form.dtype, form.count).families
    moments = [own for own in families if isinstance(own, Moments) and not own.is_weighted]
    bins = [own for own in families if isinstance(own, Bins)]
    if len(moments) + len(bins) < len(families) or len(bins) > 1 or not is_bare(encoding, form.dtype):
        return None
    needed = {name for own in moments for name in own.needed} | {"count"}
    return sum(1 << FIELDS.index(name) for name in needed), bins[0].edges if bins else ()


def lacking(diagnostic: Diagnostic, form: BlockForm, what: list[str]) -> str:
    """Return the message about a state that lacks something."""
    return (
        f"{diagnostic.name}: ranks have folded {form.name} by an earlier analysis' configuration, without what "
        f"this one's operators are made of ({', '.join(what)}): let the operators be as they were, or start the "
        "program again"
    )

"""What the states of an ensemble's open times come to, before there are any."""

from collections.abc import Iterator, Mapping

from bbflow.ensemble.common_grid import CommonGrid, GridField
from bbflow.ensemble.ensemble_settings import STEP, EnsembleAnalysis
from bbflow.ensemble.folding import WindowStates, states_of
from bbflow.ensemble.scoring import KeptMembers
from bbflow.operators.statistics.sketch import Sketch
from bbflow.operators.windows.spans import Run
from bbflow.units import format_bytes


def states_for(analysis: EnsembleAnalysis, sizes: Mapping[str, tuple[int, str]]) -> dict[str, WindowStates]:
    """Lay out the states of each window's moments.

    Parameters
    ----------
    analysis
        The ensemble's configuration.
    sizes
        Field's name to its points, after its `space`, and NumPy's name of its type; what `each` makes is float64.
    """
    fields = {
        name: GridField(dims=("point",), shape=(points,), dtype=own, attributes={})
        for field in analysis.fields
        for points, dtype in (sizes[field.name],)
        for own in ("f8" if field.inner.name != STEP else dtype,)
        for name in (field.result, *field.others.values())
    }
    return states_of(analysis, CommonGrid(member="", units="1", calendar="none", fields=fields, coordinates={}))


def tell_room(analysis: EnsembleAnalysis, sizes: Mapping[str, tuple[int, str]], times: int | None) -> Iterator[str]:
    """Yield what members times times come to, and what makes that less.

    Parameters
    ----------
    analysis, sizes
        As `states_for` has them.
    times
        Times of a member's run that are open at once; None if that isn't known.
    """
    states, own = states_for(analysis, sizes).values(), analysis.ensemble
    starts, members, capacity = max(len(own.starts), 1), len(own.members), own.states.capacity
    each = " and ".join(f"{format_bytes(item.nbytes)} for each {item.window.name}" for item in states)
    from_starts = f" from each of {starts} starts" if starts > 1 else ""
    yield f"the states across {members} members take {each}{from_starts}"
    over_runs = starts * sum(item.nbytes for item in states if isinstance(item.window.spans, Run))
    at_once = starts * sum(item.nbytes for item in states) - over_runs
    kept = f"states: capacity ({format_bytes(capacity)})"
    if times is None:
        if at_once:
            yield (
                f"{max(capacity - over_runs, 0) // at_once} open times{from_starts} fit into {kept}, more go to "
                f"disk, in the output: in waves all are open until the last wave; {_less(analysis)}"
            )
        return
    total = at_once * times + over_runs
    given = starts * times * members * 8 * sum(sizes[field.name][0] for field in analysis.fields)
    yield (
        f"up to {format_bytes(total)} in all for {times} times{from_starts} that are open at once, while the members' "
        f"fields would take {format_bytes(given)} as float64"
    )
    if total > capacity:
        yield f"{format_bytes(total - capacity)} of it go to disk, in the output, beyond {kept}; {_less(analysis)}"


def _less(analysis: EnsembleAnalysis) -> str:
    """Return which of the configuration's choices would make the states smaller."""
    families = [family for field in analysis.fields for item in field.keeping for family in item.families]
    ways = ["windows first (each)"] if any(field.inner.name == STEP for field in analysis.fields) else []
    ways.append("a coarser grid (space)")
    if any(isinstance(family, Sketch) for family in families):
        ways.append("fewer or coarser percentiles (error)")
    if any(isinstance(family, KeptMembers) for family in families):
        ways.append("scores with quantiles: 100, or without the CRPS (crps: false)")
    return f"less is needed with {', '.join(ways)}"

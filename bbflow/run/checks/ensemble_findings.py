"""What an ensemble needs, said before it is up."""

from collections.abc import Iterator, Sequence

from bbflow.ensemble.ensemble_settings import EnsembleAnalysis
from bbflow.ensemble.reference import check_references
from bbflow.ensemble.state_sizes import tell_room
from bbflow.errors import BbflowError
from bbflow.run.checks.finding import FINE, WRONG, Finding
from bbflow.transit.states.footprint import Footprint

MILLION = 10**6


def check_ensemble(
    analysis: EnsembleAnalysis, like: Sequence[Footprint] | None, times: int | None
) -> Iterator[Finding]:
    """Check that references are there, and say what the states of open times come to.

    Parameters
    ----------
    analysis
        The ensemble's configuration.
    like
        What a member's own analysis keeps of each field; None if the fields aren't known.
    times
        Times of a member's run that are open at once; None if that isn't known.
    """
    try:
        check_references(analysis)
    except BbflowError as error:
        yield Finding(WRONG, "scores", str(error))
    names = [field.name for field in analysis.fields]
    sizes = dict.fromkeys(names, (MILLION, "f4"))
    if like is not None:
        sizes = {item.diagnostic: (item.points, item.dtype.str) for item in like}
    if {*names} - {*sizes}:
        return  # what is wrong with these is said
    each = "" if like is not None else "for each million points (of float32) "
    try:
        for text in tell_room(analysis, sizes, times):
            yield Finding(FINE, "ensemble", each + text)
    except BbflowError as error:
        yield Finding(WRONG, "ensemble", str(error))

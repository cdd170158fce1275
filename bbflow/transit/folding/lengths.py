"""How long steps are: until the next one that counts, and whether that matters."""

from collections.abc import Iterable

from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.statistics.weighting import is_length_worth_a_word
from bbflow.operators.windows.calendars import Clock
from bbflow.transit.folding.timeline import Passed
from bbflow.view.times import Parts, StepTimes


def next_time(
    later: Iterable[tuple[float | None, Parts]], passed: Passed, times: StepTimes, clock: Clock
) -> float | None:
    """Return the time of the next step that will count, as it will be settled; None if none is there.

    Parameters
    ----------
    later
        Of each step that comes, what tells its time, and what there is of it.
    passed
        What has passed before them.
    times, clock
        How times are read.
    """
    for time, parts in later:
        date = None if time is None else clock.find_date(time)
        if time is not None and date is not None:
            spacing = times.spacing(time, parts)
            time, _ = clock.settled(time, date, passed.error_s(time, spacing, clock.unit_s), passed.first)
            if not passed.is_late(time, spacing):
                return time
            passed = passed.without(time, spacing)
    return None


def taken_alike(passed: Passed, diagnostics: Iterable[Diagnostic]) -> list[str]:
    """Return the statistics that take steps of several lengths alike without being told to, in words."""
    names = [
        f"{item.name} ({', '.join(own)})"
        for item in diagnostics
        if not item.is_told and (own := [op.name for op in item.operators if is_length_worth_a_word(op)])
    ]
    if not passed.differ or not names:
        return []
    return [
        f"the steps are from {passed.shortest:g} to {passed.longest:g} long, in the units of their time, but each "
        f"counts alike in {', '.join(names)}: set weights: time to weigh them by their length, or weights: steps"
    ]

"""How long steps are: each until the next one that counts, unless it has bounds."""

from collections.abc import Iterable

from bbflow.errors import ConfigError
from bbflow.operators.diagnostic import Diagnostic
from bbflow.operators.statistics.weighting import is_length_worth_a_word
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.records import Parts
from bbflow.transit.spans.timeline import Passed
from bbflow.view.times import StepTimes


def next_time(
    later: Iterable[tuple[float | None, Parts]], passed: Passed, times: StepTimes, clock: Clock
) -> float | None:
    """Return the time of the next step that will count, as it will be settled; None if none is there.

    Parameters
    ----------
    later
        For each step that comes, what tells its time, and its parts.
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


def check_guessed(before: Passed, told: str) -> None:
    """Check that the length of the last step of a run can be what it was taken for, that of the one before.

    Parameters
    ----------
    before
        What has passed by that step.
    told
        What names the run.

    Raises
    ------
    ConfigError
        If its steps are of several lengths: the true one would change sums in which the step is already.
    """
    if before.differ:
        raise ConfigError(
            f"weights: time: {told} can't be continued: its steps are from {before.shortest:g} to {before.longest:g} "
            f"long, and no bounds tell that of the last one: let the program write the bounds of its time in all jobs"
        )


def check_joint(before: Passed, after: Passed) -> None:
    """Check that the last step of a run before is as long as it was taken for, once the next one's first step tells it.

    Parameters
    ----------
    before, after
        What has passed by the last step of the run before, and by the first one of the run that continues it.

    Raises
    ------
    ConfigError
        If it isn't.
    """
    taken = before.length or before.interval
    if taken is not None and after.length is not None and abs(after.length - taken) > after.tolerance:
        raise ConfigError(
            f"weights: time: the last step of the run before counts {taken:g}, but this run's first one comes "
            f"{after.length:g} after it, which changes sums that it is in already: let the program write the bounds of "
            "its time in all jobs, or begin again without 'continue'"
        )

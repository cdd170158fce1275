"""When the next I/O phase is expected: by the medians of past periods, or pauses, and durations."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from bbflow.phases.phase import Phase, Prediction

LEAST_PHASES = 3
NEWEST = 16
"""Only this many of the newest phases count: applications change their rhythm."""
LEAST_TOLERANCE_S = 0.02


@dataclass(frozen=True, slots=True)
class Rhythm:
    """What recurs: from the beginning of a phase to the next one's, or from its end."""

    origin_s: float
    """Where the newest interval begins, in seconds since the epoch."""
    interval_s: float
    """Median interval."""
    spread_s: float
    """Of the intervals: median absolute deviation, scaled to a standard deviation."""


def predict(past: Sequence[Phase], now_s: float) -> Prediction | None:
    """Predict the next phase of one application.

    Either phases begin at regular times, or the application computes for a regular time after each: then a phase
    that others made longer shifts all later ones. Whichever intervals have varied less count. Their median is
    taken; their spread is the median absolute deviation, scaled to a standard deviation by 1.4826 (Rousseeuw and
    Croux, 1993). The confidence is ``(1 - 4 spread / period) * (1 - 1 / intervals)``, not below 0: an irregular
    rhythm and a short past both lower it.

    Parameters
    ----------
    past
        Phases, ended or lasting.
    now_s
        Seconds since the epoch.

    Returns
    -------
    Prediction or None
        None with fewer than three phases.
    """
    phases = sorted(past, key=lambda phase: phase.began_s)[-NEWEST:]
    if len(phases) < LEAST_PHASES:
        return None
    durations = [phase.duration_s for phase in phases if phase.duration_s is not None]
    beginnings = beginnings_of(phases)
    period_s, rhythm = beginnings.interval_s, beginnings
    pauses = pauses_of(phases)
    if pauses is not None and pauses.spread_s < beginnings.spread_s:
        period_s, rhythm = pauses.interval_s + median(durations), pauses
    if period_s <= 0:
        return None
    tolerance_s = max(2 * rhythm.spread_s, LEAST_TOLERANCE_S)
    first_s = rhythm.origin_s + rhythm.interval_s
    missed = max(math.ceil((now_s - tolerance_s - first_s) / period_s), 0)
    confidence = max(1 - 4 * rhythm.spread_s / period_s, 0.0) * (1 - 1 / (len(phases) - 1))
    return Prediction(
        begins_s=first_s + missed * period_s,
        duration_s=median(durations) if durations else period_s,
        confidence=confidence / (missed + 1),
        tolerance_s=tolerance_s,
    )


def beginnings_of(phases: Sequence[Phase]) -> Rhythm:
    """Return the rhythm in which phases begin, sorted as they are."""
    intervals = [second.began_s - first.began_s for first, second in pairwise(phases)]
    return _rhythm(phases[-1].began_s, intervals)


def pauses_of(phases: Sequence[Phase]) -> Rhythm | None:
    """Return the rhythm of the pauses between phases, in their order; None if one of them lasts, or they overlap."""
    ends = [phase.ended_s for phase in phases if phase.ended_s is not None]
    pauses = [second.began_s - end_s for end_s, second in zip(ends, phases[1:], strict=False)]
    if len(ends) < len(phases) or min(pauses) < 0:
        return None
    return _rhythm(ends[-1], pauses)


def _rhythm(origin_s: float, intervals: Sequence[float]) -> Rhythm:
    interval_s = median(intervals)
    return Rhythm(origin_s, interval_s, 1.4826 * median(abs(interval - interval_s) for interval in intervals))

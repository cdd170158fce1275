"""When the next I/O phase is expected: period and duration by the medians of the past ones."""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from bbflow.phases.phase import Phase, Prediction

LEAST_PHASES = 3
NEWEST = 16
"""Only so many of the newest phases count: applications change their rhythm."""
LEAST_TOLERANCE_S = 0.02


def predict(past: Sequence[Phase], now_s: float) -> Prediction | None:
    """Predict the next phase of one application.

    The period is the median interval between beginnings; its spread is the median absolute deviation, scaled
    to a standard deviation by 1.4826 (Rousseeuw and Croux, 1993). The confidence is ``(1 - 4 spread / period)
    * (1 - 1 / intervals)``, not below 0: an irregular rhythm and a short past both lower it.

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
    intervals = [second.began_s - first.began_s for first, second in pairwise(phases)]
    period_s = median(intervals)
    if period_s <= 0:
        return None
    spread_s = 1.4826 * median(abs(interval - period_s) for interval in intervals)
    tolerance_s = max(2 * spread_s, LEAST_TOLERANCE_S)
    since_s = now_s - tolerance_s - phases[-1].began_s
    periods = max(math.ceil(since_s / period_s), 1)
    confidence = max(1 - 4 * spread_s / period_s, 0.0) * (1 - 1 / len(intervals))
    durations = [phase.duration_s for phase in phases if phase.duration_s is not None]
    return Prediction(
        begins_s=phases[-1].began_s + periods * period_s,
        duration_s=median(durations) if durations else period_s,
        confidence=confidence / periods,
        tolerance_s=tolerance_s,
    )

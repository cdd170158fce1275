"""How much slower an application's I/O phase becomes by our transfers: a model, fitted from observed phases.

The model is a link or server of capacity C that is shared: while transfers take r bytes a second of it, the
application has C - r left, and a phase that lasts T alone lasts D = T C / (C - r). So 1 - T/D = r / C, a line
through the origin. Eley (section IV) leaves such a model as future work.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

ALONE_SHARE = 0.02
"""A phase counts as undisturbed if transfers ran at less than this share of their highest rate."""
LEAST_LOSS = 0.02
"""A phase that is longer by less than this may be so by chance."""
LEAST_PHASES = 2
"""Of each kind, alone and disturbed, for a fit."""


@dataclass(frozen=True, slots=True)
class PhaseSample:
    """What was seen of one phase."""

    duration_s: float
    """How long it lasted."""
    transferred_bytes: int
    """What we transferred meanwhile."""

    @property
    def bytes_per_s(self) -> float:
        """Our mean rate in it."""
        return self.transferred_bytes / self.duration_s


@dataclass(frozen=True, slots=True)
class Interference:
    """Predicts the slowdown of an application by our rate."""

    capacity_bytes_per_s: float
    """What the shared part can carry."""

    def slowdown(self, bytes_per_s: float) -> float:
        """Return D/T - 1 = r / (C - r) at a rate r of ours; infinite from the capacity on."""
        rest = self.capacity_bytes_per_s - bytes_per_s
        return bytes_per_s / rest if rest > 0 else math.inf

    def pace(self, limit: float) -> float:
        """Return the rate, in bytes a second, at which the slowdown just reaches a limit: C L / (1 + L)."""
        return self.capacity_bytes_per_s * limit / (1 + limit)


def fit_interference(samples: Sequence[PhaseSample]) -> Interference | None:
    """Fit the capacity C by least squares of 1 - T/D = r / C; T is the median of undisturbed phases.

    A loss (1 - T/D) can't be told from noise below what the undisturbed phases differ among themselves, nor below
    `LEAST_LOSS`. So a capacity is never infinite: it is at most what such a loss would mean.

    Parameters
    ----------
    samples
        Phases of one application that move about the same volume.

    Returns
    -------
    Interference or None
        None if there are too few phases of either kind.
    """
    usable = [sample for sample in samples if sample.duration_s > 0]
    highest = max((sample.bytes_per_s for sample in usable), default=0.0)
    alone = [sample.duration_s for sample in usable if sample.bytes_per_s <= ALONE_SHARE * highest]
    disturbed = [sample for sample in usable if sample.bytes_per_s > ALONE_SHARE * highest]
    if min(len(alone), len(disturbed)) < LEAST_PHASES:
        return None
    undisturbed_s = median(alone)
    spread_s = 1.4826 * median(abs(duration_s - undisturbed_s) for duration_s in alone)
    least = max(LEAST_LOSS, spread_s / undisturbed_s) * sum(sample.bytes_per_s for sample in disturbed)
    lost = sum(sample.bytes_per_s * (1 - undisturbed_s / sample.duration_s) for sample in disturbed)
    squares = sum(sample.bytes_per_s**2 for sample in disturbed)
    return Interference(squares / max(lost, least))

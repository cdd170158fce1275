"""Who gets how much of links, servers and memory that many use at once: max-min fairness.

Bertsekas and Gallager, Data Networks (2nd edition), section 6.5.2: rates grow together; where a resource is full, the
flows through it stop growing. SimGrid's CM02 shares links in the same way.
"""

from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Indices = np.ndarray[Any, np.dtype[np.intp]]

_EQUAL = 1 + 1e-9
"""Two shares that differ by less are one bottleneck: they were computed in another order."""


def fair_rates(capacities: Floats, through: Indices, counts: Floats, limits: Floats, weights: Floats) -> Floats:
    """Share resources among flows.

    Parameters
    ----------
    capacities
        Shape (resources,): what each can carry, in bytes a second.
    through
        Shape (flows, most resources of one flow): which resources each flow needs; -1 stands for none.
    counts
        Shape (flows,): how many equal flows each row stands for.
    limits
        Shape (flows,): the most that a single flow may take, in bytes a second; infinite where nothing limits it.
    weights
        Shape (flows,): a flow of weight 2 gets twice as much of a bottleneck as one of weight 1.

    Returns
    -------
    ndarray
        Shape (flows,): the rate of a single flow of each row, in bytes a second. A flow without a resource and
        without a limit is infinitely fast.
    """
    room = np.append(np.asarray(capacities, float), np.inf)
    through = np.where(through < 0, len(capacities), through)
    levels = np.zeros(len(through))  # rates to weights: equal where flows share a bottleneck
    most, heft = limits / weights, counts * weights
    growing = np.arange(len(through))
    while len(growing):
        used = through[growing]
        load = _summed(used, heft[growing], len(room))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(load > 0, np.maximum(room, 0) / load, np.inf)
        share[-1] = np.inf
        shared = share[used].min(axis=1)
        reached = np.minimum(shared, most[growing])
        # A resource is a bottleneck where none of its flows is held lower by anything else: its share is final.
        lowest = np.full(len(room), np.inf)
        np.minimum.at(lowest, used, reached[:, None])
        full = share <= lowest * _EQUAL
        full[-1] = False
        done = (most[growing] <= shared) | full[used].any(axis=1) | np.isinf(shared)
        ended = growing[done]
        levels[ended] = reached[done]
        finite = np.where(np.isinf(reached[done]), 0, reached[done])
        room = room - _summed(used[done], finite * heft[ended], len(room))
        growing = growing[~done]
    return levels * weights


def _summed(used: Indices, values: Floats, length: int) -> Floats:
    """Add each flow's value to all resources that it uses."""
    sums: Floats = np.bincount(used.ravel(), np.repeat(values, used.shape[1]), length).astype(float)
    return sums

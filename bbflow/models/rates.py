"""Whether BB nodes keep up with a simulation, what a window's end costs them, and what they must hold meanwhile."""

import math
from dataclasses import dataclass

from bbflow.models.checks import check_above_zero, check_amounts, check_shares

PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class EndingRate:
    """What the end of windows costs the analysis, however small the fields are: seconds of CPU."""

    end_s: float
    """Of each end: a batch, its publication and a checkpoint."""
    result_s: float
    """Of each result that is published."""

    def ending_s(self, results: int) -> float:
        """Return what an end takes with which so many results are published."""
        return self.end_s + self.result_s * results


# Of 8 to 160 results of 24 x 12 points, within a fifth: 3.4 ms, 6.6, 11.3 and 16.6; 0.9, 1.6, 3.4 and 5.8 (AMD EPYC).
ENDING, ENDING_TOGETHER = EndingRate(2.7e-3, 9e-5), EndingRate(7e-4, 3e-5)
"""Of ends one by one, and of up to 16 at once."""


@dataclass(frozen=True, slots=True)
class StreamLoad:
    """What a simulation writes.

    Raises
    ------
    ConfigError
        If a number is negative, or a share none.
    """

    step_bytes: float
    """Of one step, all ranks together."""
    interval_s: float
    """From one step to the next, without waiting."""
    drained_share: float = 1.0
    """Share of the bytes that goes to the PFS as raw steps, 0 to 1."""
    state_bytes: float = 0.0
    """Of all files of partial states: their pages are made once, and used again at each window's end."""
    result_bytes: float = 0.0
    """Published at a window's end."""
    window_steps: float = math.inf
    """Steps from one window's end to the next; infinite for one window that is the run."""

    def __post_init__(self) -> None:
        check_amounts(step_bytes=self.step_bytes, interval_s=self.interval_s)
        check_amounts(state_bytes=self.state_bytes, result_bytes=self.result_bytes)
        check_above_zero(window_steps=self.window_steps)
        check_shares(drained_share=self.drained_share)


@dataclass(frozen=True, slots=True)
class NodeRates:
    """What all BB nodes together can do; bytes a second.

    Raises
    ------
    ConfigError
        If a rate is not above 0, or a share none.
    """

    landing_bytes_per_s: float
    """Steps taken in."""
    fold_bytes_per_s: float
    """Folded by the cores that are theirs."""
    drain_bytes_per_s: float
    """Moved to the PFS, while it is free."""
    pfs_free_share: float = 1.0
    """Share of the time in which the PFS takes the drain (no I/O phase of others, where the drain waits for them);
    above 0."""
    page_s: float = 0.0
    """Until a page of memory that was not touched before is there (seconds): nodes side by side, an n-th of it."""
    publish_bytes_per_s: float = math.inf
    """Results written, states merged and read for them included."""

    def __post_init__(self) -> None:
        check_above_zero(
            landing_bytes_per_s=self.landing_bytes_per_s,
            fold_bytes_per_s=self.fold_bytes_per_s,
            drain_bytes_per_s=self.drain_bytes_per_s,
            pfs_free_share=self.pfs_free_share,
            publish_bytes_per_s=self.publish_bytes_per_s,
        )
        check_amounts(page_s=self.page_s)
        check_shares(pfs_free_share=self.pfs_free_share)


@dataclass(frozen=True, slots=True)
class StreamBalance:
    """How nodes and stream go together."""

    landing_s: float
    """Of one step: the simulation waits this long for each."""
    fold_s: float
    """Of one step."""
    drain_s: float
    """Of the raw part of one step, phases of others included."""
    own_interval_s: float
    """From step to step if nothing but landing makes the simulation wait."""
    first_touch_s: float = 0.0
    """Of the pages of all states, once, while the first steps and the first window's end are folded."""
    publish_s: float = 0.0
    """Of a window's end."""
    publish_step_s: float = 0.0
    """The same, for each step."""

    @property
    def steady_interval_s(self) -> float:
        """From step to step in the long run: the slowest of computing with landing, folding and draining.

        What is published is so on the cores that fold.
        """
        return max(self.own_interval_s, self.fold_s + self.publish_step_s, self.drain_s)

    @property
    def keeps_up(self) -> bool:
        """Whether neither fold nor drain makes the simulation wait in the long run."""
        return self.steady_interval_s == self.own_interval_s


def stream_balance(load: StreamLoad, rates: NodeRates) -> StreamBalance:
    """Return what a step costs each stage, and which of them sets the pace.

    Landing is part of the simulation's own step; fold and drain continue beside it, so the slowest of the three is the
    pace (the throughput of a pipeline).
    """
    landing_s = load.step_bytes / rates.landing_bytes_per_s
    fold_s = load.step_bytes / rates.fold_bytes_per_s
    drain_s = load.step_bytes * load.drained_share / (rates.drain_bytes_per_s * rates.pfs_free_share)
    touched_s, publish_s = load.state_bytes / PAGE_BYTES * rates.page_s, load.result_bytes / rates.publish_bytes_per_s
    own_interval_s = load.interval_s + landing_s
    return StreamBalance(
        landing_s, fold_s, drain_s, own_interval_s, touched_s, publish_s, publish_s / load.window_steps
    )


def buffered_bytes(load: StreamLoad, balance: StreamBalance, closed_s: float) -> float:
    """Return what the nodes must hold so that the simulation never waits while the drain stands still.

    A step stays until it is landed, folded and drained; while the PFS is closed for `closed_s` seconds, all that comes
    in meanwhile stays too. So does what comes while a window's results are published, or states get their pages: no
    checkpoint is stored then.

    Returns
    -------
    float
        Bytes, for all nodes together; infinite if fold or drain can't keep up at all.

    Raises
    ------
    ConfigError
        If `closed_s` is negative.
    """
    check_amounts(closed_s=closed_s)
    if not balance.keeps_up:
        return float("inf")
    held_s = max(closed_s, balance.publish_s, balance.first_touch_s)
    steps = (balance.landing_s + balance.fold_s + balance.drain_s + held_s) / balance.own_interval_s
    return (steps + 1) * load.step_bytes

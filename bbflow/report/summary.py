"""What a run comes to, in a few numbers."""

from collections.abc import Iterable
from dataclasses import dataclass

from bbflow.report.run_events import Events, EventSpan


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures at the head of a report; None where they are not known."""

    status: str
    """complete, incomplete, running or unknown."""
    steps_landed: int
    """Different steps that were committed to the burst buffer."""
    steps_folded: int
    """Landed steps that every node has folded."""
    steps_drained: int
    """Landed steps that went to the parallel file system (PFS)."""
    steps_discarded: int | None
    """Steps that were dropped whole for lack of room."""
    landed_bytes: int
    """What the simulation wrote."""
    drained_bytes: int
    """What went to the PFS of it, as it is stored there."""
    chosen_bytes: int
    """The same before repeats were left out and the rest was compressed."""
    repeated_bytes: int
    """Fields that were the same as in the step before, and were not stored again."""
    results_bytes: int
    """What was written of the results."""
    saved: float | None
    """Share of the landed bytes that the PFS was spared; below 0 if more went there than landed."""
    wall_s: float
    """Seconds from the first event to the last."""
    waited_s: float | None
    """Seconds the simulation waited for room."""

    @property
    def waited_share(self) -> float | None:
        """Share of the wall time that the simulation waited."""
        return self.waited_s / self.wall_s if self.waited_s is not None and self.wall_s > 0 else None

    @property
    def landing_bytes_per_s(self) -> float | None:
        """Landed bytes over the wall time."""
        return self.landed_bytes / self.wall_s if self.wall_s > 0 else None


def summarise(events: Events, stored_status: str | None) -> Summary:
    """Sum a run up.

    Parameters
    ----------
    events
        Of the run, as far as they were written.
    stored_status
        What the results store says of itself; the end event counts more.
    """
    sizes = {span.first_step: span.bytes for span in events.landed}
    landed_bytes = sum(sizes.values())
    drained_bytes = sum(span.bytes if span.stored_bytes is None else span.stored_bytes for span in events.drains)
    results_bytes = sum(span.bytes for span in events.publishes)
    end = events.end
    return Summary(
        status=end.status if end else stored_status or ("running" if events.spans else "unknown"),
        steps_landed=len(sizes),
        steps_folded=len(covered_steps(events.folds, sizes)),
        steps_drained=len(covered_steps([span for span in events.drains if span.bytes], sizes)),
        steps_discarded=end.discarded if end else None,
        landed_bytes=landed_bytes,
        drained_bytes=drained_bytes,
        chosen_bytes=sum(span.bytes for span in events.drains),
        repeated_bytes=sum(span.repeated_bytes for span in events.drains),
        results_bytes=results_bytes,
        saved=1 - (drained_bytes + results_bytes) / landed_bytes if landed_bytes else None,
        wall_s=events.wall_s,
        waited_s=end.waited_s if end else None,
    )


def covered_steps(spans: Iterable[EventSpan], landed: Iterable[int]) -> set[int]:
    """Return the landed steps that the work of every node covers; a step done twice counts once.

    Parameters
    ----------
    spans
        Folds or drains; each node's cover its part of the steps.
    landed
        Steps that landed. A batch may span discarded ones, which don't count.
    """
    by_node: dict[str, set[int]] = {}
    for span in spans:
        by_node.setdefault(span.row, set()).update(range(span.first_step, span.last_step + 1, span.every))
    return set(landed).intersection(*by_node.values()) if by_node else set()

"""Who gets room in the pool now: pure decisions that keep capacity hard and ranks free of deadlock."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bbflow.errors import CapacityError
from bbflow.store.extents import Extent, Extents, align
from bbflow.units import format_bytes


@dataclass(slots=True)
class RankProgress:
    """What one writer rank holds and is expected to need."""

    step: int = -1
    """Step that it is in, or was in last."""
    committed: int = -1
    """Last step that it has behind it (committed or discarded)."""
    granted: list[Extent] = field(default_factory=list)
    """Extents of its open step."""
    expected_bytes: int | None = None
    """What it needed in its last landed step; None before the first."""

    @property
    def granted_bytes(self) -> int:
        """Bytes that it holds in its open step."""
        return sum(size for _, size in self.granted)

    def outstanding_bytes(self, step: int) -> int | None:
        """Bytes that it may still ask for in `step`; None if nobody can know."""
        if self.committed >= step:
            return 0
        if self.expected_bytes is None:
            return None
        held = self.granted_bytes if self.step == step else 0
        return max(self.expected_bytes - held, 0)


def reserve(
    extents: Extents,
    ranks: dict[int, RankProgress],
    local_writers: int,
    step: int,
    size: int,
    stuck: Sequence[Extent] = (),
) -> Extent | None:
    """Take room for one rank's step, or say that it must wait.

    A rank that is ahead gets room only if what the older steps still need stays free: otherwise its step
    could take the bytes without which an older step, and so its own, never completes.

    Parameters
    ----------
    extents
        Free list of the pool.
    ranks
        The stream's local ranks that have opened it.
    local_writers
        How many there will be.
    step, size
        For which step is asked, for how many bytes.
    stuck
        What can't become free before the step has landed, since it belongs to this step or a later one.

    Raises
    ------
    CapacityError
        If the step can't fit however much is folded and drained.
    """
    in_step = sum(other.granted_bytes for other in ranks.values() if other.step == step)
    if in_step + align(size) > extents.capacity or largest_gap(extents.capacity, stuck) < align(size):
        needed = max(in_step, sum(held for _, held in stuck)) + size
        raise CapacityError(
            f"step {step} needs {format_bytes(needed)} or more on one BB node, but its capacity is "
            f"{format_bytes(extents.capacity)} ({format_bytes(largest_gap(extents.capacity, stuck))} in one piece): "
            "give the node more capacity or use more nodes"
        )
    needs = [_older_need(ranks.get(other), step) for other in range_of(ranks, local_writers)]
    if any(need is None for need in needs):
        return None
    return extents.take(size) if extents.can_take([size, *(need for need in needs if need)]) else None


def largest_gap(capacity: int, held: Iterable[Extent]) -> int:
    """Give the largest run of bytes in a pool between extents that are held."""
    ordered = sorted(held)
    begins = [0, *(offset + size for offset, size in ordered)]
    ends = [*(offset for offset, _ in ordered), capacity]
    return max(end - begin for begin, end in zip(begins, ends, strict=True))


def range_of(ranks: dict[int, RankProgress], local_writers: int) -> list[int]:
    """Ranks known, and a negative number for each that has not opened the stream yet."""
    return [*ranks, *range(-(local_writers - len(ranks)), 0)]


def _older_need(progress: RankProgress | None, step: int) -> int | None:
    if step == 0:
        return 0
    if progress is None:
        return None
    return progress.outstanding_bytes(step - 1)


def fits_whole_step(extents: Extents, ranks: dict[int, RankProgress]) -> bool:
    """Whether all ranks' expected bytes of one step are free: what `Discard` asks at a step's begin."""
    expected = [align(progress.expected_bytes or 0) for progress in ranks.values()]
    return extents.free_bytes >= sum(expected)

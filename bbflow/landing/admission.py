"""Who gets room in the pool now: pure decisions that keep capacity hard and ranks free of deadlock."""

from collections.abc import Iterable, Mapping, Sequence

from bbflow.errors import CapacityError
from bbflow.store.extents import Extent, Extents, align
from bbflow.store.ranks import Rank
from bbflow.units import format_bytes


def check_fits(
    capacity: int, ranks: Mapping[int, Rank], step: int, size: int, stuck: Sequence[Extent] = ()
) -> None:  # fmt: skip
    """Refuse what can't fit however much is folded and drained.

    Parameters
    ----------
    capacity
        Bytes of the pool.
    ranks
        The stream's ranks on this node.
    step, size
        For which step is asked, for how many bytes.
    stuck
        What can't become free before the step has landed, since it belongs to this step or a later one.

    Raises
    ------
    CapacityError
        If it can't.
    """
    in_step = sum(rank.granted_bytes for rank in ranks.values() if rank.granted and rank.settled + 1 == step)
    gap = largest_gap(capacity, stuck)
    if in_step + align(size) > capacity or gap < align(size):
        needed = max(in_step, sum(held for _, held in stuck)) + size
        raise CapacityError(
            f"step {step} needs {format_bytes(needed)} or more on one BB node, but its capacity is "
            f"{format_bytes(capacity)} ({format_bytes(gap)} in one piece): "
            "give the node more capacity, use more nodes, or set QueueFullPolicy=Spill"
        )


def older_needs(ranks: Mapping[int, Rank], local_writers: int, step: int) -> list[int] | None:
    """Give the bytes that ranks may still ask for in older steps, largest known; None if nobody can know.

    A rank that is ahead gets room only if these stay free: otherwise its step could take the bytes without which
    an older step, and so its own, never completes.
    """
    if step == 0:
        return []
    if len(ranks) < local_writers:
        return None
    needs = [rank.outstanding_bytes(step - 1) for rank in ranks.values() if rank.settled < step - 1]
    return None if None in needs else [need for need in needs if need]


def take(extents: Extents, size: int, needs: Sequence[int]) -> Extent | None:
    """Take room, if what others need stays free beside it."""
    return extents.take(size) if not needs or extents.can_take([size, *needs]) else None


def largest_gap(capacity: int, held: Iterable[Extent]) -> int:
    """Give the largest run of bytes in a pool between extents that are held."""
    ordered = sorted(held)
    begins = [0, *(offset + size for offset, size in ordered)]
    ends = [*(offset for offset, _ in ordered), capacity]
    return max(end - begin for begin, end in zip(begins, ends, strict=True))


def fits_whole_step(extents: Extents, ranks: Mapping[int, Rank], needs: Sequence[int]) -> bool:
    """Whether one step of all ranks fits beside what older steps need: what `Discard` and `Spill` ask at its begin."""
    return extents.can_take([*needs, *(rank.expected_bytes for rank in ranks.values() if rank.expected_bytes)])

"""Who gets room in the pool now: capacity stays hard, and no rank waits for another forever.

What may be taken is decided by pure functions of extents and ranks; `find_room` takes it from a node's store, and
evicts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from bbflow.errors import CapacityError
from bbflow.store.extents import Extent, Extents, align
from bbflow.store.node import NodeStore
from bbflow.store.ranks import Rank
from bbflow.store.streams import Stream, extents_of
from bbflow.units import format_bytes


def check_fits(
    capacity: int, ranks: Mapping[int, Rank], step: int, size: int, stuck: Sequence[Extent] = (), hint: str = ""
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
    hint
        What else may help.

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
            f"give the node more capacity, use more nodes, {hint}or set QueueFullPolicy=Spill"
        )


def older_needs(
    ranks: Mapping[int, Rank], local_writers: int, step: int, ends: Sequence[int] = ()
) -> list[int] | None:  # fmt: skip
    """Return the bytes that ranks may still ask for in older steps, largest known; None if unknown.

    A rank that is ahead gets room only if these stay free: otherwise its step could take the bytes without which
    an older step, and so its own, never completes. Where steps land together, at some ends, that is true of all of a
    landing.
    """
    if step == 0:
        return []
    if len(ranks) < local_writers:
        return None
    needs: list[int] = []
    for rank in ranks.values():
        if rank.settled < step - 1:
            own = rank.needs_through(step - 1, ends)
            if own is None:
                return None
            needs += [need for need in own if need]
    return needs


def take(extents: Extents, size: int, needs: Sequence[int]) -> Extent | None:
    """Take room, if what others need stays free beside it."""
    return extents.take(size) if not needs or extents.can_take([size, *needs]) else None


def largest_gap(capacity: int, held: Iterable[Extent]) -> int:
    """Return the largest run of bytes in a pool between extents that are held."""
    ordered = sorted(held)
    begins = [0, *(offset + size for offset, size in ordered)]
    ends = [*(offset for offset, _ in ordered), capacity]
    return max(end - begin for begin, end in zip(begins, ends, strict=True))


def fits_whole_step(extents: Extents, ranks: Mapping[int, Rank], needs: Sequence[int]) -> bool:
    """Whether one step of all ranks fits beside what older steps need: what `Discard` and `Spill` ask at its begin."""
    return extents.can_take([*needs, *(rank.expected_bytes for rank in ranks.values() if rank.expected_bytes)])


def must_land(extents: Extents, stream: Stream, rank: int, step: int) -> bool:
    """Whether a rank may not hold a step, since others that land theirs as they are would have no room.

    Their steps stay until the rank lands its own, and it may be waiting for them then, in a barrier: so it must land
    while there is room for two more of their steps still, and for all up to the one that it would hold.

    Parameters
    ----------
    extents
        The pool's.
    stream
        The one that it holds steps of.
    rank, step
        Who asks, and for which step.
    """
    settled, ranks = stream.ranks[rank].settled, stream.ranks.values()
    ahead = [
        (other.settled, other.expected_bytes)
        for other in ranks
        if other.settled > settled and other.expected_bytes and not other.has_folded
    ]
    if not ahead:
        return False
    through = max(step + 1, *(last + 2 for last, _ in ahead))
    if sum((through - last) * size for last, size in ahead) > extents.capacity:
        return True  # however many steps these are
    needs = [size for last, size in ahead for _ in range(through - last)]
    needs += [max(other.expected_bytes or 0, other.state_bytes) for other in ranks if other.settled <= settled]
    first = stream.first_with(stream.last + 1)
    going = [extent for number, own in stream.steps.items() if number < first for extent in extents_of(own)]
    return not extents.can_take([need for need in needs if need], going)


def needs_before(stream: Stream, step: int) -> list[int] | None:
    """Return the bytes that ranks may still ask for in steps before this one; None while that is unknown."""
    if step <= stream.last + 1 and len(stream.ranks) >= stream.local_writers:
        return []
    return older_needs(stream.ranks, stream.local_writers, step, stream.ends)


def make_room_for_step(store: NodeStore, stream: Stream, needs: list[int]) -> bool:
    """Evict until a whole step fits beside what older ones need; false if it doesn't however much goes."""
    while not fits_whole_step(store.extents, stream.ranks, needs):
        if not store.evict():
            return False
    return True


def find_room(
    store: NodeStore, stream: Stream, rank: int, step: int, size: int, needs: Callable[[], list[int] | None]
) -> Extent | None:  # fmt: skip
    """Take room for a rank in its open step, evicting what may go; None if it must wait.

    Parameters
    ----------
    store
        The node's.
    stream, rank, step, size
        Whose step, and how many bytes.
    needs
        Gives those of steps before, as `needs_before` does. That looks at each rank, so it is asked only if there is
        room, but not for all that they could need together.

    Raises
    ------
    CapacityError
        If the step can't ever fit.
    """
    # A bound first, which needs no look at each rank: it is enough while the pool is far from full.
    others, most = _needs_of_others(store, stream), stream.most_needed_bytes
    if most is not None and (extent := take(store.extents, size, [most, *others])):
        return extent
    if _is_hopeless(store, stream, size):
        _check_step_fits(store.extents.capacity, stream, rank, step, size)
        return None
    older = needs()
    if older is not None and (extent := take(store.extents, size, [*older, *others])):
        return extent
    _check_step_fits(store.extents.capacity, stream, rank, step, size)
    while older is not None and store.evict():
        if extent := take(store.extents, size, [*older, *others]):
            return extent
    return None


def _is_hopeless(store: NodeStore, stream: Stream, size: int) -> bool:
    """Whether there is no room whatever others need: with all ranks there, nothing else is to be found out."""
    is_full = not store.extents.has_hole(size) and not store.can_evict
    return is_full and len(stream.ranks) >= stream.local_writers


def _check_step_fits(capacity: int, stream: Stream, rank: int, step: int, size: int) -> None:
    first = stream.first_with(step)
    parts = (part for number, own in stream.parts.items() if number >= first for part in own.values())
    whole = (own for number, own in stream.steps.items() if first <= number < step)
    later = [extent for part in (*parts, *whole) for extent in extents_of(part)]
    hint = f"let fewer than steps {first} to {step} land together (fold: land_states_every), " if first < step else ""
    check_fits(capacity, stream.ranks, step, size, [*stream.ranks[rank].granted, *later], hint)


def _needs_of_others(store: NodeStore, stream: Stream) -> list[int]:
    """Bytes that streams which have less here need for their next step, so that none is shut out."""
    if len(store.streams) == 1:
        return []
    own = _possession(stream)
    behind = [other for other in store.streams.values() if other.status == "open" and _possession(other) < own]
    needs = [rank.outstanding_bytes(other.last + 1) for other in behind for rank in other.ranks.values()]
    return [need for need in needs if need]


def _possession(stream: Stream) -> tuple[int, str]:
    """Put streams in order by how many steps they have on the node."""
    return len(stream.steps) + len(stream.parts), stream.name

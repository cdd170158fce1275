"""Room in the pool for one stream's ranks: what admission needs to know of the store, and what it evicts."""

from bbflow.landing.admission import check_fits, fits_whole_step, older_needs, take
from bbflow.store.extents import Extent
from bbflow.store.node import NodeStore
from bbflow.store.streams import Stream, extents_of


def needs_before(stream: Stream, step: int) -> list[int] | None:
    """Give the bytes that ranks may still ask for in steps before this one; None while nobody can know."""
    if step <= stream.last + 1 and len(stream.ranks) >= stream.local_writers:
        return []
    return older_needs(stream.ranks, stream.local_writers, step)


def make_room_for_step(store: NodeStore, stream: Stream, needs: list[int]) -> bool:
    """Evict until a whole step fits beside what older ones need; false if it doesn't however much goes."""
    while not fits_whole_step(store.extents, stream.ranks, needs):
        if not store.evict():
            return False
    return True


def find_room(
    store: NodeStore, stream: Stream, rank: int, step: int, size: int, needs: list[int] | None
) -> Extent | None:  # fmt: skip
    """Take room for a rank in its open step, evicting what may go; None if it must wait.

    Parameters
    ----------
    store
        The node's.
    stream, rank, step, size
        Whose step, and how many bytes.
    needs
        Those of steps before, as `needs_before` gives them.

    Raises
    ------
    CapacityError
        If the step can't ever fit.
    """
    if needs is not None:
        needs = [*needs, *_needs_of_others(store, stream)]
        if extent := take(store.extents, size, needs):
            return extent
    _check_step_fits(store.extents.capacity, stream, rank, step, size)
    while needs is not None and store.evict():
        if extent := take(store.extents, size, needs):
            return extent
    return None


def _check_step_fits(capacity: int, stream: Stream, rank: int, step: int, size: int) -> None:
    later = [
        extent
        for number, parts in stream.parts.items()
        if number >= step
        for part in parts.values()
        for extent in extents_of(part)
    ]
    check_fits(capacity, stream.ranks, step, size, [*stream.ranks[rank].granted, *later])


def _needs_of_others(store: NodeStore, stream: Stream) -> list[int]:
    """Bytes that streams which have less here need for their next step, so that none is shut out."""
    own = _possession(stream)
    behind = [other for other in store.streams.values() if other.status == "open" and _possession(other) < own]
    needs = [rank.outstanding_bytes(other.last + 1) for other in behind for rank in other.ranks.values()]
    return [need for need in needs if need]


def _possession(stream: Stream) -> tuple[int, str]:
    """Put streams in order by how many steps they have on the node."""
    return len(stream.steps) + len(stream.parts), stream.name

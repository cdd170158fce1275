"""Which edges of a workflow say only what others imply. Pure."""

from collections.abc import Collection, Iterator, Mapping
from graphlib import TopologicalSorter

BLOCK_JOBS = 4096


def implied_edges(
    parents: Mapping[str, Collection[str]], children: Collection[str], block_jobs: int = BLOCK_JOBS
) -> set[tuple[str, str]]:
    """Find edges that may go, since longer paths lead from one end to the other.

    Parameters
    ----------
    parents
        By job, those that it waits for.
    children
        Jobs to which edges may go.
    block_jobs
        Jobs whose descendants are looked for at once, a bit each, so that a long workflow takes little memory.

    Returns
    -------
    set of (parent, child)
        Without them, each job still waits for the same others.
    """
    order = list(TopologicalSorter(parents).static_order())
    wanted = set(children)
    return {
        edge
        for start in range(0, len(order), block_jobs)
        for edge in _from(order[start:], order[start : start + block_jobs], parents, wanted)
    }


def _from(
    order: Collection[str], block: Collection[str], parents: Mapping[str, Collection[str]], wanted: set[str]
) -> Iterator[tuple[str, str]]:
    """Look among edges from the jobs of a block; `order` are these and all later ones."""
    bits = {job: 1 << number for number, job in enumerate(block)}
    above: dict[str, int] = {}
    for job in order:
        near, far = 0, 0
        for parent in parents.get(job, ()):
            near |= bits.get(parent, 0)
            far |= above.get(parent, 0)
        if job in wanted and near & far:
            yield from ((parent, job) for parent in parents[job] if bits.get(parent, 0) & far)
        above[job] = near | far

"""Which nodes a file's pieces go round on once one of them is lost. No I/O."""

from collections.abc import Iterable, Iterator

from bbflow.files.inodes import holders


def rings_without(ring: tuple[str, ...], replicas: int, lost: str, others: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Yield rings on which all pieces stay with the nodes that have them, and those of a lost one are with others.

    Another node takes each of its places, also one of the ring if it shares no piece with the lost one: a node may
    have several places. Where only as many nodes are left as there are copies, each of these has all pieces.

    Parameters
    ----------
    ring
        With the lost node.
    replicas
        Copies of each piece.
    lost
        The node that is gone.
    others
        Nodes that are up, the best first.
    """
    for other in others:
        changed = tuple(other if name == lost else name for name in ring)
        if _keeps_copies_apart(changed, replicas):
            yield changed
    left = tuple(dict.fromkeys(name for name in ring if name != lost))
    if len(left) == replicas:
        yield left


def _keeps_copies_apart(ring: tuple[str, ...], replicas: int) -> bool:
    """Whether no piece has two copies on one node."""
    places = (holders(ring, index, replicas) for index in range(len(ring)))
    return all(len(set(names)) == len(names) for names in places)

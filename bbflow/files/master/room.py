"""Room on the IOnodes: capacity is a hard bound over what lies there and what sessions were granted. No I/O."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import asdict

from bbflow.files.commands import IonodeAddress, IonodeTold


@dataclass(slots=True)
class Node:
    """An IOnode as its master sees it."""

    name: str
    """Unique under this master."""
    address: IonodeAddress
    """How to reach it."""
    capacity: int
    """Bytes that it may hold now: what the streams of its host leave."""
    most_bytes: int = 0
    """Bytes that it may ever hold."""
    peer: int | None = None
    """Its connection; None while it is away."""
    placed: dict[str, int] = field(default_factory=dict)
    """Piece files that lie there or are to, with their bytes of memory."""
    placed_bytes: int = 0
    """Their sum."""
    leaving_bytes: int = 0
    """What is being removed: no piece file that is expected here, but its memory isn't free yet."""
    granted_bytes: int = 0
    """What sessions may still write."""
    away_since_s: float = 0.0
    """When its connection was lost."""
    verifier: str = ""
    """Another one once what lay there is gone; empty before it has told."""

    @property
    def free_bytes(self) -> int:
        """What is neither taken nor promised."""
        return self.capacity - self.placed_bytes - self.leaving_bytes - self.granted_bytes

    @property
    def load(self) -> float:
        """Taken and promised share of the capacity."""
        return 1.0 - self.free_bytes / self.capacity if self.capacity else 1.0

    def come(self, address: IonodeAddress, most_bytes: int, peer: int, granted_bytes: int, verifier: str) -> None:
        """Record that it is there, and what sessions may still write."""
        self.address, self.most_bytes, self.peer, self.granted_bytes = address, most_bytes, peer, granted_bytes
        self.verifier = verifier

    def go(self, now_s: float) -> None:
        """Record that its connection is gone."""
        self.peer, self.away_since_s = None, now_s

    def may_hold(self, capacity: int) -> None:
        """Record how many bytes it may hold from now on."""
        self.capacity = capacity

    def grant(self, size: int) -> None:
        """Record that a session may write more bytes, or fewer (a negative size)."""
        self.granted_bytes += size

    def let_go(self, keys: Collection[str]) -> int:
        """Record that piece files are to go; return the bytes that come free when they are gone."""
        size = sum(self.placed[key] for key in keys)
        self.leaving_bytes += size
        for key in keys:
            self.remove(key)
        return size

    def has_freed(self, size: int) -> None:
        """Record that what was to go is gone."""
        self.leaving_bytes -= size

    def place(self, key: str, size: int) -> None:
        """Record that a piece file lies here, with this many bytes."""
        self.placed_bytes += size - self.placed.get(key, 0)
        self.placed[key] = size

    def remove(self, key: str) -> None:
        """Record that a piece file is gone."""
        self.placed_bytes -= self.placed.pop(key, 0)

    def is_lost(self, now_s: float, after_s: float) -> bool:
        """Whether it has been away for so long that its bytes count as lost."""
        return self.peer is None and now_s - self.away_since_s >= after_s

    def told(self) -> IonodeTold:
        """Return what clients need to reach it."""
        return IonodeTold(**asdict(self.address), up=self.peer is not None)


def choose_ring(nodes: Iterable[Node], turn: int, near: str = "") -> tuple[str, ...]:
    """Put the nodes that are up in the order in which a new file's pieces go round.

    The first piece goes where the smallest share of the capacity is taken or promised, in steps of 1/64; among equals
    they take turns. The next pieces follow in the order of the nodes' names.

    Parameters
    ----------
    nodes
        All of the master's.
    turn
        A number that goes up with each file.
    near
        A host whose nodes come first while they are less than 7/8 full; empty for none.
    """
    up = sorted([node for node in nodes if node.peer is not None], key=lambda node: node.name)
    if len(up) < 2:
        return tuple([node.name for node in up])
    local = [number for number, node in enumerate(up) if node.address.host == near and node.load < 7 / 8]
    steps = {number: int(up[number].load * 64) for number in local or range(len(up))}
    least = min(steps.values())
    equal = [number for number, step in steps.items() if step == least]
    first = equal[turn % len(equal)]
    return tuple(node.name for node in up[first:] + up[:first])


def delta(before: Mapping[str, Mapping[str, int]], after: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return, for each node, the bytes that a new version adds to what is there."""
    added: dict[str, int] = {}
    for node, keys in after.items():
        there = before.get(node, {})
        grown = sum(max(size - there.get(key, 0), 0) for key, size in keys.items())
        if grown:
            added[node] = grown
    return added

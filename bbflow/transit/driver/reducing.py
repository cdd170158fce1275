"""Which host reduces which fields of a window's span, and what the others hand to it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from bbflow.net.contact import NodeAddress
from bbflow.transit.clusters.cluster import Work
from bbflow.transit.output.fields import ResultField
from bbflow.transit.output.results import Described
from bbflow.transit.publication.publish import FieldWork
from bbflow.transit.spans.slots import OUTER, slots_of
from bbflow.transit.spans.timeline import Closing
from bbflow.transit.states.inherited import Inherited
from bbflow.transit.states.kept import Kept
from bbflow.transit.states.tables import States
from bbflow.zarr_store.chunks import Chunk

FEW_POINTS = 1 << 16
"""Fields of so many points together are small."""
NOWHERE: Mapping[str, Chunk] = {}


class Reducing:
    """Reduces one window's span.

    Parameters
    ----------
    closing
        Which span.
    kept
        What the fold keeps.
    fields
        What is known of the fields, by diagnostic.
    nodes
        Addresses by name.
    lanes
        How many tasks share a node's fields.
    """

    def __init__(
        self,
        closing: Closing,
        kept: Kept,
        fields: Mapping[str, ResultField],
        nodes: Mapping[str, NodeAddress],
        lanes: int,
    ) -> None:
        self._closing, self._kept, self._nodes, self._lanes = closing, kept, nodes, lanes
        self._parts: dict[str, tuple[dict[str, list[States]], Inherited | None]] = {}
        """The diagnostics that have anything of the span: by node, and what lies in an earlier run's state."""
        self.fields: dict[str, Described] = {}
        """Their fields and statistics."""
        for key, diagnostic in kept.config.diagnostics.items():
            if closing.window in diagnostic.windows and diagnostic.operators:
                own = _by_node(kept.of(key)), self._rest(key)
                if own != ({}, None):
                    self._parts[key], self.fields[key] = own, (fields[key], diagnostic.operators)

    def _rest(self, key: str) -> Inherited | None:
        """Return what was kept before and no shard has taken over, if that has anything of the span."""
        rest = self._kept.origins.of(key)
        own = slots_of(OUTER, self._closing.window, self._closing.keys)
        if rest is None or not any(slot in rest.offsets for slot in own):
            return None
        return replace(rest, taken=tuple(self._kept.regions(key)))

    def homes(self, targets: Mapping[str, Mapping[str, Chunk]] | None = None) -> list["Home"]:
        """Share the fields out over their nodes, the large ones first; each task's own host has some of each.

        Parameters
        ----------
        targets
            Diagnostic to where its results go, if they are written.
        """
        loads: dict[tuple[str, int], int] = {}
        shared: dict[tuple[str, int], list[str]] = {}
        sizes = {key: prod(field.shape) for key, (field, _) in self.fields.items()}
        for key in sorted(sizes, key=lambda key: -sizes[key]):
            nodes = sorted(self._parts[key][0] or self._nodes)
            lanes = [(node, lane) for node in nodes for lane in range(self._lanes)]
            chosen = min(lanes, key=lambda lane: loads.get(lane, 0))
            loads[chosen] = loads.get(chosen, 0) + sizes[key]
            shared.setdefault(chosen, []).append(key)
        return [self._home(node, keys, targets or {}) for (node, _), keys in shared.items()]

    def _home(self, home: str, keys: Sequence[str], targets: Mapping[str, Mapping[str, Chunk]]) -> "Home":
        hosts: dict[str, list[str]] = {self._nodes[home].host: [home]}
        for node in sorted({node for key in keys for node in self._parts[key][0]} - {home}):
            hosts.setdefault(self._nodes[node].host, []).append(node)
        (host, here), *others = hosts.items()
        handed = [((tuple(self._work(key, there) for key in keys),), other) for other, there in others]
        own = tuple(self._work(key, here, self._parts[key][1], targets.get(key, {})) for key in keys)
        return Home(home, host, own, tuple(handed))

    def _work(
        self, key: str, nodes: Sequence[str], rest: Inherited | None = None, targets: Mapping[str, Chunk] = NOWHERE
    ) -> FieldWork:
        """Return what nodes of one host have of a field: tasks there read the states of all of them."""
        (field, _), (shards, _) = self.fields[key], self._parts[key]
        return FieldWork(
            self._kept.config.diagnostics[key],
            field.shape,
            self._closing,
            tuple(alike for node in nodes for alike in shards.get(node, ())),
            self._nodes[nodes[0]].state_directory,
            self._kept.errors,
            rest,
            targets,
            field.map,
        )


@dataclass(frozen=True, slots=True)
class Home:
    """What one task reduces, of one span or, if they are small, of several."""

    node: str
    """Where it runs."""
    host: str
    """Of that node."""
    works: tuple[FieldWork, ...]
    """What the host has of each field."""
    handed: tuple[Work, ...] = ()
    """What hands the other hosts' share over."""

    @property
    def points(self) -> int:
        """Points of all fields."""
        return sum(prod(work.shape) for work in self.works)


def together(homes: Iterable[Home]) -> list[Home]:
    """Put small works of a node together: a task, and its turn among threads, takes longer than they do."""
    found: dict[str, Home] = {}
    alone = []
    for home in homes:
        known = found.get(home.node)
        if home.handed or home.points > FEW_POINTS:
            alone.append(home)
        elif known is not None and known.points + home.points <= FEW_POINTS:
            found[home.node] = replace(known, works=known.works + home.works)
        else:
            alone += [] if known is None else [known]
            found[home.node] = home
    return [*found.values(), *alone]


def _by_node(states: Sequence[States]) -> dict[str, list[States]]:
    nodes: dict[str, list[States]] = {}
    for alike in states:
        nodes.setdefault(alike.roster.node, []).append(alike)
    return nodes

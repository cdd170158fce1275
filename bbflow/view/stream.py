"""The stream over all nodes: which steps are complete, and how it stands; without threads and sockets."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from msgspec import UNSET

from bbflow.landing.replies import Shown
from bbflow.reading.wire_types import Attribute
from bbflow.store.extents import align
from bbflow.store.streams import ENDED
from bbflow.stream.attributes import FILE, meant
from bbflow.stream.layouts import Layout, Layouts, kept_by_layout
from bbflow.stream.records import Block, Step
from bbflow.view.meanings import MeaningChange, ToldMeanings, tells_meaning

STEPS_PER_REPLY = 256
"""Most steps that one `watch` reply brings."""
NAMED = 20
"""So many stretches of discarded steps are named: all may be thousands."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A rank that came from a node that was lost."""

    rank: int
    """The rank."""
    origin: str
    """The node that it came from."""
    first: int
    """First step that it lands on its new node."""


@dataclass(frozen=True, slots=True)
class News:
    """What a node has said of the stream at once: a reply of `watch`."""

    status: str
    """expected, open, closed or aborted."""
    writers: int
    """Ranks of the whole stream."""
    local_writers: int
    """Ranks that land on this node."""
    steps: tuple[Step, ...] = ()
    """Steps that it has told of."""
    last: int = -1
    """Highest step that is settled there, if all steps up to it have been told of."""
    more: bool = False
    """Whether it has more to tell at once."""
    discarded: frozenset[int] = frozenset()
    """Steps that it dropped."""
    arrivals: tuple[Arrival, ...] = ()
    """Ranks that came from nodes that were lost."""
    base: Mapping[str, Any] = field(default_factory=dict)
    """Attributes as they were before the oldest step that it keeps."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """The newest attributes."""
    refused: tuple[str, ...] = ()
    """What the program was refused, and the stream lacks."""
    file: str = ""
    """The file that its ranks there name; empty if it isn't known."""
    file_since: int | None = None
    """The step that began the file that `base` names; None if that isn't known."""

    @classmethod
    def of(cls, reply: Shown, layouts: Layouts) -> "News":
        """Take a reply in.

        Parameters
        ----------
        reply
            As it came.
        layouts
            Those that came over the same connection before.
        """
        return cls(
            reply.status,
            reply.writers,
            reply.local_writers,
            tuple(step.taken(layouts.take_of(step)) for step in reply.steps),
            reply.last,
            reply.more,
            frozenset(reply.discarded),
            tuple(Arrival(*arrival) for arrival in reply.moved),
            _values(reply.base),
            _values(reply.attributes),
            reply.refused,
            reply.file,
            next((item.since for item in reply.base if item.name == FILE and item.since is not UNSET), None),
        )


@dataclass(slots=True)
class NodeView:
    """What one node has said of the stream."""

    status: str = "expected"
    """expected, open, closed or aborted."""
    writers: int = 0
    """Ranks of the whole stream."""
    local_writers: int = 0
    """Ranks that land on this node."""
    steps: dict[int, Step] = field(default_factory=dict)
    """Steps that are not done with yet."""
    last: int = -1
    """Highest step that is settled there and that we know the blocks of."""
    discarded: frozenset[int] = frozenset()
    """Steps that it dropped."""
    more: bool = False
    """Whether it has steps that it has not told of."""
    arrivals: tuple[Arrival, ...] = ()
    """Ranks that came from nodes that were lost."""
    base: dict[str, Any] | None = None
    """Attributes as they were before the oldest step that it showed first."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """The newest attributes."""
    refused: tuple[str, ...] = ()
    """What the program was refused, and the stream lacks."""
    file: str = ""
    """The file that its ranks there name; empty if it isn't known."""

    @property
    def standing(self) -> tuple[Any, ...]:
        """What of it counts for how the stream stands over all nodes, besides `last`."""
        return self.status, self.writers, self.local_writers, self.more, self.arrivals

    def ranks_in(self, step: int) -> int:
        """How many ranks land a part of a step here, if it lands."""
        late = sum(arrival.first > step for arrival in self.arrivals)
        return self.local_writers - late


@dataclass(frozen=True, slots=True)
class StreamStanding:
    """How the stream stands by what all nodes have said."""

    taking_part: Mapping[str, NodeView]
    """Nodes that ranks land on; empty until every node was heard, and all ranks have opened the stream."""
    landing: Mapping[str, NodeView]
    """Those of them that further steps land on: not all ranks have left them."""
    writers: int
    """Ranks of the whole stream."""
    lacks_ranks: bool
    """Whether ranks that were announced are on no node that is known."""
    frontier: int
    """Highest step that is settled on all nodes; none is while ranks lack whose nodes aren't lost."""
    status: str
    """expected, open, closed or aborted; the first aborted rank aborts the stream."""


class StreamView:
    """The stream over all nodes: a step counts when every node that takes part has it.

    Parameters
    ----------
    nodes
        Their names.
    done
        For each node, the step up to which an earlier analysis has folded and drained it.
    whole
        Whether all nodes of the stream are among them; otherwise those ranks take part that are known.
    before
        Attributes that an earlier analysis of a stream that isn't whole has kept; None if it has kept nothing.
    """

    def __init__(
        self,
        nodes: Sequence[str],
        done: Mapping[str, int],
        *,
        whole: bool = True,
        before: Mapping[str, Any] | None = None,
    ) -> None:
        self._whole = whole
        self._goes_without = False
        self.is_told = whole or before is not None
        """Whether rank 0 was heard, which alone tells attributes: a node that is lost may have been its."""
        self._nodes = {name: NodeView(last=done[name]) for name in nodes}
        self._done = dict(done)
        self.attributes: dict[str, Any] = {}
        """Attributes of the stream, the newest of any node; those by which numbers are read as they were first told."""
        through = max(done.values(), default=-1)
        was_used = before is not None or (through >= 0 and not whole)
        self._meanings = ToldMeanings(self.attributes, math.inf if was_used else through)
        if before is not None:
            self.attributes.update(before)
            self._meanings.begin("", before)
        self._unheard = set(nodes)
        self._standing: StreamStanding | None = None
        """Found when it is asked for: with a thousand nodes each look at all takes longer than the news of one."""
        self._hindmost: set[str] = set()
        """Nodes that hold the frontier back: it is found again once all of them have moved on."""
        self._known_whole: set[int] = set()
        self._known_room: dict[int, int] = {}

    def update(self, node: str, news: News) -> None:
        """Take news of a node in."""
        view = self._nodes[node]
        before, last = view.standing, view.last
        view.status, view.writers, view.local_writers = news.status, news.writers, news.local_writers
        view.discarded, view.arrivals, view.more = news.discarded, news.arrivals, news.more
        view.refused, view.file = news.refused or view.refused, news.file or view.file
        if not view.base:
            view.base = dict(news.base)
            self._meanings.begin(node, view.base)
        view.steps.update((step.number, step) for step in news.steps)
        view.last = max(view.last, news.last)
        # A thousand nodes tell of each rank that opens the stream, and most of that changes nothing.
        if node in self._unheard or view.standing != before:
            self._unheard.discard(node)
            self._standing = None
        elif any(step.number <= last for step in news.steps):  # a part of a rank that has moved may continue
            self._standing = None
        elif view.last > last and node in self._hindmost:
            self._hindmost.discard(node)
            if not self._hindmost:
                self._standing = None
        for step in news.steps:
            self._meanings.take(node, step)
            self.is_told = self.is_told or any(form.rank == 0 for form in step.layout.forms)
        self.is_told = self.is_told or bool(news.base or news.attributes)
        if news.status in ENDED and not news.more:
            self._meanings.end(node, view.last, news.attributes)
        if news.attributes != view.attributes:
            view.attributes = news.attributes
            self.attributes.update({name: told for name, told in news.attributes.items() if not tells_meaning(name)})

    @property
    def changes(self) -> list[MeaningChange]:
        """What is read in another way from some step on, in the order of the steps."""
        return self._meanings.changes

    @property
    def is_known(self) -> bool:
        """Whether every node has said how the stream stands there."""
        return not self._unheard

    def _now(self) -> StreamStanding:
        if self._standing is None:
            self._standing = self._find_standing()
        return self._standing

    @property
    def taking_part(self) -> Mapping[str, NodeView]:
        """Nodes that ranks land on; empty until every node was heard, and all ranks have opened the stream."""
        return self._now().taking_part

    def _find_standing(self) -> StreamStanding:
        # What one node says of an aborted stream may look like its end, while the steps are on another one.
        if not self.is_known:
            return StreamStanding({}, {}, 0, lacks_ranks=False, frontier=-1, status="expected")
        nodes = {name: view for name, view in self._nodes.items() if view.local_writers}
        writers = max((view.writers for view in nodes.values()), default=0)
        opened = sum(view.local_writers for view in nodes.values()) - self._counted_twice
        aborted = any(view.status == "aborted" for view in nodes.values())
        # Ranks of a lost node may still come to another one: what the others have closed isn't the end.
        lacks_ranks = opened < writers and not self._goes_without
        part = nodes if opened == writers or aborted or self._goes_without else {}
        left = Counter(arrival.origin for arrival in self._arrivals)
        landing = {name: view for name, view in part.items() if left[name] < view.local_writers}
        # A node that all its ranks have left settles no further step: it would hold the frontier back for good.
        lasts = {name: view.last for name, view in part.items() if name in landing or view.more}
        last = min(lasts.values(), default=-1)
        self._hindmost = {name for name, own in lasts.items() if own == last}
        while last >= 0 and self.continues(last):  # its values are in states that come with a later step
            last -= 1
        statuses = {view.status for view in landing.values()}
        # The first of these that any node has: one that is open keeps the stream open.
        status = next((each for each in ("aborted", "open", "expected", "closed") if each in statuses), "expected")
        frontier = -1 if lacks_ranks and self._whole else last
        return StreamStanding(part, landing, writers if part else 0, lacks_ranks, frontier, status)

    def continues(self, number: int) -> bool:
        """Whether a step counts with a later one only, with which ranks have folded it."""
        parts = (view.steps.get(number) for view in self._nodes.values())
        return any(part is not None and part.layout.continues for part in parts)

    @property
    def _arrivals(self) -> list[Arrival]:
        return [arrival for view in self._nodes.values() for arrival in view.arrivals]

    @property
    def _counted_twice(self) -> int:
        """Ranks that have come from nodes that we know, and count there too."""
        return sum(arrival.origin in self._nodes for arrival in self._arrivals)

    @property
    def unaware(self) -> list[str]:
        """Nodes that may not know that the stream has ended: their ranks have left, or one elsewhere has aborted it."""
        landing = {} if self.status == "aborted" else self._now().landing
        return [name for name in self.taking_part if name not in landing]

    @property
    def is_forsaken(self) -> bool:
        """Whether there are ranks that no node has heard of, and all others have closed the stream."""
        if not self._now().lacks_ranks:
            return False
        return all(view.status == "closed" for view in self._nodes.values() if view.local_writers)

    @property
    def lacks_ranks(self) -> bool:
        """Whether announced ranks are on none of the known nodes, and still waited for (`go_without`)."""
        return self._now().lacks_ranks

    def go_without(self) -> None:
        """Count steps without the ranks that are missing: they may have ended on a node that is lost."""
        self._goes_without, self._standing = True, None

    @property
    def frontier(self) -> int:
        """Highest step that is settled on all nodes; none while ranks are missing whose nodes aren't lost."""
        return self._now().frontier

    @property
    def status(self) -> str:
        """expected, open, closed or aborted; the first aborted rank aborts the stream."""
        return self._now().status

    @property
    def ended(self) -> bool:
        """Whether no further step will come; a node that has more to tell has not told of all yet."""
        return self.status in ENDED and not any(view.more for view in self.taking_part.values())

    def steps_after(self, cursor: int, most: int | None = None) -> list[int]:
        """Numbers of the complete steps above `cursor`, oldest first, at most `most`; discarded ones are left out."""
        return list(islice(filter(self._is_complete, range(cursor + 1, self.frontier + 1)), most))

    def _is_complete(self, number: int) -> bool:
        """Whether the parts of all ranks that land on nodes we know are there, or were."""
        if not self._whole:
            parts = [(view.ranks_in(number), self._ranks_of(name, number)) for name, view in self.taking_part.items()]
            return bool(parts) and all(there >= due for due, there in parts) and any(there for _, there in parts)
        return self.is_whole(number)

    def _ranks_of(self, name: str, number: int) -> int:
        view = self._nodes[name]
        if number <= self._done[name]:
            return view.ranks_in(number)
        part = view.steps.get(number)
        return part.ranks if part else 0

    def is_whole(self, number: int) -> bool:
        """Whether all ranks' parts of a step are there, or were."""
        if number in self._known_whole:
            return True
        now = self._now()
        is_whole = sum([self._ranks_of(name, number) for name in now.taking_part]) >= now.writers
        if is_whole:
            self._known_whole.add(number)
        return is_whole

    def settled_after(self, cursor: int, most: int) -> tuple[list[int], list[int]]:
        """Numbers of the first settled steps above `cursor`, at most `most`, and of torn ones (`torn_after`)."""
        complete = self.steps_after(cursor, most)
        torn = self.torn_after(cursor, complete, complete[-1] if len(complete) == most else self.frontier)
        return sorted([*complete, *torn])[:most], torn

    def torn_after(self, cursor: int, complete: Sequence[int], through: int) -> list[int]:
        """Numbers of the settled steps above `cursor` whose part a known node has lost, oldest first.

        Parameters
        ----------
        cursor
            A step's number.
        complete
            What `steps_after` gives for it.
        through
            Steps after this one aren't looked at.
        """
        settled = range(cursor + 1, through + 1) if self._whole else ()
        return sorted({*settled}.difference(self.discarded, complete))

    def held_after(self, cursor: int) -> list[int]:
        """Numbers of the settled steps above `cursor` that some node still holds a part of, oldest first."""
        held = {number for view in self.taking_part.values() for number in view.steps}
        return sorted(number for number in held - self.discarded if cursor < number <= self.frontier)

    def step(self, node: str, number: int) -> Step | None:
        """Return a node's part of a step; None if an earlier analysis was done with it."""
        return self._nodes[node].steps.get(number)

    def bytes_of(self, number: int) -> int:
        """Bytes of what the nodes hold of a step."""
        parts = (self.step(node, number) for node in self.taking_part)
        return sum(part.bytes for part in parts if part is not None)

    def room_of(self, number: int) -> int:
        """Bytes that a step takes in the pool where it takes most: those of its blocks, in whole pages."""
        if number in self._known_room:
            return self._known_room[number]
        parts = (self.step(node, number) for node in self.taking_part)
        room = max((_room_of(part.layout) for part in parts if part is not None), default=0)
        if self.is_whole(number):
            self._known_room[number] = room
        return room

    def blocks(self, number: int) -> list[tuple[str, Block]]:
        """Return all blocks of a step, each with the name of its node."""
        parts = ((node, self.step(node, number)) for node in self.taking_part)
        return [(node, block) for node, part in parts if part for block in part.blocks]

    @property
    def refused(self) -> list[str]:
        """What the stream lacks since the engine has refused it: the program may not have looked."""
        told = [told_refusal(why) for view in self._nodes.values() for why in view.refused]
        files = sorted({view.file for view in self._nodes.values() if view.file})
        if len(files) > 1:
            told.append(f"its ranks write files of their own, which are streams of their own ({', '.join(files)})")
        return list(dict.fromkeys(told))

    @property
    def discarded(self) -> set[int]:
        """Steps that a node dropped: they are missing in the whole stream."""
        return set().union(*(view.discarded for view in self.taking_part.values()))

    def attributes_at(self, number: int) -> dict[str, Any]:
        """Return the attributes as they were at the end of a step; those of the end with the last step."""
        if self.ended and number >= self.frontier:
            return dict(self.attributes)
        found: dict[str, Any] = {}
        for view in self.taking_part.values():
            found.update(view.base or {})
        for at in sorted({at for view in self.taking_part.values() for at in view.steps if at <= number}):
            for view in self.taking_part.values():
                found.update(_values(view.steps[at].attributes if at in view.steps else ()))
        return found

    def forget(self, through: int) -> None:
        """Release the steps up to `through`, which are done with."""
        self._known_whole = {number for number in self._known_whole if number > through}
        self._known_room = {number: room for number, room in self._known_room.items() if number > through}
        for view in self._nodes.values():
            for number in [number for number in view.steps if number <= through]:
                del view.steps[number]


def described_discards(discarded: Collection[int], of: int) -> list[str]:
    """Return which steps the engine has discarded of `of`, in words; at most the first `NAMED` stretches of them."""
    stretches: list[list[int]] = []
    for step in sorted(discarded):
        if stretches and step == stretches[-1][1] + 1:
            stretches[-1][1] = step
        else:
            stretches.append([step, step])
    if not stretches:
        return []
    named = ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in stretches[:NAMED])
    more = f" and {len(stretches) - NAMED} more stretches" if len(stretches) > NAMED else ""
    why = "their nodes had no room for them (QueueFullPolicy=Discard), or a rank couldn't bring them to another node"
    return [f"{len(discarded)} of {of} steps were discarded, since {why}: {named}{more}"]


def told_refusal(why: str) -> str:
    """Return what a stream lacks that the engine has refused."""
    return f"the program was refused a part of it ({why})"


@kept_by_layout
def _room_of(layout: Layout) -> int:
    return sum(map(align, layout.reach))


def _values(attributes: Iterable[Attribute]) -> dict[str, Any]:
    return {item.name: meant(item) for item in attributes}

"""Watching the nodes: which steps are complete on all of them, and how the stream stands."""

import queue
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bbflow.errors import BbflowError
from bbflow.landing.client import NodeClient
from bbflow.landing.contact import NodeAddress
from bbflow.records import Block, Message, Step
from bbflow.store.streams import ENDED

POLL_S = 5.0
STEPS_PER_REPLY = 256


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


class StreamView:
    """The stream over all nodes: a step counts when every node that takes part has it.

    Parameters
    ----------
    nodes
        Their names.
    done
        For each node, the step up to which an earlier analysis has folded and drained it.
    """

    def __init__(self, nodes: Sequence[str], done: Mapping[str, int]) -> None:
        self._nodes = {name: NodeView(last=done[name]) for name in nodes}
        self._done = dict(done)
        self.attributes: dict[str, Any] = {}
        """Attributes of the stream, the newest of any node."""

    def update(self, node: str, reply: Message) -> None:
        """Take a `watch` reply in."""
        view = self._nodes[node]
        view.status = reply["status"]
        view.writers, view.local_writers = reply["writers"], reply["local_writers"]
        view.discarded = frozenset(reply["discarded"])
        self.attributes.update(reply["attributes"])
        for message in reply["steps"]:
            step = Step.from_wire(message)
            view.steps[step.number] = step
        # With a full reply there may be more, so later steps are not known to be settled yet.
        full = len(reply["steps"]) == STEPS_PER_REPLY
        view.last = max(view.last, max(view.steps, default=-1) if full else reply["last"])

    @property
    def taking_part(self) -> dict[str, NodeView]:
        """Nodes that ranks land on; empty until all ranks have opened the stream."""
        nodes = {name: view for name, view in self._nodes.items() if view.local_writers}
        writers = max((view.writers for view in nodes.values()), default=0)
        complete = sum(view.local_writers for view in nodes.values()) == writers
        aborted = any(view.status == "aborted" for view in nodes.values())
        return nodes if complete or aborted else {}

    @property
    def frontier(self) -> int:
        """Highest step that is settled on all nodes."""
        return min((view.last for view in self.taking_part.values()), default=-1)

    @property
    def status(self) -> str:
        """expected, open, closed or aborted; the first aborted rank aborts the stream."""
        statuses = {view.status for view in self.taking_part.values()}
        for status in ("aborted", "open", "expected"):
            if status in statuses:
                return status
        return "closed" if statuses else "expected"

    @property
    def ended(self) -> bool:
        """Whether no further step will come."""
        return self.status in ENDED

    def steps_after(self, cursor: int) -> list[int]:
        """Numbers of the complete steps above `cursor`, oldest first; discarded ones are left out."""
        nodes = self.taking_part
        return [
            number
            for number in range(cursor + 1, self.frontier + 1)
            if all(number in view.steps or number <= self._done[name] for name, view in nodes.items())
        ]  # fmt: skip

    def step(self, node: str, number: int) -> Step | None:
        """Give a node's part of a step; None if an earlier analysis was done with it."""
        return self._nodes[node].steps.get(number)

    def blocks(self, number: int) -> list[tuple[str, Block]]:
        """Give all blocks of a step, each with the name of its node."""
        parts = ((node, self.step(node, number)) for node in self.taking_part)
        return [(node, block) for node, part in parts if part for block in part.blocks]

    @property
    def discarded(self) -> set[int]:
        """Steps that a node dropped: they are missing in the whole stream."""
        return set().union(*(view.discarded for view in self.taking_part.values()))

    def forget(self, through: int) -> None:
        """Let go of the steps up to `through`, which are done with."""
        for view in self._nodes.values():
            for number in [number for number in view.steps if number <= through]:
                del view.steps[number]


class Watcher(threading.Thread):
    """Waits for news of one node and puts each `watch` reply, or the error that ended it, into a queue.

    Parameters
    ----------
    node
        Whom to watch.
    stream
        Which stream.
    after
        Last step that is known already.
    news
        Gets ``(node name, reply or error)``.
    """

    def __init__(self, node: NodeAddress, stream: str, after: int, news: "queue.SimpleQueue[tuple[str, Any]]") -> None:
        super().__init__(name=f"watch-{node.name}", daemon=True)
        self._client = NodeClient(node)
        self._stream, self._after, self._news = stream, after, news
        self._stopped = threading.Event()

    def run(self) -> None:
        """Watch until `stop`."""
        change, after = -1, self._after
        try:
            while not self._stopped.is_set():
                reply = self._client.request(
                    "watch", POLL_S, stream=self._stream, after=after, change=change, limit=STEPS_PER_REPLY
                )
                # A full reply may have left steps out: ask again at once.
                change = -1 if len(reply["steps"]) == STEPS_PER_REPLY else reply["change"]
                after = max([after, *(step["step"] for step in reply["steps"])])
                self._news.put((self._client.node.name, reply))
        except BbflowError as error:
            if not self._stopped.is_set():
                self._news.put((self._client.node.name, error))
        finally:
            self._client.close()

    def stop(self) -> None:
        """End soon; the thread is a daemon and need not be joined."""
        self._stopped.set()

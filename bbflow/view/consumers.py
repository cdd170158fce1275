"""The analysis' side of the nodes: its cursors and checkpoints, kept there by the agents."""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from bbflow.configuring.settings import Config
from bbflow.errors import BbflowError, NodeError, StreamError
from bbflow.host.closable import Closable
from bbflow.host.waiting import Lasting
from bbflow.landing.client import NodeClient
from bbflow.landing.replies import AttachReply, DropReply, Shown, StatusReply, StreamStatus
from bbflow.landing.requests import (
    AttachRequest,
    DoneRequest,
    DropRequest,
    GiveUpRequest,
    PlanRequest,
    StatusRequest,
    WatchRequest,
)
from bbflow.net.contact import NodeAddress
from bbflow.net.verdicts import DoneReply
from bbflow.reading.rank_plan import RankPlan
from bbflow.view.numbering import NO_STEP, Landed, Numbering, ahead, packed, unpacked
from bbflow.view.returning import Returning
from bbflow.view.stream import STEPS_PER_REPLY, StreamView

FOLD, DRAIN, CALLS, RESCUE = "fold", "drain", "calls", "rescue"

ReplyT = TypeVar("ReplyT", bound=Struct)
Cursor = tuple[int, bytes]
PATIENCE_S = 60.0
"""How long ranks may come whose stream others have closed; `bbflow run` doesn't wait: it knows when programs end."""
LOST_PATIENCE_S = 600.0
"""The same if they may be those of a lost node: they find out by its silence, and wait `NodeLossTimeoutSecs` then."""


class Consumers(Closable):
    """Attaches to a stream on all nodes; an earlier analysis of it is shut out from then on.

    Parameters
    ----------
    nodes
        The BB nodes.
    stream
        The stream.
    names
        Consumers that must be past a step before its space is free.
    owner
        Whose analysis it is.
    take_over
        Whether it may have had another owner until now.
    returning
        Waits for a node whose agent is killed later; without it that is an error at once.

    Raises
    ------
    NodeError
        If a node doesn't answer.
    StreamError
        If it has another owner.
    """

    def __init__(
        self,
        nodes: Sequence[NodeAddress],
        stream: str,
        names: Sequence[str],
        owner: str = "",
        *,
        take_over: bool = False,
        returning: Returning | None = None,
    ) -> None:
        self._stream, self.returning = stream, returning
        """Waits for nodes whose agents are killed."""
        self._clients: dict[str, NodeClient] = {}
        self.epochs: dict[str, int] = {}
        """By which number each node knows this analysis."""
        self._plan: RankPlan | None = None
        self.cursors: dict[str, dict[str, Cursor]] = {}
        """Node to consumer to where an earlier analysis had come, and its checkpoint."""
        self.numbering = Numbering()
        """Which landed step is done with which step of the stream."""
        self.late = 0
        """Steps that the analysis has left out for their times, which the nodes show."""
        self._told: dict[str, dict[str, Landed]] = {}
        self._passed: dict[str, dict[str, int]] = {}
        """Node to consumer to the step up to which the node was told to let go; streams with frames have `_told`."""
        asked = AttachRequest(stream=stream, consumers=tuple(names), owner=owner, take_over=take_over)
        try:
            for address in nodes:
                self._clients[address.name] = NodeClient(address)
            for node, client in self._clients.items():
                self._attached(node, client.request(asked, AttachReply))
        except BaseException:
            self.close()
            raise
        self._begin()

    def _attached(self, node: str, reply: AttachReply) -> None:
        """Take in what a node says of earlier analyses."""
        self.epochs[node] = reply.epoch
        told = {name: unpacked(*cursor) for name, cursor in reply.cursors.items()}
        self._passed[node] = {name: step for name, (step, _) in reply.cursors.items()}
        self.cursors[node] = {name: (step, kept) for name, (step, _, kept) in told.items()}
        self._told[node] = {
            name: (reply.cursors[name][0], last) for name, (_, last, _) in told.items() if last is not None
        }

    def _begin(self) -> None:
        """Continue where a stream with frames was: after the landed step up to which all its consumers are done.

        What any node was told of a consumer holds for all: it is told only after all have the consumer's checkpoint.
        """
        frames = [(landed, name) for told in self._told.values() for name, landed in told.items()]
        # Sorted: the furthest of each comes last, and stays.
        furthest = {name: landed for landed, name in sorted(frames)}
        names = {name for cursors in self.cursors.values() for name in cursors}
        if furthest:
            self.numbering.begin(*min(furthest.get(name, NO_STEP) for name in names))

    def of(self, consumer: str) -> dict[str, Cursor]:
        """Return a consumer's cursor on each node."""
        return {node: cursors[consumer] for node, cursors in self.cursors.items() if consumer in cursors}

    def done_before(self) -> dict[str, int]:
        """Return for each node the step that every consumer was past at the start."""
        if self.numbering.is_framed:
            return dict.fromkeys(self.cursors, self.numbering.done(-1)[1])
        return {node: min(passed.values()) for node, passed in self._passed.items()}

    @property
    def new(self) -> list[str]:
        """Nodes that had not heard of any analysis of the stream."""
        return [node for node, epoch in self.epochs.items() if epoch == 1]

    def landed_before(self) -> dict[str, int]:
        """Return for each node the landed step that every consumer was past at the start."""
        if self.numbering.is_framed:
            return dict.fromkeys(self.cursors, self.numbering.done(-1)[0])
        return self.done_before()

    def commit(
        self,
        consumer: str,
        step: int,
        nodes: Collection[str],
        checkpoint: Callable[[str], bytes],
        last: Collection[str] = (),
        first: Collection[str] = (),
    ) -> None:
        """Commit that a consumer is past a step, on some nodes side by side.

        Parameters
        ----------
        consumer, step
            Who is past which.
        nodes
            Those that are told.
        checkpoint
            Gives what a node stores.
        last
            Nodes that let go when the others know.
        first
            Nodes that have stored their checkpoint before any other lets go, and let go in their turn.

        Raises
        ------
        StreamError
            If another analysis has taken over.
        NodeError
            If a node doesn't answer; others may know by then.
        """
        if not self.numbering.is_framed:
            if len(self._clients) > 1:
                # The checkpoint alone, with the cursor where it was: before any node lets go of a step, one has what
                # was joined.
                held = ((node, self._passed[node][consumer]) for node in first)
                self._tell((node, self._done(consumer, at, node, ahead(step, checkpoint(node)))) for node, at in held)
            for is_last in (False, True):
                own = [node for node in nodes if (node in last) is is_last]
                self._tell((node, self._done(consumer, step, node, checkpoint(node))) for node in own)
            for node in nodes:
                self._passed[node][consumer] = step
            return
        done, checkpoints = self.numbering.done(step), {node: checkpoint(node) for node in nodes}
        # A node must not let go of frames before all know that they are done: another one's part alone says nothing.
        if len(self._clients) > 1:
            told = {node: self._told[node].get(consumer, NO_STEP) for node in nodes}
            self._tell(
                (node, self._done(consumer, landed, node, packed(step, frame, checkpoints[node])))
                for node, (landed, frame) in told.items()
            )
        self._tell(
            (node, self._done(consumer, done[0], node, packed(step, done[1], own))) for node, own in checkpoints.items()
        )
        for node in nodes:
            self._told[node][consumer] = done

    def _done(self, consumer: str, landed: int, node: str, checkpoint: bytes) -> DoneRequest:
        return DoneRequest(
            stream=self._stream, consumer=consumer, epoch=self.epochs[node], step=landed, checkpoint=checkpoint,
            late=self.late,
        )  # fmt: skip

    def _tell(self, requests: Iterable[tuple[str, DoneRequest | PlanRequest]]) -> None:
        """Ask each node something, and wait for all: a thousand, one after the other, would take longer than a step."""
        asked: list[tuple[str, DoneRequest | PlanRequest]] = []
        failed: list[BbflowError] = []
        gone: list[tuple[str, DoneRequest | PlanRequest, NodeError]] = []
        for node, request in requests:
            try:
                self._clients[node].ask(request)
                asked.append((node, request))
            except NodeError as error:
                gone.append((node, request, error))
        for node, request in asked:  # all, whatever one says: what isn't heard would be taken for the next answer
            try:
                self._clients[node].answer(DoneReply)
            except NodeError as error:
                gone.append((node, request, error))
            except BbflowError as error:
                failed.append(error)
        if failed:
            raise failed[0]
        for node, request, missed in gone:  # the others have heard by now, and continue
            self._ask_again(node, request, DoneReply, missed)

    def _ask(self, node: str, asked: Struct, kind: type[ReplyT]) -> ReplyT:
        """Ask a node something; again, if its agent is killed meanwhile and comes back."""
        try:
            return self._clients[node].request(asked, kind)
        except NodeError as error:
            return self._ask_again(node, asked, kind, error)

    def _ask_again(self, node: str, asked: Struct, kind: type[ReplyT], error: NodeError) -> ReplyT:
        if self.returning is None:
            raise error
        until_s = self.returning.until_s()
        while True:
            self._clients[node].close()
            client = self._clients[node] = self.returning.client(self._clients[node].node, error, until_s)
            try:
                # What ranks may fold is in the agent's memory only; and it must have the stream, as it was.
                plan = PlanRequest(stream=self._stream, epoch=self.epochs[node], plan=self._plan)
                client.request(plan, DoneReply)
            except NodeError:
                continue
            except StreamError:  # the next analysis finds out what has become of it
                raise error from None
            try:
                return client.request(asked, kind)
            except NodeError:
                continue

    def let_fold(self, plan: RankPlan | None) -> None:
        """Send the nodes what ranks may fold themselves.

        Raises
        ------
        StreamError
            If another analysis has taken over.
        NodeError
            If a node doesn't answer.
        """
        epochs, self._plan = self.epochs.items(), plan
        self._tell((node, PlanRequest(stream=self._stream, epoch=epoch, plan=plan)) for node, epoch in epochs)

    def forget_checkpoints(self) -> None:
        """Begin as if there had been no earlier analysis."""
        self.cursors = {
            node: {name: (step, b"") for name, (step, _) in cursors.items()} for node, cursors in self.cursors.items()
        }

    def least_capacity(self) -> int:
        """Bytes of the smallest pool."""
        return min(client.status().capacity for client in self._clients.values())

    def statuses(self) -> list[StreamStatus]:
        """Ask each node how the stream is."""
        return [self._ask(node, StatusRequest(), StatusReply).streams[self._stream] for node in self._clients]

    def left_after(self, step: int) -> dict[str, tuple[int, ...]]:
        """Ask each node which landed steps it holds above a step of the stream: about the first of them.

        Raises
        ------
        NodeError
            If a node doesn't answer.
        """
        after = self.numbering.done(step)[0] if self.numbering.is_framed else step
        asked = WatchRequest(stream=self._stream, after=after, change=-1, limit=STEPS_PER_REPLY, timeout_s=0.0)
        shown = {node: self._ask(node, asked, Shown).steps for node in self._clients}
        return {node: tuple(own.step for own in steps if own.step > after) for node, steps in shown.items()}

    def give_up(self) -> None:
        """Make the nodes end the stream, since ranks that have not opened it never will.

        Raises
        ------
        StreamError
            If a rank still writes it.
        """
        for node in self._clients:
            self._ask(node, GiveUpRequest(stream=self._stream), DoneReply)

    def drop(self, unaware: Collection[str], hear: Callable[[Sequence[str]], None]) -> None:
        """Make the nodes forget the stream, which is folded and drained.

        Parameters
        ----------
        unaware
            Nodes that may not know that it has ended.
        hear
            Gets what a node has refused the program, perhaps since its last news, before that forgets it.
        """
        for node in self._clients:
            known: tuple[str, ...] | None = None
            while known is None or known:
                asked = DropRequest(
                    stream=self._stream, epoch=self.epochs[node], left=node in unaware, known=known or ()
                )
                try:
                    known = self._ask(node, asked, DropReply).refused
                except NodeError:
                    if not self._has_dropped(node):
                        raise
                    known = ()
                if known:
                    hear(known)

    def _has_dropped(self, node: str) -> bool:
        """Whether a node whose agent was killed has forgotten the stream before that, and couldn't say so."""
        try:
            return self._stream not in self._clients[node].status().streams
        except NodeError:
            return False

    def wait_no_more(self) -> None:
        """Make waiting for a node an error at once; safe in any thread."""
        if self.returning is not None:
            self.returning.end()

    def close(self) -> None:
        """Close the connections; the cursors stay."""
        self.wait_no_more()
        for client in self._clients.values():
            client.close()


def consumers_of(config: Config) -> list[str]:
    """Name the consumers of an analysis."""
    calls = any(function.of for function in config.functions)
    return [FOLD, *([DRAIN] if config.raw.wanted else []), *([CALLS] if calls else [])]


def owner_of(output: Path) -> str:
    """Name an analysis by its output: what continues with that, on whatever host, is the same one."""
    return f"{output.resolve()} (inode {output.stat().st_ino})"


def no_checkpoint(node: str) -> bytes:
    """Return an empty checkpoint: for a consumer whose output says itself how far it is."""
    return b""


class Forsaken:
    """Ends a stream as aborted whose ranks on one node never come, while those on others have closed it.

    No node knows of that.

    Parameters
    ----------
    view
        The stream over all nodes.
    consumers
        Whose connections to the nodes are used.
    patience_s
        How long the ranks may come.
    clock
        Gives seconds that never run backwards.
    """

    def __init__(
        self,
        view: StreamView,
        consumers: Consumers,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._view, self._consumers, self._lasting = view, consumers, Lasting(patience_s, clock)

    def look(self) -> None:
        """End the stream if it has been so for long enough."""
        if self._lasting.is_enough(self._view.is_forsaken):
            self._consumers.give_up()

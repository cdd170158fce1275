"""Opening a stream for reading: which steps are there, pinned, after waiting for those that must come."""

import queue
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bbflow.configuring.step_time import TimeConfig
from bbflow.errors import BbflowError, CapacityError, StreamError
from bbflow.landing.client import status_of
from bbflow.net.contact import NodeAddress, read_contact
from bbflow.units import format_bytes
from bbflow.view.adapting import Adapting, StreamConfig
from bbflow.view.blocks import BlockReader
from bbflow.view.lease import Lease
from bbflow.view.numbering import Numbering
from bbflow.view.stream import StreamView
from bbflow.view.watch import POLL_S, StreamWatch


class Opening:
    """Pins the complete steps of a stream as they come.

    Parameters
    ----------
    contact
        The contact file.
    stream
        The stream.
    after
        Only steps above this one count.
    """

    def __init__(self, contact: Path, stream: str, after: int = -1) -> None:
        self._stream = stream
        self._after = after
        self._nodes = read_contact(contact)
        names = [node.name for node in self._nodes]
        done = dict.fromkeys(names, -1)
        self.view = StreamView(names, done)
        # An array isn't read for its time: its step may be gone by then.
        read_as = StreamConfig(TimeConfig(by="steps"), schema=None)
        self._adapting = Adapting(names, done, read_as, BlockReader(contact, stream).read, Numbering())
        self.lease = Lease(contact, stream)
        self.steps: list[int] = []
        """Those that are pinned on all their nodes, oldest first."""
        self._seen = after
        self._unheard = set(names)
        self._news: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()

    def wait(self, enough: Callable[["Opening"], bool], timeout_s: float | None) -> None:
        """Take in what all nodes have, then wait until it is enough, or the stream has ended.

        Parameters
        ----------
        enough
            Whether no further step is needed.
        timeout_s
            How long to wait for further steps at most; None: for as long as it takes.

        Raises
        ------
        StreamError
            If the time is up.
        CapacityError
            If no further step can come, since those that are held fill a node.
        NodeError
            If a node is gone.
        """
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        watch = StreamWatch(self._nodes, self._stream, self._news)
        watch.start()
        try:
            news_s = time.monotonic()
            while self._unheard or not (enough(self) or self.view.ended):
                if self._take_news(deadline_s):
                    news_s = time.monotonic()
                elif time.monotonic() > news_s + POLL_S and self.steps:
                    self._check_room()
        finally:
            watch.stop()

    def _take_news(self, deadline_s: float | None) -> bool:
        """Take a reply in; return whether it has brought a step."""
        left_s = POLL_S if deadline_s is None or self._unheard else min(POLL_S, deadline_s - time.monotonic())
        try:
            node, reply = self._news.get(timeout=max(left_s, 0.0))
        except queue.Empty:
            if deadline_s is not None and time.monotonic() >= deadline_s and not self._unheard:
                raise StreamError(
                    f"the time is up: stream {self._stream!r} is {self.view.status} and has "
                    f"{len(self.steps)} complete steps above step {self._after}"
                ) from None
            return False
        if isinstance(reply, BbflowError):
            raise reply
        if not reply.more:
            self._unheard.discard(node)
        for name, own in self._adapting.take(node, reply):
            self.view.update(name, own)
        return self._pin_new()

    def _pin_new(self) -> bool:
        new = self.view.steps_after(self._seen)
        if not new:
            return False
        self._seen = new[-1]
        landed = {step: self.landed_in(step) for step in new}
        held = {node: self.lease.pin(node, {*landed.values()}) for node in self._parts(new)}
        kept = [step for step in new if all(landed[step] in held[node] for node in self._parts([step]))]
        for node, steps in held.items():
            self.lease.unpin(node, steps - {landed[step] for step in kept})  # its other parts are gone already
        self.steps += kept
        return True

    def landed_in(self, step: int) -> int:
        """Return ADIOS2's number of the step in which one lies."""
        parts = (self.view.step(node, step) for node in self.view.taking_part)
        return next(part.landed_in for part in parts if part is not None)

    def _parts(self, steps: list[int]) -> list[str]:
        """Nodes that have a part of any of these steps."""
        return [node for node in self.view.taking_part if any(self.view.step(node, step) for step in steps)]

    def _check_room(self) -> None:
        """Refuse to wait for steps that can't land before ours go."""
        for node in self._nodes:
            self._check_node(node)

    def _check_node(self, node: NodeAddress) -> None:
        status = status_of(node)
        stream = status.streams.get(self._stream)
        if stream is not None and stream.waiting and stream.held <= len(self.steps):
            raise CapacityError(
                f"the {stream.held} steps that this dataset would hold fill BB node {node.name} "
                f"({format_bytes(status.free)} of {format_bytes(status.capacity)} are free), so no further "
                f"step of stream {self._stream!r} can land: open fewer steps (wait=N, after=STEP), or give the node "
                "more capacity"
            )


def stream_names(contact: Path) -> list[str]:
    """Return the streams that any node knows."""
    found = (status_of(node).streams for node in read_contact(contact))
    return sorted({name for streams in found for name in streams})

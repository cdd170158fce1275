"""Following a stream from its start to its end: every complete step is held until it is passed."""

import queue
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bbflow.errors import BbflowError, CapacityError, ConfigError, StreamError, nearest
from bbflow.host.closable import Closable
from bbflow.host.log import tell
from bbflow.landing.client import NodeClient, status_of
from bbflow.landing.replies import JoinReply
from bbflow.landing.requests import JoinRequest, PassRequest
from bbflow.net.contact import NodeAddress, read_contact
from bbflow.net.verdicts import DoneReply
from bbflow.stream.records import FOLDED, Block
from bbflow.units import format_bytes
from bbflow.view.stream import StreamView
from bbflow.view.watch import POLL_S, StreamWatch


def silent(text: str) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class FollowedStep:
    """A complete step's blocks of one variable."""

    number: int
    """ADIOS2's step number."""
    variable: str
    """The variable."""
    blocks: tuple[tuple[NodeAddress, Block], ...]
    """Each with the node that it lies on, in rank order."""


class Following(Closable):
    """Reads a stream as it comes, and holds each step until it is passed.

    Parameters
    ----------
    contact
        The contact file.
    stream
        The stream, which need not be there yet.
    variable
        Whose blocks; None: those of the only array.
    tell
        Says to the user that no step had the variable yet.

    Raises
    ------
    NodeError
        If a node doesn't answer.
    """

    def __init__(
        self, contact: Path, stream: str, variable: str | None = None, tell: Callable[[str], None] = tell
    ) -> None:
        self.nodes = read_contact(contact)
        self.variable = variable
        self._stream = stream
        self._tell = tell
        self._unknown: str | None = None
        self._has_come = False
        names = [node.name for node in self.nodes]
        self.view = StreamView(names, dict.fromkeys(names, -1))
        self.given = 0
        """Steps that were given."""
        self._readers: dict[str, NodeClient] = {}
        self._first = 0
        self._stopped = False
        self._held: set[int] = set()
        self._news: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._watch = StreamWatch(self.nodes, stream, self._news)
        self._watch.start()

    def steps(self) -> Iterator[FollowedStep]:
        """Yield the complete steps, oldest first, until the stream is closed; waits for them.

        Raises
        ------
        StreamError
            If the stream is aborted.
        CapacityError
            If no further step can come, since those that are held fill a node.
        ConfigError
            If no step has the variable.
        """
        last = -1
        while True:
            for number in self.view.steps_after(last):
                last = number
                if number >= self._first:
                    self.given += 1
                    self._held.add(number)
                    yield self._step(number)
            if self._stopped:
                return
            if self.view.ended:
                break
            self._take_news()
        if self._unknown and self.given:
            raise ConfigError(f"no step of stream {self._stream!r} has {self._unknown}")
        if self.view.status == "aborted":
            raise StreamError(f"stream {self._stream!r} was aborted by its writer after {self.given} complete steps")

    def stop(self) -> None:
        """End `steps` soon as if the stream had ended; safe in any thread."""
        self._news.put(("", None))

    @property
    def missing(self) -> int:
        """How many steps were not given: they were discarded, or were gone before they could be held."""
        return self.view.frontier + 1 - self.given

    def pass_through(self, number: int) -> None:
        """Release the steps up to one."""
        for reader in self._readers.values():
            reader.request(PassRequest(step=number), DoneReply)
        self._held = {held for held in self._held if held > number}
        self.view.forget(number)

    def _take_news(self) -> None:
        try:
            node, reply = self._news.get(timeout=POLL_S)
        except queue.Empty:
            self._check_room()
            return
        if isinstance(reply, BbflowError):
            raise reply
        if reply is None:
            self._stopped = True
            return
        if reply.local_writers and node not in self._readers:
            self._join(node)
        self.view.update(node, reply)

    def _join(self, name: str) -> None:
        client = NodeClient(next(node for node in self.nodes if node.name == name))
        self._readers[name] = client
        oldest = client.request(JoinRequest(stream=self._stream, after=-1), JoinReply).oldest
        self._first = max(self._first, oldest)

    def _step(self, number: int) -> FollowedStep:
        placed = self.view.blocks(number)
        name = self._choose(sorted({block.name for _, block in placed if block.kind.endswith("Array")}))
        addresses = {node.name: node for node in self.nodes}
        own = [(addresses[node], block) for node, block in placed if block.name == name and block.points]
        if any(block.folded for _, block in own):
            raise StreamError(f"{name} of step {number} can't be taken: {FOLDED}")
        return FollowedStep(number, name, tuple(sorted(own, key=lambda pair: pair[1].rank)))

    def _choose(self, arrays: Sequence[str]) -> str:
        """Return the variable; one that is not in every step is fine, but a name that never comes is a mistake."""
        if self.variable is None:
            if len(arrays) != 1:
                raise ConfigError(f"stream {self._stream!r} has {len(arrays)} arrays: say which with --variable")
            (self.variable,) = arrays
        if self.variable in arrays:
            self._unknown, self._has_come = None, True
        elif not self._has_come and not self._unknown:
            self._unknown = f"an array {self.variable!r}; {nearest(self.variable, arrays)}"
            self._tell(f"the first step of stream {self._stream!r} has not {self._unknown}")
        return self.variable

    def _check_room(self) -> None:
        """Refuse to wait for steps that can't land before ours go."""
        for node in self.nodes:
            status = status_of(node)
            stream = status.streams.get(self._stream)
            if self._held and stream is not None and stream.waiting and stream.held <= len(self._held):
                raise CapacityError(
                    f"the {len(self._held)} steps of the group fill BB node {node.name} "
                    f"({format_bytes(status.free)} of {format_bytes(status.capacity)} are free), so no further "
                    f"step of stream {self._stream!r} can land: give a smaller --group, or the node more capacity"
                )

    def close(self) -> None:
        """Release everything."""
        self._watch.stop()
        for reader in self._readers.values():
            reader.close()


def grouped(steps: Iterator[FollowedStep], length: int) -> Iterator[Sequence[FollowedStep]]:
    """Cut steps into groups of a length; the last one may be shorter."""
    group: list[FollowedStep] = []
    for step in steps:
        group.append(step)
        if len(group) == length:
            yield group
            group = []
    if group:
        yield group

"""Ranks that should have written a stream and never opened it, as the nodes' statuses tell."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from msgspec import Struct

from bbflow.errors import BbflowError
from bbflow.landing.client import NodeClient, tell_node
from bbflow.landing.replies import Shown, StatusReply, StreamStatus
from bbflow.landing.requests import GiveUpRequest, WatchRequest
from bbflow.net.contact import NodeAddress

MOST_NAMED = 8
"""How many ranks are named one by one."""


@dataclass(frozen=True, slots=True)
class Absent:
    """Some ranks of a stream have opened it, others have not."""

    stream: str
    """Its name."""
    writers: int
    """How many ranks each of them says that there are."""
    opened: tuple[int, ...]
    """Those that have opened it, on whatever node."""
    is_over: bool
    """Whether these have all closed it: then the others won't come, if the program has ended."""
    was_whole: bool = False
    """Whether a step has been whole: then the others had opened it, on a node that has lost what it held."""

    def __str__(self) -> str:
        count = len(self.opened)
        if self.was_whole:
            return (
                f"stream {self.stream!r} is aborted: no BB node knows {self.writers - count} of its {self.writers} "
                "ranks any more: theirs has lost what it held"
            )
        named = ", ".join(map(str, self.opened[:MOST_NAMED])) + (", …" if count > MOST_NAMED else "")
        return (
            f"stream {self.stream!r} is aborted: {self.writers - count} of {self.writers} ranks never opened it. "
            f"The launcher's variables, or the parameter Writers, say that there are {self.writers}; {count} opened it "
            f"({named}). No step is whole without all of them. If only these are to write it, give each of them the "
            f"engine's parameters Writers={count} and a Rank from 0 to {count - 1}"
        )


def absent_ranks(stream: str, parts: Sequence[StreamStatus]) -> Absent | None:
    """Find out whether a stream lacks ranks that it was announced to have.

    Parameters
    ----------
    stream
        Its name.
    parts
        What each node says of it.

    Returns
    -------
    Absent or None
        None if no rank has opened it, or all have.
    """
    opened = {number for part in parts for number, _ in part.ranks}
    closed = {number for part in parts for number, how in part.ranks if how == "closed"}
    writers = max((part.writers for part in parts), default=0)
    if not 0 < len(opened) < writers:
        return None
    was_whole = any(step >= 0 for part in parts for step in part.consumers.values())
    return Absent(stream, writers, tuple(sorted(opened)), opened == closed, was_whole)


def give_up_absent(
    nodes: Sequence[NodeAddress],
    statuses: Sequence[StatusReply],
    stream: str,
    tell: Callable[[NodeAddress, Struct], None] = tell_node,
) -> None:
    """End a stream that ranks have never opened, now that its program is over, if those that did have closed it.

    Nothing is done while a node doesn't answer: its ranks may have opened, and closed, the stream there.

    Parameters
    ----------
    nodes
        The BB nodes that aren't lost.
    statuses
        What those say that answer.
    stream
        Its name.
    tell
        Sends a node a request.
    """
    if len(statuses) < len(nodes):
        return
    parts = [status.streams[stream] for status in statuses if stream in status.streams]
    absent = absent_ranks(stream, parts)
    if absent is None or not absent.is_over or any(part.status == "aborted" for part in parts):
        return
    _give_up(nodes, GiveUpRequest(stream=stream), tell)


def give_up_waiting(nodes: Sequence[NodeAddress], statuses: Sequence[StatusReply]) -> None:
    """End streams whose ranks wait for room while others have never opened them: without a whole step there is none.

    A node lets its ranks wait for as long as they have said. Nothing is done where a step has been whole, since all
    ranks have opened such a stream, or while a node doesn't answer.

    Parameters
    ----------
    nodes
        All BB nodes.
    statuses
        What those say that answer.
    """
    if len(statuses) < len(nodes):
        return
    for stream in {name for status in statuses for name, part in status.streams.items() if part.waiting}:
        parts = [status.streams[stream] for status in statuses if stream in status.streams]
        absent = absent_ranks(stream, parts)
        if absent and not absent.was_whole:
            _give_up(nodes, GiveUpRequest(stream=stream, missing=absent.writers - len(absent.opened)), tell_node)


def _give_up(nodes: Sequence[NodeAddress], asked: GiveUpRequest, tell: Callable[[NodeAddress, Struct], None]) -> None:
    for node in nodes:
        with suppress(BbflowError):  # a rank has come after all, or the node is gone: whoever asks looks again
            tell(node, asked)


def refusals(nodes: Sequence[NodeAddress], stream: str) -> list[str]:
    """Return why the engine has refused Opens of a stream, as the nodes know that answer."""
    told: list[str] = []
    for node in nodes:
        with suppress(BbflowError), NodeClient(node) as client:
            asked = WatchRequest(stream=stream, after=-1, change=-1, limit=1, timeout_s=0.0)
            told += client.request(asked, Shown).refused
    return list(dict.fromkeys(told))

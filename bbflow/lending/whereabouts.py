"""Which nodes have a copy of a file, who brings one, and who waits for it; and what is said of that.

A file is asked of its source once: the first node that wants it is told to copy it from there, the others wait. Each
node that has it lends it to a few at a time, so that it spreads as a tree. A worker brings what it was told to bring,
or says that it couldn't, or its connection ends; then another's turn comes.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec import Struct

from bbflow.net.frames import parser
from bbflow.reading.wire_types import Count, FilePath, Name

MOST_LOANS = 2
"""Copies that are taken from one node at once: with more, none of them is there sooner to be lent itself."""


class Lender(Struct, frozen=True):
    """Where a node lends its copies."""

    host: Name
    """``gethostname()`` there."""
    tcp: Name
    """``host:port``."""


class WantMessage(Struct, frozen=True, tag_field="op", tag="want", kw_only=True):
    """A worker is to copy a file; it waits for a `TurnReply`."""

    name: FilePath
    """Of the file's entry, which stands for one version of one source."""


class HaveMessage(Struct, frozen=True, tag_field="op", tag="have", kw_only=True):
    """A worker's node has a file, whole."""

    name: FilePath
    lender: Lender
    """Where others get it."""


class FailedMessage(Struct, frozen=True, tag_field="op", tag="failed", kw_only=True):
    """A worker couldn't bring what it was told to bring."""

    name: FilePath
    is_away: bool = False
    """Whether no lender runs where it was told to ask."""


class TurnReply(Struct, frozen=True, kw_only=True):
    """Who wants a file is to copy it now."""

    ok: bool = True
    lender: Lender | None
    """From there; from its source if None."""


class ReadMessage(Struct, frozen=True, tag_field="op", tag="read", kw_only=True):
    """A worker reads a part of a copy."""

    name: FilePath
    offset: Count
    size: Count
    """Bytes, as many as there are at most."""


class PartReply(Struct, frozen=True, kw_only=True):
    """A part of a copy; the frame's checksum is over it too."""

    ok: bool = True
    content: bytes


Said = WantMessage | HaveMessage | FailedMessage
parse_said = parser(Said, "a request about copies")
parse_read = parser(ReadMessage, "a request for a copy")


@dataclass(slots=True)
class _File:
    lenders: dict[Lender, int] = field(default_factory=dict)
    """Nodes that have it, with how many copies are taken from each now."""
    bringing: dict[int, Lender | None] = field(default_factory=dict)
    """Workers that copy it, and from where."""
    waiting: deque[int] = field(default_factory=deque)
    """Workers that want it."""


class Whereabouts:
    """Decides where copies come from. A worker is a number; it brings one file at a time."""

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}
        self._busy: dict[int, str] = {}

    def want(self, worker: int, name: str) -> Iterator[tuple[int, Lender | None]]:
        """Queue a worker for a file; go through the workers whose turn it is, with where they copy it from."""
        self._busy[worker] = name
        self._files.setdefault(name, _File()).waiting.append(worker)
        yield from self._turns(name)

    def have(self, worker: int, name: str, lender: Lender) -> Iterator[tuple[int, Lender | None]]:
        """Take in that a worker's node has a file."""
        self._end(worker)
        self._files.setdefault(name, _File()).lenders.setdefault(lender, 0)
        yield from self._turns(name)

    def failed(self, worker: int, *, is_away: bool) -> Iterator[tuple[int, Lender | None]]:
        """Take in that a worker couldn't bring its file: the node that it was to ask has it no more, or is away."""
        name = self._busy.get(worker)
        if name is None:
            return
        lender = self._end(worker)
        for each in [name] if lender is None or not is_away else list(self._files):
            if lender is not None:
                self._files[each].lenders.pop(lender, None)
            yield from self._turns(each)

    def left(self, worker: int) -> Iterator[tuple[int, Lender | None]]:
        """Take in that a worker is gone; what its node has stays."""
        name = self._busy.get(worker)
        if name is not None:
            self._end(worker)
            yield from self._turns(name)

    def _end(self, worker: int) -> Lender | None:
        """Forget what a worker waits for or brings; return where it copied it from."""
        name = self._busy.pop(worker, None)
        if name is None:
            return None
        file = self._files[name]
        if worker in file.waiting:
            file.waiting.remove(worker)
        lender = file.bringing.pop(worker, None)
        if lender in file.lenders:
            file.lenders[lender] -= 1
        return lender

    def _turns(self, name: str) -> Iterator[tuple[int, Lender | None]]:
        file = self._files[name]
        while file.waiting:
            lender = min(file.lenders, key=lambda each: file.lenders[each], default=None)
            if lender is not None and file.lenders[lender] >= MOST_LOANS:
                break
            if lender is None and file.bringing:
                break
            worker = file.waiting.popleft()
            file.bringing[worker] = lender
            if lender is not None:
                file.lenders[lender] += 1
            yield worker, lender
        if not (file.lenders or file.bringing or file.waiting):
            del self._files[name]

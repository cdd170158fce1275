"""The writers' side of one stream on one node: from open to close, rank by rank."""

import math
import struct
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass

from msgspec import UnsetType

from bbflow.errors import CapacityError, ProtocolError, StreamError
from bbflow.landing.admission import find_room, make_room_for_step, must_land, needs_before
from bbflow.landing.commit_checks import commit_of
from bbflow.landing.replies import RoomReply
from bbflow.landing.requests import CommitRequest, OpenRequest
from bbflow.reading.wire_types import Attribute
from bbflow.store.entries import (
    CloseRecord,
    CommitRecord,
    DiscardRecord,
    GrantRecord,
    OpenRecord,
    RefuseRecord,
    StatesRecord,
)
from bbflow.store.extents import Extent
from bbflow.store.node import NodeStore
from bbflow.store.offers import Offer
from bbflow.store.ranks import Rank
from bbflow.store.streams import ENDED, Stream
from bbflow.stream.layouts import NO_BLOCKS

Clock = Callable[[], float]
PATIENCE_S = 60.0
"""How long an agent that was started again waits for ranks that have not opened the stream."""
POOL_PATIENCE_S = 10.0
"""How long a rank that would rather discard or spill waits until files have left the pool's room."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a rank has asked for when it opened the stream."""

    policy: str
    """What a step does when there is no room: Block, Discard or Spill."""
    patience_s: float
    """How long it waits for ranks that have not opened the stream."""
    opened_s: float
    """When it opened it (seconds since the epoch)."""
    process: tuple[str, int]
    """Host, and the process' id there."""
    file: str
    """The file that the program names; empty if it isn't known."""

    @classmethod
    def of(cls, asked: OpenRequest, now_s: float) -> "Terms":
        """Take them from a request."""
        return cls(asked.policy, asked.open_timeout_s, now_s, (asked.host, asked.pid), asked.file)


class Writers:
    """The ranks that write one stream to this node.

    Parameters
    ----------
    store
        The node's store.
    name
        The stream.
    clock
        Gives seconds since the epoch.
    """

    def __init__(self, store: NodeStore, name: str, clock: Clock) -> None:
        self._store = store
        self._name = name
        self._clock = clock
        self._terms: dict[int, Terms] = {}
        self._spills: dict[int, bool] = {}
        """Whether a step's blocks go to the PFS: decided at its first rank's begin, for all of them."""
        self._waited_s: dict[int, float] = {}
        self._whole_through: float = math.inf
        self._began_s = clock()
        self._why_over = ""
        """Why the stream was ended here; empty if a rank of it is gone."""
        self._bound: Stream | None = store.streams.get(name)
        for rank in self._bound.ranks.values() if self._bound else ():
            self._note_closed(rank)

    @property
    def is_stale(self) -> bool:
        """Whether the stream was dropped since; there may be a new one of the same name."""
        return self._bound is not self._store.streams.get(self._name)

    @property
    def waited_s(self) -> float:
        """Longest total time that one rank has waited for room (seconds)."""
        return max(self._waited_s.values(), default=0.0)

    @property
    def _stream(self) -> Stream:
        if self._bound is None:
            raise StreamError(f"stream {self._name!r} has not been opened")
        return self._bound

    @property
    def _ranks(self) -> Mapping[int, Rank]:
        return self._stream.ranks

    def open(self, asked: OpenRequest, *, is_followed: bool = False) -> Rank:
        """Admit a rank, or readmit it; return how far it is.

        Parameters
        ----------
        asked
            What it says.
        is_followed
            Whether an analysis follows the stream now.

        Raises
        ------
        StreamError
            If the rank is in already, or the ranks disagree on how many they are.
        """
        rank, stream = asked.rank, self._store.streams.get(self._name)
        # A rank that lost the answer to its close, or its node: those that are here have closed the stream meanwhile.
        may_come = (asked.resume or bool(asked.moved_from)) and stream is not None and stream.status == "closed"
        if stream is not None and stream.status in ENDED and not may_come:
            raise StreamError(_why_ended(stream, asked, is_followed=is_followed))
        if stream is None or rank not in stream.ranks:
            self._check_counts(stream, asked)
            self._check_file(asked)
            self._store.record(_open_of(asked))
            self._bound = self._store.streams[self._name]
        elif not asked.resume:
            raise StreamError(self._why_taken(asked))
        self._terms[rank] = Terms.of(asked, self._clock())
        self._stream.pass_discarded(rank, asked.settled)
        return self._ranks[rank]

    def _why_taken(self, asked: OpenRequest) -> str:
        """Name who writes as a rank that another process would be."""
        rank, own = asked.rank, self._terms.get(asked.rank)
        is_known = own is not None and own.process[1] > 0
        if own is not None and is_known and own.process == (asked.host, asked.pid):
            return (
                f"this process has opened stream {self._name!r} already{_as(own.file)}: Close that before the next, "
                "with KeepOpen=yes, or give them different streams ('{open}' in Stream gives each Open its own)"
            )
        who = f"process {own.process[1]} on {own.process[0]}{_as(own.file)}" if own and is_known else "another process"
        return (
            f"rank {rank} of stream {self._name!r} is {who}, which may open its next file later: the same processes "
            "write all files of a stream. Give other programs, or groups of ranks, streams of their own (Stream, or a "
            "rule of 'select' for each), and ranks without MPI their Rank and Writers"
        )

    def _check_file(self, asked: OpenRequest) -> None:
        """Refuse a rank that names another file than the others: without MPI each process writes one of its own.

        No step becomes whole without it, so the stream ends.
        """
        other = next((number for number, terms in self._terms.items() if _differ(terms.file, asked.file)), None)
        if other is None or asked.resume:
            return
        self._why_over = (
            f"rank {asked.rank} opens stream {self._name!r}{_as(asked.file)}, but rank {other}"
            f"{_as(self._terms[other].file)}: two files at once are two streams. 'stream: NAME-{{rank}}' in a rule "
            "of 'select', or {rank} in Stream, gives each process one of its own"
        )
        self._store.record(RefuseRecord(stream=self._name, why=self._why_over))
        self._store.abort(self._name, other)
        raise StreamError(self._why_over)

    @property
    def file(self) -> str:
        """The file that the ranks here name; empty if it isn't known."""
        return next((terms.file for terms in self._terms.values() if terms.file), "")

    def _check_counts(self, stream: Stream | None, asked: OpenRequest) -> None:
        rank, writers, local_writers = asked.rank, asked.writers, asked.local_writers
        if rank >= writers or not (asked.moved_from or local_writers) or local_writers > writers:
            raise StreamError(f"rank {rank} of {writers} writers ({local_writers} on this node) can't be")
        if stream is None or not stream.ranks:
            return
        if (stream.writers, stream.announced) != (writers, local_writers):
            raise StreamError(
                f"rank {rank} says that stream {self._name!r} has {writers} writers ({local_writers} here), "
                f"another rank said {stream.writers} ({stream.announced}): set Writers, or Stream apart; if only some "
                "hosts of the job have BB nodes, RanksPerNode"
            )
        if not asked.moved_from and len(stream.ranks) - len(stream.moved) >= stream.announced:
            raise StreamError(
                f"rank {rank} is one more than the {stream.announced} ranks of stream {self._name!r} that should land "
                "on this node: if only some hosts of the job have BB nodes, set RanksPerNode"
            )

    def begin(self, rank: int, step: int, size: int) -> RoomReply | None:
        """Admit a rank to a step; None while it must wait.

        Raises
        ------
        CapacityError
            If the step can't ever fit.
        StreamError
            If the stream was aborted, or ranks that were announced don't come.
        """
        self._check_alive()
        progress = self._ranks[rank]
        if step != progress.settled + 1:
            raise ProtocolError(f"rank {rank} began step {step} after step {progress.settled}")
        self._check_can_be_whole(step)
        if not self._decide(rank, step):
            return None
        if step in self._stream.discarded:
            self._stream.pass_discarded(rank, step)
            self._store.release(self._stream)
            return RoomReply(status="discard")
        # What it was offered and has not seen, or what it had before its connection broke.
        if progress.granted:
            return RoomReply(extents=progress.granted)
        if self._spills[step]:
            return RoomReply(status="spill")
        if size == 0:
            return RoomReply()
        return self._reserve(rank, step, size)

    def offer(self, rank: int, step: int, size: int) -> Offer | None:
        """Grant a rank room for a step that it has not begun; None if there is none at once, or nothing is sure yet."""
        # With the other policies what becomes of a step is decided when it begins, for all ranks.
        if self._terms[rank].policy != "Block" or step in self._stream.discarded:
            return None
        try:
            self._check_alive()
            self._check_can_be_whole(step)
            is_landing = self._decide(rank, step) and not self._spills[step]
            extent = self._find(rank, step, size) if is_landing else None
        except (CapacityError, StreamError):  # it is told when it begins
            return None
        if extent is None:
            return None
        self._ranks[rank].offer(extent)
        return Offer(self._name, rank, step, extent)

    def withdraw(self, rank: int) -> None:
        """Take back room that a rank has not used: it was offered and not taken, or the stream is gone."""
        self._store.extents.give_back(self._ranks[rank].keep([]))

    def confirm(self, rank: int) -> None:
        """Note in the index the room that a rank was offered, and has taken."""
        if self.is_stale:
            self.withdraw(rank)
        elif offered := self._ranks[rank].offered:
            self._grant(rank, self._ranks[rank].settled + 1, offered)

    def _grant(self, rank: int, step: int, extents: Iterable[Extent]) -> None:
        self._store.record(GrantRecord(stream=self._name, rank=rank, step=step, extents=tuple(extents)))

    def _decide(self, rank: int, step: int) -> bool:
        """Decide once for all ranks what becomes of a step; false while it isn't known whether it fits."""
        if step in self._spills:
            return True
        policy = self._terms[rank].policy
        is_full = False
        if policy != "Block":
            # Files may still leave the room: a stream's first steps aren't dropped for that.
            if not self._store.has_pool and self._clock() < self._terms[rank].opened_s + POOL_PATIENCE_S:
                return False
            needs = self._needs_before(rank, step)
            if needs is None:
                return False
            is_full = not (self._store.has_pool and make_room_for_step(self._store, self._stream, needs))
        if is_full and policy == "Discard" and step not in self._stream.discarded:
            self._store.record(DiscardRecord(stream=self._name, step=step))
        # Whole steps are asked for no more.
        self._spills = {number: spills for number, spills in self._spills.items() if number > self._stream.last}
        self._spills[step] = is_full and policy == "Spill"
        return True

    def _note_closed(self, rank: Rank) -> None:
        if rank.closed:
            self._whole_through = min(self._whole_through, rank.settled)

    def _check_can_be_whole(self, step: int) -> None:
        if step <= self._whole_through:
            return
        left = [number for number, rank in self._ranks.items() if rank.closed and rank.settled < step]
        if left and step not in self._stream.discarded:
            raise StreamError(
                f"rank {left[0]} of stream {self._name!r} has closed it before step {step}, which can't become whole "
                "any more: all ranks must write the same number of steps"
            )

    def _needs_before(self, rank: int, step: int) -> list[int] | None:
        needs = needs_before(self._stream, step)
        if needs is None:
            self._check_patience(rank)
        return needs

    def alike(self, rank: int, step: int, size: int) -> Hashable:
        """Return what `begin`s of ranks without room have in common; None for one with room."""
        if rank not in self._terms or rank not in self._ranks or self._ranks[rank].granted:
            return None
        return self._name, id(self), self._terms[rank].policy, step, size

    def reserve(self, rank: int, step: int, size: int) -> RoomReply | None:
        """Return a rank more room in its open step; None while it must wait."""
        self._check_alive()
        if size <= 0 or self._ranks[rank].settled + 1 != step:
            raise ProtocolError(f"rank {rank} asked for {size} bytes in step {step}, which is not its open step")
        self._check_can_be_whole(step)
        # It may have begun before this agent was started.
        self._spills.setdefault(step, False)
        return self._reserve(rank, step, size)

    def _reserve(self, rank: int, step: int, size: int) -> RoomReply | None:
        spills = self._terms[rank].policy == "Spill"
        try:
            extent = self._find(rank, step, size)
        except CapacityError:
            if not spills:
                raise
            extent = None
        if extent is None:
            return RoomReply(status="spill") if spills else None
        try:
            self._grant(rank, step, [extent])
        except CapacityError:
            # What the index doesn't have, an agent that is started again would give to another rank.
            self._store.extents.give_back([extent])
            raise
        return RoomReply(extents=[extent])

    def _find(self, rank: int, step: int, size: int) -> Extent | None:
        return find_room(self._store, self._stream, rank, step, size, lambda: self._needs_before(rank, step))

    def _check_patience(self, rank: int) -> None:
        missing = self._stream.local_writers - len(self._ranks)
        if missing and self._is_impatient(rank):
            all_here = f"the {self._stream.local_writers} ranks of stream {self._name!r} that should land on this node"
            raise StreamError(_why_impatient(f"{missing} of {all_here}", self._terms[rank]))

    def patience_ends_s(self) -> list[float]:
        """When each rank stops waiting for ranks that have not opened the stream; none if all are there."""
        if self.is_stale or not self.lacks_ranks:
            return []
        return [terms.opened_s + terms.patience_s for terms in self._terms.values()]

    def given_up_s(self) -> float | None:
        """When the stream ends that the ranks which opened it have closed, and others never opened; None for others."""
        if self.is_stale or self._stream.status != "open" or not self.lacks_ranks or self._open_ranks:
            return None
        ends_s = [terms.opened_s + terms.patience_s for terms in self._terms.values()]
        return max(ends_s, default=self._began_s + PATIENCE_S)

    @property
    def lacks_ranks(self) -> bool:
        """Whether not all ranks that should land on this node have opened the stream."""
        return len(self._ranks) < self._stream.local_writers

    @property
    def _open_ranks(self) -> list[int]:
        return [number for number, rank in self._ranks.items() if not rank.closed]

    def give_up(self, missing: int = 0) -> None:
        """End the stream as aborted, since there are ranks which never open it: no step of theirs becomes whole.

        Parameters
        ----------
        missing
            How many these are, on whatever node, if ranks here wait for room that isn't free before those come.

        Raises
        ------
        StreamError
            If a rank still writes it, and has not waited for long enough.
        """
        if self._stream.status in ("expected", "aborted"):
            return
        writing = self._open_ranks
        if patient := [number for number in writing if not (missing and self._is_impatient(number))]:
            raise StreamError(f"rank {patient[0]} still writes stream {self._name!r}")
        if writing:
            which = f"{missing} of the {self._stream.writers} ranks of stream {self._name!r}"
            self._why_over = _why_impatient(which, self._terms[writing[0]])
            self._store.record(RefuseRecord(stream=self._name, why=self._why_over))
        self._store.abort(self._name, next(iter(self._ranks)))

    def _is_impatient(self, rank: int) -> bool:
        terms = self._terms.get(rank)
        return terms is not None and self._clock() >= terms.opened_s + terms.patience_s

    def holds(self, rank: int, offset: int, size: int) -> bool:
        """Whether a rank may write these bytes of the pool now."""
        return any(start <= offset and offset + size <= start + room for start, room in self._ranks[rank].granted)

    def commit(self, rank: int, asked: CommitRequest) -> None:
        """Take a rank's step; with the last rank's it becomes visible.

        A step of an aborted stream can't be completed any more: what a rank still commits is dropped.

        Raises
        ------
        ProtocolError
            If a block doesn't lie in what the rank was given.
        """
        progress, step = self._ranks[rank], asked.step
        if self.is_stale:
            self.withdraw(rank)
            return
        first = step if isinstance(asked.held, UnsetType) else step - len(asked.held.steps)
        if progress.settled + 1 != first:
            raise ProtocolError(f"rank {rank} committed step {first}, which is not its open step")
        self._store.record(commit_of(self._name, rank, progress, asked, self._clock()))
        self._waited_s[rank] = asked.waited_s

    def end_states(self, rank: int) -> None:
        """Free the room that was kept for the states of a rank: it has landed the last after its plan's end."""
        if self.is_stale or not self._ranks[rank].state_bytes:
            return
        is_last = not any(other.state_bytes for number, other in self._ranks.items() if number != rank)
        ends = b"" if is_last else struct.pack(f"<{len(self._stream.ends)}q", *self._stream.ends)
        self._store.record(StatesRecord(stream=self._name, ends=ends, ranks=((rank, 0),)))

    def hold(self, rank: int, step: int) -> RoomReply:
        """Reply to a rank whether it may hold a step, or must land it as it is, with all it holds: others need room."""
        self._check_alive()
        if self._ranks[rank].settled >= step:
            raise ProtocolError(f"rank {rank} holds step {step}, which it has behind it")
        return RoomReply(status="land" if must_land(self._store.extents, self._stream, rank, step) else "ok")

    def skip(self, rank: int, step: int) -> None:
        """Discard a step that a rank can't bring any more."""
        self._check_alive()
        if self._ranks[rank].settled + 1 != step:
            raise ProtocolError(f"rank {rank} skipped step {step}, which is not its open step")
        # For all ranks: no step is shown with a part missing.
        if step not in self._stream.discarded:
            self._store.record(DiscardRecord(stream=self._name, step=step))
        # Its own steps follow each other without a gap, also over one that is dropped.
        self._store.record(_empty_commit(self._name, rank, step))

    def close(self, rank: int, attributes: tuple[Attribute, ...]) -> None:
        """Release a rank that has written all its steps; with the last one the stream is closed."""
        if self.is_stale:
            self.withdraw(rank)
            return
        self._store.record(CloseRecord(stream=self._name, rank=rank, attributes=attributes))
        self._note_closed(self._ranks[rank])

    def abort(self, rank: int) -> None:
        """Drop a rank's open step; the stream keeps what was committed and ends as aborted."""
        if self.is_stale:
            self.withdraw(rank)
        else:
            self._store.abort(self._name, rank)

    def settled(self, rank: int) -> int:
        """Return the last step that a rank has behind it."""
        return self._ranks[rank].settled

    def lost_after_s(self, rank: int) -> float | None:
        """How long a rank may be away; None if it need not come back."""
        progress = self._ranks[rank]
        return None if progress.closed else progress.loss_timeout_s

    def _check_alive(self) -> None:
        if self.is_stale:
            raise StreamError(f"stream {self._name!r} was dropped")
        if self._stream.status in ENDED:
            raise StreamError(self._why_over or f"stream {self._name!r} was aborted: another of its ranks is gone")


def _open_of(asked: OpenRequest) -> OpenRecord:
    return OpenRecord(
        stream=asked.stream,
        rank=asked.rank,
        writers=asked.writers,
        local_writers=asked.local_writers,
        moved_from=asked.moved_from,
        settled=asked.settled,
        loss_timeout_s=asked.loss_timeout_s,
    )


def _empty_commit(stream: str, rank: int, step: int) -> CommitRecord:
    """Return the commit of a step to which a rank brings nothing."""
    return CommitRecord(
        stream=stream,
        rank=rank,
        step=step,
        layout=NO_BLOCKS,
        sources=b"",
        files=(),
        values=(),
        extremes=b"",
        attributes=(),
        began_s=0.0,
        committed_s=0.0,
    )


def _why_impatient(which: str, terms: Terms) -> str:
    return (
        f"{which} did not open it within OpenTimeoutSecs={terms.patience_s:g}: if only some ranks of the program open "
        "it, give each of these Rank and Writers; if only some hosts of the job have BB nodes, set RanksPerNode"
    )


def _as(file: str) -> str:
    return f" as {file!r}" if file else ""


def _differ(one: str, other: str) -> bool:
    return bool(one and other and one != other)


def _why_ended(stream: Stream, asked: OpenRequest, *, is_followed: bool) -> str:
    if asked.resume:
        return f"stream {stream.name!r} has ended as {stream.status} meanwhile: start the program again"
    if stream.status == "aborted" and asked.rank not in stream.ranks:
        return (
            f"stream {stream.name!r} was aborted before rank {asked.rank} had opened it: another of its ranks is gone, "
            "or all others had closed it and OpenTimeoutSecs was over; if that was an earlier run's, forget it with "
            f"'bbflow drop {stream.name}'"
        )
    if is_followed:
        return (
            f"stream {stream.name!r} was closed by the program, and ends with that: set KeepOpen=yes in its XML, or "
            "choose it by 'select' in the analysis' configuration, and all files that follow are one stream"
        )
    return (
        f"stream {stream.name!r} was written before and still holds steps or results: fold it with "
        f"'bbflow fold', or forget it with 'bbflow drop {stream.name}'"
    )

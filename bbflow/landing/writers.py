"""The writers' side of one stream on one node: from open to close, rank by rank."""

from collections.abc import Callable
from dataclasses import dataclass, field

from bbflow.errors import ProtocolError, StreamError
from bbflow.landing.admission import RankProgress, fits_whole_step, reserve
from bbflow.records import Block, Message, Step
from bbflow.store.extents import Extent, align
from bbflow.store.node import NodeStore
from bbflow.store.streams import ENDED

Clock = Callable[[], float]


@dataclass(slots=True)
class OpenStep:
    """A step that not all ranks have committed."""

    began_s: float
    """When its first rank began it (seconds since the epoch)."""
    discard: bool = False
    """Whether it is dropped for all ranks."""
    blocks: dict[int, list[Block]] = field(default_factory=dict)
    """Blocks of the ranks that have committed."""
    extents: list[Extent] = field(default_factory=list)
    """Their room, trimmed to what they used."""


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
        self._local_writers = 0
        self._ranks: dict[int, RankProgress] = {}
        self._open_steps: dict[int, OpenStep] = {}
        self._closed: set[int] = set()
        self._waited_s: dict[int, float] = {}
        self._ended = False

    @property
    def waited_s(self) -> float:
        """Longest total time that one rank has waited for room (seconds)."""
        return max(self._waited_s.values(), default=0.0)

    @property
    def current_step(self) -> int:
        """Highest step that a rank has begun; -1 before the first."""
        return max((rank.step for rank in self._ranks.values()), default=-1)

    def open(self, rank: int, writers: int, local_writers: int) -> None:
        """Let a rank in.

        Raises
        ------
        StreamError
            If the rank is in already, or the ranks disagree on how many they are.
        """
        stream = self._store.streams.get(self._name)
        if not 0 <= rank < writers or not 0 < local_writers <= writers:
            raise StreamError(f"rank {rank} of {writers} writers ({local_writers} on this node) can't be")
        if stream is None or stream.status == "expected":
            counts = {"writers": writers, "local_writers": local_writers}
            self._store.record({"record": "open", "stream": self._name, **counts})
            stream = self._store.streams[self._name]
        if stream.status in ENDED:
            raise StreamError(
                f"stream {self._name!r} was written before and still holds steps or results: fold it with "
                f"'bbflow fold', or forget it with 'bbflow drop {self._name}'"
            )
        if (stream.writers, stream.local_writers) != (writers, local_writers):
            raise StreamError(
                f"rank {rank} says that stream {self._name!r} has {writers} writers ({local_writers} here), "
                f"another rank said {stream.writers} ({stream.local_writers}): set Writers, or Stream apart"
            )
        if rank in self._ranks:
            raise StreamError(f"rank {rank} of stream {self._name!r} is open already: give each rank its Rank")
        self._ranks[rank] = RankProgress()
        self._local_writers = local_writers

    def begin(self, rank: int, step: int, size: int, may_discard: bool) -> Message | None:
        """Admit a rank to a step; None while it must wait.

        Raises
        ------
        CapacityError
            If the step can't ever fit.
        StreamError
            If the stream was aborted.
        """
        self._check_alive()
        progress = self._ranks[rank]
        if step != progress.committed + 1:
            raise ProtocolError(f"rank {rank} began step {step} after step {progress.committed}")
        opened = self._open_steps.get(step)
        if opened is None:
            opened = OpenStep(self._clock())
            opened.discard = may_discard and not fits_whole_step(self._store.extents, self._ranks)
            if opened.discard:
                self._store.record({"record": "discard", "stream": self._name, "step": step})
            self._open_steps[step] = opened
        progress.step = step
        if opened.discard:
            progress.committed = step
            self._forget_if_passed(step)
            return {"ok": True, "status": "discard", "extents": []}
        extents = [] if size == 0 else self._reserve(rank, step, size)
        return None if extents is None else {"ok": True, "status": "ok", "extents": extents}

    def reserve(self, rank: int, step: int, size: int) -> Message | None:
        """Give a rank more room in its open step; None while it must wait."""
        self._check_alive()
        if size <= 0 or self._ranks[rank].step != step or self._ranks[rank].committed >= step:
            raise ProtocolError(f"rank {rank} asked for {size} bytes in step {step}, which is not its open step")
        extents = self._reserve(rank, step, size)
        return None if extents is None else {"ok": True, "extents": extents}

    def _reserve(self, rank: int, step: int, size: int) -> list[Extent] | None:
        own = self._ranks[rank].granted
        later = [extent for number, opened in self._open_steps.items() if number >= step for extent in opened.extents]
        extent = reserve(self._store.extents, self._ranks, self._local_writers, step, size, [*own, *later])
        if extent is None:
            return None
        own.append(extent)
        return [extent]

    def commit(self, rank: int, message: Message) -> None:
        """Take a rank's step; with the last rank's it becomes visible.

        A step of an aborted stream can't be completed any more: what a rank still commits is dropped.

        Raises
        ------
        ProtocolError
            If a block doesn't lie in what the rank was given.
        """
        if self._ended:
            self._leave(rank)
            return
        progress, step = self._ranks[rank], message["step"]
        if progress.step != step or progress.committed >= step:
            raise ProtocolError(f"rank {rank} committed step {step}, which is not its open step")
        blocks = [Block.from_wire(block) for block in message["blocks"]]
        attributes = [
            {key: item[key] for key in ("name", "type", "value")} for item in message.get("attributes") or ()
        ]  # fmt: skip
        used = [_used(extent, blocks) for extent in progress.granted]
        if sum(count for _, count in used) != sum(1 for block in blocks if block.bytes):
            raise ProtocolError(f"rank {rank} committed a block outside of what it was given")
        opened = self._open_steps[step]
        opened.blocks[rank] = blocks
        opened.extents += self._trim(progress.granted, [end for end, _ in used])
        self._waited_s[rank] = message.get("waited_s", 0.0)
        progress.expected_bytes = sum(align(end) for end, _ in used)
        progress.committed, progress.granted = step, []
        if attributes:
            self._store.record({"record": "attributes", "stream": self._name, "attributes": attributes})
        if len(opened.blocks) == self._local_writers:
            self._land(step, opened)

    def _trim(self, granted: list[Extent], used_bytes: list[int]) -> list[Extent]:
        keep = [(offset, align(used)) for (offset, _), used in zip(granted, used_bytes, strict=True)]
        rest = [
            (offset + kept, size - kept)
            for (offset, size), (_, kept) in zip(granted, keep, strict=True)
        ]  # fmt: skip
        self._store.extents.give_back(rest)
        return [extent for extent in keep if extent[1]]

    def _land(self, step: int, opened: OpenStep) -> None:
        blocks = tuple(block for rank in sorted(opened.blocks) for block in opened.blocks[rank])
        landed = Step(step, blocks, opened.began_s, self._clock())
        record = {"record": "step", "stream": self._name, "extents": opened.extents}
        self._store.record(record | landed.to_wire())
        del self._open_steps[step]

    def _forget_if_passed(self, step: int) -> None:
        passed = [rank for rank in self._ranks.values() if rank.committed >= step]
        if len(passed) == self._local_writers:
            del self._open_steps[step]

    def close(self, rank: int) -> None:
        """Let a rank go that has written all its steps; with the last one the stream is closed."""
        self._leave(rank)
        self._closed.add(rank)
        if len(self._closed) == self._local_writers:
            self._end("closed")

    def abort(self, rank: int) -> None:
        """Drop a rank's open step; the stream keeps what was committed and ends as aborted."""
        self._leave(rank)
        self._end("aborted")

    def _leave(self, rank: int) -> None:
        progress = self._ranks[rank]
        self._store.extents.give_back(progress.granted)
        progress.granted = []

    def _end(self, status: str) -> None:
        if self._ended:
            return
        self._ended = True
        for opened in self._open_steps.values():
            self._store.extents.give_back(opened.extents)
            opened.extents = []
        self._store.end(self._name, status)

    def _check_alive(self) -> None:
        if self._ended:
            raise StreamError(f"stream {self._name!r} was aborted: another of its ranks is gone")


def _used(extent: Extent, blocks: list[Block]) -> tuple[int, int]:
    """Bytes of an extent that blocks reach into, and how many blocks lie in it."""
    offset, size = extent
    ends = [(block.offset, block.offset + block.bytes) for block in blocks if block.bytes]
    inside = [end - offset for begin, end in ends if offset <= begin and end <= offset + size]
    return max(inside, default=0), len(inside)

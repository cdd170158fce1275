"""One BB node's store: pool, extents, index and streams kept in step with each other."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

from bbflow.errors import CapacityError, ConfigError, NodeError, ProtocolError, StreamError
from bbflow.host.belongings import make, remove
from bbflow.store.compacting import records_of
from bbflow.store.entries import AbortRecord, DropRecord, EvictRecord, FormatRecord, GrantRecord, OfStream, Record
from bbflow.store.extents import Extent, Extents
from bbflow.store.index import Index, acknowledged_bytes, replay
from bbflow.store.offers import Offer, Offers
from bbflow.store.pool import (
    DIGITS,
    check_free,
    check_pool,
    create_pool,
    empty_pool,
    map_pool_for_writing,
    name_pool,
    pool_identity,
)
from bbflow.store.shared_pool import SharedPool
from bbflow.store.shared_room import NodeRoom
from bbflow.store.streams import Stream
from bbflow.stream.records import Step

FORMAT_VERSION = 3
FILES = (
    "pool",
    f"pool.{'[0-9]' * DIGITS}",
    "index",
    "index.length",
    "index.new",
    "agent.sock",
    f"offers/{'[0-9a-f]' * 16}",
    f"offers/{'[0-9a-f]' * 16}.taken",
    "state/*.[0-9]",
    "state/*.[0-9][0-9]",
    "state/*.alive",
    "state/*.begun",
    "state/bbflow-remainder-*/*",
)
"""What a node, and the analysis for it, puts into its directory."""
COMPACT_BYTES = 4 << 20
"""An index below this size is left as it is."""
GROWTH = 4
"""It is rewritten when it is this many times as long as what counts of it: much, if ranks have many blocks."""


def check_held(directory: Path) -> None:
    """Look whether an agent could take over the steps that a node's directory holds.

    Raises
    ------
    NodeError, ProtocolError
        If it is lost.
    """
    pool, index, streams = str(directory / "pool"), directory / "index", dict[str, Stream]()
    check_pool(pool, is_backed=False)
    try:
        for record in replay(index, acknowledged_bytes(index), cuts=False):
            if not isinstance(record, FormatRecord):
                _apply(streams, record)
    except (ProtocolError, LookupError, ValueError) as error:
        raise ProtocolError(f"{index} is damaged ({error})") from None
    if any(stream.held_extents() for stream in streams.values()):  # else one that is shared with files has no pages
        check_pool(pool)


class NodeStore:
    """What a node keeps; a directory with an index is continued.

    Parameters
    ----------
    directory
        The node's directory; it is made with mode 0700.
    capacity
        Bytes of the pool; an existing pool keeps its own.
    room
        What it shares with the node's files; None if all of its pool is its own from the start.
    compact_bytes
        How much the index grows at least before it is rewritten.

    Raises
    ------
    CapacityError
        If there is no room for the pool.
    ConfigError
        If the directory holds a store of another version, or files that no node put there.
    """

    def __init__(
        self, directory: Path, capacity: int, room: NodeRoom | None = None, *, compact_bytes: int = COMPACT_BYTES
    ) -> None:
        make(directory, *FILES)
        (directory / "state").mkdir(mode=0o700, exist_ok=True)
        self.directory = directory
        self._pool_path = str(directory / "pool")
        self.wait_for_room: Callable[[CapacityError, int], bool] = lambda error, tried: False
        """Called when the index has no room for a record, with how often that was so; gives whether to try again."""
        self._streams: dict[str, Stream] = {}
        known = self._recover(directory / "index")
        self._capacity = capacity if known is None else known
        if known is None:
            self.extents = Extents(capacity)
            self._make_pool(capacity, is_shared=room is not None)
        self._is_shared = room is not None
        self._shared: SharedPool | None = None
        self._checked: tuple[int, ...] | None = None
        """Identity of the pool when it was found to be right."""
        self.check_pool()
        self._own_pool = os.open(self._pool_path, os.O_RDONLY | os.O_CLOEXEC)
        """The pool that was found, whatever has its name since."""
        self.index = Index(directory / "index")
        """What was recorded, in the order in which it was."""
        self._pool: memoryview | None = None
        if known is None:
            # After the pool, which an index promises.
            self.index.append(self._format())
        self._compact_bytes = compact_bytes
        self._compact_above_bytes = max(compact_bytes, GROWTH * self.index.size_bytes)
        self.offers = Offers(directory)
        """Room that ranks of this host may take before they ask."""
        for offer in self.offers.take_back_all():
            self._restore(offer)
        # Last: it leaves all to files unless someone holds room.
        self._shared = None if room is None else SharedPool(directory / "pool", self.extents, room)

    def _make_pool(self, capacity: int, *, is_shared: bool) -> None:
        pool = self.directory / "pool"
        # Without an index nothing says what lies in it.
        pool.unlink(missing_ok=True)
        try:
            if is_shared:
                check_free(pool, capacity)
                empty_pool(pool, capacity)
                name_pool(pool, capacity)
            else:
                create_pool(pool, capacity)
        except (CapacityError, NodeError):
            remove(self.directory)
            raise

    @property
    def streams(self) -> Mapping[str, Stream]:
        """All streams by name."""
        return self._streams

    @property
    def free_bytes(self) -> int:
        """Bytes of the pool that no step holds."""
        return self.extents.free_bytes if self.has_pool else self.extents.capacity

    @property
    def has_pool(self) -> bool:
        """Whether the pool is there: one that is shared with files is claimed when a stream is opened."""
        return not self._is_shared or (self._shared is not None and self._shared.is_there)

    @property
    def is_unsettled(self) -> bool:
        """Whether `settle_pool` has something to do."""
        return self._shared is not None and not self._shared.is_settled(needed=self._needs_pool)

    @property
    def _needs_pool(self) -> bool:
        is_held = self.has_pool and self.extents.free_bytes < self.extents.capacity
        return is_held or any(stream.status == "open" for stream in self._streams.values())

    def settle_pool(self, now_s: float) -> None:
        """Continue with claiming a shared pool when a stream is open, or leave it to files."""
        if self._shared is not None:
            self._shared.settle(needed=self._needs_pool, now_s=now_s)

    def check_pool(self) -> None:
        """See that the pool is there.

        Raises
        ------
        NodeError
            If somebody has removed, cut or replaced it: the node has nothing more to give, and must end.
        """
        identity = pool_identity(self._pool_path)
        if identity is None or identity != self._checked:
            check_pool(self._pool_path, is_backed=self.has_pool)
            self._checked = identity

    def pool(self) -> memoryview:
        """Return the pool's bytes; they are mapped when they are first needed."""
        if self._pool is None:
            self._pool = map_pool_for_writing(self.directory / "pool")
        return self._pool

    def record(self, record: OfStream) -> None:
        """Write a record to the index, then let the stream change, then free what it no longer needs.

        Raises
        ------
        CapacityError
            If there is no room for it.
        StreamError
            If the pool is gone: a step's record would promise what no one can read.
        """
        # Without its path, which takes twice as long: whoever takes the last name away changes how many there are.
        if pool_identity(self._own_pool) != self._checked:
            try:
                self.check_pool()
            except NodeError as error:
                raise StreamError(str(error)) from None
        before_bytes = self.index.size_bytes
        for tried in count(1):
            try:
                self.index.append(record)
                break
            except CapacityError as error:
                if not self.wait_for_room(error, tried):
                    raise
        # The record comes first: a change is seen by peers at once, and without its record a crash would undo it.
        try:
            self._change(record)
        except Exception:  # a mistake of this program's, which must not fail again whenever the index is read
            self.index.cut_back(before_bytes)
            raise
        if self.index.size_bytes > self._compact_above_bytes:
            self.compact()

    def _format(self) -> FormatRecord:
        return FormatRecord(version=FORMAT_VERSION, capacity=self._capacity)

    def compact(self) -> None:
        """Rewrite the index with what still counts, so that it doesn't grow with the number of steps."""
        records: list[Record] = [record for stream in self._streams.values() for record in records_of(stream)]
        try:
            self.index.rewrite([self._format(), *records])
        except (CapacityError, ProtocolError):  # no room for a second one now, or what counts is too long for a record
            self._compact_above_bytes = self.index.size_bytes + self._compact_bytes
            return  # the old index is whole
        for stream in self._streams.values():
            stream.is_written_anew()
        self._compact_above_bytes = max(self._compact_bytes, GROWTH * self.index.size_bytes)

    def abort(self, name: str, rank: int) -> None:
        """End a stream for the loss of a rank, also where the index has no room for the record any more."""
        record = AbortRecord(stream=name, rank=rank)
        with suppress(CapacityError):
            self.index.append(record)
        self._change(record)

    def release(self, stream: Stream) -> None:
        """Free what a stream, which may have been dropped, needed for a reader only, which has passed it."""
        self.extents.give_back(stream.release())
        _remove_stale_files(stream)

    def evict(self) -> bool:
        """Free the step that has been read and is the oldest of all streams; False if there is none."""
        candidates = [(step.committed_s, name, step.number) for name, step in self._evictable()]
        if not candidates:
            return False
        _, name, number = min(candidates)
        self.record(EvictRecord(stream=name, steps=(number,)))
        return True

    @property
    def can_evict(self) -> bool:
        """Whether a step could be freed that has been read."""
        return bool(self._evictable())

    def _evictable(self) -> list[tuple[str, Step]]:
        steps = ((name, stream.evictable()) for name, stream in self._streams.items())
        return [(name, step) for name, step in steps if step is not None]

    def _change(self, record: OfStream) -> None:
        stream, freed = _apply(self._streams, record)
        # Last: another rank may write over these bytes as soon as they are free.
        self.extents.give_back(freed)
        _remove_stale_files(stream)

    def _recover(self, index: Path) -> int | None:
        """Take in what an earlier agent has left; return the pool's capacity, None if there was none."""
        try:
            records = replay(index, acknowledged_bytes(index))
            first = next(records, None)
            if first is None:
                return None
            if not isinstance(first, FormatRecord) or first.version != FORMAT_VERSION:
                raise ConfigError(
                    f"{self.directory} holds a store of another version: remove it or use another directory"
                )
            self._replay(first, records)
            return first.capacity
        except (ProtocolError, LookupError, ValueError) as error:
            raise ProtocolError(
                f"{self.directory}/index is damaged ({error}): remove the directory, or use another one"
            ) from None

    def _replay(self, first: FormatRecord, records: Iterator[Record]) -> None:
        changed: Stream | None = None
        for record in records:
            if isinstance(record, FormatRecord):
                raise ProtocolError("a second beginning")
            changed, _ = _apply(self._streams, record)
        # Only what is held after the last record: one before it may have freed what another rank got then.
        self.extents = Extents(first.capacity)
        for stream in self._streams.values():
            for extent in stream.held_extents():
                self.extents.take_at(extent)
        # Files of a stream that was dropped are gone since then: a later one may have files of the same names.
        for stream in [*self._streams.values(), *([changed] if changed else [])]:
            _remove_stale_files(stream)

    def _restore(self, offer: Offer) -> None:
        """Restore to a rank the room that it took from an earlier agent, unless it has committed that step."""
        stream = self._streams.get(offer.stream)
        rank = stream.ranks.get(offer.rank) if stream else None
        if rank is not None and rank.settled + 1 == offer.step and offer.extent not in rank.granted:
            self.extents.take_at(offer.extent)
            self.record(GrantRecord(stream=offer.stream, rank=offer.rank, step=offer.step, extents=(offer.extent,)))

    def close(self) -> None:
        """Close the index, and let go of the pool."""
        self.index.close()
        os.close(self._own_pool)


def _apply(streams: dict[str, Stream], record: OfStream) -> tuple[Stream, list[Extent]]:
    """Apply a record to its stream; return the stream, and the extents that this has freed."""
    name = record.stream
    stream = streams.setdefault(name, Stream(name))
    if isinstance(record, DropRecord):
        return stream, streams.pop(name).drop()
    return stream, stream.apply(record)


def _remove_stale_files(stream: Stream) -> None:
    if not stream.stale_files:  # after nearly every record
        return
    name = stream.name.replace("%", "%25").replace("/", "%2F")
    for file in map(Path, stream.stale_files):
        if re.fullmatch(rf"{re.escape(name)}\.\d+\.\d+(-\d+)?\.spill", file.name):  # a rank may have named any file
            with suppress(OSError):  # or it lies where no file can: not the node's fault, and no reason to end
                file.unlink(missing_ok=True)
    stream.stale_files.clear()

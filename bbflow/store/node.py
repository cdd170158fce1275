"""One BB node's store: pool, extents, index and streams kept in step with each other."""

from collections.abc import Mapping
from pathlib import Path

from bbflow.errors import CapacityError, ConfigError, ProtocolError
from bbflow.records import Message
from bbflow.store.extents import Extents
from bbflow.store.index import Index, replay
from bbflow.store.pool import create_pool
from bbflow.store.streams import Stream

FORMAT_VERSION = 1
COMPACT_BYTES = 1 << 20
"""An index below this size is left as it is."""


class NodeStore:
    """What a node keeps; a directory that holds an index already is carried on from.

    Parameters
    ----------
    directory
        The node's directory; it is made with mode 0700.
    capacity
        Bytes of the pool; an existing pool keeps its own.

    Raises
    ------
    CapacityError
        If there is no room for the pool.
    ConfigError
        If the directory holds a store of another version.
    """

    def __init__(self, directory: Path, capacity: int) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        (directory / "state").mkdir(mode=0o700, exist_ok=True)
        records = list(replay(directory / "index"))
        self.directory = directory
        self._streams: dict[str, Stream] = {}
        if records:
            self._recover(records)
        else:
            (directory / "pool").unlink(missing_ok=True)
            create_pool(directory / "pool", capacity)
            self.extents = Extents(capacity)
        self._index = Index(directory / "index")
        self._capacity = records[0]["capacity"] if records else capacity
        if not records:
            self._index.append(self._format())
        self._compact_above_bytes = max(COMPACT_BYTES, 2 * self._index.size_bytes)
        for stream in [stream for stream in self._streams.values() if stream.status == "open"]:
            self.end(stream.name, "aborted")

    @property
    def streams(self) -> Mapping[str, Stream]:
        """All streams by name."""
        return self._streams

    def record(self, record: Message) -> None:
        """Write a record to the index, then let the stream change, then free what it no longer needs."""
        self._index.append(record)
        self.extents.give_back(self._apply(record))
        if self._index.size_bytes > self._compact_above_bytes:
            self._compact()

    def _format(self) -> Message:
        return {"record": "format", "version": FORMAT_VERSION, "capacity": self._capacity}

    def _compact(self) -> None:
        """Write the index anew with what still counts, so that it doesn't grow with the number of steps."""
        records = [record for stream in self._streams.values() for record in stream.to_records()]
        path, temporary = self.directory / "index", self.directory / "index.new"
        temporary.unlink(missing_ok=True)
        compacted = Index(temporary)
        try:
            for record in [self._format(), *records]:
                compacted.append(record)
        except CapacityError:
            compacted.close()
            temporary.unlink()
            return  # the old index is whole; there is no room for a second one now
        temporary.rename(path)
        self._index.close()
        self._index = compacted
        self._compact_above_bytes = max(COMPACT_BYTES, 2 * compacted.size_bytes)

    def end(self, name: str, status: str) -> None:
        """End a stream; where the index has no room for it, as aborted, which is what the next start finds too."""
        record = {"record": "end", "stream": name, "status": status}
        try:
            self.record(record)
        except CapacityError:
            self.extents.give_back(self._apply(record | {"status": "aborted"}))

    def _apply(self, record: Message) -> list[tuple[int, int]]:
        name = record["stream"]
        if record["record"] == "drop":
            return self._streams.pop(name).held_extents()
        return self._streams.setdefault(name, Stream(name)).apply(record)

    def _recover(self, records: list[Message]) -> None:
        first = records[0]
        if first.get("record") != "format" or first.get("version") != FORMAT_VERSION:
            raise ConfigError(f"{self.directory} holds a store of another version: remove it or use another directory")
        for record in records[1:]:
            self._apply(record)
        self.extents = Extents(first["capacity"])
        for stream in self._streams.values():
            for extent in stream.held_extents():
                try:
                    self.extents.take_at(extent)
                except ValueError as error:
                    raise ProtocolError(f"{self.directory}/index is damaged: {error}") from None

    def close(self) -> None:
        """Close the index."""
        self._index.close()

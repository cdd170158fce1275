"""Files of stores that have moved to a bucket: of each a stub stays, which can't be taken for values.

A chunk is no bytes then, and a shard less than an entry of its index; zarr takes an empty shard for missing values. A
directory whose files move has a file that names the place (`MOVED_TO`). What reads its stores by Zarr opens them by
`readable`, and gets what has moved from there.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bbflow.host.atomic import replacing, write_whole
from bbflow.stores.sources import Sources

MOVED_TO = ".moved_to"
"""In the directory: the URL below which its files are."""
PART_BYTES = 8 << 20
STUB_BYTES = {False: 0, True: 15}
"""What is left of a file that was a chunk, and of one that was a shard."""


def note_place(directory: Path, url: str) -> None:
    """Make files of a directory be looked for below a URL too."""
    if noted_place(directory) != url:
        write_whole(directory / MOVED_TO, url)


def noted_place(directory: Path) -> str | None:
    """Return the URL to which files of a directory move; None if they don't."""
    try:
        return (directory / MOVED_TO).read_text()
    except (FileNotFoundError, NotADirectoryError):
        return None


def place_of(path: Path) -> str | None:
    """Return the URL of a file or store that has moved, or may; None if it can't have."""
    for directory in path.absolute().parents:
        if (url := noted_place(directory)) is not None:
            return f"{url}/{path.absolute().relative_to(directory).as_posix()}"
    return None


def is_shard(node: Mapping[str, Any]) -> bool:
    """Whether the files of an array are shards, as its metadata say."""
    codecs: Sequence[Mapping[str, Any]] = node["codecs"]
    return bool(codecs[0]["name"] == "sharding_indexed")


def is_moved(path: Path) -> bool:
    """Whether of an array's file there is only the stub."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return False
    if size != STUB_BYTES[True]:
        return not size
    return is_shard(json.loads((path.parent / "zarr.json").read_text()))


def bring(path: Path, to: Path | None = None) -> None:
    """Put a file that has moved back in its place, or as another file, which appears whole."""
    url, sources = place_of(path), Sources()
    assert url is not None, f"{path} is a stub, and nothing says where it went"
    facts = sources.facts(url)
    with replacing(to or path) as temporary, temporary.open("wb") as file, sources.open(url, facts) as reader:
        for begin in range(0, facts.size_bytes, PART_BYTES):
            file.write(reader.read(begin, min(PART_BYTES, facts.size_bytes - begin)))


def readable(store: Path) -> Any:
    """Return what Zarr opens as a store: its path, or, where files of it may have moved, what reads both."""
    url = place_of(store)
    return store if url is None else _moved_store(store, url)


def _moved_store(store: Path, url: str) -> Any:
    from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest  # late: it takes a third of a second
    from zarr.core.buffer import Buffer, BufferPrototype
    from zarr.storage import LocalStore

    sources = Sources()

    def read(key: str, wanted: ByteRequest | None) -> bytes:
        where = f"{url}/{key}"
        facts = sources.facts(where)
        size = facts.size_bytes
        if isinstance(wanted, RangeByteRequest):
            begin, end = wanted.start, min(wanted.end, size)
        elif isinstance(wanted, OffsetByteRequest):
            begin, end = wanted.offset, size
        else:
            begin, end = (0 if wanted is None else max(size - wanted.suffix, 0)), size
        with sources.open(where, facts) as reader:
            return reader.read(begin, end - begin)

    class Moved(LocalStore):
        """Reads what is in the directory from there, and what has moved from the bucket."""

        async def get(
            self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
        ) -> Buffer | None:
            if not is_moved(store / key):
                return await super().get(key, prototype, byte_range)
            from zarr.core.buffer import default_buffer_prototype

            content = await asyncio.to_thread(read, key, byte_range)
            return (prototype or default_buffer_prototype()).buffer.from_bytes(content)

        # LocalStore (zarr 3.1) reads ranges past its own `get`.
        async def get_partial_values(
            self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
        ) -> list[Buffer | None]:
            return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    return Moved(store, read_only=True)

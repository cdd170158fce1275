"""Which files of a growing store may leave its directory once they are elsewhere, and that they have arrived.

A file may go when it isn't written into any more: all that it has room for is shown. Coordinates, axes and tables stay,
which are read again when an analysis continues.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from bbflow.stores.moved import STUB_BYTES, is_shard
from bbflow.stores.sources import Sources
from bbflow.zarr_store.growing import members_of

PART_BYTES = 8 << 20
WINDOW = "bbflow_window"
"""An attribute that all results have, and no coordinate."""


class Digest:
    """What S3 has as an object's ETag: the MD5, or that of the parts' MD5s (Amazon S3 API Reference, "Object").

    Parameters
    ----------
    part_bytes
        In how many bytes a larger object is uploaded at a time.
    """

    def __init__(self, part_bytes: int) -> None:
        self._part_bytes, self._left = part_bytes, part_bytes
        self._part = hashlib.md5(usedforsecurity=False)
        self._parts: list[bytes] = []

    def update(self, content: bytes) -> None:
        """Take in the next bytes."""
        while content:
            own, content = content[: self._left], content[self._left :]
            self._part.update(own)
            self._left -= len(own)
            if not self._left:  # a full part is sent, also if nothing follows it
                self._parts.append(self._part.digest())
                self._part, self._left = hashlib.md5(usedforsecurity=False), self._part_bytes

    @property
    def value(self) -> str:
        """The ETag, without quotes."""
        if not self._parts:
            return self._part.hexdigest()
        parts = [*self._parts, *([self._part.digest()] if self._left < self._part_bytes else [])]
        return f"{hashlib.md5(b''.join(parts), usedforsecurity=False).hexdigest()}-{len(parts)}"


def has_arrived(sources: Sources, url: str, size_bytes: int, digest: str, part_bytes: int) -> bool:
    """Whether an object is what was sent, by its size and ETag; where the ETag is no MD5 it is read back.

    Raises
    ------
    SourceError, OSError
        If it isn't there, or that can't be found out.
    """
    facts = sources.facts(url)
    if facts.size_bytes != size_bytes:
        return False
    told = (facts.checksum or facts.version or "").removeprefix("md5:").strip('"')
    if told == digest:
        return True
    again = Digest(part_bytes)
    with sources.open(url, facts) as reader:
        for begin in range(0, size_bytes, PART_BYTES):
            again.update(reader.read(begin, min(PART_BYTES, size_bytes - begin)))
    return again.value == digest


class Settled:
    """Decides which of a store's files may go, as a root's metadata show it.

    Parameters
    ----------
    root
        The content of the root's ``zarr.json``.
    settled
        Gives for an array's first dimension up to which index it isn't needed here any more.
    """

    def __init__(self, root: bytes, settled: Callable[[str], float]) -> None:
        self._arrays = dict(_growing(members_of(json.loads(root))))
        self._settled = settled

    def stub_bytes(self, name: str) -> int:
        """Return what is to be left of a file that may go."""
        return STUB_BYTES[is_shard(self._arrays[_split(name)[0]])]

    def has(self, name: str) -> bool:
        """Whether a file, by its path in the store, may go."""
        path, index = _split(name)
        if path not in self._arrays:
            return False
        node = self._arrays[path]
        return bool((index + 1) * _rows(node) <= min(node["shape"][0], self._settled(node["dimension_names"][0])))


def _growing(members: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Iterate over the arrays along an axis that grows, whose files are each of one index, shards, or results'."""
    for path, node in members.items():
        if node["node_type"] != "array" or not node["shape"] or not node.get("dimension_names"):
            continue
        axis = members.get(str(PurePosixPath(path).parent / str(node["dimension_names"][0])))
        # Coordinates that don't grow are one chunk each, whose axis may have a single point.
        goes = is_shard(node) or _rows(node) == 1 or WINDOW in node["attributes"]
        if axis is not None and axis.get("shape") and _rows(axis) > 1 and goes:
            yield path, node


def _rows(node: Mapping[str, Any]) -> int:
    return int(node["chunk_grid"]["configuration"]["chunk_shape"][0])


def _split(name: str) -> tuple[str, int]:
    """Return the array of a chunk's file, and which one along its first dimension it is; an empty name for others."""
    path = PurePosixPath(name)
    parts = path.name.split(".")
    is_chunk = len(parts) > 1 and parts[0] == "c" and parts[1].isdigit()
    return (str(path.parent), int(parts[1])) if is_chunk else ("", 0)


def give_up(path: Path, changed_ns: int, size_bytes: int, stub_bytes: int) -> bool:
    """Leave the stub of a file; false if it isn't the one that was copied any more.

    A program that puts another file in its place meanwhile keeps that one: it is the old file that is cut.
    """
    descriptor = os.open(path, os.O_RDWR)
    try:
        status = os.fstat(descriptor)
        # By the descriptor, which is the file that is cut. One with two names is another step's too (`dedup`).
        if (status.st_mtime_ns, status.st_size, status.st_nlink) != (changed_ns, size_bytes, 1):
            return False
        os.ftruncate(descriptor, stub_bytes)
    finally:
        os.close(descriptor)
    return True

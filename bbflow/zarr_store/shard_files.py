"""The files of a raw array, written past zarr in large pieces: shards that grow while others read them.

A shard of Zarr 3 (codec ``sharding_indexed``) is a file with chunks in any order, and an index of where each lies. Here
the index stands at the file's begin and has no checksum: an entry is written once, after the chunk's bytes, and readers
look at it only when the array's shape takes its step in. So nothing that a reader can see ever changes.
"""

import errno
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bbflow.errors import ConfigError, naming
from bbflow.host.atomic import beside, replacing

Array = np.ndarray[Any, Any]
ENTRY_BYTES = 16
"""An entry is the first byte and the length of a chunk."""
NOTHING = 2**64 - 1
"""Both numbers of the entry of a step without a chunk."""
PAGE = 4096
LARGE = 1 << 20
"""Chunks of this many bytes and more begin at a page."""
MOST_PARTS = 1000
"""How many parts are written at once; Linux takes 1,024."""


@dataclass(frozen=True)
class ShardChunks:
    """What consecutive steps leave in a file: one chunk each, or the same number of chunks each."""

    parts: Sequence[Sequence[Array]]
    """For each chunk its bytes, as arrays one after another; a step without any has nothing."""
    repeats: Sequence[bool]
    """Whether it is the same as the one before it, and needs no bytes of its own."""

    @cached_property
    def sizes(self) -> Array:
        """How many bytes of its own each chunk needs."""
        own = zip(self.parts, self.repeats, strict=True)
        return np.array([0 if repeats else sum(map(len, parts)) for parts, repeats in own], "i8")


def is_stored(parts: Sequence[Array], stored: Array) -> bool:
    """Whether the bytes of a step are those that are stored somewhere."""
    at = 0
    for part in parts:
        if not same_bytes(part, stored[at : at + part.nbytes]):
            return False
        at += part.nbytes
    return at == len(stored)


def same_bytes(one: Array, other: Array) -> bool:
    """Whether two arrays of bytes are the same; it is told from the first ones where they differ there."""
    begins = (0, *range(PAGE, len(one), LARGE))
    ends = (*begins[1:], len(one))
    return len(one) == len(other) and all(
        np.array_equal(one[begin:end], other[begin:end]) for begin, end in zip(begins, ends, strict=True)
    )


class Shard:
    """A file of several steps.

    Where a step's bytes lie follows from the steps before it alone. So who writes a step again writes the same, however
    the steps were cut into batches.

    Parameters
    ----------
    path
        The file; it is made with the first step.
    steps
        How many it has room for.
    align
        Chunks begin at multiples of this many bytes.
    pieces
        How many chunks a step has.
    """

    def __init__(self, path: Path, steps: int, align: int, pieces: int = 1) -> None:
        self._path, self._entries, self._align, self._pieces = path, steps * pieces, align, pieces
        self._header = header_bytes(self._entries)

    def before(self, at: int) -> Array | None:
        """Return the bytes that the step before this one has; None if it has none here."""
        if at == 0 or not self._path.exists():
            return None
        with self._path.open("rb") as file:
            offset, size = (int(number) for number in _entries(file.fileno(), at)[-1])
        return None if offset == NOTHING else np.memmap(self._path, "u1", "r", offset, size)

    def write(self, at: int, chunks: ShardChunks) -> int:
        """Write consecutive steps from one on, those before it must be there; return the bytes that were stored."""
        at *= self._pieces
        if not self._path.exists():
            self._make()
        with naming(str(self._path)), self._path.open("r+b", 0) as file:
            descriptor = file.fileno()
            known = _entries(descriptor, at)
            ends = known.sum(axis=1)[known[:, 0] != NOTHING]
            # By the entries, not by the file's length: what a killed writer left behind them is written over, by the
            # same.
            begin = max(self._header, int(ends.max(initial=0)))
            if (size := os.fstat(descriptor).st_size) < begin:
                raise ConfigError(
                    f"{self._path} was cut off: it has {size} of {begin} bytes, so steps in it are lost; give another "
                    "output"
                )
            offsets = self._offsets(begin, chunks)
            parts = _with_gaps(begin, offsets, chunks)
            write_at(descriptor, parts, begin)
            # After the bytes that they name: a reader, or a writer that continues after a crash, believes the entries.
            write_at(descriptor, [_new_entries(known, offsets, chunks).reshape(-1).view("u1")], at * ENTRY_BYTES)
            return sum(map(len, parts))

    def _make(self) -> None:
        """Make the file with an empty index, unless someone else has just done so."""
        # All ones are how Zarr's sharding codec says that a chunk is missing: steps to come read as fill values.
        empty = b"\xff" * self._entries * ENTRY_BYTES
        make_once(self._path, [empty + bytes(self._header - len(empty))])

    def _offsets(self, begin: int, chunks: ShardChunks) -> Array:
        """Return where the own bytes of each step begin."""
        room = -(-chunks.sizes // self._align) * self._align
        offsets: Array = begin + -begin % self._align + room.cumsum() - room
        return offsets


def header_bytes(entries: int) -> int:
    """Return where the first chunk of a file may begin, whose index has this many entries."""
    return -(-entries * ENTRY_BYTES // PAGE) * PAGE


def make_once(path: Path, contents: Iterable[bytes]) -> None:
    """Make a file, which appears whole, unless someone else has just done so."""
    temporary = beside(path)
    try:
        with naming(str(path)), temporary.open("wb") as file:
            file.writelines(contents)
        with suppress(FileExistsError):
            # By a link, which fails where someone was faster: a rename would replace a file into which others write
            # already.
            if not linked(temporary, path):
                temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class Single:
    """A file of one step: the chunk itself. One that repeats is another name of the file before it.

    Parameters
    ----------
    path
        The file.
    before
        That of the step before it.
    """

    def __init__(self, path: Path, before: Path | None) -> None:
        self._path, self._before = path, before

    def before(self, at: int) -> Array | None:
        """Return the bytes of the step before; None if it has none."""
        if self._before is None or not self._before.exists():
            return None
        return np.memmap(self._before, "u1", "r")

    def write(self, at: int, chunks: ShardChunks) -> int:
        """Write the step, its file appears whole; return the bytes that were stored."""
        (parts,), (repeats,) = chunks.parts, chunks.repeats
        if not parts:
            return 0
        with replacing(self._path) as temporary:
            if repeats and self._before is not None and linked(self._before, temporary):
                return 0
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            try:
                write_at(descriptor, parts, 0)
            finally:
                os.close(descriptor)
        return sum(map(len, parts))


def linked(path: Path, name: Path) -> bool:
    """Return a file another name, if its file system can, and the file has not too many names already.

    Raises
    ------
    FileExistsError
        If the name is taken.
    """
    try:
        os.link(path, name)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in (errno.EMLINK, errno.EPERM, errno.ENOTSUP):
            raise
        return False
    return True


def chunks_there(path: Path, entries: int) -> int:
    """Return how many chunks the index of a shard names whose bytes are there; none of a file that isn't."""
    try:
        ends, size = _named_ends(path, entries)
    except FileNotFoundError:
        return 0
    return int((ends <= size).sum())


def is_cut_off(path: Path, entries: int) -> bool:
    """Whether a shard lacks a part of its index, or bytes of a chunk that this names; not if it isn't there."""
    try:
        ends, size = _named_ends(path, entries)
    except FileNotFoundError:
        return False
    return size < entries * ENTRY_BYTES or bool((ends > size).any())


def _named_ends(path: Path, entries: int) -> tuple[Array, int]:
    """Return where the chunks end that the index of a shard names, and how long the file is."""
    with path.open("rb") as file:
        index, size = file.read(entries * ENTRY_BYTES), os.fstat(file.fileno()).st_size
    known = np.frombuffer(index[: len(index) // ENTRY_BYTES * ENTRY_BYTES], "<u8").reshape(-1, 2)
    return known[known[:, 0] != NOTHING].sum(axis=1), size


def _entries(descriptor: int, count: int) -> Array:
    """Read the first entries of an index, of shape (count, 2)."""
    return np.frombuffer(os.pread(descriptor, count * ENTRY_BYTES, 0), "<u8").reshape(-1, 2)


def _with_gaps(begin: int, offsets: Array, chunks: ShardChunks) -> list[Array]:
    """Return the bytes of all steps one after another, with zeros up to where each begins."""
    found: list[Array] = []
    end = begin
    for parts, offset, size in zip(chunks.parts, offsets.tolist(), chunks.sizes.tolist(), strict=True):
        if size:
            if offset > end:
                found.append(np.zeros(offset - end, "u1"))
            found += parts
            end = offset + size
    return found


def _new_entries(known: Array, offsets: Array, chunks: ShardChunks) -> Array:
    """Return the entries of steps that follow those that are known; who repeats has that of the step before it."""
    own = np.full((1 + len(offsets), 2), NOTHING, "<u8")
    own[: len(known[-1:])] = known[-1:]
    has_own = chunks.sizes > 0
    own[1:][has_own] = np.stack([offsets, chunks.sizes], axis=1)[has_own]
    from_step = np.where(chunks.repeats, 0, np.arange(1, len(own)))
    return own[np.maximum.accumulate(from_step)]


def write_at(descriptor: int, parts: Iterable[Array], offset: int) -> None:
    """Write arrays of bytes one after another into a file, with as few calls as the system allows."""
    views = [part.data for part in parts]
    first = 0
    while first < len(views):
        written = os.pwritev(descriptor, views[first : first + MOST_PARTS], offset)
        offset += written
        while first < len(views) and written >= len(views[first]):
            written -= len(views[first])
            first += 1
        if written:
            views[first] = views[first][written:]

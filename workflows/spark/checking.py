"""Whether a result is right, found out without Spark."""

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


class NotSortedError(ValueError):
    """A line is less than the one before it."""


@dataclass(frozen=True, slots=True)
class FileContent:
    """What lines there are, in whatever order."""

    lines: int
    """How many."""
    checksum: int
    """Sum of the lines' CRC-32, modulo 2 to the 64."""


def parts_of(directory: Path) -> list[Path]:
    """Return the files of an output, in their order."""
    return sorted(path for path in directory.iterdir() if path.name.startswith("part-"))


def content_of(paths: Iterable[Path]) -> FileContent:
    """Sum up the lines of some files."""
    return _content(_lines(paths))


def sorted_content(paths: Iterable[Path]) -> FileContent:
    """Sum up the lines of some files, which must be in order over all of them.

    Raises
    ------
    NotSortedError
        If they aren't.
    """
    return _content(_in_order(_lines(paths)))


def counts_of(paths: Iterable[Path]) -> Counter[bytes]:
    """Count the words of some files."""
    return Counter(word for path in paths for word in path.read_bytes().split())


def read_counts(paths: Iterable[Path]) -> Counter[bytes]:
    """Read counts as the word count writes them."""
    counts: Counter[bytes] = Counter()
    for line in _lines(paths):
        word, _, count = line.partition(b"\t")
        counts[word] += int(count)
    return counts


def _content(lines: Iterable[bytes]) -> FileContent:
    count = checksum = 0
    for line in lines:
        count += 1
        checksum += zlib.crc32(line)
    return FileContent(count, checksum % (1 << 64))


def _in_order(lines: Iterable[bytes]) -> Iterator[bytes]:
    before = b""
    for line in lines:
        if line < before:
            raise NotSortedError(f"{line[:60]!r} comes after {before[:60]!r}")
        yield line
        before = line


def _lines(paths: Iterable[Path]) -> Iterator[bytes]:
    for path in paths:
        with path.open("rb") as file:
            for line in file:
                yield line.rstrip(b"\n")

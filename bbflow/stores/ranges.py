"""Parts of files as sources of their own: ``bytes=0-1048576::/pfs/large.csv`` is the first MiB of a file.

The part stands before the file, in the place of a protocol, so that no name of a file ends by meaning one.
"""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

from bbflow.errors import SourceError
from bbflow.stores.facts import Facts, Reader

_RANGE = re.compile(r"bytes=(\d+)-(\d+)::(?=.)")


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes of a file."""

    start: int
    """Of its first byte."""
    end: int
    """Before which it ends."""


def url_of_range(url: str, part: Range) -> str:
    """Name a part of a file."""
    return f"bytes={part.start}-{part.end}::{url}"


def split_range(url: str) -> tuple[str, Range | None]:
    """Return the file that a URL names, and which part of it; None for the whole."""
    found = _RANGE.match(url)
    return (url[found.end() :], Range(int(found[1]), int(found[2]))) if found else (url, None)


def part_of(facts: Facts, part: Range, url: str) -> Facts:
    """Return the facts of a part: its version is the file's.

    Raises
    ------
    SourceError
        If the file is shorter, or gives no ranges.
    """
    if not facts.ranges:
        raise SourceError(f"{url}: its server gives no ranges; stage the whole file")
    if not part.start <= part.end <= facts.size_bytes:
        raise SourceError(f"{url}: the file has {facts.size_bytes} bytes only; it has changed, or the range is wrong")
    return replace(facts, size_bytes=part.end - part.start, checksum=None)


@contextmanager
def shifted(opened: AbstractContextManager[Reader], start: int) -> Iterator[Reader]:
    """Open a file so that its bytes count from a place in it."""
    with opened as reader:
        yield _Shifted(reader, start)


class _Shifted:
    def __init__(self, reader: Reader, start: int) -> None:
        self._reader, self._start = reader, start

    def read(self, start: int, length_bytes: int) -> bytes:
        return self._reader.read(self._start + start, length_bytes)

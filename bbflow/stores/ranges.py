"""Parts of files as sources of their own, as `urls.split_range` finds them."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from bbflow.errors import SourceError
from bbflow.stores.facts import Facts, Reader
from bbflow.stores.urls import Range


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
        yield Reader(lambda at, length: reader.read(start + at, length))

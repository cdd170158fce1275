"""What a store tells of a file, what it must be able to do, and how it refuses."""

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from bbflow.errors import ChangedSourceError, ConflictError, MissingSourceError, SourceError
from bbflow.stores.urls import is_plain

TIMEOUT_S = 60
"""How long nothing may be heard of a request, in seconds."""
LASTING = {
    errno.EEXIST,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
    errno.EROFS,
}
"""Errors of a file system that don't pass by themselves, beside a missing file and a missing permission."""
_ETAG_OF_BYTES = re.compile(r'"[\da-f]{32}"')
PASSING_STATUS = {408, 425, 429}
"""What HTTP servers say to a client that may come again; other numbers from 400 to 499 don't pass by themselves."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a source tells of a file."""

    size_bytes: int
    """Its size."""
    version: str | None
    """Changes whenever the content does: ETag, or time of the last change; None if it tells nothing."""
    checksum: str | None = None
    """Such as ``md5:…``; None if it tells none."""
    ranges: bool = field(default=True, compare=False)
    """Whether parts can be read by themselves; else it is one stream from the beginning. An answer, not the file's."""
    changed_s: float = field(default=0.0, compare=False)
    """When it was last changed, in seconds since the epoch; 0 if that isn't told. `version` says what is new."""

    @property
    def resumable(self) -> bool:
        """Whether a copy can be resumed: the source has versions and gives ranges."""
        return self.ranges and self.version is not None


@dataclass(frozen=True, slots=True)
class Expected:
    """What a caller that writes, moves or removes a file believes to be there: anything else is left as it is."""

    facts: tuple[int, str] | None
    """Its size in bytes and its version, empty if the store tells none; None if there is no file."""

    def check(self, url: str, found: Facts | None) -> None:
        """Refuse what was found there instead.

        Raises
        ------
        ConflictError
            If it isn't what was believed.
        """
        now = None if found is None else (found.size_bytes, found.version or "")
        if now != self.facts:
            raise conflict(url)


@dataclass(slots=True)
class Arriving:
    """A file on its way to where only what is expected may be."""

    file: Any
    """Takes its bytes."""
    facts: Facts | None = None
    """What it is once it is there; None if the store doesn't tell. A later look may find another program's."""

    def write(self, content: bytes | bytearray | memoryview) -> None:
        """Add bytes."""
        self.file.write(content)


@dataclass(frozen=True, slots=True)
class Listed:
    """A file that a store has listed."""

    url: str
    """Its URL."""
    name: str
    """Its path below the directory that was listed."""
    size_bytes: int | None
    """None if the listing doesn't tell."""
    version: str | None = None
    """As `Facts` has it."""
    changed_s: float = 0.0
    """When it was last changed, in seconds since the epoch; 0 if the listing doesn't tell."""
    is_usable: bool = True
    """Whether it can be read by its name; else it, or what is below it if it ends with ``/``, is only told of."""
    is_directory: bool = False
    """Whether it is a directory; listings have these only if asked to."""


class Reader:
    """An open source.

    Parameters
    ----------
    read
        Reads a range, or as much of its begin as comes at once: given where it starts, and how many bytes it has.
    refusals
        Turns what `read` raises into a `SourceError`.
    """

    def __init__(
        self,
        read: Callable[[int, int], bytes],
        refusals: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._read, self._refusals = read, refusals

    def read(self, start: int, length_bytes: int) -> bytes:
        """Read a range, up to the end of the source; without ranges, it must follow the last one."""
        parts = []
        with self._refusals():
            while length_bytes > 0 and (part := self._read(start, length_bytes)):
                parts.append(part)
                start, length_bytes = start + len(part), length_bytes - len(part)
        return b"".join(parts)


class PlainStore(Protocol):
    """A place where files come from and go to; it takes whole URLs, and refuses by a `SourceError`."""

    def facts(self, url: str) -> Facts:
        """Ask about a file."""

    def open(self, url: str, facts: Facts) -> AbstractContextManager[Reader]:
        """Open a file for reading in chunks."""

    def whole(self, url: str, most_bytes: int) -> tuple[Facts, bytes] | None:
        """Read a small file at once, with facts of just this content; None if that can't be had."""

    def create(self, url: str, size_bytes: int, over: Expected | None = None) -> AbstractContextManager[Any]:
        """Open a file of this many bytes for writing; it appears whole when the ``with`` ends well, else never.

        With `over`, it is an `Arriving`, and takes the place of just that; the ``with`` ends by a `ConflictError` where
        something else is.
        """

    def children(self, url: str) -> tuple[list[Listed], list[str]]:
        """List the files in a directory, and the names of the directories in it."""

    def remove(self, url: str, known: Expected | None = None) -> None:
        """Remove a file, if it is what is known of it; one that isn't there is removed already."""

    def move(self, url: str, to: str, known: Expected, over: Expected) -> Facts | None:
        """Rename a file in the same store, if it is what is known of it, in place of just `over`.

        Returns
        -------
        Facts or None
            What it is there; None if the store doesn't tell.

        Raises
        ------
        ChangedSourceError
            If it isn't; a `ConflictError` if that is so of `over`.
        """

    def clear(self, url: str) -> bool:
        """Remove directories that have a file's name, if no file is below; return whether there were any."""

    def tree(self, url: str, *, directories: bool = False) -> Iterator[Listed]:
        """List all files below a directory; if asked to, the directories too, also empty ones, and what is neither."""

    def weakness(self, url: str) -> str:
        """Return what the store lacks to check a file in the instant in which it is changed; or ""."""


class Store(PlainStore, Protocol):
    """One kind of place, with what it can tell of many files, and of damaged ones."""

    def sizes(self, urls: list[str]) -> dict[str, int]:
        """Return the sizes in bytes of those files that can be had for less than asking for each."""

    def disproves(self, url: str) -> bool:
        """Whether a content that differs from the store's own checksum is damaged for certain."""


def may_be_moved(before: tuple[int, str], found: Facts) -> bool:
    """Whether a file can be one that had another name: as far as the versions of its store tell.

    A rename leaves a local file all but the last part of its version, its ctime. The ETag of an object that came by one
    request belongs to its bytes; one of several parts is another once the object is copied.
    """
    version, now = before[1], found.version or ""
    if version.startswith("mtime:"):
        version, now = version.rpartition(":")[0], now.rpartition(":")[0]
    elif not _ETAG_OF_BYTES.fullmatch(version):
        now = version
    return (found.size_bytes, now) == (before[0], version)


def conflict(url: str) -> ConflictError:
    """Make the error that another program's file is where one was to be written or removed."""
    return ConflictError(f"{url} was written by someone else meanwhile, and stays as it is")


def changed(url: str) -> ChangedSourceError:
    """Make the error that a file isn't what was to be moved."""
    return ChangedSourceError(f"{url} was written by someone else meanwhile, and stays there")


def outdated(url: str) -> ChangedSourceError:
    """Make the error that bytes are of another version than the one that is read."""
    return ChangedSourceError(f"{url} has changed at its source: refresh it with 'bbflow files refresh'")


def missing(url: str) -> SourceError:
    """Make the error that a file isn't there."""
    where = ""
    if is_plain(url) and not os.path.isabs(url):
        with suppress(FileNotFoundError):  # the current directory may be gone
            where = f"; a relative path begins at {os.getcwd()}"
    return MissingSourceError(f"{url} isn't there: check the URL{where}")


def forbidden(url: str) -> SourceError:
    """Make the error that a file may not be used."""
    return SourceError(f"{url}: no permission; check its owner, or the credentials of its store")


def impossible(url: str, error: Exception, status: int | None = None) -> SourceError | None:
    """Make the error that something can't be done with a file, however often it is tried; None if it may pass.

    Parameters
    ----------
    url
        Which file.
    error
        What its client raised.
    status
        What an HTTP server said.
    """
    if isinstance(error, NotImplementedError):
        return SourceError(f"{url}: this kind of store can't do that; name another place")
    if isinstance(error, OSError) and error.errno in LASTING:
        return SourceError(f"{url} can't be used: {os.strerror(error.errno)}; check the path")
    if status is not None and 400 <= status < 500 and status not in PASSING_STATUS:
        return SourceError(f"{url}: the server refuses ({status}: {error}); check the URL and the rights")
    return None

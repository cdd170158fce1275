"""Sources: files by their URLs, wherever they are."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from bbflow.stores.facts import Expected, Facts, Listed, Reader, Store
from bbflow.stores.local_files import LocalFiles, local_path
from bbflow.stores.ranges import part_of, shifted
from bbflow.stores.urls import is_local, split_range

if TYPE_CHECKING:
    from bbflow.stores.objects import ObjectStore
    from bbflow.stores.remote import RemoteFiles

__all__ = ["Reader", "Sources", "local_path"]


class Sources:
    """Reads, writes and lists files by their URLs: paths, S3, and what fsspec knows; reads parts of them (`ranges`).

    Each method refuses by a `SourceError`: what isn't there, may not be used, or can't be done.

    Parameters
    ----------
    options
        Protocol to what its file system is given: for ``s3`` any of `objects.OPTIONS`, for others what
        fsspec's class takes.

    Raises
    ------
    ConfigError
        If an option for S3 isn't known.
    """

    def __init__(self, options: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._options = options or {}
        self._local = LocalFiles()
        self._remote: RemoteFiles | None = None
        self._objects: ObjectStore | None = None
        if "s3" in self._options:
            self._open_objects()

    def facts(self, url: str) -> Facts:
        """Ask a source about a file."""
        whole, part = split_range(url)
        facts = self._store(whole).facts(whole)
        return facts if part is None else part_of(facts, part, url)

    def open(self, url: str, facts: Facts) -> AbstractContextManager[Reader]:
        """Open a file for reading in chunks."""
        whole, part = split_range(url)
        opened = self._store(whole).open(whole, facts)
        return opened if part is None else shifted(opened, part.start)

    def whole(self, url: str, most_bytes: int) -> tuple[Facts, bytes] | None:
        """Read a small file at once, with facts of just this content; None if that can't be had."""
        return self._store(url).whole(url, most_bytes) if split_range(url)[1] is None else None

    def create(self, url: str, size_bytes: int = 0, over: Expected | None = None) -> AbstractContextManager[Any]:
        """Open a file of this many bytes for writing; it appears whole when the ``with`` ends well, else never.

        With `over`, it is an `Arriving`, and takes the place of just that; the ``with`` ends by a `ConflictError` where
        something else is.
        """
        return self._store(url).create(url, size_bytes, over)

    def children(self, url: str) -> tuple[list[Listed], list[str]]:
        """List the files in a directory, and the names of the directories in it."""
        return self._store(url).children(url)

    def tree(self, url: str, *, directories: bool = False) -> Iterator[Listed]:
        """List all files below a directory; and the directories, also empty ones, if asked to."""
        return self._store(url).tree(url, directories=directories)

    def remove(self, url: str, known: Expected | None = None) -> None:
        """Remove a file, if it is what is known of it; one that isn't there is removed already."""
        self._store(url).remove(url, known)

    def move(self, url: str, to: str, known: Expected, over: Expected) -> Facts | None:
        """Rename a file in the same store, if it is what is known of it, in place of just `over`."""
        return self._store(url).move(url, to, known, over)

    def weakness(self, url: str) -> str:
        """Return what a store can't check in the same instant in which it writes; empty if it can."""
        return self._store(url).weakness(url)

    def clear(self, url: str) -> bool:
        """Remove directories that have a file's name, if no file is below; return whether there were any."""
        return self._store(url).clear(url)

    def sizes(self, urls: list[str]) -> dict[str, int]:
        """Return the sizes in bytes of those files of one server that can be had for less than asking for each."""
        return self._store(urls[0]).sizes(urls)

    def disproves(self, url: str) -> bool:
        """Whether a content that differs from the source's own checksum is damaged for certain."""
        return self._store(url).disproves(url)

    def _store(self, url: str) -> Store:
        if is_local(url):
            return self._local
        if not url.startswith(("s3://", "s3a://")):
            return self._remote or self._open_remote()
        return self._objects or self._open_objects()

    # What copies local files only, such as a job of Pegasus, starts without the others' libraries.

    def _open_remote(self) -> Store:
        from bbflow.stores.remote import RemoteFiles

        self._remote = RemoteFiles(self._options)
        return self._remote

    def _open_objects(self) -> Store:
        from bbflow.stores.objects import ObjectStore

        self._objects = ObjectStore(self._options.get("s3", {}))
        return self._objects

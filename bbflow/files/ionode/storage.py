"""The shared storage behind the files: plain objects with the files' names, below one URL."""

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TypeVar

from bbflow.errors import ChangedSourceError, ConfigError, MissingSourceError, MissingToolError, SourceError
from bbflow.files.commands import TaskAnswer
from bbflow.host.atomic import is_beside
from bbflow.staging.retry import Retry, persist, reason_of
from bbflow.stores.facts import Facts, Listed, PlainStore
from bbflow.stores.sources import Sources
from bbflow.stores.urls import below

T = TypeVar("T")
Failed = Callable[[str], object]
"""Told why an attempt has failed that is followed by another."""
PART = 5000
"""How many entries of a directory are told at once."""


def _ignore(reason: str) -> None:
    """Whoever doesn't wait for an attempt needn't be told of it."""


class Storage:
    """Reads and writes below a URL.

    Parameters
    ----------
    url
        Without a slash at its end.
    retry
        What happens after a failure.
    store
        What is there; what `Sources` have if None.
    """

    def __init__(self, url: str, retry: Retry | None = None, store: PlainStore | None = None) -> None:
        self._url, self._retry = url, retry or Retry()
        self._store = store or Sources()

    def url(self, path: str) -> str:
        """Return the URL of a file."""
        return below(self._url, path) if path else self._url

    def read(self, path: str, start: int, size: int, facts: tuple[int, str]) -> bytes:
        """Read a range of an object that has these facts: size and version.

        Raises
        ------
        SourceError
            If it isn't there, may not be read, or is of another version by now.
        """
        url = self.url(path)

        def attempt() -> bytes:
            content = self._read(url, start, size, facts)
            if len(content) != size:
                raise OSError(f"{len(content)} bytes came of {size} at {start}")
            return content

        return persist(attempt, url, self._retry)

    def _read(self, url: str, start: int, size: int, facts: tuple[int, str]) -> bytes:
        if start == 0 and size == facts[0] and (whole := self._store.whole(url, size)) is not None:
            self._check(url, whole[0], facts)
            return whole[1]
        expected = Facts(facts[0], facts[1] or None)
        with self._store.open(url, expected) as reader:
            content = reader.read(start, size)
        self._check(url, self._store.facts(url), facts)
        return content

    def _check(self, url: str, found: Facts, facts: tuple[int, str]) -> None:
        if (found.size_bytes, found.version or "") != facts:
            raise ChangedSourceError(f"{url} has changed at its source: refresh it with 'bbflow files refresh'")

    def write(
        self, path: str, parts: Callable[[], Iterable[bytes]], size_bytes: int, failed: Failed = _ignore
    ) -> tuple[int, str]:
        """Write an object anew, all or nothing; return its size and version.

        Parameters
        ----------
        path
            Its name.
        parts
            Called for each attempt; gives an iterator over its bytes.
        size_bytes
            How many these are.
        failed
            Told of failed attempts.

        Raises
        ------
        SourceError
            If it can't be written.
        """
        url = self.url(path)

        def attempt() -> tuple[int, str]:
            size = 0
            with self._store.create(url, size_bytes) as target:
                for part in parts():
                    target.write(part)
                    size += len(part)
            facts = self._store.facts(url)
            if facts.size_bytes != size:
                raise OSError(f"{facts.size_bytes} bytes are there, {size} were written")
            return facts.size_bytes, facts.version or ""

        return persist(lambda: self._cleared(attempt, url), url, self._retry, failed=failed)

    def _cleared(self, action: Callable[[], T], url: str) -> T:
        """Do what gives a file a name; if it fails since empty directories have the name, they go before."""
        try:
            return action()
        except Exception:  # what a client raises depends on the protocol
            if not self._store.clear(url):
                raise
        return action()

    def scan(self, path: str, *, below: bool) -> Iterator[TaskAnswer]:
        """Look at a directory, which need not be there; yield what it has in parts."""
        url = self.url(path)
        objects, directories = persist(lambda: self._found(url, below=below), url, self._retry)
        for first in range(0, max(len(objects), 1), PART):
            part = objects[first : first + PART]
            found = tuple((file.name, file.size_bytes or 0, file.version or "", file.changed_s) for file in part)
            yield TaskAnswer(done=False, objects=found, directories=() if first else tuple(directories))

    def _found(self, url: str, *, below: bool) -> tuple[list[Listed], list[str]]:
        try:
            files, directories = (list(self._store.tree(url)), []) if below else self._store.children(url)
        except SourceError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return [], []
            raise
        whole = [file for file in files if not is_beside(file.name.rpartition("/")[2])]
        return [file for file in whole if file.size_bytes is not None], directories

    def refusal(self) -> str | None:
        """Say why nothing could be read or written here now; None if nothing is known to be wrong.

        Raises
        ------
        ConfigError
            If that is for what the user has said.
        """
        try:
            next(iter(self._store.tree(self._url)), None)
        except (ConfigError, MissingToolError):
            raise
        except MissingSourceError as error:
            comes_yet = isinstance(error.__cause__, FileNotFoundError)  # with the first object
            return None if comes_yet else str(error)
        except Exception as error:  # what a client raises depends on the protocol
            return str(error) if isinstance(error, SourceError) else f"{self._url}: {reason_of(error)}"
        return None

    def remove(self, path: str, failed: Failed = _ignore) -> None:
        """Remove an object; `failed` is told of failed attempts."""
        url = self.url(path)
        persist(lambda: self._store.remove(url), url, self._retry, failed=failed)

    def move(self, path: str, to: str, size_bytes: int, failed: Failed = _ignore) -> tuple[int, str]:
        """Return an object another name; return its size and version as they are then.

        Where only the other name is there, with the right size, an answer was lost before.

        Parameters
        ----------
        path, to
            Its name, and the other one.
        size_bytes
            Its size.
        failed
            Told of failed attempts.

        Raises
        ------
        FileExistsError
            If it can't be moved, and is seen to have the old name only.
        SourceError
            If it can't be moved, and may have either.
        """
        url, target = self.url(path), self.url(to)
        try:
            moved = partial(self._moved, url, target, size_bytes)
            facts = persist(lambda: self._cleared(moved, target), url, self._retry, failed=failed)
        except SourceError as error:
            if self._is_there(url) and not self._is_there(target):
                raise FileExistsError(errno.EEXIST, str(error)) from error
            raise
        return facts.size_bytes, facts.version or ""

    def _moved(self, url: str, target: str, size_bytes: int) -> Facts:
        try:
            self._store.move(url, target)
        except MissingSourceError as error:
            with suppress(MissingSourceError):
                facts = self._store.facts(target)
                if facts.size_bytes == size_bytes:
                    return facts
            raise error
        return self._store.facts(target)

    def _is_there(self, url: str) -> bool:
        """Whether an object is seen to be there, without any patience."""
        try:
            self._store.facts(url)
        except Exception:  # what a client raises depends on the protocol
            return False
        return True


def errno_of(error: Exception) -> int:
    """Return the errno that says what an error means to who reads or writes a file."""
    if isinstance(error, OSError) and error.errno:
        return error.errno
    if isinstance(error, ChangedSourceError | MissingSourceError):
        return errno.ENOENT  # who reads asks the master again, which looks again
    return errno.EIO

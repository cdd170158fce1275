"""The shared storage behind the files: plain objects with the files' names, below one URL."""

import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from bbflow.errors import (
    ChangedSourceError,
    ConfigError,
    ConflictError,
    DirectorySourceError,
    MissingSourceError,
    MissingToolError,
    SourceError,
)
from bbflow.files.commands import CommandAnswer
from bbflow.files.names import conflict_name
from bbflow.files.wire import Seen
from bbflow.host.atomic import is_beside
from bbflow.staging.retry import Retry, persist, reason_of
from bbflow.stores.facts import Expected, Facts, Listed, PlainStore, may_be_moved, outdated
from bbflow.stores.sources import Sources
from bbflow.stores.urls import below

T = TypeVar("T")
Failed = Callable[[str], object]
"""Told why an attempt has failed that is followed by another."""
COMPARED_BYTES = 8 << 20
PART = 5000
"""How many entries of a directory are told at once."""


def _sendable(name: str) -> str:
    """Return a path as messages can have it: one that isn't UTF-8 begins with ``/``, and so is none to the master."""
    told = os.fsencode(name).decode(errors="backslashreplace")
    return name if told == name else f"/{told}"


def _ignore(reason: str) -> None:
    """Do nothing: not every caller wants to know of failed attempts."""


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
        # After the read as well: where `open` can't pin a version, its bytes may be of an object that came meanwhile.
        self._check(url, self._store.facts(url), facts)
        return content

    def _check(self, url: str, found: Facts, facts: tuple[int, str]) -> None:
        if (found.size_bytes, found.version or "") != facts:
            raise outdated(url)

    def write(
        self,
        path: str,
        parts: Callable[[], Iterable[bytes]],
        size_bytes: int,
        over: Seen,
        *,
        unsure: bool = False,
        failed: Failed = _ignore,
    ) -> tuple[int, str]:
        """Rewrite an object, all or nothing; return its size and version.

        Parameters
        ----------
        path
            Its name.
        parts
            Called for each attempt; gives an iterator over its bytes.
        size_bytes
            How many these are.
        over
            What it may take the place of; nothing that isn't there needs to be.
        unsure
            Whether what is there may also be of an earlier attempt: it is kept beside then.
        failed
            Told of failed attempts.

        Raises
        ------
        ConflictError
            If something else is there.
        SourceError
            If it can't be written.
        """
        url = self.url(path)

        def put(known: Expected) -> tuple[int, str]:
            size = 0
            with self._store.create(url, size_bytes, known) as target:
                for part in parts():
                    target.write(part)
                    size += len(part)
            facts = target.facts or self._store.facts(url)
            if facts.size_bytes != size:
                raise ConflictError(f"{url}: {facts.size_bytes} bytes are there, {size} were written")
            return facts.size_bytes, facts.version or ""

        def attempt() -> tuple[int, str]:
            try:
                return self._cleared(lambda: put(Expected(over)), url)
            except ConflictError:
                found = self._facts(url)
                if found is not None and self._holds(url, found, parts):
                    return found.size_bytes, found.version or ""  # an answer was lost
                if found is not None and not unsure:
                    raise
            if found is not None:
                self._put_aside(url, found)
            return put(Expected(None))

        return persist(attempt, url, self._retry, failed=failed)

    def _facts(self, url: str) -> Facts | None:
        with suppress(MissingSourceError, DirectorySourceError):
            return self._store.facts(url)
        return None

    def _holds(self, url: str, facts: Facts, parts: Callable[[], Iterable[bytes]]) -> bool:
        """Whether an object has just these bytes."""
        at = 0
        with self._store.open(url, facts) as reader:
            for part in parts():
                if at + len(part) > facts.size_bytes or reader.read(at, len(part)) != part:
                    return False
                at += len(part)
        return at == facts.size_bytes

    def _put_aside(self, url: str, facts: Facts) -> None:
        """Keep what may be another program's under a name that says so."""
        aside = conflict_name(url.rpartition("/")[2], time.time())
        known = Expected((facts.size_bytes, facts.version or ""))
        self._store.move(url, f"{url.rpartition('/')[0]}/{aside}", known, Expected(None))

    def weakness(self, path: str) -> str:
        """Return what can't be checked here in the instant in which it is changed; empty if all can."""
        try:
            return self._store.weakness(self.url(path))
        except Exception:  # what was done here is done, whatever a trial says
            return ""

    def _cleared(self, action: Callable[[], T], url: str) -> T:
        """Do what gives a file a name; if it fails since empty directories have the name, they go before."""
        try:
            return action()
        except Exception:  # what a client raises depends on the protocol
            if not self._store.clear(url):
                raise
        return action()

    def scan(self, path: str, *, below: bool) -> Iterator[CommandAnswer]:
        """Look at a directory, which need not be there; yield what it has in parts."""
        url = self.url(path)
        objects, directories = persist(lambda: self._found(url, below=below), url, self._retry)
        for first in range(0, max(len(objects), 1), PART):
            part = objects[first : first + PART]
            found = tuple((file.name, file.size_bytes or 0, file.version or "", file.changed_s) for file in part)
            yield CommandAnswer(done=False, objects=found, directories=() if first else tuple(directories))

    def _found(self, url: str, *, below: bool) -> tuple[list[Listed], list[str]]:
        try:
            if below:
                found = list(self._store.tree(url, directories=True))
                files = [file for file in found if not file.is_directory]
                directories = [file.name for file in found if file.is_directory]
            else:
                files, directories = self._store.children(url)
        except SourceError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return [], []
            raise
        # What another program writes has such a name until it is whole.
        whole = [file for file in files if not is_beside(file.name.rpartition("/")[2])]
        sized = [replace(file, name=_sendable(file.name)) for file in whole if file.size_bytes is not None]
        return sized, list(map(_sendable, directories))

    def refusal(self) -> str | None:
        """Return why nothing could be read or written here now; None if nothing is known to be wrong.

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

    def remove(self, path: str, facts: Seen, failed: Failed = _ignore) -> None:
        """Remove an object, if it has these facts; without any it is kept beside. `failed` is told of failed attempts.

        Raises
        ------
        ConflictError
            If it has others.
        """
        url = self.url(path)

        def attempt() -> None:
            if facts is not None:
                self._store.remove(url, Expected(facts))
            elif (found := self._facts(url)) is not None:
                self._put_aside(url, found)

        persist(attempt, url, self._retry, failed=failed)

    def move(self, path: str, to: str, facts: tuple[int, str], over: Seen, failed: Failed = _ignore) -> tuple[int, str]:
        """Rename an object; return its size and version as they are then.

        Where the other name has it already, an answer was lost before.

        Parameters
        ----------
        path, to
            Its name, and the other one.
        facts
            Its size and version.
        over
            What it may take the place of.
        failed
            Told of failed attempts.

        Raises
        ------
        FileExistsError
            If it can't be moved, and is seen to have the old name only.
        ChangedSourceError
            If it isn't what it was; a `ConflictError` if that is so of what has the other name.
        SourceError
            If it can't be moved, and may have either.
        """
        url, target = self.url(path), self.url(to)
        try:
            moved = partial(self._moved, url, target, facts, over)
            found = persist(lambda: self._cleared(moved, target), url, self._retry, failed=failed)
        except (ChangedSourceError, ConflictError):
            raise
        except SourceError as error:
            if self._is_there(url) and not self._is_there(target):
                raise FileExistsError(errno.EEXIST, str(error)) from error
            raise
        return found.size_bytes, found.version or ""

    def _moved(self, url: str, target: str, facts: tuple[int, str], over: Seen) -> Facts:
        try:
            moved = self._store.move(url, target, Expected(facts), Expected(over))
        except MissingSourceError as error:
            found = self._facts(target)
            if found is not None and may_be_moved(facts, found):
                return found
            raise error
        except ConflictError:
            # An attempt whose answer was lost may have made the copy.
            found = self._facts(target)
            expected = Facts(facts[0], facts[1] or None)
            if found is None or not self._holds(target, found, lambda: self._ranges(url, expected)):
                raise
            self._store.remove(url, Expected(facts))
            return found
        return moved or self._store.facts(target)

    def _ranges(self, url: str, facts: Facts) -> Iterator[bytes]:
        with self._store.open(url, facts) as reader:
            for start in range(0, facts.size_bytes, COMPARED_BYTES):
                yield reader.read(start, min(COMPARED_BYTES, facts.size_bytes - start))

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

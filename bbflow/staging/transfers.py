"""One transfer: ranged reads through the gate into a partial file, checks, and the rename that makes it appear."""

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Protocol

from bbflow.errors import CapacityError, ChangedSourceError, SourceError
from bbflow.staging.checksums import Checking
from bbflow.staging.fetching import Receipt
from bbflow.staging.files import File
from bbflow.staging.gate import Gate
from bbflow.staging.retry import Retry, persist
from bbflow.staging.shelf import Note
from bbflow.stores.facts import Facts, missing
from bbflow.stores.sources import Reader, Sources, local_path
from bbflow.stores.urls import below


class Places(Protocol):
    """Where copies lie, whole or in part; a `Shelf` is one."""

    @property
    def directory(self) -> Path:
        """On the burst buffer; it has all of them."""

    def path(self, url: str) -> Path:
        """Return where a file lies, or will lie."""

    def has(self, url: str) -> bool:
        """Whether anything is there of a file."""

    def put(self, note: Note, content: bytes) -> Path:
        """Publish a file whole, and note what it is a copy of."""

    def partial(self, url: str) -> Path:
        """Return where a file lies while it is being copied."""

    def note(self, url: str) -> Note | None:
        """Return what a copy was noted to be; None without a note."""

    def write_note(self, note: Note) -> None:
        """Note what is going to be copied."""

    def finish(self, url: str) -> Path:
        """Publish a file that is whole."""


class Transfer:
    """Copies one file to the burst buffer.

    Parameters
    ----------
    file
        What to copy.
    sources, shelf, gate
        From where, to where, and who says when.
    rank
        Its place in the order of all transfers.
    retry
        What happens after a failure.
    sleep
        Waits this many seconds.
    """

    def __init__(
        self,
        file: File,
        sources: Sources,
        shelf: Places,
        gate: Gate,
        retry: Retry,
        rank: int = 0,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._file, self._sources, self._shelf, self._gate = file, sources, shelf, gate
        self._retry, self._rank = retry, rank
        self._sleep = sleep
        self._transferred_bytes = 0
        self._progress = 0

    def run(self) -> Receipt:
        """Copy the file, or take over what is there already.

        Raises
        ------
        SourceError
            If it can't be had: missing, forbidden, damaged, of another size, always changing, or out of reach
            after all attempts.
        CapacityError
            If the burst buffer's file system is full.
        Closed
            If the gate was closed; what was copied stays for the next life.
        """
        return persist(self._attempt, self._file.url, self._retry, lambda: self._progress, self._sleep)

    def _attempt(self) -> Receipt:
        url = self._file.url
        with _room(self._shelf, url), self._gate.transfer(self._rank):
            return self._copied(url, self._facts())

    def _copied(self, url: str, facts: Facts) -> Receipt:
        path = self._shelf.path(url)
        if path.is_dir():
            raise SourceError(f"{path} is a directory, where {url} was to lie: move it away")
        if path.exists():
            if self._is_same(facts) and path.stat().st_size == facts.size_bytes and self._is_right(path):
                return Receipt(path, facts.size_bytes, self._transferred_bytes)
            path.unlink()
        try:
            self._copy(facts)
        except ChangedSourceError:
            raise InterruptedError("it changes while it is copied, or hosts behind its URL differ") from None
        # Asked again: a copy of a source that changes meanwhile may have bytes of two versions.
        if self._facts() != facts:
            self._shelf.partial(url).unlink()
            raise InterruptedError(f"it changed while it was copied: {facts.version} is no more")
        return Receipt(self._shelf.finish(url), facts.size_bytes, self._transferred_bytes)

    def _facts(self) -> Facts:
        # Whether a copy that is there is still its source's is no transfer: a task needn't wait for a phase to end.
        is_check = self._shelf.path(self._file.url).exists()
        with nullcontext() if is_check else self._gate.chunk(0, self._rank):
            facts = self._sources.facts(self._file.url)
        if self._file.size_bytes not in (None, facts.size_bytes):
            raise SourceError(
                f"{self._file.url} has {facts.size_bytes} bytes, but {self._file.size_bytes} were expected: "
                "it has changed since the task was planned; plan it again"
            )
        return facts

    def _is_same(self, facts: Facts) -> bool:
        """Whether what is there is a copy of what the source has now."""
        return facts.version is not None and self._shelf.note(self._file.url) == self._note(facts)

    def _note(self, facts: Facts) -> Note:
        return Note(self._file.url, facts.size_bytes, facts.version or "")

    def _is_right(self, path: Path) -> bool:
        """Whether a copy has the checksum that is given: whoever had it copied may have given none."""
        check = Checking(self._file.checksum)
        check.take_file(path)
        return not check.differs

    def _may_continue(self, partial: Path, facts: Facts) -> bool:
        """Whether a partial file, if there is one, can be the beginning of what the source has now."""
        if not (facts.resumable and self._is_same(facts)) or partial.is_symlink():
            return False
        return not partial.exists() or partial.stat().st_size <= facts.size_bytes

    def _copy(self, facts: Facts) -> None:
        """Continue the partial file, or begin it, until it is whole and checked."""
        partial = self._shelf.partial(self._file.url)
        if not self._may_continue(partial, facts):
            partial.unlink(missing_ok=True)
            # Before the first byte: nothing else tells a later life that a partial file is ours, and of which version.
            self._shelf.write_note(self._note(facts))
        checks = [Checking(self._file.checksum), Checking(facts.checksum)]
        with partial.open("ab") as copy, self._sources.open(self._file.url, facts) as source:
            for check in checks:
                # What an earlier life has copied counts, too.
                check.take_file(partial)
            while copy.tell() < facts.size_bytes:
                content = self._read(source, copy.tell(), facts.size_bytes)
                copy.write(content)
                # What comes again after a new beginning is no progress: it could break at the same place forever.
                self._progress = max(self._progress, copy.tell())
                for check in checks:
                    check.take(content)
        if checks[0].differs:
            raise self._damaged(checks[0])
        # An ETag looks like an MD5 and needn't be one: the store is asked only where it differs.
        if checks[1].differs and self._sources.disproves(self._file.url):
            raise self._damaged(checks[1])

    def _read(self, source: Reader, at: int, size_bytes: int) -> bytes:
        length_bytes = min(self._gate.chunk_bytes, size_bytes - at)
        with self._gate.chunk(length_bytes, self._rank):
            content = source.read(at, length_bytes)
        if len(content) != length_bytes:
            raise OSError(f"{len(content)} bytes came of {length_bytes} at {at}")
        self._transferred_bytes += length_bytes
        return content

    def _damaged(self, check: Checking) -> SourceError:
        self._shelf.partial(self._file.url).unlink()
        return SourceError(f"{self._file.url} is damaged: {check.difference}; restore it at its source")


@contextmanager
def _room(shelf: Places, url: str) -> Iterator[None]:
    """Turn a full file system into an error that says so."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise CapacityError(
            f"the file system of {shelf.directory} is full, though {url} should have had room: something else fills "
            "it; free space there, or stage with a smaller capacity"
        ) from error


def stage_out(
    path: Path,
    url: str,
    sources: Sources,
    gate: Gate,
    retry: Retry,
    sleep: Callable[[float], object] = time.sleep,
) -> int:
    """Copy a file from the burst buffer to where a URL says; it appears there whole.

    Of a directory all files below it are copied, one after the other; what is there already of others stays.

    Parameters
    ----------
    path
        The file, or the directory.
    url
        Where to; what is there is replaced.
    sources, gate, retry
        How, who says when, and what happens after a failure.
    sleep
        Waits this many seconds.

    Returns
    -------
    int
        Bytes.

    Raises
    ------
    SourceError
        If it can't be written there, or it is, or has, what is neither a file nor a directory.
    """
    size_bytes = 0
    for file, place in _targets(path, url):
        size_bytes += persist(partial(_write, file, place, sources, gate), place, retry, sleep=sleep)
    return size_bytes


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files below a directory; a link to nothing has none."""
    inside = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    return sum(os.stat(each).st_size for each in (inside if path.is_dir() else [path]) if os.path.exists(each))


def _targets(path: Path, url: str) -> list[tuple[Path, str]]:
    """Return where a file, or each file of a directory, goes; directories are made where a URL is a path."""
    if not path.is_dir():
        _check_plain(path, url)
        return [(path, url)]
    found = []
    for folder, folders, names in os.walk(path):
        place = url if folder == str(path) else below(url, os.path.relpath(folder, path))
        if (local := local_path(place)) is not None:
            _make_directory(local)
        for each, name in ((Path(folder, name), name) for name in (*names, *folders)):
            if each.is_symlink() or not each.is_dir():
                _check_plain(each, url)
                found.append((each, below(place, name)))
    return found


def _check_plain(path: Path, url: str) -> None:
    """Refuse what isn't a file: reading a pipe would never end."""
    if not os.path.lexists(path):
        raise missing(str(path))
    if not path.is_file():
        raise SourceError(f"{path} is neither a file nor a directory, so {url} can't have it: write a file")


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SourceError(f"{path} can't be a directory: {error.strerror}; check the path") from error


def _write(path: Path, url: str, sources: Sources, gate: Gate) -> int:
    with path.open("rb") as file, sources.create(url, os.fstat(file.fileno()).st_size) as target:
        while content := file.read(gate.chunk_bytes):
            with gate.chunk(len(content)):
                target.write(content)
        return file.tell()

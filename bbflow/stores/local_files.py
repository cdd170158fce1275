"""Files of this host's file systems, by as few system calls as can be: a workflow may have 100,000 of 2 kB."""

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from bbflow.errors import ConflictError, DirectorySourceError, SourceError
from bbflow.host.atomic import beside, replacing
from bbflow.stores.facts import (
    Arriving,
    Expected,
    Facts,
    Listed,
    Reader,
    changed,
    conflict,
    forbidden,
    impossible,
    missing,
)
from bbflow.stores.urls import is_local, path_below

NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)
"""Error numbers of a name that no file has."""
NOREPLACE, EXCHANGE = 1, 2
"""Flags of renameat2(2)."""
_AT_FDCWD = -100
# What kernels before 3.15 and file systems such as NFS say of these flags.
_UNKNOWN = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_LIBC = ctypes.CDLL(None, use_errno=True)


def local_path(url: str) -> Path | None:
    """Return the path that a URL names on this host; None if it is elsewhere."""
    return Path(path_of(url)).absolute() if is_local(url) else None


def path_of(url: str) -> str:
    """Return the path in a local URL."""
    path = url.partition("://")[2] if url.startswith(("file://", "local://")) else url
    return os.path.expanduser(path) if path.startswith("~") else path


class LocalFiles:
    """Reads and writes paths and ``file://``."""

    def facts(self, url: str) -> Facts:
        """Ask for a file's facts."""
        path = path_of(url)
        with _refusals(url):
            found = os.stat(path)
            # To look at a file takes no right to read it: that would be missed only in mid-transfer.
            if not os.access(path, os.R_OK):
                raise PermissionError
        return _facts(url, found)

    @contextmanager
    def open(self, url: str, facts: Facts) -> Iterator[Reader]:
        """Open a file for reading in chunks."""
        with _refusals(url):
            file = open(path_of(url), "rb", buffering=0)  # noqa: SIM115 - closed below
        with file:
            descriptor = file.fileno()
            yield Reader(lambda start, length: os.pread(descriptor, length, start), partial(_refusals, url))

    def whole(self, url: str, most_bytes: int) -> tuple[Facts, bytes] | None:
        """Read a small file; None if it is larger, or changes meanwhile."""
        path = path_of(url)
        with _refusals(url):
            # A pipe in the place of a file must not block.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                facts = _facts(url, os.fstat(descriptor))
                content = os.read(descriptor, most_bytes + 1) if facts.size_bytes <= most_bytes else None
            finally:
                os.close(descriptor)
            if content is None or len(content) != facts.size_bytes or _facts(url, os.stat(path)) != facts:
                return None
        return facts, content

    def __init__(self) -> None:
        self._weak = False

    def weakness(self, url: str) -> str:
        """Report a file system that, as NFS, knows no rename that replaces nothing."""
        return "its file system has no renames that replace nothing" if self._weak else ""

    @contextmanager
    def create(self, url: str, size_bytes: int, over: Expected | None = None) -> Iterator[Any]:
        """Write beside a file, then take its place."""
        path = Path(path_of(url))
        with _refusals(url):
            path.parent.mkdir(parents=True, exist_ok=True)
            if over is None:
                with replacing(path) as temporary, temporary.open("wb") as file:
                    yield file
                return
            aside = beside(path)
            try:
                with aside.open("wb") as file:
                    target = Arriving(file)
                    yield target
                target.facts, _ = self._place(str(aside), str(path), over, url)
            finally:
                aside.unlink(missing_ok=True)

    def _place(self, aside: str, path: str, over: Expected, url: str) -> tuple[Facts, os.stat_result | None]:
        """Put a file in place of just `over`, which is aside then; return what it is, and what that was."""
        descriptor = os.open(aside, os.O_PATH)  # by its name it may be another program's as soon as it is there
        try:
            before = self._swap(aside, path, over, url, os.fstat(descriptor))
            return _facts(url, os.fstat(descriptor)), before
        finally:
            os.close(descriptor)

    def _swap(self, aside: str, path: str, over: Expected, url: str, ours: os.stat_result) -> os.stat_result | None:
        before = _stat_or_none(path)
        if before is not None and not stat.S_ISREG(before.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        over.check(url, None if before is None else _facts(url, before))
        try:
            if not renamed(aside, path, NOREPLACE if before is None else EXCHANGE):
                self._weak = True  # it was looked at just before
                os.replace(aside, path)
                return before
        except (FileExistsError, FileNotFoundError):
            raise conflict(url) from None
        if before is None or _is_same(before, os.stat(aside)):
            return before
        # What came out was put there since it was looked at, by another program: it goes back.
        with suppress(FileNotFoundError):  # removed by someone meanwhile
            renamed(aside, path, EXCHANGE)
            if not _is_same(ours, os.stat(aside)):
                renamed(aside, path, EXCHANGE)  # that is newer still, and was written over it
        raise conflict(url)

    def children(self, url: str) -> tuple[list[Listed], list[str]]:
        """List a directory; links to directories are followed, and files that go meanwhile are left out."""
        files, directories = [], []
        with _refusals(url), os.scandir(path_of(url) or ".") as entries:
            for entry in entries:
                # A link to itself, or into what is closed, keeps no other file from being seen.
                is_lost = entry.is_symlink() and _stat_or_none(entry.path) is None
                if not is_lost and entry.is_dir():
                    directories.append(entry.name)
                elif not is_lost and entry.is_file():
                    with suppress(FileNotFoundError):  # else all that is there would seem to be gone with it
                        files.append(_listed(url, entry.name, entry.stat()))
                else:
                    files.append(_no_file(url, entry.name))
        return files, directories

    def tree(self, url: str, *, directories: bool = False) -> Iterator[Listed]:
        """List all files below a directory; links to directories in it are not followed, since they may go round."""
        root = path_of(url) or "."
        with _refusals(url):
            for directory, inside, names in os.walk(root, onerror=_raise):
                for name in inside if directories else ():
                    path = os.path.join(directory, name)
                    own, is_link = os.path.relpath(path, root), os.path.islink(path)
                    yield Listed(path_below(url, own), own, 0, is_usable=not is_link, is_directory=True)
                for name in names:
                    path = os.path.join(directory, name)
                    found, own = _stat_or_none(path), os.path.relpath(path, root)
                    if found is not None and stat.S_ISREG(found.st_mode):
                        yield _listed(url, own, found)
                    elif directories:
                        yield _no_file(url, own)

    def remove(self, url: str, known: Expected | None = None) -> None:
        """Remove a file; where none can be by that name, there is none."""
        path = path_of(url)
        with _refusals(url):
            try:
                if known is None:
                    os.unlink(path)
                else:
                    self._remove(path, known, url)
            except OSError as error:
                if error.errno not in NO_FILE:
                    raise

    def _remove(self, path: str, known: Expected, url: str) -> None:
        before = os.stat(path)
        if not stat.S_ISREG(before.st_mode):
            return  # no file has the name
        known.check(url, _facts(url, before))
        self._unlink(path, before, url)

    def _unlink(self, path: str, before: os.stat_result, url: str) -> None:
        """Remove a file that is still what it was."""
        aside = str(beside(Path(path)))
        os.replace(path, aside)  # whoever writes there from now on writes another file
        if _is_same(before, os.stat(aside)):
            os.unlink(aside)
            return
        try:
            if not renamed(aside, path, NOREPLACE):
                os.replace(aside, path)
        except FileExistsError:
            os.unlink(aside)  # it is overwritten already by what is there now
        raise conflict(url)

    def move(self, url: str, to: str, known: Expected, over: Expected) -> Facts:
        """Rename a file; directories on the way are made."""
        path, target = path_of(url), path_of(to)
        with _refusals(url):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            before = os.stat(path)
            try:
                known.check(url, _facts(url, before))
            except ConflictError as error:
                raise changed(url) from error
            made, replaced = self._place(path, target, over, to)
            if not _is_same(before, os.stat(target)):
                with suppress(FileExistsError):  # else there is a newer one already
                    renamed(target, path, NOREPLACE if replaced is None else EXCHANGE)
                raise changed(url)
            if replaced is not None:
                with suppress(FileNotFoundError, ConflictError):  # where they couldn't be swapped; a new one of others
                    self._unlink(path, replaced, url)
            return made

    def clear(self, url: str) -> bool:
        """Remove directories that have a file's name, if there is nothing else below; return whether there were any."""
        found = []
        with _refusals(url):
            for directory, _, files in os.walk(path_of(url), topdown=False):
                if files:
                    return False
                found.append(directory)
            for directory in found:
                os.rmdir(directory)
        return bool(found)

    def sizes(self, urls: list[str]) -> dict[str, int]:
        """Return nothing: here nothing is cheaper than asking."""
        return {}

    def disproves(self, url: str) -> bool:
        """Whether a wrong checksum proves damage: there is none here."""
        return True


def _no_file(url: str, name: str) -> Listed:
    """Return what is told of a pipe, a socket, a device, or a link to nothing."""
    return Listed(path_below(url, name), name, None, is_usable=False)


def _facts(url: str, found: os.stat_result) -> Facts:
    if stat.S_ISDIR(found.st_mode):
        raise DirectorySourceError(f"{url} is a directory: name the files in it")
    if not stat.S_ISREG(found.st_mode):
        raise SourceError(f"{url} isn't a regular file: it has no size, so no room can be kept for it")
    return Facts(found.st_size, _version(found), changed_s=found.st_mtime)


def _version(found: os.stat_result) -> str:
    # An mtime can be set back, as rsync does; a ctime can't.
    return f"mtime:{found.st_mtime_ns}:{found.st_ino}:{found.st_ctime_ns}"


def _is_same(one: os.stat_result, other: os.stat_result) -> bool:
    """Whether a file is what it was before it was renamed, which gives it another ctime."""
    return all(getattr(one, field) == getattr(other, field) for field in ("st_dev", "st_ino", "st_size", "st_mtime_ns"))


def _listed(url: str, name: str, found: os.stat_result) -> Listed:
    return Listed(path_below(url, name), name, found.st_size, _version(found), found.st_mtime)


def _stat_or_none(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None  # it went meanwhile, or is a link to nothing


def _raise(error: OSError) -> None:
    raise error


@contextmanager
def _refusals(url: str) -> Iterator[None]:
    """Turn what trying again wouldn't help into a `SourceError`; the rest stays as it is."""
    try:
        yield
    except FileNotFoundError as error:
        raise missing(url) from error
    except PermissionError as error:
        inside = error.filename not in (None, path_of(url))
        raise forbidden(f"{url}: {error.filename}" if inside else url) from error
    except OSError as error:
        if lasting := impossible(url, error):
            raise lasting from error
        raise


def renamed(old: str, new: str, flag: int) -> bool:
    """Rename a file by `NOREPLACE`, or swap it with another by `EXCHANGE`; return whether its file system can do that.

    Raises
    ------
    OSError
        EEXIST if `NOREPLACE` would replace something; what rename(2) says.
    """
    if not hasattr(_LIBC, "renameat2"):
        return False
    if _LIBC.renameat2(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), old, None, new)

"""The piece files of one IOnode: plain files in memory, under names that the format gives."""

import errno
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bbflow.host.atomic import PRIVATE, write_whole

KEY = re.compile(r"[1-9a-f][0-9a-f]{0,15}\.(?:0|[1-9a-f][0-9a-f]{0,11})")
COPY_BYTES = 64 << 20
SOCKET_NAME = "ionode.sock"
"""What an IOnode listens on in its directory."""
VERIFIER_NAME = "verifier"
IONODE_FILES = ("pieces/*", "unfinished/*", SOCKET_NAME, VERIFIER_NAME, "room")
"""All that is put into an IOnode's directory."""


class Pieces:
    """A directory of piece files.

    Parameters
    ----------
    directory
        The IOnode's; files that were still being filled when it ended are removed.
    """

    def __init__(self, directory: Path) -> None:
        self._pieces, self._unfinished = directory / "pieces", directory / "unfinished"
        self._mark = directory / VERIFIER_NAME
        self.verifier = self._verified()
        """Another one once what lay here is gone (as NFS has it, RFC 1813, section 3.3.7)."""
        self._mark_facts = _facts(self._mark)
        for path in (self._pieces, self._unfinished):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A mark tells of a piece whose bytes hadn't all come: the piece goes first, or a kill here would leave it
        # unmarked.
        for mark in [path for path in self._unfinished.iterdir() if KEY.fullmatch(path.name)]:
            (self._pieces / mark.name).unlink(missing_ok=True)
            mark.unlink()

    def _verified(self) -> str:
        if not (self._pieces.is_dir() and self._mark.exists()):
            self._mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self._mark, secrets.token_hex(8), PRIVATE)
        return self._mark.read_text()

    @property
    def is_removed(self) -> bool:
        """Whether the directory isn't there any more, or another one is."""
        try:
            return not self._pieces.is_dir() or _facts(self._mark) != self._mark_facts
        except OSError as error:
            return error.errno in (errno.ENOENT, errno.ENOTDIR)

    def path(self, key: str) -> Path:
        """Return a piece file's path.

        Raises
        ------
        OSError
            EINVAL if this isn't a piece file's name.
        """
        if not KEY.fullmatch(key):
            raise OSError(errno.EINVAL, f"{key!r} isn't a piece")
        return self._pieces / key

    def inventory(self) -> list[tuple[str, int]]:
        """Return names and bytes of all whole piece files."""
        there = [(name, status.st_size) for name, status in self._listed() if KEY.fullmatch(name)]
        return [(key, size) for key, size in there if not (self._unfinished / key).exists()]

    def sizes(self, keys: Iterable[str]) -> Iterator[tuple[str, int]]:
        """Iterate over those of some piece files that are there, with their bytes."""
        for key in keys:
            with suppress(FileNotFoundError):
                yield key, os.stat(self.path(key)).st_size

    def used_bytes(self) -> int:
        """Return the memory that they take."""
        return sum(status.st_blocks * 512 for _, status in self._listed())

    def _listed(self) -> Iterator[tuple[str, os.stat_result]]:
        with os.scandir(self._pieces) as found:
            for entry in found:
                with suppress(FileNotFoundError):  # clients make and remove files meanwhile
                    yield entry.name, entry.stat()

    @contextmanager
    def opened(self, key: str, *, make: bool = False) -> Iterator[int]:
        """Open a piece file for a while; give its descriptor."""
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if make else 0)
        descriptor = os.open(self.path(key), flags, 0o600)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def read_into(self, key: str, offset: int, target: memoryview) -> int:
        """Read a range into some memory; return how many bytes there were."""
        with self.opened(key) as descriptor:
            return os.preadv(descriptor, [target], offset)

    def require(self, key: str, size: int) -> None:
        """Check that a file has what counts of it.

        Raises
        ------
        OSError
            EIO if some of it has gone: to write on would make zeros of that.
        """
        found = dict(self.sizes([key]))
        if found.get(key, -1) < size:
            raise lacking(key, found.get(key, 0), size)

    def write(self, key: str, offset: int, content: memoryview, *, make: bool = False) -> None:
        """Write a range; with `make` the file begins without any bytes, else it must be there."""
        with self.opened(key, make=make) as descriptor:
            if make:
                os.ftruncate(descriptor, 0)
            write_all(descriptor, content, offset)

    def cut(self, key: str, size: int) -> None:
        """Truncate a file at `size`; it is made if need be."""
        with self.opened(key, make=True) as descriptor:
            os.ftruncate(descriptor, size)

    def copy(self, key: str, source: int, size: int) -> None:
        """Copy the first bytes of another file, whose descriptor is given."""
        with self.opened(key, make=True) as target:
            os.ftruncate(target, 0)
            at = 0
            while at < size:
                # By the kernel, which shares blocks where the file system can.
                count = os.copy_file_range(source, target, min(size - at, COPY_BYTES), at, at)
                if not count:
                    break
                at += count

    def drop(self, key: str) -> None:
        """Remove a file, if it is there."""
        with suppress(FileNotFoundError):
            self.path(key).unlink()

    def discard(self, version: int) -> None:
        """Remove all files of a version."""
        for path in self._pieces.glob(f"{version:x}.*"):
            path.unlink(missing_ok=True)

    def shorten(self, key: str, size: int) -> None:
        """Cut off what lies behind `size`, if the file is there."""
        with suppress(FileNotFoundError):
            if os.stat(self.path(key)).st_size > size:
                os.truncate(self.path(key), size)

    def begin(self, key: str, size: int) -> None:
        """Make a file of some length whose bytes are still to come; it doesn't outlive this process unless `finish`."""
        self.path(key)
        # Marked first: an IOnode that is killed between the two must not find a whole piece of zeros.
        (self._unfinished / key).touch()
        self.cut(key, size)

    def finish(self, key: str) -> None:
        """Record that all bytes of a file have come."""
        (self._unfinished / key).unlink(missing_ok=True)


def _facts(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


def lacking(key: str, has: int, size: int) -> OSError:
    """Return the error of a piece that has less on its node than counts."""
    return OSError(errno.EIO, f"piece {key} has {has} of {size} bytes on its node, which has lost the others")


def write_all(descriptor: int, content: memoryview | bytes, offset: int) -> None:
    """Write all of some bytes from an offset on."""
    view = memoryview(content)
    while view:
        count = os.pwrite(descriptor, view, offset)
        view, offset = view[count:], offset + count

"""Directories by a held descriptor, and files below them: for what may be root where others can write.

A path is walked again each time, and whoever may write into a directory on it can change where it leads meanwhile. A
descriptor stays with its directory. Below one, only single names are opened, no link is followed, nothing waits (a
FIFO would), and what was opened is looked at before it is used.
"""

import fcntl
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Self

from bbflow.errors import ConfigError
from bbflow.host.closable import Closable

OTHERS_WRITE = 0o022
"""Mode bits by which others than the owner may change a directory."""
OTHERS_READ = 0o077
"""Mode bits by which others have any part in a file."""


class HeldDirectory(Closable):
    """A directory of this process's user, held until it is closed.

    Parameters
    ----------
    descriptor
        Of the directory; it becomes this object's.
    path
        What messages call it.

    Raises
    ------
    ConfigError
        If it belongs to another user, or others may change what is in it; a sticky one they may only add to.
    """

    def __init__(self, descriptor: int, path: Path) -> None:
        self.descriptor, self.path = descriptor, path
        found = os.fstat(descriptor)
        said = None
        if found.st_uid != os.geteuid():
            said = f"belongs to user {found.st_uid}, not to user {os.geteuid()} who would work in it"
        elif found.st_mode & OTHERS_WRITE and not found.st_mode & stat.S_ISVTX:
            said = f"can be written by others (mode {found.st_mode & 0o7777:o}): chmod go-w"
        if said is not None:
            os.close(descriptor)
            raise ConfigError(f"{path} {said}")

    @property
    def is_shared(self) -> bool:
        """Whether others may add files to it, which a sticky one lets them."""
        return bool(os.fstat(self.descriptor).st_mode & OTHERS_WRITE)

    @property
    def is_removed(self) -> bool:
        """Whether it has no name any more."""
        return os.fstat(self.descriptor).st_nlink == 0

    @classmethod
    def at(cls, path: Path) -> Self:
        """Hold the directory that has a path now; its own name isn't a link."""
        return cls(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC), path)

    def directory(self, name: str) -> Self:
        """Hold a directory in this one."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        return type(self)(os.open(_one(name), flags, dir_fd=self.descriptor), self.path / name)

    def make_directory(self, name: str, mode: int = 0o700) -> None:
        """Make a directory in this one.

        Raises
        ------
        FileExistsError
            If anything has that name.
        """
        os.mkdir(_one(name), mode, dir_fd=self.descriptor)

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open a regular file in this directory; return its descriptor.

        Raises
        ------
        ConfigError
            If it is anything else, another user's, or has a second name.
        OSError
            If it can't be opened; ELOOP if it is a link.
        """
        safe = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return checked(os.open(_one(name), flags | safe, mode, dir_fd=self.descriptor), self.path / name)

    def lock(self, name: str) -> int | None:
        """Lock a file, which is made if it isn't there; return its descriptor, or None if another process has it."""
        descriptor = self.open(name, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def read(self, name: str) -> bytes:
        """Read a file."""
        with os.fdopen(self.open(name, os.O_RDONLY), "rb") as file:
            return file.read()

    def write(self, name: str, content: bytes) -> None:
        """Write a file, in place of what has its name; it appears whole or not at all."""
        temporary = f".{name}.{secrets.token_hex(8)}.part"
        with os.fdopen(self.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(content)
        os.rename(temporary, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def facts(self, name: str) -> os.stat_result | None:
        """Return what has a name, without following it; None if nothing has."""
        with suppress(FileNotFoundError):
            return os.stat(_one(name), dir_fd=self.descriptor, follow_symlinks=False)
        return None

    def unlink(self, name: str) -> None:
        """Remove a file, if it is there."""
        with suppress(FileNotFoundError):
            os.unlink(_one(name), dir_fd=self.descriptor)

    def close(self) -> None:
        """Release it."""
        os.close(self.descriptor)


def open_regular(path: Path, most_bytes: int) -> int:
    """Open a file for reading, whoever has written it; return its descriptor.

    Parameters
    ----------
    path
        Links on it are followed: open it as the user whose word it is.
    most_bytes
        What it may have.

    Raises
    ------
    ConfigError
        If it can't be opened, isn't a regular file, or larger.
    """
    try:
        # O_NONBLOCK: a FIFO would wait for its writer, a device for whatever it is
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_size <= most_bytes:
        return descriptor
    os.close(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(f"{path} isn't a regular file")
    raise ConfigError(f"{path} has {found.st_size} bytes, and may have {most_bytes}")


def checked(descriptor: int, path: Path) -> int:
    """Return a descriptor if it is of a regular file of this user's with one name; else close it.

    Raises
    ------
    ConfigError
        If it isn't: someone else has put it there.
    """
    found = os.fstat(descriptor)
    said = None
    if not stat.S_ISREG(found.st_mode):
        said = "isn't a regular file"
    elif found.st_uid != os.geteuid():
        said = f"belongs to user {found.st_uid}"
    # A hard link to any file of ours can be laid here by whoever may write here, and needs no right to the file.
    elif found.st_nlink != 1:
        said = f"has {found.st_nlink} names"
    if said is None:
        return descriptor
    os.close(descriptor)
    raise ConfigError(f"{path} {said}: it isn't used, and nothing was written to it; remove it, or name another place")


def clear_below(top: int) -> None:
    """Remove all that is below a held directory, however deep it is, with two descriptors at a time.

    Directories are moved up into the top before they are looked into, so nothing recurses and no path gets long.
    Whoever calls it is the files' owner: what others may rename meanwhile is only their own.

    Raises
    ------
    OSError
        If something can't be removed, such as what others have put there.
    """
    os.fchmod(top, 0o700)
    token, number = f".bbflow-going-{secrets.token_hex(8)}", 0
    while names := os.listdir(top):
        for name in names:
            try:
                os.unlink(name, dir_fd=top)
            except FileNotFoundError:
                continue
            except (IsADirectoryError, PermissionError):  # POSIX has the second for directories
                number = _empty(top, name, token, number)
                with suppress(FileNotFoundError):
                    os.rmdir(name, dir_fd=top)


def _empty(top: int, name: str, token: str, number: int) -> int:
    inner = _opened(top, name)
    try:
        with os.scandir(inner) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    os.close(_opened(inner, entry.name))  # who moves a directory must be able to write into it
                    os.rename(entry.name, f"{token}-{number}", src_dir_fd=inner, dst_dir_fd=top)
                    number += 1
                else:
                    os.unlink(entry.name, dir_fd=inner)
    finally:
        os.close(inner)
    return number


def _opened(above: int, name: str) -> int:
    """Open a directory for removing what is in it, whatever its mode says."""
    place = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        with suppress(PermissionError):  # what is another user's may still be empty
            os.chmod(f"/proc/self/fd/{place}", 0o700)
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
    finally:
        os.close(place)


def _one(name: str) -> str:
    if "/" in name or name in ("", ".", ".."):
        raise ConfigError(f"{name!r} isn't a single name")
    return name

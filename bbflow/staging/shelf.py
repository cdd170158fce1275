"""Where staged files lie on a burst buffer, and which of them an earlier life left.

::

    lock                    held by the one process that stages here
    notes/<id>.json         what a file or a partial file is a copy of; written before its first byte
    partial/<id>            a file that is being copied
    files/<id>/<name>       a whole file: renamed from partial/, so it never appears in part; a copy can't be written to

A file's name is that of its source, since programs look at endings. Nothing is fsynced: what is promised holds
when a process is killed; after a loss of power a burst buffer is stale anyhow, and is to be emptied.

Only what a note names is ours, and only that is ever removed: the directory may hold other files.
"""

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bbflow.errors import ConfigError
from bbflow.host.belongings import check_own
from bbflow.host.locks import lock
from bbflow.staging.files import File
from bbflow.stores.urls import file_name

MADE = "made here by a task"
"""The version of a file that is no copy: it has no source that could tell whether it is whole."""


@dataclass(frozen=True, slots=True)
class Note:
    """What a copy is a copy of."""

    url: str
    """Its source."""
    size_bytes: int
    """Of the whole file."""
    version: str
    """What the source told of its version, or `MADE`."""


class Shelf:
    """The files in one directory of a burst buffer.

    Parameters
    ----------
    directory
        Made if it isn't there; what else is in it stays as it is.

    Raises
    ------
    ConfigError
        If it can't be made, another process stages into it, or another user could change what is staged.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self._base = str(self.directory)
        try:
            self.directory.mkdir(0o775, parents=True, exist_ok=True)  # not all may write, whatever the umask
            found = self.directory.stat()
            if found.st_uid not in (os.geteuid(), 0):
                raise ConfigError(f"{directory} belongs to another user: stage into a directory of your own")
            if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:  # else all may rename what is in it
                raise ConfigError(f"{directory} can be written by all users: stage into a directory of your own")
            for name in ("notes", "partial", "files"):
                (self.directory / name).mkdir(0o775, exist_ok=True)
                check_own(self.directory / name)
            held = lock(self.directory / "lock", wait=False)
        except OSError as error:
            raise ConfigError(f"can't stage into {directory}: {error.strerror}") from None
        if held is None:
            raise ConfigError(f"another process stages into {directory}: name another directory")
        self._lock = os.fdopen(held, "rb", buffering=0)
        # A task that writes into its input would alter what others read, and its source wouldn't have it.
        self._copies_mode = stat.S_IMODE((self.directory / "files").stat().st_mode) & 0o444

    def close(self) -> None:
        """Unlock the directory for other processes."""
        self._lock.close()

    def path(self, url: str) -> Path:
        """Return where a file lies, or will lie."""
        return Path(f"{self._base}/files/{_identity(url)}/{file_name(url)}")

    def partial(self, url: str) -> Path:
        """Return where a file lies while it is being copied."""
        return self.directory / "partial" / _identity(url)

    def make_room_for(self, url: str) -> Path:
        """Make the folder of a file that a task is going to make, and return the file's path."""
        self.write_note(Note(url, 0, MADE))
        return self._with_folder(url)

    def note(self, url: str) -> Note | None:
        """Return what a copy was noted to be; None without a note."""
        return read_note(self._note_path(_identity(url)))

    def write_note(self, note: Note) -> None:
        """Note what is going to be copied."""
        write_note(f"{self._base}/notes/{_identity(note.url)}.json", note)

    def has(self, url: str) -> bool:
        """Whether anything is there of a file, whole or in part."""
        identity = _identity(url)
        return any(os.path.lexists(f"{self._base}/{part}/{identity}") for part in ("files", "partial"))

    def put(self, note: Note, content: bytes) -> Path:
        """Publish a small file that nothing is there of: with as few system calls as possible."""
        # First: without a note nothing says that a file there is ours.
        self.write_note(note)
        identity = _identity(note.url)
        partial, folder = f"{self._base}/partial/{identity}", f"{self._base}/files/{identity}"
        _write(partial, content)
        with suppress(FileExistsError):
            os.mkdir(folder)
        path = f"{folder}/{file_name(note.url)}"
        os.replace(partial, path)
        os.chmod(path, self._copies_mode)
        return Path(path)

    def finish(self, url: str) -> Path:
        """Publish a file that is whole."""
        path = self._with_folder(url)
        self.partial(url).replace(path)
        path.chmod(self._copies_mode)
        return path

    def remove(self, url: str) -> None:
        """Remove all that is there of a file; its note comes last, since without it nothing is known to be ours."""
        path = self.path(url)
        for file in (path, self.partial(url)):
            with suppress(FileNotFoundError, IsADirectoryError):
                file.unlink()
        if path.is_dir():  # that a task has made in the place of a file
            shutil.rmtree(path)
        with suppress(OSError):  # another file lies beside it
            path.parent.rmdir()
        self._note_path(_identity(url)).unlink(missing_ok=True)

    def found(self) -> Iterator[File]:
        """Iterate over the whole and partial copies of an earlier life; what its tasks made is removed."""
        for path in sorted((self.directory / "notes").glob("*.json")):
            note = read_note(path)
            if note is None or _identity(note.url) != path.stem:
                continue  # not ours
            is_there = self.path(note.url).exists() or self.partial(note.url).exists()
            if is_there and note.version != MADE:
                yield File(note.url, note.size_bytes)
            else:
                self.remove(note.url)

    def _with_folder(self, url: str) -> Path:
        path = self.path(url)
        path.parent.mkdir(exist_ok=True)
        return path

    def _note_path(self, identity: str) -> Path:
        return self.directory / "notes" / f"{identity}.json"


def make_writable(path: Path) -> None:
    """Make a copy writable for a host or job that has it to itself."""
    path.chmod(path.stat().st_mode | stat.S_IWUSR)


def _identity(url: str) -> str:
    return hashlib.sha256(url.encode(errors="surrogateescape")).hexdigest()[:24]


def write_note(path: Path | str, note: Note) -> None:
    """Write a note, whole or not at all."""
    content = {"url": note.url, "size_bytes": note.size_bytes, "version": note.version}
    temporary = f"{os.path.splitext(path)[0]}.tmp"
    _write(temporary, json.dumps(content).encode())
    os.replace(temporary, path)


def _write(path: str, content: bytes) -> None:
    with open(path, "wb", buffering=0) as file:
        rest = memoryview(content)
        while rest:
            rest = rest[file.write(rest) :]


def read_note(path: Path) -> Note | None:
    """Read a note; None if there is none."""
    try:
        content = json.loads(path.read_text())
        return Note(str(content["url"]), int(content["size_bytes"]), str(content["version"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None

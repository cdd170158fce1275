"""fsspec's access to the files: ``bb://path``, for xarray, Dask, pandas and zarr. fsspec is imported here for no more.

The contact file is the option `contact`, else the environment variable ``BBFLOW_CONTACT``.
"""

import errno
import io
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import suppress
from glob import has_magic
from typing import Any

from fsspec.spec import AbstractFileSystem

from bbflow.errors import ConfigError
from bbflow.files.client.client import DirectoryEntry, FilesClient
from bbflow.files.client.positioned_file import BUFFER_BYTES, FileStream, buffered

TYPES = {"f": "file", "d": "directory", "l": "link"}


class BurstBufferFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The namespace of one contact file.

    Parameters
    ----------
    contact
        The contact file.
    **storage_options
        fsspec's own.

    Raises
    ------
    ConfigError
        If no contact file is named.
    NodeError
        If there are no files behind it.
    """

    protocol = "bb"
    root_marker = "/"
    cachable = True

    def __init__(self, contact: str | None = None, **storage_options: Any) -> None:
        super().__init__(**storage_options)
        contact = contact or os.environ.get("BBFLOW_CONTACT", "")
        if not contact:
            raise ConfigError("bb:// needs a contact file: give storage_options={'contact': …}, or set BBFLOW_CONTACT")
        self._client = FilesClient(contact)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(item) for item in path]
        return "/" + os.fspath(path).removeprefix("bb://").strip("/")

    def unstrip_protocol(self, name: str) -> str:
        """Return the URL of a path."""
        return f"bb://{name.lstrip('/')}"

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return what fsspec wants to know of a path."""
        return _told(self._client.stat(self._strip_protocol(path)))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """List a directory, or the file itself."""
        plain = self._strip_protocol(path)
        entry = self._client.stat(plain)
        found = [_told(child) for child in (self._client.entries(plain) if entry.kind == "d" else [entry])]
        return found if detail else [info["name"] for info in found]

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Make a directory."""
        plain = self._strip_protocol(path)
        parent = self._parent(plain)
        if create_parents and parent != "/":
            self._client.mkdir(parent, parents=True)
        self._client.mkdir(plain)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Make a directory and those above it."""
        plain = self._strip_protocol(path)
        if not exist_ok and self._client.exists(plain):
            raise FileExistsError(plain)
        self._client.mkdir(plain, parents=True)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        self._client.rmdir(self._strip_protocol(path))

    def rm_file(self, path: str) -> None:
        """Remove a file, or an empty directory: fsspec asks for both when it removes what is below one."""
        plain = self._strip_protocol(path)
        if self._client.stat(plain).kind == "d":
            self._client.rmdir(plain)
        else:
            self._client.unlink(plain)

    def mv(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any) -> None:
        """Rename, all at once; into a directory, if that is what the new name is. Several are renamed one by one."""
        if isinstance(path1, list) or (has_magic(path1) and not self.exists(path1)):
            sources = path1 if isinstance(path1, list) else self.expand_path(path1)
            targets = path2 if isinstance(path2, list) else [f"{os.fspath(path2)}/"] * len(sources)
            for source, target in zip(sources, targets, strict=True):
                self.mv(source, target)
            return
        plain, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if os.fspath(path2).endswith("/") or (target != plain and self.isdir(target)):
            target = f"{target.rstrip('/')}/{plain.rpartition('/')[2]}"
        self._make_parent(target)
        self._client.rename(plain, target)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copy a file; of a directory, make one of the other name."""
        if self.isdir(path1):
            self.makedirs(path2, exist_ok=True)
            return
        with self.open(path1, "rb") as source, self.open(path2, "wb") as target:
            shutil.copyfileobj(source, target, BUFFER_BYTES)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """Read a file, or a range of it; negative positions count from its end."""
        with self._client.open(self._strip_protocol(path)) as file:
            first, last = _position(start, 0, file.size), _position(end, file.size, file.size)
            return file.pread(max(last - first, 0), first)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        """Write a file of just these bytes; directories above it are made."""
        if self._intrans:
            with self.open(path, "xb" if mode == "create" else "wb") as deferred:
                deferred.write(value)
            return
        plain = self._strip_protocol(path)
        self._make_parent(plain)
        with self._client.open(plain, "x" if mode == "create" else "w") as file:
            file.pwrite(value, 0)

    def _make_parent(self, plain: str) -> None:
        parent = self._parent(plain)
        if parent != "/" and not self._client.exists(parent):
            self._client.mkdir(parent, parents=True)

    def created(self, path: str) -> Any:
        """Return when a file was last changed: when it was made isn't stored."""
        return self.modified(path)

    def modified(self, path: str) -> Any:
        """Return when a file was last changed."""
        from datetime import UTC, datetime

        return datetime.fromtimestamp(self.info(path)["mtime"], UTC)

    def _open(self, path: str, mode: str = "rb", block_size: Any = None, autocommit: bool = True, **_: Any) -> Any:
        plain = self._strip_protocol(path)
        modes = {"rb": "r", "wb": "w", "ab": "a", "xb": "x", "r+b": "r+"}
        if mode not in modes:
            raise ValueError(f"mode {mode!r} is none of {', '.join(modes)}")
        if mode in ("wb", "xb", "ab"):
            self._make_parent(plain)
        if mode != "rb" and not autocommit:
            return self._deferred(plain, modes[mode])
        return buffered(self._client.open(plain, modes[mode]), modes[mode])

    def _deferred(self, plain: str, mode: str) -> "DeferredFile":
        """Open a file whose content counts when its transaction is committed: until then it lies beside its place."""
        is_there = self._client.exists(plain)
        if mode == "x" and is_there:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), plain)
        if mode == "r+" and not is_there:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), plain)
        above, _, name = plain.rpartition("/")
        beside = f"{above}/.{name}.{uuid.uuid4().hex}.part"
        with self._client.open(beside, "w") as new:
            if mode in ("a", "r+") and is_there:
                with self.open(plain, "rb") as old:
                    for at, part in _parts(old):
                        new.pwrite(part, at)
        stream = FileStream(self._client.open(beside, "r+"))
        stream.seek(0, os.SEEK_END if mode == "a" else os.SEEK_SET)
        deferred = DeferredFile(stream, self._client, beside, plain)
        if mode == "r+":  # of which fsspec takes no notice, as it has an r
            self.transaction.files.append(deferred)
        return deferred


class DeferredFile(io.BufferedRandom):
    """A file that takes its place when its transaction is committed.

    Parameters
    ----------
    stream
        It is written there, at `beside`.
    client
        Renames it to `path`, or removes it.
    """

    def __init__(self, stream: FileStream, client: FilesClient, beside: str, path: str) -> None:
        super().__init__(stream, BUFFER_BYTES)
        self._client, self._beside, self._path = client, beside, path

    def commit(self) -> None:
        """Publish it, in place of what is there."""
        self.close()
        self._client.rename(self._beside, self._path)

    def discard(self) -> None:
        """Undo it all."""
        self.close()
        with suppress(FileNotFoundError):
            self._client.unlink(self._beside)


def _parts(file: Any) -> Iterator[tuple[int, bytes]]:
    at = 0
    while part := file.read(BUFFER_BYTES):
        yield at, part
        at += len(part)


def _told(entry: DirectoryEntry) -> dict[str, Any]:
    return {
        "name": entry.path,
        "size": entry.size,
        "type": TYPES[entry.kind],
        "mtime": entry.mtime_ns / 1e9,
        "mode": entry.mode,
        "uid": entry.uid,
        "gid": entry.gid,
        "version": entry.version,
        "state": entry.state,
    }


def _position(at: int | None, standard: int, size: int) -> int:
    if at is None:
        return standard
    return max(size + at, 0) if at < 0 else min(at, size)

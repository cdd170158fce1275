"""fsspec's access to the files: ``bb://path``, for xarray, Dask, pandas and zarr. fsspec is imported here for no more.

The contact file is the option `contact`, else the environment variable ``BBFLOW_CONTACT``.
"""

import os
from typing import Any

from fsspec.spec import AbstractFileSystem

from bbflow.errors import ConfigError
from bbflow.files.client import DirectoryEntry, FilesClient
from bbflow.files.stream import buffered

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
        """Give the URL of a path."""
        return f"bb://{name.lstrip('/')}"

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Tell about a path."""
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

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        """Rename, all at once."""
        self._client.rename(self._strip_protocol(path1), self._strip_protocol(path2))

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copy a file."""
        self.pipe_file(path2, self.cat_file(path1))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """Read a file, or a range of it; negative places count from its end."""
        with self._client.open(self._strip_protocol(path)) as file:
            first, last = _place(start, 0, file.size), _place(end, file.size, file.size)
            return file.pread(max(last - first, 0), first)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        """Let a file have just these bytes; directories above it are made."""
        plain = self._strip_protocol(path)
        self._make_parent(plain)
        with self._client.open(plain, "x" if mode == "create" else "w") as file:
            file.pwrite(value, 0)

    def _make_parent(self, plain: str) -> None:
        parent = self._parent(plain)
        if parent != "/" and not self._client.exists(parent):
            self._client.mkdir(parent, parents=True)

    def created(self, path: str) -> Any:
        """Give when a file was last changed: nobody keeps when it was made."""
        return self.modified(path)

    def modified(self, path: str) -> Any:
        """Give when a file was last changed."""
        from datetime import UTC, datetime

        return datetime.fromtimestamp(self.info(path)["mtime"], UTC)

    def _open(self, path: str, mode: str = "rb", block_size: Any = None, **_: Any) -> Any:
        plain = self._strip_protocol(path)
        modes = {"rb": "r", "wb": "w", "ab": "a", "xb": "x", "r+b": "r+"}
        if mode not in modes:
            raise ValueError(f"mode {mode!r} is none of {', '.join(modes)}")
        if mode in ("wb", "xb", "ab"):
            self._make_parent(plain)
        return buffered(self._client.open(plain, modes[mode]), modes[mode])


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


def _place(at: int | None, standard: int, size: int) -> int:
    if at is None:
        return standard
    return max(size + at, 0) if at < 0 else min(at, size)

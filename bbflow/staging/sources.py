"""Sources: S3 by `ObjectStore`, all else by fsspec. The only module that imports fsspec."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import fsspec
from fsspec.core import split_protocol

from bbflow.errors import ConfigError, MissingToolError, SourceError
from bbflow.staging.facts import Facts, forbidden, impossible, missing
from bbflow.staging.objects import ObjectStore

LOCAL = ("file", "local")


class Reader(Protocol):
    """An open source."""

    def read(self, start: int, length_bytes: int) -> bytes:
        """Read a range; without ranges, it must follow the last one."""


def local_path(url: str) -> Path | None:
    """Give the path that a URL names on this host; None if it is elsewhere."""
    protocol, path = split_protocol(url)
    return Path(path).absolute() if protocol is None or protocol in LOCAL else None


class Sources:
    """Reads and writes files by their URLs.

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
        self._options = {protocol: dict(given) for protocol, given in (options or {}).items()}
        self._ranges: dict[str, bool] = {}
        self._objects: ObjectStore | None = ObjectStore(self._options["s3"]) if "s3" in self._options else None

    def facts(self, url: str) -> Facts:
        """Ask a source about a file.

        Raises
        ------
        SourceError
            If it isn't there, may not be read, or has no size.
        """
        if _is_object(url):
            return self._object_store.facts(url)
        system, path = self._system(url)
        with refusals(url):
            system.invalidate_cache()
            info = system.info(path)
        if info.get("type") == "directory":
            raise SourceError(f"{url} is a directory: name the files in it")
        if info.get("size") is None:
            raise SourceError(f"{url}: the source doesn't tell its size, so no room can be kept for it")
        with refusals(url):
            if local_path(url) is not None and not os.access(path, os.R_OK):
                raise PermissionError
        return Facts(int(info["size"]), _version(info), ranges=self._gives_ranges(url, int(info["size"])))

    @contextmanager
    def open(self, url: str, facts: Facts) -> Iterator[Reader]:
        """Open a file for reading in chunks.

        Raises
        ------
        SourceError
            If it isn't there any more, or may not be read; also when it is read.
        """
        if _is_object(url):
            yield _Ranges(partial(self._object_store.read, url))
            return
        system, path = self._system(url)
        with refusals(url):
            if not facts.ranges:
                stream = system.open(path, "rb", block_size=0)
            elif "http" in system.protocol:
                stream = system.open(path, "rb", cache_type="none", size=facts.size_bytes)
            elif local_path(url) is not None:
                stream = Path(path).open("rb", buffering=0)  # noqa: SIM115 - closed below
            else:
                stream = None
        if stream is None:
            yield _Ranges(lambda start, length: system.cat_file(path, start=start, end=start + length), url)
        else:
            with stream:
                yield _Stream(url, stream, facts.ranges)

    def _gives_ranges(self, url: str, size_bytes: int) -> bool:
        """Whether a server gives parts of a file: asked once of each, since many don't tell."""
        server = "/".join(url.split("/", 3)[:3])
        if not url.startswith(("http://", "https://")) or size_bytes < 3:
            return True
        if server not in self._ranges:
            system, path = self._system(url)
            with refusals(url), system.open(path, "rb", cache_type="none", size=size_bytes) as file:
                file.seek(1)
                try:
                    self._ranges[server] = len(file.read(1)) == 1
                except ValueError:
                    self._ranges[server] = False
        return self._ranges[server]

    def disproves(self, url: str) -> bool:
        """Whether a content that differs from the source's own checksum is damaged for certain."""
        return not _is_object(url) or self._object_store.etag_is_md5(url)

    @contextmanager
    def create(self, url: str) -> Iterator[Any]:
        """Open a file for writing; it appears whole when the ``with`` ends well, else never.

        Raises
        ------
        SourceError
            If it can't be written.
        """
        if _is_object(url):
            with self._object_store.create(url) as file:
                yield file
            return
        system, path = self._system(url)
        with refusals(url):
            system.makedirs(system._parent(path), exist_ok=True)
            if local_path(url) is not None:
                with _replacing(Path(path)) as file:
                    yield file
            else:
                with _committed(system.open(path, "wb", autocommit=False)) as file:
                    yield file

    @property
    def _object_store(self) -> ObjectStore:
        if self._objects is None:
            self._objects = ObjectStore({})
        return self._objects

    def _system(self, url: str) -> tuple[Any, str]:
        protocol = split_protocol(url)[0] or "file"
        try:
            system, path = fsspec.url_to_fs(url, **self._options.get(protocol, {}))
        except ImportError as error:
            raise MissingToolError(f"{url}: {error}; HTTP comes with pip install 'bbflow[s3]'") from None
        except ValueError as error:
            raise ConfigError(f"{url}: {error}") from None
        return system, path


class _Ranges:
    """A source that gives any range by itself."""

    def __init__(self, read: Callable[[int, int], bytes], url: str = "") -> None:
        self._read, self._url = read, url

    def read(self, start: int, length_bytes: int) -> bytes:
        with refusals(self._url):
            return self._read(start, length_bytes)


class _Stream:
    """An open file, with or without a way to a place in it."""

    def __init__(self, url: str, stream: Any, seekable: bool) -> None:
        self._url, self._stream, self._seekable = url, stream, seekable

    def read(self, start: int, length_bytes: int) -> bytes:
        parts = []
        with refusals(self._url):
            if self._seekable:
                self._stream.seek(start)
            while length_bytes > 0 and (part := self._stream.read(length_bytes)):
                parts.append(part)
                length_bytes -= len(part)
        return b"".join(parts)


@contextmanager
def refusals(url: str) -> Iterator[None]:
    """Turn a source's refusals into a `SourceError`; what may pass, such as a lost connection, stays as it is."""
    try:
        yield
    except Exception as error:
        # fsspec's HTTP says FileNotFoundError whatever went wrong; the cause, or the status, tells more.
        status = getattr(error, "status", None) or getattr(error.__cause__, "status", None)
        if isinstance(error, PermissionError) or status in (401, 403):
            raise forbidden(url) from error
        if status in (404, 410) or (isinstance(error, FileNotFoundError) and error.__cause__ is None):
            raise missing(url) from error
        if lasting := impossible(url, error, status):
            raise lasting from error
        raise


@contextmanager
def _replacing(path: Path) -> Iterator[Any]:
    """Write beside a file, then take its place."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _committed(file: Any) -> Iterator[Any]:
    """Let what fsspec writes appear whole, or not at all."""
    try:
        yield file
        file.close()
        file.commit()
    except BaseException:
        file.discard()
        raise


def _is_object(url: str) -> bool:
    return url.startswith(("s3://", "s3a://"))


def _version(info: Mapping[str, Any]) -> str | None:
    """Give what changes with the content, the strongest first."""
    for key in ("ETag", "etag", "mtime", "LastModified", "last_modified", "Last-Modified"):
        value = info.get(key)
        if value not in (None, ""):
            return f"{key}:{value}:{info.get('ino', '')}"
    return None

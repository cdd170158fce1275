"""Sources: any file system that fsspec knows. The only module that imports fsspec."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import fsspec
from fsspec.core import split_protocol

from bbflow.errors import ConfigError, MissingToolError, SourceError

LOCAL = ("file", "local")


@dataclass(frozen=True, slots=True)
class Facts:
    """What a source tells of a file."""

    size_bytes: int
    """Its size."""
    version: str | None
    """Changes whenever the content does: ETag, or time of the last change; None if it tells nothing."""
    checksum: str | None = None
    """Such as ``md5:…``; None if it tells none."""
    ranges: bool = True
    """Whether parts can be read by themselves; else it is one stream from the beginning."""

    @property
    def resumable(self) -> bool:
        """Whether a copy can be carried on with: the source has versions and gives ranges."""
        return self.ranges and self.version is not None


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
        Protocol to what its fsspec file system is given, such as ``{"s3": {"endpoint_url": …}}``.
    """

    def __init__(self, options: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._options = {protocol: dict(given) for protocol, given in (options or {}).items()}

    def facts(self, url: str) -> Facts:
        """Ask a source about a file.

        Raises
        ------
        SourceError
            If it isn't there, may not be read, or has no size.
        """
        system, path = self._system(url)
        with refusals(url):
            system.invalidate_cache()
            info = system.info(path)
        if info.get("type") == "directory":
            raise SourceError(f"{url} is a directory: name the files in it")
        if info.get("size") is None:
            raise SourceError(f"{url}: the source doesn't tell its size, so no room can be kept for it")
        is_http = "http" in system.protocol
        return Facts(int(info["size"]), _version(info), _checksum(info, system), not is_http or "partial" in info)

    @contextmanager
    def open(self, url: str, facts: Facts) -> Iterator[Reader]:
        """Open a file for reading in chunks.

        Raises
        ------
        SourceError
            If it isn't there any more, or may not be read; also when it is read.
        """
        system, path = self._system(url)
        if facts.ranges:
            yield _Ranges(url, system, path)
        else:
            with refusals(url):
                stream = system.open(path, "rb", block_size=0)
            with stream:
                yield _Stream(stream)

    @contextmanager
    def create(self, url: str) -> Iterator[Any]:
        """Open a file for writing; it appears whole when the ``with`` ends well, else never.

        Raises
        ------
        SourceError
            If it can't be written.
        """
        system, path = self._system(url)
        with refusals(url):
            system.makedirs(system._parent(path), exist_ok=True)
            if local_path(url) is not None:
                with _replacing(Path(path)) as file:
                    yield file
                return
            file = system.open(path, "wb", autocommit=False)
            try:
                yield file
                file.close()
                file.commit()
            except BaseException:
                file.discard()
                raise

    def _system(self, url: str) -> tuple[Any, str]:
        protocol = split_protocol(url)[0] or "file"
        try:
            system, path = fsspec.url_to_fs(url, **self._options.get(protocol, {}))
        except ImportError as error:
            raise MissingToolError(f"{url}: {error}: pip install 'bbflow[s3]' has what S3 and HTTP need") from None
        except ValueError as error:
            raise ConfigError(f"{url}: {error}") from None
        return system, path


class _Ranges:
    """A source that gives any range."""

    def __init__(self, url: str, system: Any, path: str) -> None:
        self._url, self._system, self._path = url, system, path

    def read(self, start: int, length_bytes: int) -> bytes:
        with refusals(self._url):
            content: bytes = self._system.cat_file(self._path, start=start, end=start + length_bytes)
        return content


class _Stream:
    """A source that gives everything from the beginning, such as a server without range requests."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, start: int, length_bytes: int) -> bytes:
        parts = []
        while length_bytes > 0 and (part := self._stream.read(length_bytes)):
            parts.append(part)
            length_bytes -= len(part)
        return b"".join(parts)


@contextmanager
def refusals(url: str) -> Iterator[None]:
    """Turn a source's refusals into a `SourceError`; what may pass, such as a lost connection, stays as it is."""
    try:
        yield
    except (FileNotFoundError, PermissionError) as error:
        # fsspec's HTTP says FileNotFoundError whatever went wrong; the cause tells more.
        status = getattr(error.__cause__, "status", None)
        if error.__cause__ is not None and isinstance(error.__cause__, OSError | TimeoutError):
            raise ConnectionError(str(error.__cause__)) from error
        if status is not None and status not in (401, 403, 404, 410):
            raise ConnectionError(f"status {status}") from error
        if isinstance(error, PermissionError) or status in (401, 403):
            hint = "may not be read: check the permissions, or the credentials of its store"
        else:
            hint = "isn't there: check the URL"
        raise SourceError(f"{url} {hint}") from error


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


def _version(info: Mapping[str, Any]) -> str | None:
    """Give what changes with the content, the strongest first."""
    for key in ("VersionId", "ETag", "etag", "mtime", "LastModified", "last_modified", "Last-Modified"):
        value = info.get(key)
        if value not in (None, "", "null"):
            extra = f":{info['ino']}" if key == "mtime" and "ino" in info else ""
            return f"{key}:{value}{extra}"
    return None


def _checksum(info: Mapping[str, Any], system: Any) -> str | None:
    """Give the MD5 that an S3 ETag is, where it is one: not of several parts, and not encrypted by a key service."""
    etag = str(info.get("ETag", "")).strip('"')
    plain = "s3" in system.protocol and re.fullmatch(r"[0-9a-f]{32}", etag)
    return f"md5:{etag}" if plain and info.get("ServerSideEncryption") in (None, "AES256") else None

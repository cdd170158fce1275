"""Everything that fsspec knows, but local files and S3. The only module that imports fsspec."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from inspect import signature
from typing import Any

import fsspec
from fsspec.asyn import sync
from fsspec.core import split_protocol

from bbflow.errors import (
    ConfigError,
    ConflictError,
    DirectorySourceError,
    MissingSourceError,
    MissingToolError,
    SourceError,
)
from bbflow.stores.facts import (
    TIMEOUT_S,
    Arriving,
    Expected,
    Facts,
    Listed,
    Reader,
    changed,
    forbidden,
    impossible,
    missing,
    outdated,
)
from bbflow.stores.urls import HTTP, below, is_name
from bbflow.stores.web import Web, children, patient, told_by

_READS_ANOTHER = {"fo", "target_protocol"}  # codespell:ignore fo
"""Parameters of fsspec's file systems that read another one's files: others' names may have ``::`` in them."""


class RemoteFiles:
    """Reads and writes by fsspec.

    Parameters
    ----------
    options
        Protocol to what its file system's class is given.
    timeout_s
        How long nothing may be heard of a web server.
    """

    def __init__(self, options: Mapping[str, Mapping[str, Any]], *, timeout_s: float = TIMEOUT_S) -> None:
        self._options = {protocol: dict(given) for protocol, given in options.items()}
        self._timeout_s = timeout_s
        self._web = Web()

    def facts(self, url: str) -> Facts:
        """Ask for a file's facts."""
        system, path = self._system(url)
        with _refusals(url):
            # fsspec has one object for all who ask with the same options, and it remembers what it has listed.
            system.invalidate_cache()
            info = sync(system.loop, self._web.ask, system, path) if url.startswith(HTTP) else system.info(path)
        if info.get("type") == "directory":
            raise DirectorySourceError(f"{url} is a directory: name the files in it")
        if info.get("size") is None:
            raise SourceError(f"{url}: the source doesn't tell its size, so no room can be kept for it")
        return Facts(int(info["size"]), _version(info), ranges=info.get("ranges", True), changed_s=_changed_s(info))

    @contextmanager
    def open(self, url: str, facts: Facts) -> Iterator[Reader]:
        """Open a file for reading in chunks."""
        system, path = self._system(url)
        refusals = partial(_refusals, url)
        with refusals():
            # A block size of 0 gives a stream: fsspec's other reader asks for ranges, which this server doesn't have.
            stream = None if facts.ranges else system.open(path, "rb", block_size=0, size=facts.size_bytes)
        if stream is not None:
            with stream:
                _check_version(url, told_by(stream.r), facts.version)
                yield Reader(lambda _, length: stream.read(length), refusals)
        elif url.startswith(HTTP):
            yield Reader(partial(self._web_part, system, path, facts.version), refusals)
        else:
            yield Reader(lambda start, length: system.cat_file(path, start=start, end=start + length), refusals)

    def _web_part(self, system: Any, url: str, version: str | None, start: int, length_bytes: int) -> bytes:
        told, content = sync(system.loop, self._web.read, system, url, start, length_bytes)
        _check_version(url, told, version)
        return bytes(content)

    def whole(self, url: str, most_bytes: int) -> tuple[Facts, bytes] | None:
        """Return nothing: fsspec never tells which version it has read."""
        return None

    @contextmanager
    def create(self, url: str, size_bytes: int, over: Expected | None = None) -> Iterator[Any]:
        """Open a file of this many bytes for writing; it appears whole when the ``with`` ends well, else never."""
        system, path = self._system(url)
        with _refusals(url):
            self._check(url, over)
            system.makedirs(system._parent(path), exist_ok=True)
            with _committed(system.open(path, "wb", autocommit=False)) as file:
                yield file if over is None else Arriving(file)
                self._check(url, over)

    def _check(self, url: str, known: Expected | None) -> None:
        """Look what is there just before it is changed."""
        if known is not None:
            try:
                found = self.facts(url)
            except MissingSourceError:
                found = None
            known.check(url, found)

    def weakness(self, url: str) -> str:
        """Report that fsspec has no requests with a condition."""
        return "fsspec has no requests with a condition"

    def children(self, url: str) -> tuple[list[Listed], list[str]]:
        """List a directory, if the server lets it be listed."""
        system, path = self._system(_directory(url))
        if url.startswith(HTTP):
            with _refusals(url):
                where, names, directories = sync(system.loop, children, system, path)
            return _usable(where, names, directories)
        with _refusals(url):
            system.invalidate_cache()
            found = system.ls(path, detail=True)
        files, directories = [], []
        for info in found:
            above, _, name = info["name"].rstrip("/").rpartition("/")
            if above.strip("/") != path.strip("/"):
                continue  # some list a directory itself too
            if info["type"] == "directory":
                directories.append(name)
            else:
                files.append(_listed(f"{_directory(url)}{name}", name, info))
        return files, directories

    def tree(self, url: str, *, directories: bool = False) -> Iterator[Listed]:
        """List all files below a directory, one directory after the other."""
        waiting = [(url, "")]
        while waiting:
            directory, above = waiting.pop()
            files, inside = self.children(directory)
            for file in files:
                yield replace(file, name=above + file.name)
            for name in inside if directories else ():
                yield Listed(below(directory, name), above + name, 0, is_directory=True)
            waiting += [(below(directory, name), f"{above}{name}/") for name in inside]

    def remove(self, url: str, known: Expected | None = None) -> None:
        """Remove a file."""
        system, path = self._system(url)
        with _refusals(url), suppress(FileNotFoundError, MissingSourceError):
            if known is not None:
                known.check(url, self.facts(url))
            system.rm_file(path)

    def move(self, url: str, to: str, known: Expected, over: Expected) -> None:
        """Rename a file, by whatever its system has for that; it isn't told what that is then."""
        (system, old), (_, new) = self._system(url), self._system(to)
        with _refusals(url):
            try:
                known.check(url, self.facts(url))
            except ConflictError as error:
                raise changed(url) from error
            self._check(to, over)
            system.makedirs(system._parent(new), exist_ok=True)
            system.mv(old, new)

    def clear(self, url: str) -> bool:
        """Do nothing: few of these stores tell directories that someone has made from those that are only names."""
        return False

    def sizes(self, urls: list[str]) -> dict[str, int]:
        """Return nothing: here nothing is cheaper than asking."""
        return {}

    def disproves(self, url: str) -> bool:
        """Whether a wrong checksum proves damage: there is none here."""
        return True

    def _system(self, url: str) -> tuple[Any, str]:
        first, chain, _ = url.partition("::")
        protocol = split_protocol(first)[0] or first
        if url.startswith(HTTP) and "#" in url:
            raise ConfigError(f"{url}: what follows # is seen by no server; write %23 if it belongs to the name")
        try:
            kind, options = fsspec.get_filesystem_class(protocol), self._options.get(protocol, {})
            options = patient(options, self._timeout_s) if url.startswith(HTTP) else options
            if chain and any(_READS_ANOTHER & signature(each.__init__).parameters.keys() for each in kind.__mro__[:-1]):
                system, path = fsspec.url_to_fs(url, **options)
            else:
                system, path = kind(**kind._get_kwargs_from_urls(url) | options), kind._strip_protocol(url)
        except ImportError as error:
            how = "; that comes with pip install 'bbflow[s3]'" if url.startswith(HTTP) else ""
            raise MissingToolError(f"{url}: {error}{how}") from None
        except ValueError as error:
            raise ConfigError(f"{url}: {error}") from None
        return system, path


@contextmanager
def _refusals(url: str) -> Iterator[None]:
    """Turn a source's refusals into a `SourceError`; what may pass, such as a lost connection, stays as it is."""
    try:
        yield
    except SourceError:
        raise
    except Exception as error:
        # fsspec's HTTP says FileNotFoundError whatever went wrong; the cause, or the status, tells more.
        status = _status(error) or _status(error.__cause__)
        if isinstance(error, PermissionError) or status in (401, 403):
            raise forbidden(url) from error
        if status in (404, 410) or (isinstance(error, FileNotFoundError) and error.__cause__ is None):
            raise missing(url) from error
        if lasting := impossible(url, error, status):
            raise lasting from error
        raise


def _status(error: BaseException | None) -> int | None:
    """Return what a server said; aiohttp has a number, but no headers, for what came and is no answer."""
    return getattr(error, "status", None) if getattr(error, "headers", True) else None


@contextmanager
def _committed(file: Any) -> Iterator[Any]:
    """Publish what fsspec writes whole, or not at all."""
    try:
        yield file
        file.close()
        file.commit()
    except BaseException:
        file.discard()
        raise


def _directory(url: str) -> str:
    return url if url.endswith("/") else f"{url}/"


def _usable(url: str, names: list[str], directories: list[str]) -> tuple[list[Listed], list[str]]:
    """Report what a page lists; what isn't a name is reported as a file that can't be used."""
    odd = [f"{name}/" for name in directories if not is_name(name)]
    files = [Listed(below(url, name), name, None, is_usable=is_name(name.removesuffix("/"))) for name in [*names, *odd]]
    return files, [name for name in directories if is_name(name)]


def _listed(url: str, name: str, info: Mapping[str, Any]) -> Listed:
    return Listed(url, name, info.get("size"), _version(info), _changed_s(info))


def _changed_s(info: Mapping[str, Any]) -> float:
    """Return when a file was last changed, in seconds since the epoch; 0 if its store doesn't tell."""
    changed = next((info[key] for key in ("mtime", "LastModified", "changed", "created") if info.get(key)), 0.0)
    return float(changed.timestamp()) if isinstance(changed, datetime) else float(changed)


def _check_version(url: str, told: Mapping[str, Any], version: str | None) -> None:
    """Check what came: a server may stand for several hosts, not all of which have the same file.

    Raises
    ------
    ChangedSourceError
        If it is of another version.
    """
    if version not in (None, _version(told)):
        raise outdated(url)


def _version(info: Mapping[str, Any]) -> str | None:
    """Return what changes with the content, the strongest first."""
    for key in ("ETag", "etag", "mtime", "LastModified", "last_modified", "Last-Modified"):
        value = info.get(key)
        if value not in (None, ""):
            return f"{key}:{value}:{info.get('ino', '')}"
    return None

"""Streams as a store that a master may have behind it: what a simulation has landed is seen as files, read-only."""

import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from bbflow.errors import BbflowError, ConfigError, SourceError
from bbflow.files.ionode.storage import Storage
from bbflow.files.names import STREAMS_URL
from bbflow.stores.facts import Expected, Facts, Listed, Reader, missing

if TYPE_CHECKING:
    from bbflow.view.zarr_keys import ZarrKeys


class StreamStore:
    """The streams of a contact file, each a directory with the keys of a Zarr group.

    Parameters
    ----------
    url
        `STREAMS_URL`, the contact file, and directories that all names have before them.

    Raises
    ------
    ConfigError
        If there is no such contact file.
    """

    def __init__(self, url: str) -> None:
        self._base = url
        path = Path(url.removeprefix(STREAMS_URL))
        found = next((file for file in (path, *path.parents) if file.is_file()), None)
        if found is None:
            raise ConfigError(f"{url} names no contact file")
        self._contact = found
        self._lock = Lock()
        self._looks: dict[str, ZarrKeys] = {}

    def children(self, url: str) -> tuple[list[Listed], list[str]]:
        """List the streams, or what one has now."""
        files = list(self.tree(url)) if self._split(url)[0] else []
        own = [file for file in files if "/" not in file.name]
        inside = {file.name.partition("/")[0] for file in files if "/" in file.name}
        return own, sorted(inside) if self._split(url)[0] else self._streams()

    def tree(self, url: str, *, directories: bool = False) -> Iterator[Listed]:
        """List all keys below a directory, as they are now."""
        stream, below = self._split(url)
        prefix = f"{below}/" if below else ""
        for name in [stream] if stream else self._streams():
            before = "" if stream else f"{name}/"
            for key, facts in _facts(self._look(name)):
                if key.startswith(prefix):
                    name = before + key[len(prefix) :]
                    yield Listed(f"{url}/{name}", name, facts.size_bytes, facts.version)

    def facts(self, url: str) -> Facts:
        """Return what is known of a key, as it was when its stream was last listed."""
        stream, key = self._split(url)
        found = dict(_facts(self._last(stream))).get(key)
        if found is None:
            raise missing(url)
        return found

    def whole(self, url: str, most_bytes: int) -> tuple[Facts, bytes] | None:
        """Read a key, with its facts."""
        stream, key = self._split(url)
        keys = self._last(stream)
        found = dict(_facts(keys)).get(key)
        if found is None:
            raise missing(url)
        return (found, _read(keys, key, url)) if found.size_bytes <= most_bytes else None

    @contextmanager
    def open(self, url: str, facts: Facts) -> Iterator[Reader]:
        """Open a key for reading in chunks."""
        stream, key = self._split(url)
        content = _read(self._last(stream), key, url)
        yield Reader(lambda start, length: content[start : start + length])

    def create(self, url: str, size_bytes: int, over: Expected | None = None) -> AbstractContextManager[Any]:
        """Refuse: only simulations write streams."""
        raise _read_only(url)

    def remove(self, url: str, known: Expected | None = None) -> None:
        """Refuse."""
        raise _read_only(url)

    def move(self, url: str, to: str, known: Expected, over: Expected) -> None:
        """Refuse."""
        raise _read_only(url)

    def clear(self, url: str) -> bool:
        """Refuse."""
        raise _read_only(url)

    def weakness(self, url: str) -> str:
        """Return nothing: nothing is written here."""
        return ""

    def _split(self, url: str) -> tuple[str, str]:
        stream, _, key = url.removeprefix(self._base).strip("/").partition("/")
        return stream, key

    def _streams(self) -> list[str]:
        from bbflow.view.stream_opening import stream_names  # late: IOnodes without streams need nothing of xarray

        return stream_names(self._contact)

    def _look(self, stream: str) -> "ZarrKeys":
        from bbflow.view.zarr_keys import ZarrKeys

        with self._lock:
            before = self._looks.get(stream)
        # Without the lock: it asks nodes, and one that hangs would hold up readers of all streams.
        keys = ZarrKeys(self._contact, stream, before=before)
        with self._lock:
            self._looks[stream] = keys
        return keys

    def _last(self, stream: str) -> "ZarrKeys":
        with self._lock:
            found = self._looks.get(stream)
        return found or self._look(stream)


def storage_at(url: str) -> Storage:
    """Return the shared storage at a URL, which may be streams."""
    return Storage(url, store=StreamStore(url) if url.startswith(STREAMS_URL) else None)


def _facts(keys: "ZarrKeys") -> Iterator[tuple[str, Facts]]:
    for key, content in keys.metadata.items():
        yield key, Facts(len(content), f"crc:{zlib.crc32(content):08x}")
    for key, size in keys.chunks():
        yield key, Facts(size, "values")  # a step never changes


def _read(keys: "ZarrKeys", key: str, url: str) -> bytes:
    try:
        return keys.read(key)
    except KeyError:
        raise missing(url) from None
    except BbflowError as error:
        raise SourceError(f"{url}: {error}") from error


def _read_only(url: str) -> SourceError:
    return SourceError(f"{url} is a stream's: only its simulation writes it")

"""A copy of the stores where others read them, such as in a bucket, that follows the run.

A bucket has no rename, but each of its objects appears whole. Of a store's commit the chunks are copied first, then the
arrays' metadata, and the root's last: what readers open shows nothing that isn't there. What the root shows never
changes but for chunks that hold the same values and more, and for results that are published once more.
"""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from bbflow.atomic import is_beside
from bbflow.errors import BbflowError, ConfigError
from bbflow.growing import METADATA, TEMPORARY
from bbflow.stores.sources import Sources
from bbflow.transit.output.claiming import FUNCTIONS_DIRECTORY, PYRAMIDS_DIRECTORY, STORES
from bbflow.transit.output.hiding import Others

LOOK_S = 1.0
"""The stores are looked at so often."""
SETTLED_NS = 100_000_000
"""A file that was changed less than this before it was read may have changed while it was: it is copied again."""
PART_BYTES = 8 << 20
AT_ONCE = 8
"""Files that are on their way at a time."""
LAST_TRIES_S = (0.0, 2.0, 8.0)
"""The last copy is tried so often, after so many seconds."""
GROWING = ("results.zarr", f"{PYRAMIDS_DIRECTORY}/*.zarr", f"{FUNCTIONS_DIRECTORY}/*.zarr")
PROBE = ".bbflow"
"""Is written to see that others can be, and removed."""
LAST = ("raw.zarr",)
"""Its files are large and grow with every batch: they are copied when they are whole."""


@dataclass(slots=True)
class _Known:
    """What has been copied of a store."""

    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Name to when a file was changed, and its size."""
    root: bytes = b""
    """The root's metadata."""


def check_copy(url: str | None) -> None:
    """See that a place for the copy can be written, by an empty file, and that nothing is in the way there.

    Raises
    ------
    ConfigError
        If not, with the reason.
    """
    if url is None:
        return
    sources, place = Sources(), url.rstrip("/")
    try:
        with sources.create(f"{place}/{PROBE}"):
            pass
        sources.remove(f"{place}/{PROBE}")
        others = Others(sources, place)
        for name in sorted(STORES):
            others.check(name)
    except (BbflowError, OSError, ValueError) as error:
        raise ConfigError(f"copy_to: {url} can't be written: {error}") from None


class Copying:
    """Copies the stores of an output, in a thread of its own.

    Parameters
    ----------
    output
        The run's output.
    url
        Where its stores go.
    """

    def __init__(self, output: Path, url: str) -> None:
        self._output, self._url = output, url.rstrip("/")
        self._sources = Sources()
        self._others = Others(self._sources, self._url)
        self._known: dict[Path, _Known] = {}
        self._ended = threading.Event()
        self._error = ""
        self._thread = threading.Thread(target=self._follow, name="copy-stores", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._ended.wait(LOOK_S):
            self._try(GROWING)

    def _try(self, patterns: tuple[str, ...]) -> None:
        """Copy what is new; what fails is tried again the next time."""
        try:
            found = [store for pattern in patterns for store in sorted(self._output.glob(pattern))]
            if found:
                self._others.hide(self._output)
            for store in found:
                self._copy(store)
            self._error = ""
        except Exception as error:  # clients raise what they like, and the results are whole without a copy
            self._error = f"{self._url}: the copy isn't complete: {error}"

    def finish(self) -> list[str]:
        """Copy everything as it is at the end; say what could not be copied."""
        self.stop()
        for wait_s in LAST_TRIES_S:
            time.sleep(wait_s)
            self._try((*GROWING, *LAST))
            if not self._error:
                return []
        return [self._error]

    def stop(self) -> None:
        """Follow no more."""
        self._ended.set()
        self._thread.join()

    def _copy(self, store: Path) -> None:
        try:
            root = (store / METADATA).read_bytes()
        except FileNotFoundError:
            return
        known = self._known.get(store)
        if known is not None and known.root == root and not self._ended.is_set():
            return
        if known is None:
            self._others.check(store.relative_to(self._output).as_posix())
            known = self._known[store] = _Known()
        # Metadata as they are now: chunks that come later are beyond what these show.
        arrays = {path: path.read_bytes() for path in store.rglob(METADATA) if path.parent != store}
        with ThreadPoolExecutor(AT_ONCE, "copy-files") as pool:
            list(pool.map(lambda path: self._copy_chunks(store, path, known), _chunks(store)))
            list(pool.map(lambda item: self._put(item[0], item[1]), arrays.items()))
        self._put(store / METADATA, root)
        known.root = root

    def _copy_chunks(self, store: Path, path: Path, known: _Known) -> None:
        name, read_ns = str(path.relative_to(store)), time.time_ns()
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            now = (status.st_mtime_ns, status.st_size)
            if known.files.get(name) == now:
                return
            with self._sources.create(self._at(path), status.st_size) as target:
                left = status.st_size
                while left and (part := file.read(min(PART_BYTES, left))):
                    target.write(part)
                    left -= len(part)
        if status.st_mtime_ns + SETTLED_NS < read_ns:
            known.files[name] = now
        else:
            known.files.pop(name, None)

    def _put(self, path: Path, content: bytes) -> None:
        with self._sources.create(self._at(path), len(content)) as target:
            target.write(content)

    def _at(self, path: Path) -> str:
        return f"{self._url}/{path.relative_to(self._output).as_posix()}"


def _chunks(store: Path) -> Iterator[Path]:
    """Go through the files of a store that are no metadata, and not being written under another name."""
    for folder, _, names in os.walk(store):
        for name in names:
            if name not in (METADATA, TEMPORARY) and not is_beside(name):
                yield Path(folder, name)

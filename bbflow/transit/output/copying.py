"""The stores where others read them, such as in a bucket: they follow the run, as a copy or as the output itself.

A bucket has no rename, but each of its objects appears whole. Of a store's commit the chunks are copied first, then the
arrays' metadata, and the root's last: what readers open shows nothing that isn't there. What the root shows never
changes but for chunks that hold the same values and more, and for results that are published again.

Where the bucket is the output itself, files move: what has arrived there, and is complete, loses its bytes here.
"""

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from bbflow.configuring.settings import Config
from bbflow.errors import BbflowError, ConfigError, SourceError
from bbflow.host.atomic import is_beside
from bbflow.stores.moved import is_moved, note_place, noted_place
from bbflow.stores.sources import Sources
from bbflow.transit.output.claiming import FUNCTIONS_DIRECTORY, PYRAMIDS_DIRECTORY, STORES
from bbflow.transit.output.hiding import Others
from bbflow.transit.output.moving import Digest, Settled, give_up, has_arrived
from bbflow.zarr_store.growing import METADATA, TEMPORARY

PART_BYTES = 8 << 20
AT_ONCE = 8
"""Files that are on their way at a time."""
GROWING = ("results.zarr", f"{PYRAMIDS_DIRECTORY}/*.zarr", f"{FUNCTIONS_DIRECTORY}/*.zarr")
PROBE = ".bbflow"
"""Is written to see that others can be, and removed."""
LAST = ("raw.zarr",)
"""Its files are large and grow with every batch: a copy has them at the end, and what moves now and then."""
RESULTS = "results.zarr"


@dataclass(frozen=True, slots=True)
class CopyTimes:
    """When stores are looked at, and when what failed is tried again."""

    look_s: float = 1.0
    """How often the stores are looked at."""
    settled_s: float = 0.1
    """A file that was changed less than this before it was read may have changed while it was: it is copied again."""
    last_tries_s: tuple[float, ...] = (0.0, 2.0, 8.0)
    """Seconds before each try of the last copy."""


CALM = CopyTimes()


@dataclass(slots=True)
class _Known:
    """What has been copied of a store."""

    files: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    """Name to when a file was changed, its size, and its digest."""
    root: bytes = b""
    """The root's metadata."""
    left_bytes: int = 0
    """What was still here when it had been copied."""


def check_copy(config: Config) -> None:
    """Check that a place for the copy can be written, by an empty file, and that nothing is in the way there.

    Raises
    ------
    ConfigError
        If not, with the reason.
    """
    if config.copy_to is None:
        return
    sources, place = Sources(), config.copy_to.rstrip("/")
    try:
        with sources.create(f"{place}/{PROBE}"):
            pass
        sources.remove(f"{place}/{PROBE}")
        others = Others(sources, place)
        for name in sorted(STORES):
            others.check(name)
    except (BbflowError, OSError, ValueError) as error:
        key = "output" if config.moves else "copy_to"
        raise ConfigError(f"{key}: {config.copy_to} can't be written: {error}") from None


def check_output(config: Config, *, overwrite: bool = False) -> None:
    """Check that nothing of an earlier run is in the bucket that is a run's output, or remove it.

    Parameters
    ----------
    config
        The run's; its directory is claimed.
    overwrite
        Whether what is there of an earlier run may be removed.

    Raises
    ------
    ConfigError
        If there is something, or something is missing.
    """
    if not config.moves or config.copy_to is None:
        return
    known = noted_place(config.output)
    if known not in (None, config.copy_to):
        raise ConfigError(f"{config.output} has the rest of {known}, not of {config.copy_to}: give another 'work'")
    others = Others(Sources(), config.copy_to)
    try:
        if overwrite:
            others.hide(config.output)
        others.refuse(config.output)
    except (OSError, SourceError) as error:
        raise ConfigError(f"output: {config.copy_to} can't be used: {error}") from None


def _nothing_needed(dimension: str) -> float:
    """Declare that nothing is needed here any more."""
    return math.inf


class Copying:
    """Copies the stores of an output, or moves them, in a thread of its own.

    Parameters
    ----------
    output
        The run's output, or the directory that has what isn't yet in the bucket.
    url
        Where its stores go.
    moves
        Whether they are to be there only.
    settled
        Gives for the axis of a window's results how many spans aren't needed here any more.
    times
        When it looks and tries.
    sources
        Gets at the bucket; `Sources` with the environment's options if None.
    """

    def __init__(
        self,
        output: Path,
        url: str,
        *,
        moves: bool = False,
        settled: Callable[[str], float] = _nothing_needed,
        times: CopyTimes = CALM,
        sources: Sources | None = None,
    ) -> None:
        self._output, self._url, self._times = output, url.rstrip("/"), times
        self._moves, self._settled = moves, settled
        if moves:
            note_place(output, self._url)
        self._sources = sources or Sources()
        self._others = Others(self._sources, self._url)
        self._known: dict[Path, _Known] = {}
        self._ended = threading.Event()
        self._error = ""
        self._thread = threading.Thread(target=self._follow, name="copy-stores", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._ended.wait(self._times.look_s):
            self.look()

    def look(self) -> None:
        """Copy, or move, what is new and may go now."""
        self._try((*GROWING, *LAST) if self._moves else GROWING)

    def _try(self, patterns: tuple[str, ...]) -> None:
        """Copy what is new; what fails is tried again the next time."""
        try:
            found = [store for pattern in patterns for store in sorted(self._output.glob(pattern))]
            if found and not self._moves:  # else what is there was looked at before, and isn't others'
                self._others.hide(self._output)
            for store in found:
                if self._ended.is_set() or store.name not in LAST or self._is_due(store):
                    self._copy(store)
                if self._moves:
                    self._move(store)
            self._error = ""
        except Exception as error:  # clients raise what they like, and the results are whole without a copy
            self._error = f"{self._url}: the copy isn't complete: {error}"

    def finish(self) -> list[str]:
        """Copy everything as it is at the end; say what could not be copied."""
        self.stop()
        self._settled = _nothing_needed
        settles_s = 1.5 * self._times.settled_s if self._moves else 0.0  # nothing is written any more: then all may go
        for wait_s in self._times.last_tries_s:
            time.sleep(max(wait_s, settles_s))
            self._try((*GROWING, *LAST))
            lost = self._lost() if self._moves and not self._error else []
            if not self._error:
                return lost
        rest = f"; what it lacks is in {self._output}: run 'bbflow upload {self._output}'" if self._moves else ""
        return [f"{self._error}{rest}"]

    def _lost(self) -> list[str]:
        """Return which files have gone that had moved: no other copy of them is left."""
        try:
            return list(self._gone())
        except Exception as error:  # as above
            self._error = f"{self._url}: whether all is there can't be seen: {error}"
            return []

    def _gone(self) -> Iterator[str]:
        for store in (store for pattern in (*GROWING, *LAST) for store in sorted(self._output.glob(pattern))):
            names = {str(path.relative_to(store)) for path in _chunks(store) if is_moved(path)}
            if names:
                names -= {file.name for file in self._sources.tree(f"{self._url}/{store.relative_to(self._output)}")}
            if names:
                at = f"{self._url}/{store.relative_to(self._output)}"
                yield f"{at}: {len(names)} files that were there are gone, the first is {min(names)}"

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
            # A list of each: so what a thread has raised is raised here, and nothing is shown of what wasn't copied.
            list(pool.map(lambda path: self._copy_chunks(store, path, known), _chunks(store)))
            list(pool.map(lambda item: self._put(item[0], item[1]), arrays.items()))
        # Last, as in the run's own store: readers of the bucket see whole commits.
        self._put(store / METADATA, root)
        known.root, known.left_bytes = root, _bytes_in(store)

    def _copy_chunks(self, store: Path, path: Path, known: _Known) -> None:
        name, read_ns = str(path.relative_to(store)), time.time_ns()
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            now = (status.st_mtime_ns, status.st_size)
            if known.files.get(name, ())[:2] == now or is_moved(path):
                return
            digest = Digest(_part_bytes(status.st_size))
            with self._sources.create(self._at(path), status.st_size) as target:
                left = status.st_size
                while left and (part := file.read(min(PART_BYTES, left))):
                    target.write(part)
                    left -= len(part)
                    if self._moves:
                        digest.update(part)
        # What was written just now may change again within one tick of the clock: it is copied again then.
        if status.st_mtime_ns + 1e9 * self._times.settled_s < read_ns and not left:
            known.files[name] = (*now, digest.value)
        else:
            known.files.pop(name, None)

    def _is_due(self, store: Path) -> bool:
        """Whether as much is new of raw steps as must be copied again, since files grow."""
        known = self._known.get(store)
        return known is None or _bytes_in(store) >= 2 * known.left_bytes

    def _move(self, store: Path) -> None:
        """Release files that are complete, and have arrived."""
        known = self._known.get(store)
        if known is None or not known.root:
            return
        needed = self._settled if store.name == RESULTS else _nothing_needed
        may_go = Settled(known.root, needed)
        with ThreadPoolExecutor(AT_ONCE, "move-files") as pool:
            going = [(name, may_go.stub_bytes(name)) for name in filter(may_go.has, list(known.files))]
            list(pool.map(lambda item: self._let_go(store, known, *item), going))
        known.left_bytes = min(known.left_bytes, _bytes_in(store))  # what has grown since it was copied is still due

    def _let_go(self, store: Path, known: _Known, name: str, stub_bytes: int) -> None:
        changed_ns, size, digest = known.files.pop(name)
        if not has_arrived(self._sources, self._at(store / name), size, digest, _part_bytes(size)):
            raise SourceError(f"{self._at(store / name)} isn't what was sent")
        give_up(store / name, changed_ns, size, stub_bytes)

    def _put(self, path: Path, content: bytes) -> None:
        with self._sources.create(self._at(path), len(content)) as target:
            target.write(content)

    def _at(self, path: Path) -> str:
        return f"{self._url}/{path.relative_to(self._output).as_posix()}"


def _part_bytes(size_bytes: int) -> int:
    """Return how much of a file S3 gets at a time."""
    from bbflow.stores.objects import upload_parts  # late: only runs with a bucket need it

    return upload_parts(size_bytes)[0]


def _bytes_in(store: Path) -> int:
    return sum(path.stat().st_size for path in _chunks(store))


def _chunks(store: Path) -> Iterator[Path]:
    """Iterate over the files of a store that are no metadata, and not being written under another name."""
    for folder, _, names in os.walk(store):
        for name in names:
            if name not in (METADATA, TEMPORARY) and not is_beside(name):
                yield Path(folder, name)

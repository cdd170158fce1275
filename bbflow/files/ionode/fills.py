"""Pieces that come from the shared storage, in chunks: awaited ones first."""

import errno
import itertools
import queue
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from bbflow.files.ionode.storage import Storage, errno_of
from bbflow.files.pieces import Pieces, write_all

# What is awaited overtakes the rest after a chunk at most.
CHUNK_BYTES = 8 << 20
Chunks = queue.PriorityQueue[tuple[int, int, str, int]]
"""Order, number of the request, piece and chunk."""
Passage = Callable[[int], AbstractContextManager[None]]
"""What this many bytes pass before they are fetched."""
WAITED_FOR, URGENT, AHEAD = 0, 1, 2
"""Order of chunks: a reader waits for it; its file is open; it is only prefetched."""


@dataclass(slots=True)
class Fill:
    """A piece on its way."""

    key: str
    """Its file."""
    path: str
    """The object."""
    offset: int
    """Where the piece begins in it."""
    size: int
    """The piece's bytes."""
    facts: tuple[int, str]
    """What the object must be: size and version."""
    done: Callable[[OSError | None], None]
    """Called when all has come, or nothing more will."""
    begun: Callable[[], None] = lambda: None
    """Called when its first chunk has come."""
    missing: set[int] = field(default_factory=set)
    """Chunks that have not come."""
    taken: set[int] = field(default_factory=set)
    """Chunks that some thread fetches."""
    error: OSError | None = None
    """Why it failed."""


class Fills:
    """Fetches pieces with a few threads for awaited ones, and as many for the rest, which the gate may hold.

    Parameters
    ----------
    pieces
        Where to.
    storage
        Where from.
    gate
        Gives what a chunk passes that no client waits for: bytes go in.
    count
        How many threads of each.
    """

    def __init__(self, pieces: Pieces, storage: Storage, gate: Passage, count: int) -> None:
        self._pieces, self._storage = pieces, storage
        self._changed = threading.Condition()
        self._fills: dict[str, Fill] = {}
        self._order = itertools.count()
        self._waited_for: Chunks = queue.PriorityQueue()
        self._ahead: Chunks = queue.PriorityQueue()
        for number in range(count):
            # Two kinds of threads: those for what can wait may all be held by the gate.
            for chunks, passage in ((self._waited_for, _at_once), (self._ahead, gate)):
                name = f"bbflow-fill-{number}"
                threading.Thread(target=self._run, args=(chunks, passage), name=name, daemon=True).start()

    def begin(self, fill: Fill, *, urgent: bool) -> None:
        """Fetch a piece."""
        with self._changed:
            self._pieces.begin(fill.key, fill.size)
            fill.missing = set(range(-(-fill.size // CHUNK_BYTES)))
            self._fills[fill.key] = fill
            for chunk in sorted(fill.missing):
                chunks = self._waited_for if urgent else self._ahead
                chunks.put((URGENT if urgent else AHEAD, next(self._order), fill.key, chunk))

    def wait(self, key: str, offset: int, size: int) -> None:
        """Wait until a range of a piece is there; what isn't under way is fetched next.

        Raises
        ------
        OSError
            If it doesn't come.
        """
        wanted = set(range(offset // CHUNK_BYTES, -(-(offset + size) // CHUNK_BYTES)))
        with self._changed:
            fill = self._fills.get(key)
            if fill is None:
                return
            for chunk in sorted(fill.missing & wanted - fill.taken):
                # It may be in the other queue too: who comes first takes it.
                self._waited_for.put((WAITED_FOR, next(self._order), key, chunk))
            while fill.missing & wanted and fill.error is None and self._fills.get(key) is fill:
                self._changed.wait()
            if fill.missing & wanted:
                raise fill.error or OSError(errno.EIO, f"piece {key} was given up")

    def give_up(self, key: str) -> None:
        """Stop a piece no longer needed; who asked for it is told, and waits for nothing else."""
        with self._changed:
            fill = self._fills.pop(key, None)
            self._changed.notify_all()
        if fill is not None and fill.error is None:
            fill.done(OSError(errno.ESTALE, f"piece {key} was given up"))

    def _run(self, chunks: Chunks, passage: Passage) -> None:
        while True:
            _, _, key, chunk = chunks.get()
            fill = self._fills.get(key)
            if fill is not None and chunk in fill.missing:
                # The gate comes before the chunk is taken: while it holds this thread, one for awaited chunks may fetch
                # it.
                with passage(min(CHUNK_BYTES, fill.size - chunk * CHUNK_BYTES)):
                    if self._take(fill, chunk):
                        self._fetch(fill, chunk)

    def _take(self, fill: Fill, chunk: int) -> bool:
        """Take a chunk, unless it isn't needed any more, or someone who waits for it was faster."""
        with self._changed:
            is_needed = self._fills.get(fill.key) is fill and fill.error is None
            if not is_needed or chunk not in fill.missing - fill.taken:
                return False
            fill.taken.add(chunk)
            return True

    def _fetch(self, fill: Fill, chunk: int) -> None:
        at = chunk * CHUNK_BYTES
        error: OSError | None = None
        try:
            # Without the lock: it may take minutes.
            content = self._storage.read(fill.path, fill.offset + at, min(CHUNK_BYTES, fill.size - at), fill.facts)
            with self._changed:
                # Written with the lock: a piece that was given up, and begun again, must get no bytes of what it was
                # before.
                if self._fills.get(fill.key) is fill:
                    with self._pieces.opened(fill.key) as descriptor:
                        write_all(descriptor, content, at)
        except Exception as failure:  # a thread that ends would leave readers waiting
            error = failure if isinstance(failure, OSError) else OSError(errno_of(failure), str(failure))
        self._came(fill, chunk, error)

    def _came(self, fill: Fill, chunk: int, error: OSError | None) -> None:
        with self._changed:
            if self._fills.get(fill.key) is not fill:
                return
            if error is None:
                fill.missing.discard(chunk)
                if chunk == 0:
                    fill.begun()
            else:
                fill.error = error
            # Told once: without the lock, two threads that brought the last chunks would both find none missing.
            is_whole = error is None and not fill.missing
            if is_whole:
                self._pieces.finish(fill.key)
                del self._fills[fill.key]
            self._changed.notify_all()
        if is_whole or error is not None:
            fill.done(error)

    def is_filling(self, key: str) -> bool:
        """Whether a piece is still on its way, or failed on it."""
        return key in self._fills


def _at_once(_: int) -> AbstractContextManager[None]:
    return nullcontext()

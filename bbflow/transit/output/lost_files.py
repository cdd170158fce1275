"""Files of a store that somebody has removed or cut off while the run went on.

What was written is told by what readers see: each span up to an array's length. To look whether a file is there in its
size takes a small part of what making it took. Values that somebody has changed in their place aren't seen.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

from bbflow.stores.moved import is_moved, place_of
from bbflow.zarr_store.chunks import Chunks
from bbflow.zarr_store.growing import GrowingZarr

REMOVED = "bbflow_removed"
"""Attribute of a store of which somebody has removed something: which arrays or files, or that it was all."""
LOST = "removed or cut off during the run, what was published there is lost"
MOST_NAMED = 3
"""Of the files of one array."""


def lost_files(
    store: GrowingZarr, chunks_of: Callable[[str], Chunks], before: Mapping[str, int], gappy: Collection[str]
) -> Iterator[tuple[str, Path]]:
    """Iterate over what is lost of the files that a run has written.

    Parameters
    ----------
    store
        Whose files.
    chunks_of
        Gives what writes an array's spans.
    before
        Array to how many spans it had before the run.
    gappy
        Arrays that may have no file for a span: what is there of them must have its size.

    Yields
    ------
    tuple of str and Path
        Name of the array, and the file.
    """
    moves = place_of(store.path) is not None
    for name, end in store.lengths.items():
        node = store.metadata(name)
        chunks, begin = chunks_of(name), max(before.get(own, 0) for own in (name, *node["dimension_names"][:1]))
        rows = chunks.shape[0]
        indices = range(begin // rows, -(-end // rows)) if 0 not in node["shape"] else range(0)
        for index in _last_of_files(indices, chunks.per_file):
            # The last one of a file: where that has its size, so have all before it.
            if not chunks.is_whole(index):
                path = chunks.path(index)
                if not (moves and is_moved(path)) and (name not in gappy or path.exists()):
                    yield name, path


def _last_of_files(indices: range, per_file: int) -> Iterator[int]:
    """Iterate over the last index in each file."""
    for first in range(indices.start // per_file * per_file, indices.stop, per_file):
        yield min(first + per_file, indices.stop) - 1


def removed_from(store: GrowingZarr) -> list[str]:
    """Return what is noted as removed."""
    return [name for name in store.attribute(REMOVED, "").split(", ") if name]


def note_removed(store: GrowingZarr, names: Iterable[str]) -> list[str]:
    """Note in a store what was removed, and show it; return what wasn't known."""
    known = removed_from(store)
    if new := [name for name in dict.fromkeys(names) if name not in known]:
        store.commit(**{REMOVED: ", ".join([*known, *new])})
    return new


def names_of(root: Path, lost: Collection[tuple[str, Path]]) -> list[str]:
    """Return how files are named: by their path in the store, or, where there are many, by their array."""
    by_array: dict[str, list[str]] = defaultdict(list)
    for name, path in lost:
        by_array[name].append(path.relative_to(root).as_posix())
    return [
        text
        for name, paths in by_array.items()
        for text in (paths if len(paths) <= MOST_NAMED else [f"{len(paths)} files of {name}"])
    ]

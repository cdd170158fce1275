"""What stores said lately: Snakemake asks for all inputs of all ready jobs each time that it selects some."""

import time
from collections.abc import Callable

from bbflow.errors import DirectorySourceError, MissingSourceError, SourceError
from bbflow.staging import Sources
from bbflow.stores.facts import Facts
from bbflow.stores.local_files import local_path
from bbflow_snakemake.places import parent_of

STALE_S = 60.0
"""After this long a store is asked again; what isn't there is asked for each time."""
LEAST_FOR_LISTING = 10
"""After this many files of one directory it is listed: a page of an object store has 1,000."""


class KnownFiles:
    """Facts of files, as fresh as `STALE_S`; what we change ourselves is to be forgotten.

    Parameters
    ----------
    sources
        The stores.
    clock
        Gives seconds.
    """

    def __init__(self, sources: Sources, clock: Callable[[], float] = time.monotonic) -> None:
        self._sources, self._clock = sources, clock
        self._found: dict[str, tuple[float, int]] = {}
        self._asked: dict[str, int] = {}

    def size_bytes(self, url: str) -> int | None:
        """Return a file's size; None if there is no file by this name.

        Raises
        ------
        SourceError
            If its store refuses.
        """
        if (size_bytes := self._lately(url)) is not None:
            return size_bytes
        parent = parent_of(url)
        if parent is not None:
            self._asked[parent] = self._asked.get(parent, 0) + 1
            if self._asked[parent] >= LEAST_FOR_LISTING:
                self._asked[parent] = 0
                self._list(parent)
                if (size_bytes := self._lately(url)) is not None:
                    return size_bytes
        facts = self.facts(url)
        return None if facts is None else facts.size_bytes

    def facts(self, url: str) -> Facts | None:
        """Ask a file's store now; None if it has no file by this name."""
        path = local_path(url)
        if path is not None and path.is_dir():
            return None
        try:
            facts = self._sources.facts(url)
        except (MissingSourceError, DirectorySourceError):
            self.forget(url)
            return None
        self._found[url] = (self._clock(), facts.size_bytes)
        return facts

    def forget(self, url: str) -> None:
        """Ask for a file again, since it has changed."""
        self._found.pop(url, None)

    def _lately(self, url: str) -> int | None:
        asked_s, size_bytes = self._found.get(url, (-STALE_S, 0))
        return size_bytes if self._clock() - asked_s < STALE_S else None

    def _list(self, parent: str) -> None:
        try:
            files, _ = self._sources.children(parent)
        except SourceError:
            return  # it may not be listed
        now_s = self._clock()
        self._found.update({file.url: (now_s, file.size_bytes) for file in files if file.size_bytes is not None})

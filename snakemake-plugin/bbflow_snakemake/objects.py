"""The storage objects: one file, or one directory, each."""

import os
import shutil
from collections.abc import Iterable

from snakemake_interface_storage_plugins.io import IOCacheStorageInterface, Mtime, get_constant_prefix
from snakemake_interface_storage_plugins.storage_object import (
    StorageObjectGlob,
    StorageObjectRead,
    StorageObjectTouch,
    StorageObjectWrite,
)

from bbflow.errors import BbflowError, MissingSourceError, SourceError
from bbflow.stores.facts import Facts, Listed
from bbflow.stores.local_files import local_path
from bbflow_snakemake.ahead import link
from bbflow_snakemake.places import local_suffix, parent_of
from bbflow_snakemake.provider import BurstBufferStorage

TIMESTAMP = ".snakemake_timestamp"
"""A file in a directory whose time is the directory's, as Snakemake has it."""


class StorageObject(StorageObjectRead, StorageObjectWrite, StorageObjectGlob, StorageObjectTouch):
    """A file or directory by its URL, and its copy on the burst buffer."""

    provider: BurstBufferStorage

    async def inventory(self, cache: IOCacheStorageInterface) -> None:
        """List the directory that this is in, once: what isn't among its files isn't there."""
        parent = self.get_inventory_parent()
        known = getattr(cache.exists_in_storage, "has_inventory", None)
        if parent is None or known is None or parent in known:
            return
        try:
            files, directories = self.provider.sources.children(str(parent_of(self.query)))
        except MissingSourceError:
            files, directories = [], []
        except BbflowError:
            return  # one that may not be listed: each file is asked for, and says why
        for file in files:
            if not file.is_usable:  # such as a link to nothing
                continue
            key = self.cache_key(local_suffix(file.url))
            cache.exists_in_storage[key] = True
            cache.mtime[key] = Mtime(storage=file.changed_s)
            if file.size_bytes is not None:
                cache.size[key] = file.size_bytes
        for name in directories:  # their times and sizes are asked for only if they are wanted
            cache.exists_in_storage[self.cache_key(local_suffix(f"{parent_of(self.query)}/{name}"))] = True
        # At last: from here on Snakemake takes whatever isn't among those for missing.
        known.add(parent)

    def get_inventory_parent(self) -> str | None:
        """Return the name by which the directory is known in Snakemake's cache."""
        parent = parent_of(self.query)
        return None if parent is None else self.cache_key(local_suffix(parent))

    def local_suffix(self) -> str:
        """Return where the copy lies below the local storage prefix."""
        return local_suffix(self.query)

    def cleanup(self) -> None:
        """Do nothing: Snakemake removes the local path, and what was fetched ahead goes with the process."""

    def exists(self) -> bool:
        """Whether there is a file, or a directory with a file in it, or an empty one of a file system."""
        return self.provider.known.size_bytes(self.query) is not None or self._is_directory()

    def mtime(self) -> float:
        """Return when it was last changed, in seconds since the epoch; of a directory when the newest file was."""
        if (facts := self._facts()) is not None:
            return facts.changed_s
        if (path := local_path(self.query)) is not None:
            stamp = path / TIMESTAMP
            return (stamp if stamp.exists() else path).stat().st_mtime
        return max(file.changed_s for file in self._tree())

    def size(self) -> int:
        """Return its bytes; 0 for directories."""
        return self.provider.known.size_bytes(self.query) or 0

    def local_footprint(self) -> int:
        """Return the bytes that a copy takes; a link to what lies on the burst buffer takes none."""
        ahead = self.provider.ahead
        if ahead is not None and ahead.knows(self.query):
            return 0
        size_bytes = self.provider.known.size_bytes(self.query)
        return size_bytes if size_bytes is not None else sum(file.size_bytes or 0 for file in self._tree())

    def checksum(self) -> str | None:
        """Return what the store knows, such as ``md5:…``."""
        facts = self._facts()
        return None if facts is None else facts.checksum

    def retrieve_object(self) -> None:
        """Put the file under its local path: by a link if it was fetched ahead, else it is copied now."""
        facts, path = self._facts(), self.local_path()
        if facts is None:
            self.provider.copies.fetch_tree(self.query, path)
            return
        ahead = self.provider.ahead
        copy = None if ahead is None else ahead.copy_of(self.query, facts.version)
        if copy is not None:
            link(path, copy, facts.changed_s)
            return
        self.provider.copies.fetch(self.query, path)
        os.utime(path, (facts.changed_s, facts.changed_s))

    def store_object(self) -> None:
        """Copy what a job has made to its store, in place of what is there: a file doesn't replace a directory."""
        path = self.local_path()
        if path.is_dir():
            self._clear()
        elif self._facts() is None and self._is_directory():
            raise SourceError(f"{self.query} is a directory, which a file doesn't replace: move it away")
        self.provider.copies.store(path, self.query)
        self.provider.known.forget(self.query)

    def remove(self) -> None:
        """Remove it from its store, but for a directory that Snakemake hasn't made: a file may have been meant."""
        if self._facts() is not None:
            self.provider.sources.remove(self.query)
        elif self._is_made():
            self._clear()
        self.provider.known.forget(self.query)

    def touch(self) -> None:
        """Make it as new as now: in an object store it is written again, as there is no other way."""
        path = local_path(self.query)
        if path is None:
            self._write_again()
        elif path.is_dir():
            (path / TIMESTAMP).touch()
        elif path.exists():
            os.utime(path)

    def list_candidate_matches(self) -> Iterable[str]:
        """List what may match a query with wildcards: all files below its constant part, and directories of paths."""
        prefix = get_constant_prefix(self.query, strip_incomplete_parts=True)
        path = local_path(prefix)
        try:
            if path is None:
                return [file.url for file in self.provider.sources.tree(prefix.rstrip("/"))]
        except MissingSourceError:
            return []
        return [os.path.join(folder, name) for folder, folders, files in os.walk(path) for name in folders + files]

    def _facts(self) -> Facts | None:
        return self.provider.known.facts(self.query)

    def _is_directory(self) -> bool:
        path = local_path(self.query)
        return path.is_dir() if path is not None else next(iter(self._tree()), None) is not None

    def _is_made(self) -> bool:
        """Whether Snakemake has made a directory, or nothing is in it."""
        names = {file.name for file in self._tree()}
        return not names or TIMESTAMP in names

    def _tree(self) -> Iterable[Listed]:
        try:
            yield from self.provider.sources.tree(self.query)
        except MissingSourceError:
            return

    def _clear(self) -> None:
        """Remove a directory, with all that is below it."""
        if (path := local_path(self.query)) is not None:
            shutil.rmtree(path, ignore_errors=not path.exists())
            return
        for file in list(self._tree()):
            self.provider.sources.remove(file.url)

    def _write_again(self) -> None:
        for url in [self.query] if self._facts() is not None else [file.url for file in self._tree()]:
            place = self.provider.local_prefix / ".coming" / f"touch-{os.getpid()}"
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                self.provider.copies.fetch(url, place)
                self.provider.copies.store(place, url)
            finally:
                place.unlink(missing_ok=True)

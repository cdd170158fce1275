"""What is at the place of a copy already: stores of other runs are hidden, and what bbflow didn't make stays.

Whose a store is stands in its root's metadata (`STORE_ID`). Of one of ours only what its root shows is removed.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

from bbflow.errors import ConfigError, MissingSourceError
from bbflow.stores.moved import is_moved
from bbflow.stores.sources import Sources
from bbflow.transit.output.claiming import FUNCTIONS_DIRECTORY, PYRAMIDS_DIRECTORY, STORES
from bbflow.zarr_store.growing import METADATA, STORE_ID, members_of, shown_attributes

AT_ONCE = 8
"""Files that are removed at a time."""


class Others:
    """Stores at the place of a copy that aren't those of the run that is copied there.

    Parameters
    ----------
    sources
        By what they are reached.
    url
        The place.
    """

    def __init__(self, sources: Sources, url: str) -> None:
        self._sources, self._url = sources, url
        self._hidden: dict[str, Collection[str]] = {}
        """Store to its arrays and groups, which are still to be removed."""
        self._done = False

    def hide(self, output: Path) -> None:
        """Remove the stores of other runs than an output's, their roots first of all; only once."""
        if self._done:
            return
        for name in self._names():
            root = self._root(name)
            own = shown_attributes(output / name).get(STORE_ID)
            if root is not None and _id_of(root) not in (None, own):
                self._hidden[name] = members_of(root).keys()
                self._sources.remove(f"{self._url}/{name}/{METADATA}")
        for name, members in list(self._hidden.items()):
            self._remove(f"{self._url}/{name}", members)
            del self._hidden[name]
        self._done = True

    def check(self, name: str) -> None:
        """Check that a store, whose path in an output is given, has nothing in its way.

        Raises
        ------
        ConfigError
            If there is a store that bbflow didn't make.
        """
        root = self._root(name)
        if root is not None and _id_of(root) is None:
            raise ConfigError(
                f"{self._url}/{name} is in the way, and bbflow didn't make it: move it, or give another place"
            )

    def refuse(self, output: Path) -> None:
        """Check that all stores are those of an output, and that what has moved from there is there.

        Raises
        ------
        ConfigError
            If not.
        """
        for name in self._names():
            root, own = self._root(name), shown_attributes(output / name).get(STORE_ID)
            if root is not None and _id_of(root) != own:
                self.check(name)
                raise ConfigError(
                    f"{self._url}/{name} is there from an earlier run: give another output, or --overwrite"
                )
            if root is None and own is not None and any(map(is_moved, (output / name).rglob("c.*"))):
                raise ConfigError(f"{self._url}/{name} is gone; {output} has the rest of it")

    def _names(self) -> Iterator[str]:
        """Iterate over the paths that stores of ours have."""
        yield from sorted(STORES)
        for folder in (FUNCTIONS_DIRECTORY, PYRAMIDS_DIRECTORY):
            try:
                _, names = self._sources.children(f"{self._url}/{folder}")
            except MissingSourceError:
                continue
            yield from (f"{folder}/{name}" for name in sorted(names) if name.endswith(".zarr"))

    def _root(self, name: str) -> dict[str, Any] | None:
        """Return the metadata of a store's root; None if there is none."""
        url = f"{self._url}/{name}/{METADATA}"
        try:
            facts = self._sources.facts(url)
        except MissingSourceError:
            return None
        with self._sources.open(url, facts) as reader:
            content = reader.read(0, facts.size_bytes)
        try:
            root = json.loads(content)
        except ValueError:
            return {}
        return root if isinstance(root, dict) else {}

    def _remove(self, store: str, members: Collection[str]) -> None:
        with ThreadPoolExecutor(AT_ONCE, "remove-files") as pool:
            files = [file.url for file in self._sources.tree(store) if _is_of(file.name, members)]
            list(pool.map(self._sources.remove, files))


def _id_of(root: Mapping[str, Any]) -> str | None:
    """Return what tells a store of ours from others; None if it isn't ours."""
    attributes = root.get("attributes")
    return attributes.get(STORE_ID) if isinstance(attributes, dict) else None


def _is_of(name: str, members: Collection[str]) -> bool:
    """Whether a file is the metadata or a chunk of an array or group, which are given by their paths in the store."""
    path = PurePosixPath(name)
    member = next((parent for parent in path.parents if str(parent) in members), None)
    if member is None:
        return False
    first, *more = path.relative_to(member).parts
    return (first == METADATA and not more) or first == "c" or first.startswith("c.")

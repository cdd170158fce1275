"""Stores that tests have made, as other programs' readers see them."""

import json
import os
from pathlib import Path

import xarray as xr
import zarr


def strict(text):
    """Parse JSON by RFC 8259, which knows no NaN, no Infinity, and no key twice."""
    return json.loads(text, parse_constant=_refuse, object_pairs_hook=_once)


def _refuse(word):
    raise ValueError(f"{word} isn't JSON")


def _once(pairs):
    keys = [key for key, _ in pairs]
    assert len(set(keys)) == len(keys), f"keys that come twice: {keys}"
    return dict(pairs)


def assert_opens(store):
    """See that a strict parser of JSON, zarr, and xarray with all groups read a store."""
    for metadata in store.rglob("zarr.json"):
        strict(metadata.read_text())
    root = zarr.open_group(store, mode="r")
    for group in (None, *sorted(name for name, _ in root.groups())):
        with xr.open_zarr(store, group=group, decode_cf=False, chunks=None) as found:
            assert found.sizes is not None


def stores_in(directory):
    """Find all stores in which something was committed, but none in mounts."""
    for folder, names, files in os.walk(directory):
        if folder.endswith(".zarr") and "zarr.json" in files:
            yield Path(folder)
            names.clear()
        names[:] = (name for name in names if name[0] != "." and not os.path.ismount(os.path.join(folder, name)))


class Stores:
    """The stores that tests make.

    Parameters
    ----------
    directory
        Below it each test has a directory of its own, or one with others of its module.
    """

    def __init__(self, directory):
        self._directory = directory
        self._module, self._folders, self._settled = None, set(), set()
        self._seen = {}

    def new(self, module, own):
        """Return the stores that were made or changed since this was last asked.

        That is after a test of this module; its own directory, if it had one, is looked into once.
        """
        # names, as these are thousands at last; without pytest's links to the last of each name
        folders = {entry.name for entry in os.scandir(self._directory) if entry.is_dir(follow_symlinks=False)}
        if module != self._module:
            self._module, self._settled = module, self._folders
        self._folders = folders
        found = [store for folder in folders - self._settled for store in stores_in(self._directory / folder)]
        self._settled.add(own)
        when = {store: (store / "zarr.json").stat().st_mtime_ns for store in found}
        changed = [store for store in found if self._seen.get(store) != when[store]]
        self._seen |= when
        return sorted(changed)

"""Stores that tests have made, as other programs' readers see them."""

import json

import xarray as xr
import zarr


def strict(text):
    """Parse JSON by RFC 8259, which knows no NaN, no Infinity, and no key twice."""
    return json.loads(text, parse_constant=_refuse, object_pairs_hook=_once)


def _refuse(word):
    raise ValueError(f"{word} is no JSON")


def _once(pairs):
    keys = [key for key, _ in pairs]
    assert len(set(keys)) == len(keys), f"keys that come twice: {keys}"
    return dict(pairs)


def assert_stores_open(directory):
    """All stores in a directory are read by a strict parser of JSON, by zarr, and by xarray with all groups."""
    for store in sorted(directory.rglob("*.zarr")):
        if not (store / "zarr.json").exists():  # nothing was committed
            continue
        for metadata in store.rglob("zarr.json"):
            strict(metadata.read_text())
        root = zarr.open_group(store, mode="r")
        for group in (None, *sorted(name for name, _ in root.groups())):
            with xr.open_zarr(store, group=group, decode_cf=False, chunks=None) as found:
                assert found.sizes is not None

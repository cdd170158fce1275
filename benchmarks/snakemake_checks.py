"""Whether 14,000 files of a Snakemake workflow exist, half of which do: one after the other, and as Snakemake asks."""

import asyncio
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import obstore
import obstore.store
from snakemake.io import IOCache
from snakemake_storage_plugin_bbflow import StorageProvider, StorageProviderSettings

from benchmarks.rows import Row
from testsupport.servers import object_servers

FILES = 14_000
ONE_BY_ONE = 300
"""How many are asked for one after the other; the time for all is this many times more."""


def measure(*, quick: bool = False) -> list[Row]:
    """Ask for files of a directory, and for objects of moto, which is slow itself."""
    files = FILES // 10 if quick else FILES
    rows = []
    for name, place in (("on the disk", _disk), ("in an object store (moto)", _objects)):
        with place(files // 2) as prefix, tempfile.TemporaryDirectory() as local:
            provider = StorageProvider(Path(local), logging.getLogger(__name__), settings=StorageProviderSettings())
            one_s = _one_by_one(provider, prefix, files)
            all_s = _as_snakemake(provider, prefix, files)
        rows += [
            Row(f"{files} existence checks {name}, one after the other (of {ONE_BY_ONE})", one_s, "s", 1.0),
            Row("as Snakemake asks the storage plugin, with sizes and times", all_s, "s", all_s / one_s),
        ]
    return rows


def _one_by_one(provider: StorageProvider, prefix: str, files: int) -> float:
    chosen = range(0, files, files // ONE_BY_ONE)
    started_s = time.perf_counter()
    found = sum(provider.object(f"{prefix}/{number}").mtime() > 0 for number in chosen if number % 2 == 0)
    elapsed_s = time.perf_counter() - started_s
    assert found
    return elapsed_s * files / found


def _as_snakemake(provider: StorageProvider, prefix: str, files: int) -> float:
    """Ask as `snakemake.io` does: the inventory of each, then Snakemake's cache."""
    cache = IOCache(max_wait_time=20)

    async def ask() -> int:
        there = 0
        for number in range(files):
            one = provider.object(f"{prefix}/{number}")
            if one.get_inventory_parent() not in cache.exists_in_storage.has_inventory:
                await one.inventory(cache)
            there += cache.exists_in_storage[one.cache_key()] and cache.mtime[one.cache_key()].storage() > 0
        return there

    started_s = time.perf_counter()
    found = asyncio.run(ask())
    elapsed_s = time.perf_counter() - started_s
    assert found == files // 2, found
    return elapsed_s


@contextmanager
def _disk(count: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix="bbflow-bench-") as directory:
        for number in range(count):
            Path(directory, str(2 * number)).touch()
        yield directory


@contextmanager
def _objects(count: int) -> Iterator[str]:
    with object_servers()["moto"]() as options:
        keys = {"AWS_ACCESS_KEY_ID": options["key"], "AWS_SECRET_ACCESS_KEY": options["secret"]}
        with patch.dict(os.environ, keys | {"AWS_ENDPOINT_URL": options["endpoint_url"], "AWS_REGION": "us-east-1"}):
            store = obstore.store.S3Store("bucket", client_options={"allow_http": True})
            with ThreadPoolExecutor(16) as pool:
                list(pool.map(lambda number: obstore.put(store, f"many/{2 * number}", b""), range(count)))
            yield "s3://bucket/many"

"""Chunks: what a series, a map and a region of a year cost to read, by how it is divided, from a disk and from S3."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from obstore.store import S3Store
from zarr.storage import LocalStore, ObjectStore, WrapperStore

from bbflow.configuring.settings import RawConfig
from bbflow.drain.cuts import ChunkGrid
from bbflow.drain.forms import Form, form_of, storage_of
from bbflow.stores.sources import Sources
from bbflow.stream.records import BlockForm
from bbflow.zarr_store.growing import GrowingZarr
from bbflow.zarr_store.shard_files import ShardChunks
from benchmarks.rows import Row
from testsupport.servers import Options, object_servers

SHAPE, STEPS, FEWER = (721, 1440), 365, 48
"""A field of a quarter of a degree, and a year of days."""
FAR_S = 0.03
"""How long the answer of a store takes that isn't in the same house."""
REPEATS = 3
WAYS: dict[str, Any] = {
    "fields": None,
    "8 steps of 181 x 360": {"time": 8, "lat": 181, "lon": 360},
    "parts of 64 x 64": {"lat": 64, "lon": 64},
    "24 steps of 64 x 64": {"time": 24, "lat": 64, "lon": 64},
}
READS: dict[str, Callable[[Any], Any]] = {
    "series at a point": lambda array: array[:, 300, 700],
    "map at a time": lambda array: array[array.shape[0] // 2],
    "region of 60 x 60 over the year": lambda array: array[:, 300:360, 700:760],
}


class Counting(WrapperStore[Any]):
    """Counts requests and the bytes that they bring, and lets each take a while."""

    requests = 0
    read_bytes = 0
    late_s = 0.0

    async def get(self, *arguments: Any, **named: Any) -> Any:
        """Read, and count."""
        await asyncio.sleep(self.late_s)
        found = await super().get(*arguments, **named)
        self.requests += 1
        self.read_bytes += 0 if found is None else len(found)
        return found


def _write(path: Path, chunks: Any, steps: int) -> None:
    block = BlockForm("v", "float", "GlobalArray", SHAPE, (0, 0), SHAPE, 0, 0, 0, 4 * prod(SHAPE))
    raw, store, dims = RawConfig(chunks=chunks), GrowingZarr(path), ["lat", "lon"]
    store.create("v", ["time", *dims], (steps, *SHAPE), block.dtype, {}, storage=storage_of(block, raw, dims))
    store.commit()
    form = form_of(block, raw, store.metadata("v"), np.nan)
    field = np.random.default_rng(1).random(SHAPE, "f4")
    for index in range(-(-steps // form.steps)):
        count = min(form.steps, steps - index * form.steps)
        _fill(path, form, index, field, count)


def _fill(path: Path, form: Form, index: int, field: np.ndarray[Any, Any], count: int) -> None:
    cut = form.cut or ChunkGrid(SHAPE, SHAPE)
    parts = [(chunk.reshape(-1).view("u1"),) for _ in range(count) for chunk in cut.parts(field, form.fill)]
    form.file(str(path), index).write(0, ShardChunks(parts, [False] * len(parts)))


def measure(*, quick: bool) -> list[Row]:
    """Write the same steps in each way, and read them; ratios are to chunks of whole fields."""
    rows, steps = [], FEWER if quick else STEPS
    first: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory(prefix="bbflow-bench-") as folder, _server() as server:
        for way, chunks in WAYS.items():
            path = Path(folder, way.replace(" ", "-"))
            started = time.perf_counter()
            _write(path, chunks, steps)
            rows.append(_row(way, "writing", time.perf_counter() - started, "s", first))
            rows.append(Row(f"{way}: files", len(list(path.glob("v/c.*"))), ""))
            stores = {"disk": Counting(LocalStore(path, read_only=True))}
            if server is not None:
                stores["S3"] = Counting(_uploaded(path, server))
                stores["S3, far"] = Counting(stores["S3"]._store)
                stores["S3, far"].late_s = FAR_S
            for name, read in READS.items():
                rows += _reading(way, name, read, stores, first)
    return rows


def _reading(
    way: str, name: str, read: Callable[[Any], Any], stores: dict[str, Counting], first: dict[tuple[str, str], float]
) -> Iterator[Row]:
    for where, store in stores.items():
        array, took_s = zarr.open_group(store, mode="r")["v"], []
        for _ in range(REPEATS):
            store.requests = store.read_bytes = 0
            started = time.perf_counter()
            read(array)
            took_s.append(time.perf_counter() - started)
        if where == "disk":
            yield _row(way, f"{name}, requests", store.requests, "", first)
            yield _row(way, f"{name}, read", store.read_bytes / 2**20, "MiB", first)
        yield _row(way, f"{name}, {where}", statistics.median(took_s) * 1e3, "ms", first)


@contextmanager
def _server() -> Iterator[Options | None]:
    """Start versitygw, if it is there: moto takes longer for each request than most reads."""
    start = object_servers().get("versitygw")
    if start is None:
        yield None
        return
    with start() as options:
        yield options


def _uploaded(path: Path, server: Options) -> ObjectStore[Any]:
    sources = Sources({"s3": server})
    for file in (file for file in path.rglob("*") if file.is_file()):
        with sources.create(f"s3://bucket/{file.relative_to(path.parent)}", file.stat().st_size) as target:
            target.write(file.read_bytes())
    store = S3Store(
        "bucket", prefix=path.name, endpoint=server["endpoint_url"], access_key_id=server["key"],
        secret_access_key=server["secret"], region=server["region"], client_options={"allow_http": True},
    )  # fmt: skip
    return ObjectStore(store, read_only=True)


def _row(way: str, name: str, value: float, unit: str, first: dict[tuple[str, str], float]) -> Row:
    return Row(f"{way}: {name}", value, unit, value / first.setdefault((name, unit), value))

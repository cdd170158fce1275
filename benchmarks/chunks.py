"""Chunks: what a time series, a map and a region cost to read of the raw steps, by how these are divided."""

import asyncio
import tempfile
import time
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.storage import LocalStore

from bbflow.drain.cuts import Cut
from bbflow.drain.forms import Form, form_of, storage_of
from bbflow.drain.shards import ShardChunks
from bbflow.growing import GrowingZarr
from bbflow.records import BlockForm
from bbflow.settings import RawConfig
from benchmarks.rows import Row

SHAPE, STEPS, FEWER = (721, 1440), 240, 48
"""A field of a quarter of a degree, and an hourly stream of ten days."""
WAYS: dict[str, Any] = {
    "fields": None,
    "parts of 64 x 64": {"lat": 64, "lon": 64},
    "24 steps of 64 x 64": {"time": 24, "lat": 64, "lon": 64},
}
READS: dict[str, Callable[[Any], Any]] = {
    "series at a point": lambda array: array[:, 300, 700],
    "map at a time": lambda array: array[array.shape[0] // 2],
    "region of 60 x 60 at all times": lambda array: array[:, 300:360, 700:760],
}


class Counting(LocalStore):
    """Counts requests and the bytes that they bring; of an object store each of them is a GET."""

    requests = 0
    read_bytes = 0

    async def get(self, *arguments: Any, **named: Any) -> Any:
        """Read, and count."""
        await asyncio.sleep(0)
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
    cut = form.cut or Cut(SHAPE, SHAPE)
    parts = [(chunk.reshape(-1).view("u1"),) for _ in range(count) for chunk in cut.parts(field, form.fill)]
    form.file(str(path), index).write(0, ShardChunks(parts, [False] * len(parts)))


def measure(*, quick: bool) -> list[Row]:
    """Write the same steps in each way, and read them; ratios are to chunks of whole fields."""
    rows, steps = [], FEWER if quick else STEPS
    first: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory(prefix="bbflow-bench-") as folder:
        for way, chunks in WAYS.items():
            path = Path(folder, way.replace(" ", "-"))
            started = time.perf_counter()
            _write(path, chunks, steps)
            took = {"writing": time.perf_counter() - started}
            rows.append(Row(f"{way}: files", len(list(path.glob("v/c.*"))), ""))
            rows.append(_row(way, "writing", took["writing"], "s", first))
            for name, read in READS.items():
                store = Counting(path, read_only=True)
                array = zarr.open_group(store, mode="r")["v"]
                store.requests = store.read_bytes = 0
                started = time.perf_counter()
                read(array)
                took[name] = time.perf_counter() - started
                rows.append(_row(way, f"{name}, requests", store.requests, "", first))
                rows.append(_row(way, f"{name}, read", store.read_bytes / 2**20, "MiB", first))
                rows.append(_row(way, f"{name}, time", took[name] * 1e3, "ms", first))
    return rows


def _row(way: str, name: str, value: float, unit: str, first: dict[tuple[str, str], float]) -> Row:
    return Row(f"{way}: {name}", value, unit, value / first.setdefault((name, unit), value))

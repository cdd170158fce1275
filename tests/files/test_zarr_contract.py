"""zarr's own tests of a store, run against bb:// by way of fsspec."""

import asyncio
import inspect
from functools import wraps

import fsspec
import pytest
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from zarr.core.buffer import cpu
from zarr.storage import FsspecStore
from zarr.testing.store import StoreTests

from testsupport.files_servers import Servers


def without_await(test):
    """A test that awaits, as one that pytest runs by itself; marks and parameters stay."""

    @wraps(test)
    def run(*arguments, **named):
        asyncio.run(test(*arguments, **named))

    return run


@pytest.fixture(scope="module")
def contact(tmp_path_factory):
    with Servers(tmp_path_factory.mktemp("f")) as servers:
        servers.start(storage=False)
        yield str(servers.contact)


class TestStore(StoreTests[FsspecStore, cpu.Buffer]):
    """bb:// as a store of zarr's."""

    store_cls = FsspecStore
    buffer_cls = cpu.Buffer
    for _name, _test in inspect.getmembers(StoreTests, inspect.iscoroutinefunction):
        if _name.startswith("test_"):
            locals()[_name] = without_await(_test)

    @pytest.fixture
    def store_kwargs(self, contact):
        files = fsspec.filesystem("bb", contact=contact)
        if files.exists("/store"):
            files.rm("/store", recursive=True)
        files.mkdir("/store")
        return {"fs": AsyncFileSystemWrapper(files, asynchronous=True), "path": "/store"}

    @pytest.fixture
    def store(self, store_kwargs):
        return asyncio.run(FsspecStore.open(**store_kwargs))

    @pytest.fixture
    def store_not_open(self, store_kwargs):
        return FsspecStore(**store_kwargs)

    @pytest.fixture
    def open_kwargs(self, store_kwargs):
        return store_kwargs

    async def set(self, store, key, value):
        await asyncio.to_thread(store.fs.sync_fs.pipe_file, f"{store.path}/{key}", value.to_bytes())

    async def get(self, store, key):
        return self.buffer_cls.from_bytes(await asyncio.to_thread(store.fs.sync_fs.cat_file, f"{store.path}/{key}"))

    def test_store_repr(self, store):
        assert "/store" in str(store)

    def test_store_supports_writes(self, store):
        assert store.supports_writes

    def test_store_supports_listing(self, store):
        assert store.supports_listing

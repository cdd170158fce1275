"""Snakemake's own tests of storage plugins, for each kind of storage; and what its tests don't ask."""

import asyncio
import logging
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from bbflow_snakemake.ahead import Ahead, link
from bbflow_snakemake.copying import SMALL_BYTES
from bbflow_snakemake.settings import plan_of
from snakemake.io import IOCache
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_storage_plugins.tests import TestStorageBase
from snakemake_storage_plugin_bbflow import StorageProvider, StorageProviderSettings

from bbflow.errors import ConfigError
from bbflow.phases import io_phase
from testsupport.files_servers import Servers
from testsupport.object_server import put_object
from testsupport.waiting import until

logger = logging.getLogger(__name__)


class Kind(TestStorageBase):
    files_only = False
    touch = True

    def get_storage_provider_cls(self):
        return StorageProvider

    def get_storage_provider_settings(self):
        return StorageProviderSettings()


class TestPaths(Kind):
    __test__ = True

    def get_query(self, tmp_path):
        return str(tmp_path / "pfs/deep/a file#1?")

    def get_query_not_existing(self, tmp_path):
        return str(tmp_path / "none")


class TestFileUrls(Kind):
    __test__ = True

    def get_query(self, tmp_path):
        return f"file://{tmp_path}/pfs/file"

    def get_query_not_existing(self, tmp_path):
        return f"file://{tmp_path}/none/file"


@pytest.mark.usefixtures("known_endpoint")
class TestObjects(Kind):
    __test__ = True

    def get_query(self, tmp_path):
        return f"s3://bucket/{tmp_path.name}/deep/file"

    def get_query_not_existing(self, tmp_path):
        return f"s3://bucket/{tmp_path.name}/none"


class TestBurstBufferFiles(Kind):
    __test__ = True

    @pytest.fixture(autouse=True)
    def _running(self, short_path):
        with Servers(short_path) as servers:
            servers.start(storage=False)
            self.contact = servers.contact
            yield

    def get_storage_provider_settings(self):
        return StorageProviderSettings(contact=str(self.contact))

    def get_query(self, tmp_path):
        return "bb://deep/file"

    def get_query_not_existing(self, tmp_path):
        return "bb://none"


@pytest.fixture
def provider(tmp_path):
    return new_provider(tmp_path)


def new_provider(tmp_path, **settings):
    return StorageProvider(
        local_prefix=tmp_path / "bb", logger=logger, settings=StorageProviderSettings(**settings), keep_local=False
    )


def test_a_retrieved_file_is_as_old_as_its_source(tmp_path, provider):
    source = tmp_path / "source"
    source.write_text("content")
    os.utime(source, (1000, 1000))
    found = provider.object(str(source))
    asyncio.run(found.managed_retrieve())
    assert found.local_path().read_text() == "content"
    assert found.local_path().stat().st_mtime == found.mtime() == 1000


@pytest.mark.parametrize("is_ahead", [False, True])
def test_a_retrieved_file_can_be_written_to_or_snakemake_takes_it_for_a_protected_output(tmp_path, provider, is_ahead):
    source, path = tmp_path / "source", tmp_path / "local"
    source.write_text("content")
    ahead = Ahead(plan_of(StorageProviderSettings()), tmp_path / "ahead", 1, keep=False)
    try:
        if is_ahead:
            ahead.announce({str(source): len("content")})
            link(path, ahead.copy_of(str(source), provider.sources.facts(str(source)).version), 1000)
        else:
            provider.copies.fetch(str(source), path)
        assert path.read_text() == "content"
        assert path.stat().st_mode & 0o200
    finally:
        ahead.close()


def test_a_stored_directory_takes_the_place_of_what_was_there(tmp_path, provider):
    target = tmp_path / "pfs" / "made"
    (target / "old").mkdir(parents=True)
    (target / "old" / "file").write_text("of an earlier run")
    found = provider.object(str(target))
    (found.local_path() / "deep").mkdir(parents=True)
    (found.local_path() / "deep" / "file").write_text("new")
    asyncio.run(found.managed_store())
    assert [path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()] == ["deep/file"]


def test_a_file_does_not_take_the_place_of_a_directory_nor_remove_one_that_others_made(tmp_path, provider):
    target = tmp_path / "pfs" / "made"
    target.mkdir(parents=True)
    (target / "theirs").write_text("precious")
    found = provider.object(str(target))
    asyncio.run(found.managed_remove())
    found.local_path().parent.mkdir(parents=True, exist_ok=True)
    found.local_path().write_text("a file")
    with pytest.raises(WorkflowError, match="is a directory, which a file doesn't replace"):
        asyncio.run(found.managed_store())
    assert (target / "theirs").read_text() == "precious"
    (target / ".snakemake_timestamp").touch()
    asyncio.run(found.managed_remove())
    assert not target.exists()


@pytest.mark.usefixtures("known_endpoint")
def test_a_directory_of_objects_comes_whole(tmp_path, endpoint, provider):
    for name in ("a", "deep/b"):
        put_object(endpoint, f"tree/{name}", name.encode())
    found = provider.object("s3://bucket/tree")
    assert found.exists()
    asyncio.run(found.managed_retrieve())
    assert (found.local_path() / "deep" / "b").read_text() == "deep/b"


@pytest.mark.usefixtures("known_endpoint")
def test_objects_have_the_checksums_that_their_store_has(endpoint, provider):
    put_object(endpoint, "summed", b"content")
    assert provider.object("s3://bucket/summed").checksum() == "md5:9a0364b9e99bb480dd25e1f0284c8555"


@pytest.mark.usefixtures("known_endpoint")
def test_a_thousand_questions_are_a_few_listings(tmp_path, endpoint, provider, monkeypatch):
    for number in range(40):
        put_object(endpoint, f"many/{number:04}", b"x" * number)
    put_object(endpoint, "many/deep/file", b"")
    asked = []
    facts = provider.sources.facts
    monkeypatch.setattr(provider.sources, "facts", lambda url: asked.append(url) or facts(url))
    cache = IOCache(max_wait_time=10)
    for number in range(1000):
        found = provider.object(f"s3://bucket/many/{number:04}")
        asyncio.run(found.inventory(cache))
        key = found.cache_key()
        assert cache.exists_in_storage[key] == (number < 40)
        assert found.get_inventory_parent() in cache.exists_in_storage.has_inventory
        if number < 40:
            assert cache.size[key] == number
            assert cache.mtime[key].storage() == pytest.approx(found.mtime(), abs=1)
    assert len(asked) == 40  # those of the comparison
    assert cache.exists_in_storage[provider.object("s3://bucket/many/deep").cache_key()]


def test_what_is_no_file_is_missing_in_a_listing(tmp_path, provider):
    (tmp_path / "pfs").mkdir()
    (tmp_path / "pfs/file").write_text("there")
    (tmp_path / "pfs/nothing").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pfs/pipe")
    cache = IOCache(max_wait_time=10)
    found = {name: provider.object(str(tmp_path / "pfs" / name)) for name in ("file", "nothing", "pipe")}
    asyncio.run(found["file"].inventory(cache))
    exists = {name: bool(cache.exists_in_storage[each.cache_key()]) for name, each in found.items()}
    assert exists == {"file": True, "nothing": False, "pipe": False}


def test_a_store_that_cannot_be_had_is_no_listing_but_an_error_of_snakemakes(provider, monkeypatch):
    monkeypatch.delenv("BBFLOW_CONTACT", raising=False)
    found = provider.object("bb://x/in.dat")
    asyncio.run(found.inventory(IOCache(100)))
    with pytest.raises(WorkflowError, match="bb:// needs a contact file"):
        asyncio.run(found.managed_exists())


def test_sizes_of_many_files_are_listed_and_those_of_changed_ones_are_asked_for(tmp_path, provider, monkeypatch):
    pfs = tmp_path / "pfs"
    pfs.mkdir()
    for number in range(100):
        (pfs / str(number)).write_bytes(b"x" * number)
    asked = []
    facts = provider.sources.facts
    monkeypatch.setattr(provider.sources, "facts", lambda url: asked.append(url) or facts(url))
    objects = [provider.object(str(pfs / str(number))) for number in range(100)]
    assert [found.size() for found in objects for _ in range(2)] == [n for n in range(100) for _ in range(2)]
    assert len(asked) == 9
    objects[50].local_path().parent.mkdir(parents=True)
    objects[50].local_path().write_text("new")
    objects[50].store_object()
    assert objects[50].size() == 3


def test_what_is_not_there_is_asked_for_each_time(tmp_path, provider):
    found = [provider.object(str(tmp_path / "pfs" / str(number))) for number in range(20)]
    (tmp_path / "pfs").mkdir()
    assert not any(each.exists() for each in found)
    (tmp_path / "pfs" / "7").touch()
    assert [each.exists() for each in found] == [number == 7 for number in range(20)]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "names no file"),
        ("s3://", "names no file"),
        ("s3://bucket", "a bucket, not an object"),
        ("s3://bucket/a/../b", "no '.' or '..'"),
    ],
)
def test_what_names_no_file_is_refused(query, said):
    found = StorageProvider.is_valid_query(query)
    assert not found
    assert said in found.reason


@pytest.mark.parametrize("query", ["/pfs/{sample}.fq", "data/{sample}/{n}.txt", "s3://bucket/{sample}", "bb://a"])
def test_queries_may_have_wildcards(query):
    assert StorageProvider.is_valid_query(query)


def test_local_paths_differ_where_queries_do(tmp_path, provider, monkeypatch):
    monkeypatch.chdir(tmp_path)
    queries = ["a/b", "/a/b", "s3://a/b", "bb://a/b", "https://a/b", "/s3/a/b", "../b"]
    assert len({provider.object(query).local_path() for query in queries}) == len(queries)
    assert provider.object("a/../b").local_path() == provider.object(f"{tmp_path}/b").local_path()


def test_matches_of_wildcards_are_files_and_directories_of_paths(tmp_path, provider):
    (tmp_path / "pfs" / "a").mkdir(parents=True)
    (tmp_path / "pfs" / "a" / "1.txt").touch()
    found = provider.object(str(tmp_path / "pfs" / "{name}" / "{n}.txt")).list_candidate_matches()
    assert set(found) == {str(tmp_path / "pfs" / "a"), str(tmp_path / "pfs" / "a" / "1.txt")}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"capacity": "much"}, r"--storage-bbflow-capacity: 'much' is not a size"),
        ({"policy": "ful-delay"}, "full-delay"),
        ({"policy": "full-delay"}, "needs --storage-bbflow-phases"),
        ({"fetchers": 0}, "--storage-bbflow-fetchers is 0: it must be 1 or more"),
        ({"lookahead": -1}, "--storage-bbflow-lookahead is -1"),
        ({"oversize": "none"}, "--storage-bbflow-oversize 'none'"),
        ({"options": "/nowhere.yml"}, "can't read /nowhere.yml"),
    ],
)
def test_wrong_settings_are_one_line(tmp_path, settings, said):
    with pytest.raises(WorkflowError, match=said) as raised:
        new_provider(tmp_path, **settings)
    assert "\n" not in str(raised.value).strip()


def test_options_of_stores_come_from_a_file(tmp_path):
    options = tmp_path / "options.yml"
    options.write_text("s3: {endpoint: http://127.0.0.1:1}")
    with pytest.raises(WorkflowError, match="endpoint_url"):
        new_provider(tmp_path, options=str(options))
    options.write_text("[s3]")
    with pytest.raises(WorkflowError, match="a mapping of options for each protocol"):
        new_provider(tmp_path, options=str(options))


def test_only_what_was_fetched_ahead_is_removed_at_the_end(tmp_path):
    (tmp_path / "input").write_text("text")
    directory = tmp_path / "ahead"
    ahead = Ahead(plan_of(StorageProviderSettings()), directory, 1, keep=False)
    key = ahead.announce({str(tmp_path / "input"): len("text")})
    assert ahead.is_coming(key), "it has room at once, before those that are announced later"
    until(lambda: any((directory / "files").rglob("input")), "nothing was fetched")
    (directory / "notes of mine").touch()
    ahead.close()
    assert {path.name for path in directory.iterdir()} == {".bbflow", "notes of mine"}
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(ConfigError, match="bbflow didn't make it"):
        Ahead(plan_of(StorageProviderSettings()), tmp_path / "other", 1, keep=False)


def test_an_input_that_has_changed_since_it_was_announced_is_copied_when_its_job_starts(tmp_path):
    (tmp_path / "input").write_text("longer than it was")
    ahead = Ahead(plan_of(StorageProviderSettings()), tmp_path / "ahead", 1, keep=False)
    try:
        url = str(tmp_path / "input")
        ahead.announce({url: 3})
        assert ahead.copy_of(url, None) is None
    finally:
        ahead.close()


def test_a_small_output_gives_way_to_nobody(tmp_path):
    phases = tmp_path / "phases"
    phases.mkdir()
    provider = new_provider(tmp_path, policy="full-delay", phases=str(phases))
    found = provider.object(str(tmp_path / "pfs" / "out"))
    found.local_path().parent.mkdir(parents=True)
    found.local_path().write_bytes(b"x" * SMALL_BYTES)
    with io_phase("hpc", phases), ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, found.managed_store()).result(20)
        found.local_path().write_bytes(b"x" * (SMALL_BYTES + 1))
        large = pool.submit(asyncio.run, found.managed_store())
        with pytest.raises(TimeoutError):
            large.result(1)
        (tmp_path / "pfs" / "out").stat()
        for path in phases.iterdir():
            path.unlink()
        large.result(20)

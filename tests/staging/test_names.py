"""What exists by its name is that: names that could mean something else, from every kind of store."""

import json

import fsspec
import pytest

from bbflow.staging import File, Sources, Stager, expand
from bbflow.staging.staging_plan import expand_plan, read_plan
from bbflow.stores.urls import file_name
from testsupport.object_server import options_of, put_object

NAMES = (
    "plain.nc",
    "a b",
    "[ab]",
    "x*",
    "w?",
    "{1..3}",
    "{a,b}",
    "a#bytes=0-3",
    "a#b",
    "50%",
    "a%20b",
    "ü",
    "a;b",
    "a'b",
    'a"b',
    "a+b",
    "a&b",
    "a=b",
    "$HOME",
    "~root",
    "a::b",
    "simplecache::a",
    "bytes=0-3::a",
    "data:x",
    "x.yml",
    "x.json",
    "a\\b",
    "-n",
    " a ",
    "a",
)
"""Beside files that they would name if they meant something else: `a` is there, and so is all that patterns match."""
DECOYS = ("b", "xy", "w1", "a b.txt")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory with all of them, each with its name as its content."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name in (*NAMES, *DECOYS):
        (folder / name).write_text(name)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="module")
def bucket(endpoint):
    for name in (*NAMES, *DECOYS):
        put_object(endpoint, f"in/{name}", name.encode())
    return options_of(endpoint)


def staged(words, directory, options=None):
    """What is on the burst buffer of words, each staged by itself: contents by name."""
    sources, found = Sources(options), {}
    with Stager(directory, 1 << 20, len(words), options=options) as stager:
        for number, word in enumerate(words):
            files = expand(word, sources)
            places = stager.submit(str(number), [File(file.url) for file in files]).result(60)
            found |= {file.name: places[file.url].read_text() for file in files}
    return found


def test_each_name_is_itself_by_its_path_its_relative_path_and_its_url(here, tmp_path):
    same = {name: name for name in NAMES}
    assert staged([f"{here}/{name}" for name in NAMES], tmp_path / "bb1") == same
    assert staged(NAMES, tmp_path / "bb2") == same
    assert staged([f"file://{here}/{name}" for name in NAMES], tmp_path / "bb3") == same


def test_a_directory_of_them_comes_whole_and_so_does_a_pattern(here, tmp_path):
    every = {name: name for name in (*NAMES, *DECOYS)}
    assert staged([str(here)], tmp_path / "bb1") == {f"in/{name}": name for name in every}
    assert staged(["*"], tmp_path / "bb2") == every
    assert set(staged(["w*"], tmp_path / "bb3")) == {"w?", "w1"}


def test_each_key_is_itself_in_a_bucket_of_which_a_prefix_comes_whole(bucket, tmp_path):
    words = [f"s3://bucket/in/{name}" for name in NAMES]
    assert staged(words, tmp_path / "bb1", bucket) == {name: name for name in NAMES}
    every = staged(["s3://bucket/in/"], tmp_path / "bb2", bucket)
    assert every == {f"in/{name}": name for name in (*NAMES, *DECOYS)}
    assert set(staged(["s3://bucket/in/w*"], tmp_path / "bb3", bucket)) == {"w?", "w1"}


def test_a_directory_whose_name_could_be_a_pattern_is_the_one_that_is_meant(tmp_path):
    for name in ("in[1]/x.nc", "in1/y.nc", "in?/z.nc"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(name)
    words = {"in[1]/*.nc": "in[1]/x.nc", "in?/*": "in?/z.nc", "in[1]/": "in[1]/x.nc", "in[12]/*": "in1/y.nc"}
    for word, meant in words.items():
        assert [file.url for file in expand(f"{tmp_path}/{word}", Sources())] == [f"{tmp_path}/{meant}"]


def test_names_in_a_plan_are_themselves_and_what_a_task_makes_is_no_pattern(here, tmp_path):
    made = f"{tmp_path}/made[1]*"
    inputs = [{"url": f"{here}/{name}", "size": len(name.encode())} for name in NAMES]
    plan = [{"inputs": inputs, "outputs": [made]}, {"inputs": [made, *NAMES]}]
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    (first, second), _ = expand_plan(read_plan(tmp_path / "plan.json"), Sources(), tmp_path / "bb")
    assert [file.url for file in first.task.inputs] == [f"{here}/{name}" for name in NAMES]
    assert [file.url.removeprefix("./") for file in second.task.inputs] == [made, *NAMES]


def test_a_name_in_another_file_system_is_itself_and_a_chain_of_them_is_still_one(tmp_path):
    memory = fsspec.filesystem("memory")
    names = [name for name in (*NAMES, *DECOYS) if "::" not in name]  # with these it doesn't work by itself
    for name in names:
        memory.pipe_file(f"/names/{name}", name.encode())
    try:
        assert staged([f"memory://names/{name}" for name in names], tmp_path / "bb1") == {name: name for name in names}
        found = staged(["memory://names/"], tmp_path / "bb2")
        assert found == {f"names/{name}": name for name in names}
        url = "simplecache::memory://names/plain.nc"
        with Sources().open(url, Sources().facts(url)) as reader:
            assert reader.read(0, 8) == b"plain.nc"
    finally:
        memory.rm("/names", recursive=True)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://host/a%20b?x=1/2", "a b"),
        ("https://host/a%2Fb", "a%2Fb"),
        ("https://host/%2E%2E", "%2E%2E"),
        ("https://host", "host"),
        ("https://host/%FF", "\udcff"),
        ("s3://bucket/a%20b?c", "a%20b?c"),
        ("bytes=0-9::s3://bucket/d/a", "a"),
        ("/", "file"),
    ],
)
def test_a_url_has_a_name_that_a_file_may_have(url, name):
    assert file_name(url) == name

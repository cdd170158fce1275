"""What a URL means: one meaning for planning, transfers and removals, whoever wrote it."""

import os
from urllib.parse import quote

import pytest
from bbflow_pegasus.planning.asking import with_sizes
from bbflow_pegasus.planning.facts import PlanFacts, ReplicaSource
from bbflow_pegasus.urls import path_of, url_of

from testsupport.range_server import RangeServer

NAMES = [
    "a b",
    "h#x",
    "q?x",
    "per%cent",
    "ü",
    "a;b",
    "br[1]",
    "it's",
    "p+q",
    "a&b",
    "a%20b",
    "a%2520b",
    "50%",
    'q"x',
    "a,b=c",
]
WRITTEN = {"as Pegasus puts a logical name": str, "percent-encoded by a user": quote}


@pytest.mark.parametrize("written", WRITTEN)
def test_files_of_any_name_are_staged_removed_and_asked_for_their_size(job, written):
    write = WRITTEN[written]
    for number, name in enumerate(NAMES):
        path = job.make(name, number)
        job.add(name, f"file://{write(str(path))}", to=f"file://{write(str(job.target(name)))}")
    code, said = job.run()
    assert code == 0, said
    assert {name: job.target(name).read_bytes() for name in NAMES} == {
        name: (job.folder / "source" / name).read_bytes() for name in NAMES
    }
    assert job.left == []
    sources = {e["lfn"]: ReplicaSource(None, e["src_urls"][0]["url"]) for e in job.entries}
    found = with_sizes(PlanFacts({}, {}, sources), {}).sources
    assert {name: found[name].size_bytes for name in NAMES} == {name: number for number, name in enumerate(NAMES)}
    for entry, name in zip(job.entries, NAMES, strict=True):  # these Pegasus writes itself
        target = {"site_label": "bb", "url": f"file://{job.target(name)}", "recursive": "False"}
        entry.clear()
        entry |= {"type": "remove", "id": 1, "target": target}
    job.name = "cleanup_0"
    code, said = job.run()
    assert code == 0, said
    assert list((job.folder / "bb" / "run0001").iterdir()) == []


def test_http_names_are_encoded_and_the_file_is_named_by_its_logical_name(job):
    for name in NAMES:
        job.make(name, 100)
    with RangeServer(job.folder / "source") as server:
        for name in NAMES:
            job.add(name, f"{server.url}/{quote(name, safe='')}")
        code, said = job.run()
    assert code == 0, said
    assert all(job.target(name).stat().st_size == 100 for name in NAMES)


def test_directories_that_look_encoded_are_what_is_there(tmp_path):
    (tmp_path / "run%201").mkdir()
    assert path_of(f"file://{tmp_path}/run%201/f", {}, "f") == f"{tmp_path}/run%201/f"
    (tmp_path / "my dir").mkdir()
    assert path_of(f"file://{tmp_path}/my%20dir/f", {}, "f") == f"{tmp_path}/my dir/f"
    (tmp_path / "my dir" / "a+b").touch()
    assert path_of(f"file://localhost{tmp_path}/my%20dir/a%2Bb", {}, "input.nc") == f"{tmp_path}/my dir/a+b"
    assert path_of("file://$BB/x", {"BB": str(tmp_path)}) == os.path.join(tmp_path, "x")


@pytest.mark.parametrize(
    ("url", "lfn", "meant"),
    [
        ("s3://u@site/bucket/a%20b", "a b", "s3://u@site/bucket/a b"),
        ("s3://u@site/bucket/a%20b", "a%20b", "s3://u@site/bucket/a%20b"),
        ("s3://u@site/bucket/a%2520b", "a%20b", "s3://u@site/bucket/a%20b"),
        ("s3://u@site/bucket/a%20b", "other", "s3://u@site/bucket/a%20b"),
        ("https://host/a%20b", "a b", "https://host/a%20b"),
    ],
)
def test_a_key_is_itself_unless_the_logical_name_says_that_it_is_encoded(url, lfn, meant):
    assert url_of(url, lfn) == meant

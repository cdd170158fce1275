"""Patterns and directories, from every kind of store, against Python's own glob on the same files."""

import glob
import os
import re
import subprocess
import sys

import fsspec
import pytest

from bbflow.errors import ConfigError, SourceError
from bbflow.staging.matching import expand
from bbflow.staging.named_links import LISTING, check_names, link_tree, unlink_gone, write_listing
from bbflow.staging.staging_plan import expand_plan, plan_of_sources, read_plan
from bbflow.stores.sources import Sources

TREE = ("a.fits", "b.fits", "c.txt", "d1/a.fits", "d1/e/f.fits", "d2/a.fits", "d2/.hidden.fits", ".h/a.fits", "d1/x y")
PATTERNS = (
    "*.fits",
    "*",
    "d?/*.fits",
    "d[12]/a.fits",
    "*/*/*.fits",
    "**/*.fits",
    "d1/**",
    "**/a.fits",
    "d*/e/*",
    "?.txt",
)


@pytest.fixture
def below(tmp_path):
    """The files of `TREE`, each of another size."""
    for number, name in enumerate(TREE):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * (number + 1))
    return tmp_path / "data"


@pytest.fixture
def served(below):
    """The same by a server that lists directories as pages."""
    words = [sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", "--directory", str(below), "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            yield re.search(r"http://[0-9.:]+", server.stdout.readline())[0]
        finally:
            server.kill()


@pytest.fixture
def remembered():
    """The same in a file system of fsspec's."""
    system = fsspec.filesystem("memory")
    for number, name in enumerate(TREE):
        system.pipe_file(f"/data/{name}", b"x" * (number + 1))
    yield "memory://data"
    system.rm("/data", recursive=True)


def globbed(below, pattern):
    found = glob.glob(pattern, root_dir=below, recursive=True)
    return sorted(name for name in found if (below / name).is_file())


def names(found, root):
    assert all(file.url.startswith(f"{root}/") for file in found)
    return sorted(file.url.removeprefix(f"{root}/") for file in found)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_matches_what_pythons_glob_matches(below, pattern):
    found = expand(f"{below}/{pattern}", Sources())
    assert names(found, below) == globbed(below, pattern)
    assert [file.size_bytes for file in found] == [os.stat(file.url).st_size for file in found]
    assert names(expand(f"file://{below}/{pattern}", Sources()), f"file://{below}") == globbed(below, pattern)


@pytest.mark.parametrize("pattern", ["*.fits", "d?/*.fits", "**/a.fits"])
def test_a_pattern_matches_the_same_elsewhere(below, served, remembered, pattern):
    assert names(expand(f"{remembered}/{pattern}", Sources()), remembered) == globbed(below, pattern)
    assert names(expand(f"{served}/{pattern}", Sources()), served) == globbed(below, pattern)


def test_a_directory_stands_for_all_below_it(below, served, remembered):
    assert names(expand(str(below), Sources()), below) == sorted(TREE)
    assert names(expand(f"{remembered}/", Sources()), remembered) == sorted(TREE)
    assert names(expand(f"{served}/d1/", Sources()), f"{served}/d1") == ["a.fits", "e/f.fits", "x%20y"]
    assert [file.name for file in expand(f"{served}/d1/", Sources())] == ["d1/a.fits", "d1/e/f.fits", "d1/x y"]


def test_relative_words_stay_relative(below, monkeypatch):
    monkeypatch.chdir(below)
    assert [file.url for file in expand("*.txt", Sources())] == ["c.txt"]
    assert [file.url for file in expand("d1/e", Sources())] == ["d1/e/f.fits"]


def test_a_path_below_the_first_wildcard_or_the_directorys_parent_is_kept(below):
    assert [file.name for file in expand(f"{below}/d*/a.fits", Sources())] == ["d1/a.fits", "d2/a.fits"]
    assert [file.name for file in expand(f"{below}/d1/e/", Sources())] == ["e/f.fits"]
    assert [file.name for file in expand(f"{below}/a.fits", Sources())] == ["a.fits"]


def test_a_file_whose_name_has_a_wildcard_is_itself(below):
    (below / "odd[1].fits").write_bytes(b"x")
    assert [file.url for file in expand(f"{below}/odd[1].fits", Sources())] == [f"{below}/odd[1].fits"]


@pytest.mark.parametrize("word", ["{below}/*.nc", "{below}/none/*.fits", "{below}/none/", "memory://nothing/*.fits"])
def test_what_matches_nothing_is_one_clear_error(below, word):
    with pytest.raises(SourceError, match=r"matches no file: check it|isn't there: check the URL"):
        expand(word.format(below=below), Sources())


def test_a_bucket_is_no_pattern():
    with pytest.raises(ConfigError, match="can't be a pattern"):
        expand("s3://survey-*/a.fits", Sources())


def test_a_pattern_in_a_plan_is_each_of_its_files_once_and_the_target_is_no_source(below):
    (below / "bb").mkdir()
    (below / "bb" / "staged.fits").write_bytes(b"x")
    steps = plan_of_sources([f"{below}/a.fits", f"{below}/*.fits", f"{below}/*/*.fits"])
    (step,), found = expand_plan(steps, Sources(), below / "bb")
    urls = [file.url.removeprefix(f"{below}/") for file in step.task.inputs]
    assert urls == ["a.fits", "b.fits", "d1/a.fits", "d2/a.fits"]
    assert list(found.values()) == urls


def test_a_pattern_has_no_checksum(below, tmp_path):
    (tmp_path / "plan.json").write_text(f'[{{"inputs": {{"url": "{below}/*.fits", "checksum": "md5:0"}}}}]')
    with pytest.raises(ConfigError, match="stands for several files"):
        expand_plan(read_plan(tmp_path / "plan.json"), Sources(), tmp_path)


@pytest.fixture
def staged(tmp_path):
    """Two staged files, by URL and place."""
    places = {}
    for name in ("one", "two"):
        place = tmp_path / "bb" / "files" / f"id-{name}" / "x.dat"
        place.parent.mkdir(parents=True)
        place.write_text(name)
        places[f"/data/{name}/x.dat"] = place
    return places


NAMES = {"/data/one/x.dat": "one/x.dat", "/data/two/x.dat": "two/x.dat"}


def test_a_tree_of_links_leads_to_the_files_also_where_it_was_before(staged, tmp_path):
    for _ in range(2):
        tree = link_tree(tmp_path / "bb", NAMES, staged)
        assert {path.relative_to(tree).as_posix(): path.read_text() for path in tree.glob("*/*")} == {
            "one/x.dat": "one",
            "two/x.dat": "two",
        }


def test_links_to_what_has_gone_go_and_nothing_else(staged, tmp_path):
    tree = link_tree(tmp_path / "bb", NAMES, staged)
    (tree / "two" / "mine").write_text("mine")
    (tree / "elsewhere").symlink_to("/nowhere")
    for place in staged.values():
        place.unlink()
    unlink_gone(tmp_path / "bb")
    assert sorted(path.relative_to(tree).as_posix() for path in tree.rglob("*")) == ["elsewhere", "two", "two/mine"]


def test_a_file_of_the_users_in_the_tree_is_not_replaced(staged, tmp_path):
    mine = tmp_path / "bb" / "tree" / "one" / "x.dat"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(ConfigError, match="is there and isn't ours"):
        link_tree(tmp_path / "bb", NAMES, staged)
    assert mine.read_text() == "mine"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"/a/x": "x", "/b/x": "x"}, "would both be x in the tree"),
        ({"/a/x": "x", "/b/x/y": "x/y"}, "would lie below /a/x"),
        ({"s3://b/../x": "../x"}, "has no place in a tree"),
        ({"s3://b//x": "/x"}, "has no place in a tree"),
    ],
)
def test_names_that_cannot_lie_in_one_tree_are_refused(found, words):
    with pytest.raises((ConfigError, SourceError), match=words):
        check_names(found)


def test_the_listing_has_one_line_for_each_file_whatever_its_name(tmp_path):
    folder = tmp_path / "files" / ("0" * 24)
    folder.mkdir(parents=True)
    places = {f"/pfs/{name}": folder / name for name in ("a\tb", "a\nb", "a\\nb", "a\rb", "a\x0cb")}
    for place in places.values():
        place.touch()
    for _ in range(2):
        written = write_listing(tmp_path, places).read_bytes().decode()
        assert written.count("\n") == written.count("\t") == len(places)
    assert f"/pfs/a\\nb\t{folder}/a\\nb\n" in written
    assert written == write_listing(tmp_path, {}).read_bytes().decode()


def test_the_listing_keeps_what_is_still_there(staged, tmp_path):
    first, second = staged.items()
    write_listing(tmp_path / "bb", dict([first]))
    write_listing(tmp_path / "bb", dict([second]))
    lines = (tmp_path / "bb" / LISTING).read_text().splitlines()
    assert lines == [f"{url}\t{place}" for url, place in staged.items()]
    first[1].unlink()
    write_listing(tmp_path / "bb", {})
    assert (tmp_path / "bb" / LISTING).read_text() == f"{second[0]}\t{second[1]}\n"


def test_what_is_no_file_is_told_of_where_it_was_meant(below, capsys):
    whole = [file.name for file in expand(str(below), Sources())]
    os.mkfifo(below / "pipe")
    for link, target in (("device", "/dev/null"), ("nothing", "nowhere"), ("loop", "loop"), ("d1/up", "..")):
        (below / link).symlink_to(target)
    assert [file.name for file in expand(str(below), Sources())] == whole
    assert sorted(capsys.readouterr().err.splitlines()) == [
        f"bbflow: '{below}/d1/up' is left out: links to directories aren't followed here",
        f"bbflow: '{below}/device' is left out: it isn't a regular file",
        f"bbflow: '{below}/loop' is left out: it is a link to nothing",
        f"bbflow: '{below}/nothing' is left out: it is a link to nothing",
        f"bbflow: '{below}/pipe' is left out: it isn't a regular file",
    ]
    assert [file.name for file in expand(f"{below}/?.fits", Sources())] == ["a.fits", "b.fits"]
    assert [file.name for file in expand(f"{below}/**/*.fits", Sources())] == [
        name for name in sorted(TREE) if name.endswith(".fits") and "." not in name[0] and "/." not in name
    ]
    assert capsys.readouterr().err == ""
    with pytest.raises(SourceError, match="matches no file"):
        expand(f"{below}/pip*", Sources())
    assert "pipe' is left out" in capsys.readouterr().err

"""What is on a shelf, and what only lies beside it."""

import hashlib
import os
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given

from bbflow.errors import ConfigError
from bbflow.staging.files import File
from bbflow.staging.shelf import Note, Shelf
from testsupport.foreign import assert_untouched, foreign_paths, plant

URLS = ("s3://source/kept.dat", "s3://source/half.dat", "s3://source/removed.dat", "/pfs/made.dat")
KEPT, HALF, REMOVED, MADE = URLS
IDENTITIES = [hashlib.sha256(url.encode()).hexdigest()[:24] for url in URLS]
FOLDERS = ("", "notes", "partial", "files", *(f"files/{identity}" for identity in IDENTITIES))
OTHER_NAMES = (*(f"{identity}.txt" for identity in IDENTITIES), "0" * 24, f"{'0' * 24}.json")


@pytest.fixture
def shelf(tmp_path):
    with closing(Shelf(tmp_path)) as shelf:
        yield shelf


def copy(shelf, url, *, whole=True):
    shelf.write_note(Note(url, 4, "1"))
    shelf.partial(url).write_bytes(b"copy")
    if whole:
        shelf.finish(url)


@given(foreign_paths(*FOLDERS, names=OTHER_NAMES))
def test_files_of_others_stay_whatever_is_staged_beside_them(paths):
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        planted = plant(directory, paths)
        with closing(Shelf(directory)) as shelf:
            for url in (KEPT, REMOVED):
                copy(shelf, url)
            copy(shelf, HALF, whole=False)
            shelf.make_room_for(MADE).write_bytes(b"made")
            shelf.remove(REMOVED)
        with closing(Shelf(directory)) as shelf:
            assert set(shelf.found()) == {File(KEPT, 4), File(HALF, 4)}
            for url in URLS:
                shelf.remove(url)
        assert_untouched(planted)
        assert {path for path in directory.rglob("*") if path.is_file()} == {*planted, directory / "lock"}


@pytest.mark.parametrize("whose", ["", "files", "notes", "partial"])
def test_nothing_is_staged_where_another_user_could_change_it(tmp_path, whose):
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory to another user")
    (tmp_path / "bb" / whose).mkdir(parents=True)
    os.chown(tmp_path / "bb" / whose, 4321, 4321)
    with pytest.raises(ConfigError, match="belongs to another user"):
        Shelf(tmp_path / "bb")


@pytest.mark.parametrize("name", ["", "files", "notes", "partial"])
def test_nothing_is_staged_where_all_may_write(tmp_path, name):
    (tmp_path / name).mkdir(exist_ok=True)
    (tmp_path / name).chmod(0o777)
    with pytest.raises(ConfigError, match="can be written by all users"):
        Shelf(tmp_path)


def test_it_may_lie_where_all_may_write_only_what_is_their_own(tmp_path):
    tmp_path.chmod(0o1777)
    Shelf(tmp_path).close()


def test_it_is_made_for_its_user_whatever_the_umask(tmp_path):
    umask = os.umask(0)
    try:
        Shelf(tmp_path / "bb").close()
        Shelf(tmp_path / "bb").close()
    finally:
        os.umask(umask)


@pytest.mark.parametrize(
    ("url", "name"),
    [("/pfs/q?x.dat", "q?x.dat"), ("s3://b/q?x.dat", "q?x.dat"), ("https://h/q.dat?token=1", "q.dat"), ("/", "file")],
)
def test_a_file_has_the_name_of_its_source_without_a_query(shelf, url, name):
    assert shelf.path(url).name == name


def test_what_a_task_of_an_earlier_life_made_is_no_copy(shelf, tmp_path):
    shelf.make_room_for(MADE).write_bytes(b"half of it")
    shelf.make_room_for(KEPT)
    assert list(shelf.found()) == []
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["lock"]


def test_a_note_that_names_another_file_removes_nothing(shelf):
    """A directory that was copied, or a note that was written by hand."""
    copy(shelf, KEPT)
    (shelf.directory / "notes" / f"{IDENTITIES[0]}.json").rename(shelf.directory / "notes" / f"{IDENTITIES[1]}.json")
    assert list(shelf.found()) == []
    assert shelf.path(KEPT).read_bytes() == b"copy"

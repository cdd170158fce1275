"""What is ours in a directory is removed, and what isn't stays."""

import errno
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbflow.errors import ConfigError
from bbflow.host import belongings
from bbflow.host.belongings import MARK, claim, clear, foreign, is_made, locked, make, remove, remove_begun
from testsupport.foreign import assert_untouched, foreign_paths, plant

OURS = ("pool", "state/*.[01]", "store/**/zarr.json", "store/**/c/**", "scratch/**", "figures/a.png")
FILES = ("pool", "state/x.0", "state/y.1", "store/zarr.json", "store/t/zarr.json", "store/t/c/0/1", "scratch/a/b/c")
FOLDERS = ("", "state", "store", "store/t", "figures", "pool", "zarr.json", "c")


def put(directory, files=FILES):
    for file in files:
        (directory / file).parent.mkdir(parents=True, exist_ok=True)
        (directory / file).write_text("ours")


@given(foreign_paths(*FOLDERS, names=("c", "0", "pool.txt", "x.2")), st.booleans())
def test_files_of_others_stay_beside_and_inside(paths, made):
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name, "own")
        make(directory, *OURS) if made else claim(directory, *OURS)
        put(directory)
        planted = plant(directory, paths) + plant(directory.parent, [path for path in paths if path.parts[0] != "own"])
        inside = {path for path in planted if path.is_relative_to(directory)}
        tops = {item.split("/")[0] for item in OURS if "/" in item}
        among = {path for path in inside if made or path.relative_to(directory).parts[0] in tops}
        assert {path for path in among if not any(path.is_relative_to(found) for found in foreign(directory))} == set()
        assert len(list(foreign(directory))) <= len(among)
        remove(directory) if made else clear(directory)
        assert_untouched(planted)
        left = {path for path in directory.rglob("*") if path.is_file()} if directory.exists() else set()
        assert left - {directory / MARK} == inside
        assert directory.exists() == (not made or bool(inside))


@given(foreign_paths(*FOLDERS))
def test_nothing_is_taken_over_that_is_there_already(paths):
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        planted = plant(directory, paths)
        with pytest.raises(ConfigError, match="isn't empty, and bbflow didn't make it"):
            make(directory, *OURS)
        taken = {path.relative_to(directory).parts[0] for path in planted} & {item.split("/")[0] for item in OURS}
        if taken:
            with pytest.raises(ConfigError, match="is in the way, and bbflow didn't make it"):
                claim(directory, *OURS)
            assert not (directory / MARK).exists()
        for act in (clear, remove):
            act(directory)
        assert_untouched(planted)


def test_what_was_claimed_is_claimed_again_and_more_beside_it(tmp_path):
    claim(tmp_path, "figures/a.png")
    put(tmp_path, ["figures/a.png"])
    claim(tmp_path, "figures/a.png", "figures/b.png")
    (tmp_path / "figures/c.png").touch()
    with pytest.raises(ConfigError, match=r"c\.png is in the way"):
        claim(tmp_path, "figures/c.png")
    put(tmp_path, ["figures/b.png"])
    clear(tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [MARK, "c.png"]


def test_a_copy_of_a_directory_of_ours_is_its_owner_s(tmp_path):
    make(tmp_path / "own", "**")
    put(tmp_path / "own")
    shutil.copytree(tmp_path / "own", tmp_path / "kept")
    assert not is_made(tmp_path / "kept")
    remove(tmp_path / "kept")
    assert (tmp_path / "kept/pool").exists()


def test_a_directory_whose_mark_was_begun_is_made_or_removed_by_the_next(tmp_path):
    begun, noted = tmp_path / "begun", tmp_path / "noted"
    for directory in (begun, noted):
        directory.mkdir()
        (directory / MARK).touch()
    make(begun, *OURS)
    assert is_made(begun)
    remove_begun(begun)
    remove_begun(noted)
    remove_begun(tmp_path / "none")
    assert list(tmp_path.iterdir()) == [begun]
    (tmp_path / "theirs").mkdir()
    planted = plant(tmp_path / "theirs", [Path("a"), Path(MARK)])
    remove_begun(tmp_path / "theirs")
    assert_untouched(planted)


def test_what_is_written_while_a_directory_is_removed_goes_with_it(tmp_path, monkeypatch):
    directory, late = tmp_path / "node", ["state/8.0", "state/9.0"]
    make(directory, *OURS)
    put(directory, FILES[:3])
    rmdir = Path.rmdir

    def written_before(path):
        if late and path.name == "state":
            put(directory, [late.pop()])
        rmdir(path)

    monkeypatch.setattr(Path, "rmdir", written_before)
    remove(directory)
    assert not late
    assert not directory.exists()


def test_links_are_not_followed(tmp_path):
    (tmp_path / "theirs").mkdir()
    put(tmp_path / "theirs")
    make(tmp_path / "own", "**")
    (tmp_path / "own" / "link").symlink_to(tmp_path / "theirs")
    remove(tmp_path / "own")
    assert not (tmp_path / "own").exists()
    assert (tmp_path / "theirs/pool").read_text() == "ours"


def test_one_process_works_in_a_directory_at_a_time(tmp_path):
    claim(tmp_path, "pool")
    with locked(tmp_path, "it is taken"):
        clear(tmp_path)
        with pytest.raises(ConfigError, match="it is taken"), locked(tmp_path, "it is taken"):
            pass
    with locked(tmp_path, "it is taken"):
        pass


def test_a_directory_that_all_users_can_write_is_not_made_ones_own(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(ConfigError, match="chmod o-w"):
        make(tmp_path / "open", "*")


def test_a_mark_that_is_a_link_is_not_written_through(tmp_path):
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / ".bbflow").symlink_to(tmp_path / "kept")
    with pytest.raises(OSError, match="symbolic links"):
        claim(tmp_path / "shared", "*.zarr")
    assert (tmp_path / "kept").read_text() == "kept"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes another user's file")
def test_a_mark_that_another_user_leaves_where_all_may_write_removes_nothing(tmp_path):
    shared = tmp_path / "shared"
    claim(shared, "pool")
    put(shared, ["pool", "mine/a"])
    mark = shared / MARK
    mark.write_text(mark.read_text() + "**\n")
    shared.chmod(0o1777)
    os.chown(shared, 1001, 1001)  # root's word and the directory's owner's would count
    os.chown(mark, 1002, 1002)
    clear(shared)
    assert (shared / "pool").exists()
    assert (shared / "mine/a").exists()
    with pytest.raises(ConfigError, match="isn't a mark of this user's"):
        claim(shared, "more")


def test_a_mark_that_can_not_be_read_now_does_not_make_what_is_ours_anothers(tmp_path, monkeypatch):
    claim(tmp_path, "pool")
    (tmp_path / "pool").touch()

    def failing(path, flags):
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    monkeypatch.setattr(belongings, "_unlinked", failing)
    with pytest.raises(OSError, match="Input/output error"):
        claim(tmp_path, "pool")


def test_a_pipe_in_a_marks_place_holds_nobody_up(tmp_path):
    os.mkfifo(tmp_path / MARK)
    clear(tmp_path)
    with pytest.raises(ConfigError, match="isn't a mark of this user's"):
        claim(tmp_path, "pool")

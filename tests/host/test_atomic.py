"""Files appear whole or not at all, and nothing is left beside them."""

import errno
import stat
import threading

import pytest

from bbflow.errors import describe
from bbflow.host.atomic import beside, replacing, write_whole


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "a.json"
    for content in ("old", b"new \xff"):
        write_whole(path, content)
    assert path.read_bytes() == b"new \xff"
    assert list(tmp_path.iterdir()) == [path]


def test_what_breaks_off_leaves_what_was_there(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(RuntimeError), replacing(path) as temporary:  # noqa: PT012 - it is one story
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_can_not_be_written_is_named(tmp_path):
    path = tmp_path / "a"
    for refused, said in (
        (OSError(errno.ENOSPC, "full"), "full"),
        (OSError("8 requested and 0 written"), "8 requested"),
    ):
        with pytest.raises(OSError, match=said) as caught, replacing(path):
            raise refused
        assert describe(caught.value).startswith(f"{path}: {said}")


def test_a_private_file_was_never_anything_else(tmp_path):
    write_whole(tmp_path / "key", "secret", 0o600)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_threads_that_write_one_file_leave_one_of_their_contents(tmp_path):
    path = tmp_path / "a"
    contents = [str(number) * 10_000 for number in range(8)]

    def write(content):
        for _ in range(50):
            write_whole(path, content)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() in contents
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_that_waits_under_the_hidden_name_is_not_written_through(tmp_path):
    (tmp_path / "kept").write_text("kept")
    beside(tmp_path / "file").symlink_to(tmp_path / "kept")
    write_whole(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert (tmp_path / "kept").read_text() == "kept"

import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from bbflow_parsl.outputs import Outputs


class Desk:
    """Outputs of 100 bytes of room over a real directory, copied by real threads."""

    def __init__(self, root, threads):
        self.pfs = root / "pfs"
        self.pfs.mkdir()
        self.threads = threads
        self.copies = []
        self.outputs = Outputs(root / "bb", 100, self._stage_out)

    def _stage_out(self, path, url):
        self.copies.append(Path(url).name)
        return self.threads.submit(shutil.copy, path, url)

    def url(self, name):
        return str(self.pfs / name)

    def write(self, name, content, is_result=False, reuse=False):
        """Do as a task that writes a file and ends."""
        writer = Future()
        place = self.outputs.place(self.url(name), name, writer, is_result, reuse)
        if content is not None:
            place.path.write_text(content)
        writer.set_result(None)
        return place

    def on_pfs(self):
        return {path.name: path.read_text() for path in self.pfs.iterdir()}


@pytest.fixture
def desk(tmp_path):
    with ThreadPoolExecutor(2) as threads:
        yield Desk(tmp_path, threads)


def test_what_fits_stays(desk):
    desk.write("a", "a" * 50)
    desk.write("b", "b" * 50)
    desk.outputs.wait()
    assert desk.outputs.used_bytes == 100
    assert not desk.copies


def test_the_oldest_goes_to_its_own_place_when_there_is_no_room(desk):
    places = [desk.write(name, name * 60) for name in "abc"]
    desk.outputs.wait()
    assert desk.on_pfs() == {"a": "a" * 60, "b": "b" * 60}
    assert [place.path.exists() for place in places] == [False, False, True]
    assert desk.outputs.hold(desk.url("a")) is None


def test_what_is_held_stays_until_it_is_released(desk):
    desk.write("a", "a" * 60)
    place = desk.outputs.hold(desk.url("a"))
    desk.write("b", "b" * 60)
    desk.outputs.wait()
    assert place.path.read_text() == "a" * 60
    assert list(desk.on_pfs()) == ["b"]
    desk.write("c", "c" * 60)
    desk.outputs.release(place)
    desk.outputs.wait()
    assert desk.outputs.used_bytes == 60


def test_a_result_that_has_been_staged_out_goes_without_a_copy(desk):
    desk.write("a", "a" * 60, is_result=True).staged_out.result(300)
    desk.write("b", "b" * 60)
    desk.outputs.wait()
    assert desk.copies == ["a"]
    assert desk.outputs.used_bytes == 60


def test_a_file_that_is_made_anew_replaces_the_old_one(desk):
    old = desk.write("a", "old")
    held = desk.outputs.hold(desk.url("a"))
    new = desk.write("a", "new")
    assert (old.path.read_text(), new.path.read_text()) == ("old", "new")
    desk.outputs.release(held)
    assert not old.path.exists()
    assert desk.outputs.hold(desk.url("a")) is new


def test_an_old_version_is_never_staged_out_over_the_new_one(desk):
    desk.write("a", "old" * 20)
    held = desk.outputs.hold(desk.url("a"))
    desk.write("a", "new" * 20)
    desk.write("b", "b" * 60)
    desk.outputs.release(held)
    desk.outputs.wait()
    assert desk.on_pfs().get("a") in (None, "new" * 20)


def test_a_file_that_cant_be_staged_out_is_kept_and_tried_once(desk):
    desk.pfs.rmdir()
    place = desk.write("a", "a" * 101)
    desk.outputs.wait()
    assert place.path.exists()
    assert desk.copies == ["a"]


def test_a_result_that_cant_be_staged_out_says_so_in_its_future(desk):
    desk.pfs.rmdir()
    with pytest.raises(FileNotFoundError):
        desk.write("a", "a", is_result=True).staged_out.result(300)


def test_a_task_that_starts_without_room_writes_to_the_files_own_place(desk):
    desk.write("a", "a" * 100)
    held = desk.outputs.hold(desk.url("a"))
    writer = Future()
    place = desk.outputs.place(desk.url("new/b"), "b", writer, False, False)
    assert not desk.outputs.reserve(place, 0)
    Path(place.url).write_text("b")
    writer.set_result(None)
    assert desk.outputs.hold(desk.url("new/b")) is None
    assert desk.outputs.publish(desk.url("new/b")).done()
    desk.outputs.release(held)


def test_with_room_nothing_is_written_elsewhere(desk):
    place = desk.outputs.place(desk.url("b"), "b", Future(), False, False)
    assert desk.outputs.reserve(place, 0)


def test_a_task_that_the_memoiser_knows_finds_its_file_in_place(desk):
    first = desk.write("a", "a", is_result=True)
    first.staged_out.result(300)
    again = desk.write("a", None, is_result=True, reuse=True)
    assert again is first
    again.staged_out.result(300)
    assert desk.copies == ["a"]


def test_a_task_that_runs_again_in_the_same_place_is_staged_out_again(desk):
    desk.write("a", "a", is_result=True).staged_out.result(300)
    desk.write("a", "anew", is_result=True, reuse=True).staged_out.result(300)
    assert desk.on_pfs() == {"a": "anew"}


def test_a_task_that_made_nothing_leaves_nothing(desk):
    place = desk.write("a", None)
    place.written.result(300)
    assert desk.outputs.hold(desk.url("a")) is None
    assert desk.outputs.used_bytes == 0

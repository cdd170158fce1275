"""What goes to the shared storage while it refuses, names change and IOnodes come and go: no object loses its name."""

import errno
from contextlib import contextmanager

import pytest
from test_master import NODE, ONE
from test_master_restart import SIZE, Killed, uploaded

from bbflow.errors import SourceError
from bbflow.files.commands import STOPPED, StopCommand, UploadCommand
from bbflow.files.ionode.commanded import Transfers
from bbflow.files.ionode.storage import Storage
from bbflow.files.pieces import Pieces
from bbflow.stores.sources import Sources
from testsupport.stored import facts_of


@pytest.fixture
def bench(tmp_path):
    bench = Killed(tmp_path)
    bench.enter(ONE)
    return bench


def refuse(bench, command):
    bench.answer(command, ok=False, errno=errno.EIO, error="not now")


def answer_all(bench):
    for _ in range(50):
        if not bench.commands:
            return
        bench.answer(bench.commands.pop(0), facts=[SIZE, "1"])
    pytest.fail(f"there are more and more commands: {bench.commands}")


def exchange(bench, one, other):
    root = bench.root
    said = bench.say(ONE, "rename", parent=root, name=one, to_parent=root, to_name=other, flags="exchange")
    assert said["ok"]


def flushed(bench):
    return bench.say(ONE, "flush", path="", wait_s=0)


def test_a_move_that_the_storage_refuses_is_tried_again_and_to_the_same_name(bench):
    uploaded(bench, "f.part")
    assert bench.rename("f.part", "f")
    refuse(bench, bench.command("move"))
    assert bench.commands == []
    assert flushed(bench)["failed"] == [["f", "not now"]]
    bench.wait(11.0)
    move = bench.command("move")
    assert (move["path"], move["to"]) == ("f.part", "f")
    bench.answer(move, facts=[SIZE, "1"])
    said = flushed(bench)
    assert (said["left"], said["failed"]) == (0, [])


def test_a_move_that_may_have_been_done_is_repeated_before_the_file_is_moved_on(bench):
    uploaded(bench, "f")
    assert bench.rename("f", "g")
    refuse(bench, bench.command("move"))
    assert bench.rename("g", "h")
    assert bench.commands == []
    bench.wait(11.0)
    move = bench.command("move")
    assert (move["path"], move["to"], move["facts"]) == ("f", "g", [SIZE, "1"])
    bench.answer(move, facts=[SIZE, "1"])
    assert bench.command("move")["to"] == "h"


def test_a_move_that_was_not_done_does_not_keep_the_file_from_another_name(bench):
    uploaded(bench, "f")
    assert bench.rename("f", "g")
    bench.answer(bench.command("move"), ok=False, errno=errno.EEXIST, error="not there")
    assert bench.rename("g", "h")
    move = bench.command("move")
    assert (move["path"], move["to"]) == ("f", "h")
    bench.answer(move, facts=[SIZE, "1"])
    assert (flushed(bench)["left"], flushed(bench)["failed"]) == (0, [])


def test_a_file_whose_object_someone_has_removed_is_written_back_under_its_other_name(bench):
    uploaded(bench, "f")
    assert bench.rename("f", "g")
    bench.answer(bench.command("move"), ok=False, errno=errno.ENOENT, error="f isn't there")
    bench.wait(11.0)
    upload = bench.command("upload")
    assert upload["path"] == "g"
    bench.answer(upload, facts=[SIZE, "1"])
    assert (flushed(bench)["left"], flushed(bench)["failed"]) == (0, [])
    assert bench.commands == []


def test_a_failed_attempt_is_told_of_while_the_node_still_tries(bench):
    bench.close_file(bench.root, "f")
    upload = bench.command("upload")
    for number in (1, 2):
        bench.answer(upload, done=False, error=f"not now, {number}")
        assert bench.say(ONE, "status")["failed"] == [["f", f"not now, {number}", number]]
        assert flushed(bench)["failed"] == [["f", f"not now, {number}"]]
        bench.wait(60.0)
        assert bench.commands == []
    refuse(bench, upload)
    assert bench.say(ONE, "status")["failed"] == [["f", "not now", 3]]
    bench.wait(11.0)
    bench.answer(bench.command("upload"), facts=[SIZE, "1"])
    assert bench.say(ONE, "status")["failed"] == []


def test_a_file_whose_object_has_its_old_name_is_not_counted_as_clean(bench):
    uploaded(bench, "f.part")
    assert bench.say(ONE, "status")["files"] == {"clean": [1, SIZE]}
    assert bench.rename("f.part", "f")
    assert bench.say(ONE, "status")["files"] == {"moving": [1, SIZE]}
    bench.answer(bench.command("move"), facts=[SIZE, "1"])
    assert bench.say(ONE, "status")["files"] == {"clean": [1, SIZE]}


def test_two_files_that_change_places_both_get_there_though_one_was_written_anew(bench):
    uploaded(bench, "a")
    uploaded(bench, "b")
    exchange(bench, "a", "b")
    for _ in range(3):  # one object steps aside, the other takes its place, the first takes the other's
        bench.answer(bench.command("move"), facts=[SIZE, "1"])
    assert bench.commands == []
    exchange(bench, "a", "b")
    aside = bench.command("move")
    rewrite(bench, "b")
    bench.answer(aside, facts=[SIZE, "1"])
    answer_all(bench)
    assert flushed(bench)["left"] == 0


def rewrite(bench, name):
    ino = bench.say(ONE, "lookup", parent=bench.root, name=name)["attr"]["ino"]
    opened = bench.say(ONE, "open", ino=ino, write=True, truncate=True)
    bench.say(ONE, "room", node="io", bytes=SIZE)
    bench.say(ONE, "commit", handle=opened["handle"], size=SIZE, pieces=[[opened["version"], SIZE]])
    bench.say(ONE, "close", handle=opened["handle"])


def test_files_that_were_written_anew_after_they_changed_places_do_not_wait_for_each_other(bench):
    uploaded(bench, "a")
    uploaded(bench, "b")
    rewrite(bench, "a")
    rewrite(bench, "b")
    uploads = [bench.commands.pop(0) for _ in range(2)]
    exchange(bench, "a", "b")
    for upload in uploads:
        refuse(bench, upload)
    bench.wait(11.0)
    answer_all(bench)
    assert flushed(bench)["left"] == 0


def test_a_file_that_is_renamed_while_it_is_uploaded_is_not_uploaded_twice(bench):
    bench.close_file(bench.root, "f.part")
    upload = bench.command("upload")
    assert bench.rename("f.part", "f")
    assert bench.commands == []
    bench.answer(upload, facts=[SIZE, "1"])
    move = bench.command("move")
    assert (move["path"], move["to"]) == ("f.part", "f")


def test_what_is_refused_under_a_name_that_is_no_more_is_no_failure(bench):
    bench.close_file(bench.root, "f.part")
    refuse(bench, bench.command("upload"))
    assert bench.say(ONE, "status")["failed"]
    assert bench.rename("f.part", "f")
    bench.answer(bench.command("upload"), facts=[SIZE, "1"])
    bench.wait(11.0)
    bench.answer(bench.command("delete"))  # nobody knows what the refused one has left
    bench.wait(1.0)
    assert bench.say(ONE, "status")["failed"] == []


def test_an_ionode_that_only_lost_its_connection_goes_on_with_what_it_is_at(bench):
    bench.close_file(bench.root, "f")
    upload = bench.command("upload")
    bench.master.disconnect(NODE)
    bench.busy = {"f": upload["task"]}
    bench.join()
    assert bench.commands == []
    bench.answer(upload, facts=[SIZE, "1"])
    assert flushed(bench)["left"] == 0


def test_an_ionode_that_was_started_again_is_given_anew_what_it_was_at(bench):
    bench.close_file(bench.root, "f")
    bench.command("upload")
    bench.master.disconnect(NODE)
    bench.join()
    bench.answer(bench.command("upload"), facts=[SIZE, "1"])
    assert flushed(bench)["left"] == 0


def test_a_file_that_is_written_after_it_was_removed_is_nobodys(bench):
    made = bench.say(ONE, "create", parent=bench.root, name="f", mode=0o600, exclusive=True)
    if made is None:
        bench.scanned()
        made = bench.said[ONE]
    assert bench.say(ONE, "unlink", parent=bench.root, name="f")["ok"]
    bench.say(ONE, "room", node="io", bytes=SIZE)
    pieces = [[made["version"], SIZE]]
    assert bench.say(ONE, "commit", handle=made["handle"], size=SIZE, pieces=pieces, sync=True)["ok"]
    bench.say(ONE, "close", handle=made["handle"])
    assert bench.commands == []
    assert flushed(bench)["left"] == 0


def test_an_upload_is_given_up_when_its_file_is_removed(bench):
    bench.close_file(bench.root, "f")
    upload = bench.command("upload")
    assert bench.say(ONE, "unlink", parent=bench.root, name="f")["ok"]
    stop = bench.command("stop")
    assert stop["upload"] == upload["task"]
    bench.answer(stop)
    refuse(bench, upload)
    bench.answer(bench.command("delete"))  # nobody knows what the one that was given up has left
    assert flushed(bench)["left"] == 0
    assert bench.say(ONE, "status")["failed"] == []


def test_what_a_stopped_upload_would_have_replaced_goes_as_it_is_known(bench):
    uploaded(bench, "f")
    ino = bench.say(ONE, "lookup", parent=bench.root, name="f")["attr"]["ino"]
    assert bench.say(ONE, "setattr", ino=ino, size=0)["ok"]
    upload = bench.command("upload")
    assert bench.say(ONE, "unlink", parent=bench.root, name="f")["ok"]
    bench.answer(bench.command("stop"))
    bench.answer(upload, ok=False, errno=STOPPED, error="f has gone while it was written back")
    assert bench.command("delete")["facts"] == upload["over"] == [SIZE, "1"]


def test_an_ionode_gives_up_the_upload_that_it_is_told_to_and_no_other(tmp_path):
    storage = Storage(f"file://{tmp_path}/store")
    transfers = Transfers("io", Pieces(tmp_path / "pieces"), None, storage, dict, None)
    files = {
        number: UploadCommand(
            task=number, path=f"f{number}", size=100, pieces=(), piece_bytes=64, ring=(), replicas=1, over=None
        )
        for number in (1, 2)
    }
    transfers.quick[StopCommand](StopCommand(upload=1))
    with pytest.raises(OSError, match="f1 has gone") as stopped:
        transfers.slow[UploadCommand](files[1], lambda _: None)
    assert stopped.value.errno == STOPPED
    transfers.slow[UploadCommand](files[2], lambda _: None)
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["f2"]


def test_an_upload_that_is_stopped_after_its_bytes_have_gone_may_have_changed_what_is_there(tmp_path):
    """A client that sends its request once more, as an answer was lost, finds its own object: a conflict."""

    class Repeating(Sources):
        @contextmanager
        def create(self, url, size, over):
            with super().create(url, size, over) as target:
                yield target
            transfers.quick[StopCommand](StopCommand(upload=1))
            with super().create(url, size, over) as target:
                target.write(bytes(size))

    storage = Storage(f"file://{tmp_path}/store", store=Repeating())
    transfers = Transfers("io", Pieces(tmp_path / "pieces"), None, storage, dict, None)
    upload = UploadCommand(task=1, path="f", size=100, pieces=(), piece_bytes=64, ring=(), replicas=1, over=None)
    with pytest.raises(OSError, match="f has gone") as stopped:
        transfers.slow[UploadCommand](upload, lambda _: None)
    assert (tmp_path / "store/f").stat().st_size == upload.size
    assert stopped.value.errno != STOPPED


def test_a_file_that_would_be_too_large_is_refused(bench):
    bench.close_file(bench.root, "f")
    ino = bench.say(ONE, "lookup", parent=bench.root, name="f")["attr"]["ino"]
    assert bench.say(ONE, "setattr", ino=ino, size=(5 << 40) + 1)["errno"] == errno.EFBIG
    assert bench.say(ONE, "setattr", ino=ino, size=5 << 40)["ok"]


@pytest.fixture
def scratching(tmp_path):
    bench = Killed(tmp_path, scratch=("*.tmp",))
    bench.enter(ONE)
    return bench


def attr(bench, name):
    return bench.say(ONE, "lookup", parent=bench.root, name=name)["attr"]


def test_the_object_of_a_file_in_memory_goes_when_it_becomes_scratch_and_comes_when_it_is_none_again(scratching):
    uploaded(scratching, "f")
    assert scratching.rename("f", "f.tmp")
    assert attr(scratching, "f.tmp")["state"] == "scratch"
    scratching.answer(scratching.command("delete"))
    assert scratching.rename("f.tmp", "f")
    assert attr(scratching, "f")["state"] == "dirty"
    assert scratching.command("upload")["path"] == "f"


def test_a_file_that_only_the_storage_has_keeps_its_object_under_a_scratch_name(scratching):
    uploaded(scratching, "f")
    assert scratching.say(ONE, "evict", path="f")["bytes"] == SIZE
    assert scratching.rename("f", "f.tmp")
    move = scratching.command("move")
    assert (move["path"], move["to"]) == ("f", "f.tmp")
    assert scratching.commands == []
    scratching.answer(move, facts=[SIZE, "1"])
    assert attr(scratching, "f.tmp")["state"] == "cold"


def test_a_file_whose_node_is_away_keeps_its_object_under_a_scratch_name(scratching):
    uploaded(scratching, "f")
    scratching.master.disconnect(NODE)
    assert scratching.rename("f", "f.tmp")
    scratching.keys = []
    scratching.join()
    scratching.answer(scratching.command("have"), keys=[])
    assert scratching.command("move")["to"] == "f.tmp"
    assert attr(scratching, "f.tmp")["state"] == "cold"


def test_a_file_that_becomes_scratch_while_it_is_uploaded_leaves_no_object(scratching):
    scratching.close_file(scratching.root, "f")
    upload = scratching.command("upload")
    assert scratching.rename("f", "f.tmp")
    scratching.answer(upload, facts=[SIZE, "1"])
    assert scratching.command("delete")["path"] == "f"
    assert scratching.commands == []
    assert attr(scratching, "f.tmp")["state"] == "scratch"


def test_a_file_gets_the_name_of_directories_in_which_nothing_is_left(tmp_path):
    storage, store = Storage(f"file://{tmp_path}"), tmp_path
    for name in ("written", "moved"):
        (store / name / "a" / "b").mkdir(parents=True)
    (store / "f").write_bytes(b"12")
    assert storage.write("written", lambda: [b"1"], 1, None)[0] == 1
    assert storage.move("f", "moved", facts_of(store / "f"), None)[0] == 2
    assert {path.name: path.read_bytes() for path in store.iterdir()} == {"written": b"1", "moved": b"12"}


def test_directories_with_what_others_put_there_stay_where_a_file_would_have_their_name(tmp_path):
    (tmp_path / "d" / "empty").mkdir(parents=True)
    (tmp_path / "d" / "e").mkdir()
    (tmp_path / "d" / "e" / "foreign").touch()
    (tmp_path / "f").touch()
    storage = Storage(f"file://{tmp_path}")
    with pytest.raises(SourceError, match="Is a directory"):
        storage.write("d", lambda: [b"1"], 1, None)
    with pytest.raises(FileExistsError, match="Is a directory"):
        storage.move("f", "d", facts_of(tmp_path / "f"), None)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["d", "e", "empty", "f", "foreign"]


def test_an_object_whose_name_the_storage_can_not_have_is_removed_already(tmp_path):
    storage = Storage(f"file://{tmp_path}")
    storage.remove("x" * 300, (0, ""))
    (tmp_path / "f").touch()
    storage.remove("f/below", (0, ""))
    (tmp_path / "d").mkdir()
    storage.remove("d", (0, ""))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "f"]

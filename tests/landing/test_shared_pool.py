"""A node's pool and its files share one room: each has what the other doesn't need."""

import mmap
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bbflow.landing.writers import POOL_PATIENCE_S
from bbflow.store import shared_room
from bbflow.store.pool import map_pool
from bbflow.store.shared_pool import KEEP_S
from bbflow.store.shared_room import NodeRoom
from testsupport.peers import ANALYSIS, PAGE, STREAM, Bench

pytestmark = pytest.mark.timeout(600)  # a search

POOL, ALL = 16 * PAGE, 40 * PAGE


@pytest.fixture
def room(tmp_path):
    return NodeRoom(tmp_path / "room", ALL)


@pytest.fixture
def bench(tmp_path, room):
    """An agent whose pool has 16 of the 40 pages that it shares with files."""
    bench = Bench(tmp_path / "node", room=room)
    yield bench
    bench.store.close()


def backed_bytes(bench):
    return (bench.directory / "pool").stat().st_blocks * 512


def drop_stream(bench):
    epoch = bench.attach()["epoch"]
    assert bench.say(ANALYSIS, "drop", stream=STREAM, epoch=epoch)["ok"]


def test_without_a_stream_files_have_it_all_and_the_pool_no_page(bench, room):
    assert room.files_may(ALL) == ALL
    assert backed_bytes(bench) == 0
    assert bench.free_pages() == 16


def test_a_stream_waits_until_files_have_left_what_its_pool_needs(bench, room):
    room.files_may(ALL)
    bench.open()
    assert bench.begin(0, 0, 1) is None
    bench.expire()
    assert room.files_may(ALL) == ALL - POOL  # what they should give back
    bench.expire()
    assert backed_bytes(bench) == 0
    assert 0 not in bench.replies
    room.shrink_files(ALL - POOL)
    bench.expire()
    assert bench.replies[0]["extents"] == [[0, PAGE]]
    assert backed_bytes(bench) == POOL
    assert room.files_may(ALL) == ALL - POOL


def test_the_pool_is_given_back_some_time_after_its_last_stream(bench, room):
    bench.open()
    bench.expire()
    bench.land(0)
    bench.say(0, "close", steps=1)
    bench.wait(2 * KEEP_S)
    assert room.files_may(ALL) == ALL - POOL  # a step is still there
    drop_stream(bench)
    bench.expire()
    bench.wait(KEEP_S / 2)
    assert room.files_may(ALL) == ALL - POOL
    bench.wait(KEEP_S)
    assert (room.files_may(ALL), backed_bytes(bench)) == (ALL, 0)


def test_an_agent_that_finds_steps_has_their_pool_whatever_was_noted(bench, room):
    bench.open()
    bench.expire()
    extents = bench.land(0)
    room.give_pool_back()
    assert room.files_may(ALL) == ALL
    bench.reopen()
    assert room.files_may(ALL) == ALL - POOL
    assert bench.free_pages() == 15
    assert extents == [[0, PAGE]]


def test_an_agent_that_finds_only_an_offer_that_was_taken_has_its_pool(bench, room):
    opened = bench.open()
    bench.expire()
    epoch = bench.attach("fold")["epoch"]
    offered = bench.commit(0, 0, *bench.begin(0, 0, 1)["extents"], ahead=3)["extents"]
    bench.done(0, epoch)
    link = bench.directory / "offers" / opened["offer"]
    link.rename(f"{link}.taken")  # as an engine takes it
    ((offset, size),) = offered
    bench.store.pool()[offset : offset + size] = b"x" * size
    bench.reopen()
    assert bench.open(resume=True, settled=0)["extents"] == offered
    assert bytes(bench.store.pool()[offset : offset + size]) == b"x" * size
    assert (room.files_may(ALL), bench.free_pages()) == (ALL - POOL, 13)


def test_an_agent_that_finds_no_steps_leaves_the_pool_to_files(bench, room):
    bench.open()
    bench.expire()
    bench.say(0, "abort")
    drop_stream(bench)
    bench.reopen()
    assert (room.files_may(ALL), backed_bytes(bench)) == (ALL, 0)


def test_a_rank_that_would_rather_discard_waits_a_moment_for_the_pool(bench, room):
    room.files_may(ALL)
    bench.open(policy="Discard")
    assert bench.begin(0, 0, 1) is None
    bench.wait(POOL_PATIENCE_S)
    assert bench.replies[0]["status"] == "discard"


def test_files_and_pool_keep_to_their_room_when_its_file_is_removed(tmp_path, bench, room):
    files = NodeRoom(tmp_path / "room")
    assert files.files_may(ALL) == ALL
    (tmp_path / "room").unlink()
    bench.open()
    bench.expire()
    assert backed_bytes(bench) == 0  # files have not left it
    assert files.files_may(ALL) == ALL - POOL
    room.name_again()
    files = NodeRoom(tmp_path / "room")  # as an IOnode that is started again
    assert files.files_may(ALL) == ALL - POOL
    files.shrink_files(ALL - POOL)
    bench.expire()
    assert backed_bytes(bench) == POOL


def test_a_room_whose_file_is_removed_again_while_it_is_named_is_kept(tmp_path, room, monkeypatch):
    monkeypatch.setattr(shared_room, "write_whole", lambda *_: None)
    (tmp_path / "room").unlink()
    with pytest.raises(FileNotFoundError):
        room.name_again()
    assert room.files_may(ALL) == ALL


def test_mapping_a_pool_that_is_not_there_makes_no_pages(bench):
    mapped = map_pool(str(bench.directory / "pool"), is_backed=False)
    assert isinstance(mapped, mmap.mmap)
    assert backed_bytes(bench) == 0


class TwoSides(RuleBasedStateMachine):
    """Both sides ask and give as they like; the file is all that they know of each other."""

    def __init__(self):
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.room = NodeRoom(Path(self.directory.name) / "room", 10)
        self.pool = self.files = self.told = 0

    @rule(size=st.integers(1, 10))
    def claim(self, size):
        if not self.pool and self.room.claim_pool(size):
            self.pool = size

    @rule()
    def give_back(self):
        self.room.give_pool_back()
        self.pool = 0

    @rule(most=st.integers(0, 10))
    def files_look(self, most):
        self.told = self.room.files_may(most)
        self.files = max(self.files, self.told)

    @rule()
    def files_shrink(self):
        self.files = min(self.files, self.told)
        self.room.shrink_files(self.told)

    @invariant()
    def the_bound_holds(self):
        assert self.pool + self.files <= 10

    def teardown(self):
        self.directory.cleanup()


TestTwoSides = TwoSides.TestCase
TestTwoSides.settings = settings(stateful_step_count=25)

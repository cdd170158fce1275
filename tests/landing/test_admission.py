import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bbflow.landing.admission import find_room, largest_gap
from testsupport.peers import ANALYSIS, PAGE, STREAM, Bench

STEPS = 4


class Run:
    """Several ranks that write a few steps, each as fast as it may, with a fold that keeps up."""

    def __init__(self, directory, sizes, pages):
        self.bench = Bench(Path(directory), pages)
        self.epoch = self.bench.attach("fold")["epoch"]
        self.sizes = sizes
        for rank in range(len(sizes)):
            assert self.bench.open(rank, writers=len(sizes))["ok"]
        self.step = [0] * len(sizes)
        self.inside = [False] * len(sizes)
        self.waiting = [False] * len(sizes)

    def can_move(self):
        for rank, waiting in enumerate(self.waiting):
            if waiting and rank in self.bench.replies:
                self.waiting[rank], self.inside[rank] = False, True
        return [rank for rank, step in enumerate(self.step) if step < STEPS and not self.waiting[rank]]

    def refused(self):
        return [reply["error"] for reply in self.bench.replies.values() if not reply["ok"]]

    def move(self, rank):
        step = self.step[rank]
        if not self.inside[rank]:
            self.waiting[rank] = self.bench.begin(rank, step, self.sizes[rank]) is None
            self.inside[rank] = not self.waiting[rank]
            return
        self.bench.commit(rank, step, *self.bench.replies[rank]["extents"])
        self.inside[rank], self.step[rank] = False, step + 1
        self.bench.done(min(self.step) - 1, self.epoch)


def run_all(sizes, pages, choose):
    """Move ranks in any order; return the errors that they got."""
    with tempfile.TemporaryDirectory() as directory:
        run = Run(directory, sizes, pages)
        while not (refused := run.refused()) and min(run.step) < STEPS:
            movable = run.can_move()
            assert movable, f"deadlock: steps {run.step} of ranks with {sizes} pages in {pages}"
            assert 0 <= run.bench.free_pages() <= pages
            run.move(choose(movable))
        if not refused:
            assert run.bench.free_pages() == pages
        run.bench.store.close()
    return refused


@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 6), st.randoms(use_true_random=False))
def test_equal_ranks_never_lock_each_other_out_however_they_interleave(ranks, size, spare, random):
    assert run_all([size] * ranks, ranks * size + spare, random.choice) == []


@given(st.lists(st.integers(1, 5), min_size=2, max_size=4), st.integers(0, 6), st.randoms(use_true_random=False))
def test_unequal_ranks_end_or_are_told_but_never_hang(sizes, spare, random):
    for error in run_all(sizes, sum(sizes) + spare, random.choice):
        assert "give the node more capacity" in error


@settings(max_examples=40)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_a_step_above_the_capacity_is_an_error_in_any_order(sizes, random):
    (*_, error) = run_all(sizes, sum(sizes) - 1, random.choice) or [""] if sum(sizes) > 1 else ["its capacity is"]
    assert "its capacity is" in error


def test_the_error_of_a_too_large_step_names_both_numbers(bench):
    bench.open()
    error = bench.begin(0, 0, 17)["error"]
    assert "step 0 needs 68 KiB or more on one BB node, but its capacity is 64 KiB" in error


def test_a_step_that_is_too_large_only_with_what_others_committed_is_an_error(bench):
    for rank in (0, 1):
        bench.open(rank, writers=2)
    bench.commit(0, 0, *bench.begin(0, 0, 10)["extents"])
    assert "its capacity is" in bench.begin(1, 0, 8)["error"]


def test_a_rank_ahead_does_not_take_what_an_older_step_needs(bench):
    for rank in (0, 1):
        bench.open(rank, writers=2)
    for rank in (0, 1):
        bench.commit(rank, 0, *bench.begin(rank, 0, 4)["extents"])
    bench.commit(0, 1, *bench.begin(0, 1, 4)["extents"])
    assert bench.begin(0, 2, 4) is None
    assert bench.begin(1, 1, 4)["ok"]


def test_a_rank_ahead_waits_while_nobody_can_know_what_the_others_need(bench):
    for rank in (0, 1):
        bench.open(rank, writers=2)
    bench.commit(0, 0, *bench.begin(0, 0, 1)["extents"])
    assert bench.begin(0, 1, 1) is None
    bench.commit(1, 0, *bench.begin(1, 0, 1)["extents"])
    assert bench.replies[0]["ok"]


def test_a_waiting_rank_that_goes_leaves_its_place(bench):
    bench.open()
    bench.land(0, pages=10)
    assert bench.begin(0, 1, 10) is None
    bench.hang_up(0)
    assert bench.say(ANALYSIS, "drop", stream=STREAM)["ok"]
    assert bench.free_pages() == 16


@pytest.mark.parametrize(("held", "gap"), [([], 9), ([(0, 3)], 6), ([(4, 1)], 4), ([(6, 3), (0, 2)], 4), ([(0, 9)], 0)])
def test_the_largest_gap_lies_between_what_is_held(held, gap):
    pages = [(offset * PAGE, size * PAGE) for offset, size in held]
    assert largest_gap(9 * PAGE, pages) == gap * PAGE


def looks_for(bench, step):
    """How often the needs of others are looked at where rank 0 asks for a page of a step; that is given back."""
    looks = []

    def needs():
        looks.append(1)
        return [PAGE] * 3

    found = find_room(bench.store, bench.store.streams[STREAM], 0, step, PAGE, needs)
    bench.store.extents.give_back([found] if found else [])
    return len(looks)


def test_a_rank_that_is_ahead_waits_for_no_look_at_the_others_while_there_is_room_for_all(tmp_path):
    bench = Bench(tmp_path, 20)
    for rank in range(4):
        bench.open(rank, writers=4)
    for rank in range(4):
        bench.commit(rank, 0, *bench.begin(rank, 0, 1)["extents"])
    for step in range(1, 13):  # 4 pages of step 0, 12 of these: the others' 4 are left
        assert not looks_for(bench, step)
        bench.commit(0, step, *bench.begin(0, step, 1)["extents"])
    assert looks_for(bench, 13)
    bench.commit(0, 13, *bench.begin(0, 13, 1)["extents"])  # its own isn't needed
    assert bench.begin(0, 14, 1) is None
    bench.store.close()


def test_where_there_is_no_room_at_all_nobody_looks_at_what_others_need(tmp_path):
    bench = Bench(tmp_path, 4)
    for rank in range(4):
        bench.open(rank, writers=4)
    for rank in range(4):
        bench.begin(rank, 0, 1)
    bench.commit(0, 0, *bench.replies[0]["extents"])
    bench.commit(1, 0, *bench.replies[1]["extents"])
    assert not looks_for(bench, 1)
    assert bench.begin(0, 1, 1) is None
    bench.store.close()

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbflow.store.extents import ALIGNMENT_BYTES as PAGE
from bbflow.store.extents import Extents, align

pages = st.integers(0, 40)
sizes = st.lists(st.integers(1, 8 * PAGE), max_size=30)


def overlaps(extents):
    ordered = sorted(extents)
    return any(offset + size > following for (offset, size), (following, _) in pairwise(ordered))


@given(pages, sizes)
def test_extents_in_use_never_overlap_nor_leave_the_pool(capacity, wanted):
    extents = Extents(capacity * PAGE)
    held = [extent for size in wanted if (extent := extents.take(size))]
    assert not overlaps(held)
    assert all(offset >= 0 and offset + size <= capacity * PAGE for offset, size in held)
    assert all(offset % PAGE == 0 == size % PAGE for offset, size in held)
    assert extents.free_bytes + sum(size for _, size in held) == extents.capacity


@given(pages, sizes, st.randoms(use_true_random=False))
def test_a_pool_is_whole_again_when_all_came_back_in_any_order(capacity, wanted, random):
    extents = Extents(capacity * PAGE)
    held = [extent for size in wanted if (extent := extents.take(size))]
    random.shuffle(held)
    for extent in held:
        extents.give_back([extent])
    assert extents.free_bytes == extents.capacity
    if capacity:
        assert extents.take(capacity * PAGE) == (0, capacity * PAGE)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 5 * PAGE), st.integers(0, 30)), max_size=60))
def test_free_and_held_bytes_always_add_up(actions):
    extents, held = Extents(24 * PAGE), []
    for is_take, size, which in actions:
        if is_take:
            could = extents.can_take([size])
            extent = extents.take(size)
            assert could == (extent is not None)
            held += [extent] if extent else []
        elif held:
            extents.give_back([held.pop(which % len(held))])
        assert extents.free_bytes + sum(size for _, size in held) == extents.capacity
        assert not overlaps(held)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.data())
def test_a_replayed_pool_hands_out_only_what_was_free(lengths, data):
    first = Extents(32 * PAGE)
    held = [extent for length in lengths if (extent := first.take(length * PAGE))]
    kept = [extent for extent in held if data.draw(st.booleans())]
    again = Extents(32 * PAGE)
    for extent in data.draw(st.permutations(kept)):
        again.take_at(extent)
    assert again.free_bytes == again.capacity - sum(size for _, size in kept)
    while extent := again.take(PAGE):
        kept.append(extent)
    assert not overlaps(kept)


def test_an_extent_can_not_be_held_twice():
    extents = Extents(8 * PAGE)
    extents.take_at((2 * PAGE, 2 * PAGE))
    with pytest.raises(ValueError, match="held twice"):
        extents.take_at((3 * PAGE, PAGE))


def test_asking_whether_room_is_there_takes_nothing():
    extents = Extents(4 * PAGE)
    assert extents.can_take([2 * PAGE, 2 * PAGE])
    assert not extents.can_take([2 * PAGE, 3 * PAGE])
    assert extents.free_bytes == 4 * PAGE


def test_a_part_of_an_extent_can_come_back():
    extents = Extents(8 * PAGE)
    offset, size = extents.take(8 * PAGE)
    extents.give_back([(offset + 3 * PAGE, size - 3 * PAGE)])
    assert extents.take(5 * PAGE) == (3 * PAGE, 5 * PAGE)


@given(st.integers(0, 1 << 40))
def test_aligned_sizes_are_the_next_whole_pages(size):
    assert size <= align(size) < size + PAGE
    assert align(size) % PAGE == 0

"""Rings after the loss of a node: no piece moves, and each has its copies on different nodes."""

from hypothesis import assume, given
from hypothesis import strategies as st

from bbflow.files.inodes import holders
from bbflow.files.master.replicas import rings_without

NODES = "abcdef"


@given(st.integers(2, 6), st.integers(2, 3), st.integers(0, 5), st.permutations(NODES))
def test_what_is_left_of_each_piece_stays_where_it_is(count, replicas, lost, others):
    ring = tuple(NODES[:count])
    assume(lost < count and replicas <= count)
    for after in rings_without(ring, replicas, ring[lost], [name for name in others if name != ring[lost]]):
        assert ring[lost] not in after
        for index in range(60):
            names = holders(after, index, replicas)
            assert set(holders(ring, index, replicas)) - {ring[lost]} <= set(names)
            assert len(set(names)) == replicas


def test_two_copies_on_any_ring_of_three_or_more_find_a_place_on_it():
    for count in range(3, 7):
        ring = tuple(NODES[:count])
        assert next(rings_without(ring, 2, "b", [name for name in ring if name != "b"]), None)


def test_a_node_that_has_no_piece_with_the_lost_one_takes_its_place():
    assert list(rings_without(("a", "b", "c", "d"), 2, "b", ["a", "c", "d"])) == [("a", "d", "c", "d")]


def test_two_nodes_that_are_left_of_three_have_all():
    assert list(rings_without(("a", "b", "c"), 2, "b", ["a", "c"])) == [("a", "c")]


def test_one_node_has_no_two_copies():
    assert list(rings_without(("a", "b"), 2, "b", ["a"])) == []

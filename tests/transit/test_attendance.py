"""Fields that only some steps have, in whole or in part, are told of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbflow.transit.folding.regions import points_of
from bbflow.transit.spans.timeline import Windows
from bbflow.transit.states.checkpoints import Checkpoint, common_of
from bbflow.transit.states.losses import Attendance
from bbflow.transit.states.shards import ShardKey

SHAPE = (3, 4)


def test_fields_that_only_some_steps_had_are_named_with_how_many():
    attendance = Attendance().after((number, ["a", "b"] if number else [], {}) for number in range(10))
    attendance = attendance.after([(10, ["c"], {})])
    told = attendance.described()
    assert told[0].startswith("'a' and 1 more: in 2 of 11 steps only")
    assert told[1].startswith("'c': in 10 of 11 steps only")


def test_nothing_is_said_of_fields_that_every_step_had():
    attendance = Attendance().after((number, [], {"part": 5}) for number in range(2))
    assert attendance.described() == []


def test_fields_that_had_other_points_in_some_steps_are_named():
    attendance = Attendance().after(
        (number, ["b"] if number > 2 else [], {"a": number // 4, "land": 7} | ({"b": 1} if number <= 2 else {}))
        for number in range(6)
    )
    seldom, other = attendance.described()
    assert seldom.startswith("'b': in 3 of 6 steps only")
    assert other.startswith("'a': in 2 of 6 steps ranks have written other points than at first")
    assert attendance.described({"a", "b"}) == []


@pytest.mark.parametrize("order", [1, -1])
def test_steps_that_the_furthest_checkpoint_has_are_not_counted_again(order):
    """A node that is done with them doesn't show its parts of them any more."""
    attendance, checkpoints = Attendance(), []
    for number in range(5):
        attendance = attendance.after([(number, ["b"] if number == 3 else [], {"a": 1, "b": 1})])
        checkpoints.append(Checkpoint(attendance=attendance))
    told = {"a": (1, checkpoints[1]), "b": (4, checkpoints[4])}
    restored = common_of(dict([*told.items()][::order]), 1, Checkpoint(), Windows((), ())).attendance
    restored = restored.after(
        (number, ["a"] if number < 5 else [], {"b": 2 if number < 5 else 1}) for number in range(2, 8)
    )
    assert restored.steps == 8
    assert [told.split(";")[0] for told in restored.described()] == [
        "'b': in 7 of 8 steps only, which its statistics are of"
    ]


def blocks(points):
    return [ShardKey("node", "x", point, (1, 1)) for point in sorted(points)]


def parted(draw, start, count):
    """Cut a region into some, at random."""
    axes = [axis for axis, size in enumerate(count) if size > 1]
    if not axes or draw(st.booleans()):
        return [ShardKey(draw(st.sampled_from("ab")), "x", start, count)]
    axis = draw(st.sampled_from(axes))
    at = draw(st.integers(1, count[axis] - 1))
    left = tuple(at if own == axis else size for own, size in enumerate(count))
    right = tuple(size - at if own == axis else size for own, size in enumerate(count))
    begin = tuple(first + at if own == axis else first for own, first in enumerate(start))
    return parted(draw, start, left) + parted(draw, begin, right)


@given(st.data(), st.tuples(st.integers(0, 2), st.integers(0, 3)))
def test_points_are_the_same_however_ranks_divide_them(data, start):
    count = tuple(data.draw(st.integers(1, size - first)) for first, size in zip(start, SHAPE, strict=True))
    one, other = (parted(data.draw, start, count) for _ in range(2))
    assert points_of(one, SHAPE) == points_of(other, SHAPE)
    assert (points_of(one, SHAPE) == 0) is (count == SHAPE)


@given(*[st.sets(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1)] * 2)
def test_other_points_are_others(one, other):
    assert (points_of(blocks(one), SHAPE) == points_of(blocks(other), SHAPE)) is (one == other)


def test_arrays_of_any_length_that_are_whole_are_alike():
    assert {points_of([ShardKey("a", "x", (0,), (size,))], (size,)) for size in range(1, 9)} == {0}
    assert points_of([ShardKey("a", "x", (), ())], ()) == 0

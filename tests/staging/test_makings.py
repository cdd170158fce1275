"""Which of the files that tasks made go when room is needed."""

from hypothesis import given
from hypothesis import strategies as st

from bbflow.staging.buffer_room import FileState
from bbflow.staging.makings import Making, excess_bytes, has_room, victims

MAKINGS = st.lists(
    st.builds(
        Making,
        url=st.just("/pfs/x"),
        is_result=st.booleans(),
        state=st.sampled_from(FileState),
        version=st.tuples(st.integers(0, 100), st.just(0)),
        reserved_bytes=st.integers(0, 100),
        readers=st.integers(0, 1),
        is_clean=st.booleans(),
        is_stuck=st.booleans(),
    ),
    max_size=12,
)


@given(MAKINGS, st.integers(0, 500))
def test_what_goes_is_held_by_nobody_and_loses_nothing(makings, capacity_bytes):
    for making in victims(makings, capacity_bytes):
        assert making.state is FileState.HERE
        assert making.readers == 0
        assert making.is_clean or not making.is_stuck


@given(MAKINGS, st.integers(0, 500))
def test_the_rest_fits_or_nothing_more_may_go(makings, capacity_bytes):
    going = victims(makings, capacity_bytes)
    rest = [making for making in makings if making not in going]
    assert excess_bytes(rest, capacity_bytes) <= 0 or not any(making.may_go for making in rest)


@given(MAKINGS, st.integers(0, 500))
def test_no_more_go_than_must_and_the_oldest_go_first(makings, capacity_bytes):
    going = victims(makings, capacity_bytes)
    assert going == [making for making in makings if making.may_go][: len(going)]
    if going:
        assert excess_bytes([making for making in makings if making not in going[:-1]], capacity_bytes) > 0


@given(MAKINGS, st.integers(0, 100), st.integers(0, 500))
def test_what_has_room_leaves_all_within_the_capacity(makings, size_bytes, capacity_bytes):
    making = Making(url="/pfs/new", is_result=False, reserved_bytes=size_bytes)
    if has_room([*makings, making], making, capacity_bytes):
        assert sum(each.room_bytes for each in makings) + size_bytes <= capacity_bytes

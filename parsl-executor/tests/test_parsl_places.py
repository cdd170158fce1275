from concurrent.futures import Future
from pathlib import Path

from bbflow_parsl.places import Place, State, excess_bytes, victims
from hypothesis import given
from hypothesis import strategies as st

PLACES = st.lists(
    st.builds(
        Place,
        url=st.just("/pfs/x"),
        path=st.just(Path("/bb/x")),
        writer=st.builds(Future),
        is_result=st.booleans(),
        state=st.sampled_from(State),
        version=st.tuples(st.integers(0, 100), st.just(0)),
        readers=st.integers(0, 1),
        is_clean=st.booleans(),
        is_stuck=st.booleans(),
    ),
    max_size=12,
)


@given(PLACES, st.integers(0, 500))
def test_what_goes_is_held_by_nobody_and_loses_nothing(places, capacity_bytes):
    for place in victims(places, capacity_bytes):
        assert place.state is State.HERE
        assert place.readers == 0
        assert place.is_clean or not place.is_stuck


@given(PLACES, st.integers(0, 500))
def test_the_rest_fits_or_nothing_more_may_go(places, capacity_bytes):
    going = victims(places, capacity_bytes)
    rest = [place for place in places if place not in going]
    assert excess_bytes(rest, capacity_bytes) <= 0 or not any(place.may_go for place in rest)


@given(PLACES, st.integers(0, 500))
def test_no_more_go_than_must_and_the_oldest_go_first(places, capacity_bytes):
    going = victims(places, capacity_bytes)
    assert going == [place for place in places if place.may_go][: len(going)]
    if going:
        assert excess_bytes([place for place in places if place not in going[:-1]], capacity_bytes) > 0

"""Maps of points: kept in a file once, refused where they can't be one, and spread with holes or without."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbflow.errors import StreamError
from bbflow.stream.point_maps import PointMap


@pytest.mark.parametrize(
    ("places", "message"),
    [([0, 5, 0], "two points have one place"), ([0, 6], "a point lies at 7 of a grid of shape")],
)
def test_what_is_no_map_is_refused(tmp_path, places, message):
    with pytest.raises(StreamError, match=message):
        PointMap.keep(tmp_path, "512", (2, 3), np.array(places))


@given(st.permutations(range(-3, 6)).map(lambda places: [max(place, -1) for place in places]), st.integers(0, 9))
def test_values_are_spread_to_their_places(tmp_path_factory, places, count):
    places = places[:count]
    own = PointMap.keep(tmp_path_factory.getbasetemp() / "maps", "512", (2, 3), np.array(places, "i8"))
    values = np.arange(2.0 * len(places)).reshape(2, -1) + 1
    wanted = np.full((2, 6), np.nan)
    for at, place in enumerate(places):
        if place >= 0:
            wanted[:, place] = values[:, at]
    np.testing.assert_array_equal(own.spread(values, np.nan), wanted.reshape(2, 2, 3))
    assert own.is_whole == (not np.isnan(wanted).any())


def test_a_map_that_is_told_again_is_known_by_shape_and_places(tmp_path):
    own = PointMap.keep(tmp_path, "512", (2, 3), np.array([4, -1, 0]))
    assert own.is_same((2, 3), np.array([4, -1, 0]))
    assert not own.is_same((3, 2), np.array([4, -1, 0]))
    assert not own.is_same((2, 3), np.array([4, 0, -1]))
    assert not own.is_same((2, 3), np.array([4, -1]))


def test_a_map_that_two_keep_at_once_is_whole(tmp_path, monkeypatch):
    both, save = Barrier(2, timeout=10), np.save

    def together(file, places):
        both.wait()
        save(file, places)
        both.wait()

    monkeypatch.setattr(np, "save", together)
    with ThreadPoolExecutor(2) as pool:
        kept = list(pool.map(lambda _: PointMap.keep(tmp_path, "512", (2, 3), np.array([4, -1, 0])), range(2)))
    assert kept[0] == kept[1]
    assert kept[0].is_same((2, 3), np.array([4, -1, 0]))
    assert [path.name for path in tmp_path.iterdir()] == [f"map-{kept[0].digest}.npy"]

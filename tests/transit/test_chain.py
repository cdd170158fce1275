"""A stream that is cut into two runs, the second of which goes on from the first one's state, against one run."""

import numpy as np
import pytest
import streams

HOURS = 6
STEPS = 300
CUT = 133
"""In the afternoon of 3 February: within a day, a month, a season, and windows of days."""
AGAIN = 5
"""Steps that the second run writes once more, since the model was started from an older restart file."""
UNITS = "hours since 2001-01-01"
WINDOWS = ["day", "month", {"season": "DJF"}, {"steps": 50}, {"running": {"days": 5}}, "clim_month", "run"]

CONFIG = {
    "windows": WINDOWS,
    "operators": {
        "tas": ["mean", {"std": {"ddof": 1}}, "max", "argmax", "last", "count"],
        "spells": {
            "of": "tas",
            "operators": [{"longest_spell": {"above": 281.0}}, {"spell_count": {"above": 281.0, "at_least": 2}}],
            "windows": ["month", "run"],
        },
        "median": {"of": "tas", "operators": [{"percentiles": {"q": [50, 90]}}], "windows": ["month", "run"]},
        "txx": {
            "of": "tas",
            "each": {"day": "max"},
            "operators": ["max", "mean", "count"],
            "windows": ["month", "run"],
        },
        "rx5day": {
            "of": "pr",
            "each": {"window": {"running": {"days": 5}}, "operator": "sum"},
            "operators": ["max", "count"],
            "windows": ["month", "run"],
        },
        "rain": {"of": "pr", "transforms": ["deaccumulate"], "operators": ["sum", "max"], "windows": ["month", "run"]},
        "world": {"of": "tas", "space": "fldmean", "operators": ["mean", "max", "std"], "windows": ["day", "month"]},
        "daily_world": {
            "of": "tas",
            "space": "fldmean",
            "each": {"day": "mean"},
            "operators": ["max", "count"],
            "windows": ["month"],
        },
    },
}


def fields(steps):
    random = np.random.default_rng(4)
    tas = 280 + random.normal(0, 3, (steps, 6, 8)).astype("f4")
    tas[random.random(tas.shape) < 0.03] = np.nan
    return {"tas": tas, "pr": np.cumsum(random.random((steps, 6, 8)), axis=0)}


def write(folder, part, *, axis=0):
    """Store some steps of the stream; each run writes the grid."""
    grid = {"lat": np.linspace(-75, 75, 6), "lon": np.arange(8) * 45.0}
    attributes = {f"{name}/_ARRAY_DIMENSIONS": ["lat", "lon"] for name in ("tas", "pr")} | {
        "time/units": UNITS,
        "time/calendar": "noleap",
        "lat/units": "degrees_north",
        "lon/units": "degrees_east",
    }
    values = {name: field[part] for name, field in fields(STEPS).items()}
    times = HOURS * np.arange(STEPS)[part]
    streams.store(folder, values | grid, times, attributes, steady=("lat", "lon"), axis=axis)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    write(folder, slice(None))
    return streams.analyse(folder, CONFIG, ranks=2)


@pytest.fixture(scope="module")
def chained(tmp_path_factory):
    """The same in two runs, of other ranks, nodes and decompositions, in one store; and in a store of its own."""
    folder = tmp_path_factory.mktemp("chained")
    write(folder, slice(0, CUT))
    streams.analyse(folder, CONFIG, ranks=2, nodes=2)
    first = folder / "out"
    write(folder, slice(CUT - AGAIN, None), axis=1)
    return streams.analyse(folder, CONFIG | {"continue": str(first)}, ranks=3, nodes=1)


def assert_same(results, expected):
    assert sorted(results.data_vars) == sorted(expected.data_vars)
    for name in expected.data_vars:
        left, right = results[name], expected[name]
        assert left.dims == right.dims, name
        assert left.shape == right.shape, name
        if left.dtype.kind in "fiu":
            np.testing.assert_allclose(left.values, right.values, rtol=2e-5, err_msg=name)
        else:
            assert (left.values == right.values).all(), name


def test_a_stream_in_two_runs_gives_what_it_gives_in_one(whole, chained):
    assert_same(chained, whole)

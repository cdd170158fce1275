"""Raw steps that a condition chooses, over real streams."""

import numpy as np
import pytest
import streams
import xarray as xr

from bbflow.errors import BbflowError

STEPS, LATS, LONS = 40, 4, 6
HITS = (0, 9, 10, 21, 38)
ATTRIBUTES = {"time/units": "hours since 2001-01-01", "full/_FillValue": 1e20}


@pytest.fixture
def folder(tmp_path):
    random = np.random.default_rng(3)
    pr = random.uniform(0, 1e-3, (STEPS, LATS, LONS)).astype("f4")
    for hit in HITS:
        pr[hit, hit % LATS, hit % LONS] = 2e-3
    full = pr.astype("f8")
    full[:, 0, 0] = 1e20  # missing, and yet the largest
    fields = {"pr": pr, "full": full, "tas": random.normal(270, 5, (STEPS, LATS, LONS))}
    streams.store(tmp_path, fields, 6.0 * np.arange(STEPS), ATTRIBUTES, axis=0)
    return tmp_path


def kept(folder, raw, **more):
    config = {"windows": ["month"], "operators": {"tas": ["mean"]}, "raw": {"variables": ["tas"], **raw}}
    streams.analyse(folder, config, ranks=2, **more)
    found = xr.open_zarr(folder / "out" / "raw.zarr").load()
    expected = np.load(folder / "tas.npy")
    np.testing.assert_array_equal(found["tas"].values, expected[found["bbflow_step"].values])
    return found["bbflow_step"].values.tolist()


def around(before, after, hits=HITS):
    return [step for step in range(STEPS) if any(hit - before <= step <= hit + after for hit in hits)]


@pytest.mark.parametrize(("before", "after", "nodes"), [(0, 0, 1), (3, 2, 1), (2, 0, 2), (50, 0, 1)])
def test_steps_around_those_for_which_a_condition_holds_are_kept(folder, before, after, nodes):
    raw = {"when": "max(pr) > 1e-3", "before": before, "after": after}
    assert kept(folder, raw, nodes=nodes) == around(before, after)


def test_fill_values_and_expressions_count_as_in_statistics(folder):
    hits = [hit for hit in HITS if (hit % LATS, hit % LONS) != (0, 0)]
    assert kept(folder, {"when": "max(full * 2) > 2e-3 or max(full) > 1e-3", "after": 1}) == around(0, 1, hits)


def test_single_values_may_be_in_a_condition(folder):
    assert kept(folder, {"when": "time >= 60 and max(pr) > 1e-3"}) == [hit for hit in HITS if hit >= 10]


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("max(prr) > 1", "no variable 'prr'.*'pr'"),
        ("pr > 1", r"pr is a field: write max\(pr\)"),
        ("max(time) > 1", "write time alone"),
    ],
)
def test_what_a_stream_lacks_is_told(folder, when, message):
    with pytest.raises(BbflowError, match=message):
        kept(folder, {"when": when})


def test_steps_that_wait_for_others_must_have_room(folder):
    with pytest.raises(BbflowError, match="before: 50 steps"):
        kept(folder, {"when": "max(pr) > 1", "before": 50}, capacity="512KiB")

"""What workers make of partial states, band by band, is what NumPy makes of the whole."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from bbflow.configuring.config import parse_config
from bbflow.operators import fold_steps
from bbflow.operators.windows.calendars import Clock
from bbflow.stream.cf import StreamAttributes
from bbflow.transit.output.fields import ResultField
from bbflow.transit.output.results import Results
from bbflow.transit.publication import finish
from bbflow.transit.publication.finish import Finishing, Partial, are_apart
from bbflow.transit.publication.publish import FieldWork, Handed, hand_over, publish_fields
from bbflow.transit.spans.slots import BASE, OUTER, StateSlot
from bbflow.transit.spans.timeline import Closing, Span
from bbflow.transit.states.shards import ShardKey, ShardState, StatePlace
from bbflow.transit.states.state_layouts import state_layout_of
from bbflow.transit.states.tables import States

OPERATORS = ["mean", "std", "min", "count", {"histogram": {"edges": [0, 3, 6, 9]}}]
TILES = {
    "one": [((0, 0), (12, 10))],
    "rows": [((0, 0), (5, 10)), ((5, 0), (7, 10))],
    "blocks": [((0, 0), (6, 4)), ((0, 4), (6, 6)), ((6, 0), (6, 4)), ((6, 4), (6, 6))],
    "with a hole": [((0, 0), (6, 4)), ((6, 4), (6, 6))],
    "overlapping": [((0, 0), (8, 10)), ((6, 2), (6, 5))],
}


@pytest.fixture
def diagnostic():
    return parse_config({"stream": "s", "windows": ["run"], "operators": {"v": OPERATORS}}).diagnostics["v"]


@pytest.fixture(autouse=True)
def small_bands(monkeypatch):
    """Of four rows and two tiles each."""
    monkeypatch.setattr(finish, "BAND_BYTES", 4 * 10 * (8 + 8 + 4 + 4 + 20))
    monkeypatch.setattr(finish, "FINISHED_POINTS", 20)


def state_of(diagnostic, values, count):
    """State of values of shape (steps, *count)."""
    state_layout = state_layout_of(diagnostic, OUTER, np.dtype("f4"), count)
    state = bytearray(state_layout.nbytes)
    fold_steps(state_layout, None, state, list(values.reshape(len(values), -1)))
    return state


def region(start, count):
    return tuple(slice(at, at + size) for at, size in zip(start, count, strict=True))


def expected(fields):
    """What NumPy makes of fields of shape (steps, *shape), NaN where there is nothing."""
    valid = np.isfinite(fields)
    count = valid.sum(0)
    with np.errstate(all="ignore"):
        mean = np.where(count, np.where(valid, fields, 0).sum(0, dtype="f8") / count, np.nan)
        std = np.sqrt(np.where(valid, (fields - mean) ** 2, 0).sum(0) / count)
    low = np.where(count, np.where(valid, fields, np.inf).min(0), np.nan)
    bins = [((fields >= first) & (fields < first + 3)).sum(0) for first in (0, 3, 6)]  # no value is 9
    outside = {name: np.zeros((12, 10), "i4") for name in ("histogram_below", "histogram_above")}
    return {"mean": mean, "std": std, "min": low, "count": count, "histogram": np.stack(bins), **outside}


def parts_of(diagnostic, tiles, random):
    """Parts of two states each, and the steps that they are of."""
    parts, steps = [], []
    for order, (start, count) in enumerate(tiles):
        states = []
        for _ in range(2):
            values = random.integers(0, 9, (3, *count)).astype("f4")
            states.append(state_of(diagnostic, values, count))
            whole = np.full((3, 12, 10), np.nan, "f4")
            whole[(slice(None), *region(start, count))] = values
            steps.append(whole)
        parts.append(Partial(start, count, "<f4", tuple(states), f"{order:02d}"))
    return parts, np.concatenate(steps)


@pytest.mark.parametrize("tiles", TILES)
def test_bands_and_the_whole_are_what_numpy_makes_of_all_steps(diagnostic, tiles):
    parts, fields = parts_of(diagnostic, TILES[tiles], np.random.default_rng(1))
    finishing = Finishing(diagnostic, (12, 10), parts)
    whole = finishing.whole()
    wanted = expected(fields)
    assert whole.keys() == wanted.keys()
    for name, values in wanted.items():
        np.testing.assert_allclose(whole[name], values, rtol=1e-12, err_msg=name)
    bands = [(band, {name: values.copy() for name, values in own.items()}) for band, own in finishing.bands()]
    ends = [0, *(end for (_, end), _ in bands)]
    assert ends == ([0, 40, 80, 120] if tiles in ("one", "overlapping") else [0, 4, 8, 12])  # these are one state
    assert [first for (first, _), _ in bands] == ends[:-1]
    for name, values in whole.items():
        joined = np.concatenate([own[name] for _, own in bands], axis=1)
        np.testing.assert_array_equal(joined.reshape(values.shape), values, name)


def test_a_single_value_is_finished_too(diagnostic):
    steps = np.array([[2.0], [5.0], [8.0]], "f4")
    part = Partial((), (), "<f4", (state_of(diagnostic, steps, ()),))
    whole = Finishing(diagnostic, (), [part]).whole()
    assert whole["mean"].shape == ()
    assert whole["mean"] == 5
    assert whole["histogram"].tolist() == [1, 1, 1]


def test_what_nobody_has_is_as_without_values(diagnostic):
    whole = Finishing(diagnostic, (2, 3), [Partial((0, 0), (2, 3), "<f4", ())]).whole()
    assert np.isnan(whole["mean"]).all()
    assert not whole["count"].any()


@pytest.mark.parametrize("tiles", TILES)
def test_regions_are_known_to_overlap(tiles):
    assert are_apart(tuple(TILES[tiles])) == (tiles != "overlapping")


def hold(states):
    return tuple(own for table in States.of(states) for own in table.fields)


@pytest.mark.parametrize("hands_over", [False, True])
def test_workers_write_chunks_that_appear_when_the_span_is_shown(tmp_path, diagnostic, hands_over):
    random = np.random.default_rng(2)
    parts, fields = parts_of(diagnostic, TILES["blocks"], random)
    shards = []
    for number, part in enumerate(parts):
        files = {}
        for slot, state in zip((StateSlot(OUTER, "run", ()), BASE[OUTER]), part.states, strict=True):
            files[slot] = StatePlace(str(tmp_path / f"{number}.{slot.window}.{slot.key}"), 0)
            Path(files[slot].path).write_bytes(state)
        key = ShardKey("ab"[number % 2], "v", part.start, part.count)
        own = ShardState(dtype="<f4", last_step=5, last_time=5.0, keys={"run": ()}, files=files)
        shards.append((key, part.region, own))
    clock = Clock("days since 2000-11-01", "noleap")
    results = Results(tmp_path / "results.zarr", "s", StreamAttributes({}), clock)
    window = diagnostic.windows[0]
    closing = Closing(window, (Span((), 0.0, 5.0, 6, 0),), frozenset())
    field = ResultField("v", "<f4", (12, 10), ("y", "x"), {"units": "K"}, {})
    prepared = results.prepare([(closing, {"v": (field, diagnostic.operators)})])[0]
    first, second = (hold(shards[number::2]) for number in range(2))
    here = first if hands_over else (*first, *second)  # the second node is on another host, or on this one
    work = FieldWork(diagnostic, (12, 10), closing, here, str(tmp_path), targets=prepared.targets["v"])
    others = [hand_over([FieldWork(diagnostic, (12, 10), closing, second, "")])] if hands_over else []
    assert all(isinstance(other, Handed) for other in others)
    receipt = publish_fields([work], *others)
    assert receipt.bytes[closing.key] == 12 * 10 * (8 + 8 + 4 + 4 + 5 * 4)
    with xr.open_zarr(results.path, chunks=None, decode_cf=False) as before:
        assert not before.data_vars
    results.show([prepared], receipt.errors)
    with xr.open_zarr(results.path, chunks=None) as after:
        for name, values in expected(fields).items():
            np.testing.assert_allclose(after[f"v_run_{name}"][0], values, rtol=1e-12, err_msg=name)

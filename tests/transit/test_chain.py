"""A stream that is cut into two runs, the second of which goes on from the first one's state, against one run."""

import sys
from pathlib import Path

import numpy as np
import pytest
import streams
import xarray as xr
import yaml

from bbflow.cli import main
from bbflow.configuring.config import parse_config
from bbflow.errors import ConfigError
from bbflow.transit.chain.comparing import check_continued
from bbflow.transit.chain.saved import read_state
from bbflow.transit.output.claiming import KEPT_FILE, STATE_FILE

HOURS = 6
STEPS = 130
CUT = 95
"""In the evening of 2 February: within a day, a month, a season, and windows of days and steps."""
AGAIN = 5
"""Steps that the second run writes once more, since the model was started from an older restart file."""
UNITS = "hours since 2001-01-10"
SPELLS = {"above": 281.0}

CONFIG = {
    "windows": ["month", "run"],
    "operators": {
        "tas": {
            "operators": ["mean", {"std": {"ddof": 1}}, "argmax", {"percentiles": {"q": [50, 90]}}],
            "windows": ["month", {"season": "DJF"}, {"steps": 50}, {"running": {"days": 5}}, "clim_month", "run"],
        },
        "spells": {
            "of": "tas",
            "operators": [{"longest_spell": SPELLS}, {"spell_count": SPELLS | {"at_least": 2}}],
        },
        "txx": {"of": "tas", "each": {"day": "max"}, "operators": ["mean", "count"]},
        "rx5day": {
            "of": "pr",
            "each": {"window": {"running": {"days": 5}}, "operator": "sum"},
            "operators": ["max", "count"],
        },
        "rain": {"of": "pr", "transforms": ["deaccumulate"], "operators": ["sum", "max"]},
        "world": {"of": "tas", "space": "fldmean", "operators": ["mean", "std"]},
        "daily_world": {"of": "tas", "space": "fldmean", "each": {"day": "mean"}, "operators": ["max", "count"]},
        "hot": {"of": "tas", "operators": [{"filter": {"above": 287.0, "name": "steps"}}]},
    },
}


def fields():
    random = np.random.default_rng(4)
    tas = 280 + random.normal(0, 3, (STEPS, 6, 8)).astype("f4")
    tas[random.random(tas.shape) < 0.03] = np.nan
    return {"tas": tas, "pr": np.cumsum(random.random((STEPS, 6, 8)), axis=0)}


def write(folder, part, *, axis=0, calendar="noleap", shape=(6, 8)):
    """Store some steps of the stream; each run writes the grid."""
    grid = {"lat": np.linspace(-75, 75, 6)[: shape[0]], "lon": np.arange(8) * 45.0}
    attributes = {f"{name}/_ARRAY_DIMENSIONS": ["lat", "lon"] for name in ("tas", "pr")} | {
        "time/units": UNITS,
        "time/calendar": calendar,
        "lat/units": "degrees_north",
        "lon/units": "degrees_east",
    }
    values = {name: field[part, : shape[0]] for name, field in fields().items()}
    times = HOURS * np.arange(STEPS)[part]
    streams.store(folder, values | grid, times, attributes, steady=("lat", "lon"), axis=axis)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    write(folder, slice(None))
    return streams.analyse(folder, CONFIG), xr.open_zarr(folder / "out" / "results.zarr", group="hot_steps")


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chained")
    write(folder, slice(0, CUT))
    streams.analyse(folder, CONFIG, ranks=2, nodes=2)
    return folder


def assert_same(results, expected):
    assert sorted(results.data_vars) == sorted(expected.data_vars)
    for name, right in expected.data_vars.items():
        left = results[name]
        assert left.dims == right.dims, name
        assert left.shape == right.shape, name
        if left.dtype.kind in "fiu":
            np.testing.assert_allclose(left.values, right.values, rtol=1e-6, err_msg=name)
        else:
            assert (left.values == right.values).all(), name


@pytest.mark.slow
@pytest.mark.parametrize(("calendar", "shape", "says"), [("360_day", (6, 8), "calendar"), ("noleap", (5, 8), "shape")])
def test_a_stream_of_another_calendar_or_grid_is_refused(first, tmp_path, calendar, shape, says):
    write(tmp_path, slice(CUT, CUT + 2), calendar=calendar, shape=shape)
    with pytest.raises(ConfigError, match=f"{says}.* the state|the state .*{says}"):
        streams.analyse(tmp_path, CONFIG | {"continue": str(first / "out")})


@pytest.mark.parametrize("changed", ["mask", "cells", None])
def test_a_mask_or_weights_that_are_others_in_the_next_job_are_told(tmp_path, changed):
    land = {"mask": "mask > 0", "mean": ["y", "x"], "weights": "none"}
    areas = {"mean": ["y", "x"], "weights": "cells"}
    config = {"operators": {key: {"of": "v", "space": own, "operators": ["mean"]} for key, own in
                            (("land", land), ("areas", areas))}, "windows": ["run"]}  # fmt: skip
    own = {"mask": np.array([[1, 0, 1]], "i4"), "cells": np.array([[1.0, 2.0, 3.0]])}
    attributes = {f"{name}/_ARRAY_DIMENSIONS": ["y", "x"] for name in ("v", *own)} | {"time/units": UNITS}
    continued = {}
    for job, part in enumerate((slice(0, 2), slice(2, 4))):
        # Of another type the second time: equal numbers are the same mask.
        told = {n: item[:, ::-1] if job and n == changed == "cells" else item for n, item in own.items()}
        told["mask"] = (1 - own["mask"] if job and changed == "mask" else own["mask"]).astype("f8" if job else "i4")
        folder = tmp_path / str(job)
        values = {"v": np.arange(12.0).reshape(4, 1, 3)[part]} | told
        streams.store(folder, values, np.arange(4.0)[part], attributes, steady=tuple(own))
        outcome, _ = streams.analysed(folder, config | continued)
        continued = {"continue": str(folder / "out")}
    assert read_state(folder / "out").places.keys() == own.keys()
    assert outcome.complete == (changed is None)
    assert (f"{changed} isn't what it was in the job before" in str(outcome.errors)) == (changed is not None)


def test_operators_that_the_run_before_had_not_are_refused_with_what_to_do(first):
    more = CONFIG | {"operators": CONFIG["operators"] | {"more": {"of": "tas", "operators": ["mean"]}}}
    with pytest.raises(ConfigError, match=r"operators of more .* take them out, or begin again without 'continue'"):
        check_continued(parse_config(more | {"stream": "model", "output": "out"}), first / "out")


def test_two_runs_of_other_ranks_and_nodes_and_blocks_give_what_one_gives(first, whole):
    """In one store, the state of which the second run replaces."""
    write(first, slice(CUT - AGAIN, None), axis=1)
    results = streams.analyse(first, CONFIG | {"continue": str(first / "out")}, ranks=3)
    expected, rows = whole
    assert_same(results, expected)
    assert results.attrs["bbflow_late_steps"] == AGAIN
    assert results.attrs["bbflow_missing_steps"] == 0
    chained_rows = xr.open_zarr(first / "out" / "results.zarr", group="hot_steps")
    assert len(rows.step) > 20
    np.testing.assert_array_equal(*(sorted(item.step.values) for item in (chained_rows, rows)))
    assert read_state(first / "out").number == STEPS - 1
    assert not (first / "out" / KEPT_FILE).exists()


def test_a_run_without_steps_hands_the_state_on(first, tmp_path):
    write(tmp_path, slice(0, 0))
    state = first / "out" / STATE_FILE
    with pytest.raises(OSError, match=r"results\.zarr"):
        streams.analyse(tmp_path, CONFIG | {"continue": str(state)})
    assert (tmp_path / "out" / STATE_FILE).read_bytes() == state.read_bytes()


def write_job(folder, name, part):
    """A job of the command line: a configuration and the stream that it writes."""
    write(folder / name, part)
    config = {"stream": "fields", "output": str(folder / "out"), "nodes": {"capacity": "8MiB"}} | CONFIG
    (folder / f"{name}.yml").write_text(yaml.safe_dump(config | {"workers": {"processes": 0, "threads": 1}}))
    return [str(folder / f"{name}.yml"), "--", sys.executable, str(folder / name / "writer.py"), str(folder / name)]


def test_the_command_line_goes_on_and_puts_the_events_aside(tmp_path):
    config, *command = write_job(tmp_path, "first", slice(0, 20))
    assert main(["run", config, "--no-report", *command, "0", "1"]) == 0
    config, *command = write_job(tmp_path, "second", slice(20, 30))
    assert main(["run", config, "--no-report", *command, "0", "1"]) == 64  # results are there
    out = str(tmp_path / "out")
    assert main(["run", config, "--no-report", "--continue", out, *command, "0", "1"]) == 0
    with xr.open_zarr(Path(out) / "results.zarr") as results:
        assert list(results.steps_run) == [30]
    assert (Path(out) / "events.1.jsonl").exists()
    assert main(["run", config, "--continue", str(tmp_path), *command, "0", "1"]) == 64  # no state there

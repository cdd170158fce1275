"""Blocks that move to other nodes and change shape while a stream goes on: results are those of blocks that stay."""

import shutil

import numpy as np
import pytest
import streams
import xarray as xr

from bbflow.host.belongings import MARK

STEPS, LATS, LONS = 120, 6, 5
HOURS = 6.0 * np.arange(STEPS)
ATTRIBUTES = {"time/units": "hours since 2001-01-01", "time/calendar": "noleap"}
ATTRIBUTES |= {f"{name}/_ARRAY_DIMENSIONS": ["lat", "lon"] for name in ("tas", "rain")}
ATTRIBUTES |= {f"{name}/_ARRAY_DIMENSIONS": [name] for name in ("lat", "lon")}
ATTRIBUTES |= {"lat/units": "degrees_north", "lon/units": "degrees_east"}
CONFIG = {
    "windows": ["day", "month", {"running": {"days": 3}}],
    "operators": {
        "tas": {
            "operators": [
                "mean",
                "argmax",
                {"longest_spell": {"above": 280}},
                {"percentiles": {"q": [10, 90], "steps": 128}},
                {"filter": {"above": 300, "name": "hot"}},
            ]
        },
        "warmest": {"of": "tas", "each": {"day": "max"}, "operators": ["mean", "count", "max"], "windows": ["month"]},
        "rain": {"transforms": ["deaccumulate"], "operators": ["sum", "max"]},
        "global": {"of": "tas", "space": {"mean": ["lat", "lon"]}, "operators": ["mean"]},
    },
    "workers": {"processes": 0, "threads": 1, "batch_steps": 7},
}


@pytest.fixture(scope="module")
def fields():
    random = np.random.default_rng(3)
    tas = 283 + 9 * random.standard_normal((STEPS, LATS, LONS))
    tas[random.random(tas.shape) < 0.05] = np.nan
    rain = random.random((STEPS, LATS, LONS)).cumsum(axis=0)
    return {"lat": np.linspace(-75, 75, LATS), "lon": np.arange(LONS) * 72.0, "tas": tas.astype("f4"), "rain": rain}


def analysed(folder, fields, **how):
    streams.store(folder, fields, HOURS, ATTRIBUTES, steady=("lat", "lon"), **how)
    results = streams.analyse(folder, CONFIG, ranks=2, nodes=2)
    return results, xr.open_zarr(folder / "out" / "results.zarr", group="tas_hot").load()


@pytest.fixture(scope="module")
def stayed(fields, tmp_path_factory):
    return analysed(tmp_path_factory.mktemp("stayed"), fields)


def test_results_are_those_of_blocks_that_stay(fields, stayed, tmp_path):
    stayed, stayed_rows = stayed
    moved, moved_rows = analysed(tmp_path, fields, moves=(1, 2, 3, 64, 101))
    assert moved.keys() == stayed.keys()
    for name in stayed.variables:
        if stayed[name].dtype.kind == "f":
            np.testing.assert_allclose(moved[name], stayed[name], rtol=1e-6, err_msg=name)
        else:
            np.testing.assert_array_equal(moved[name], stayed[name], err_msg=name)
    for name in ("step", "value"):
        np.testing.assert_array_equal(np.sort(moved_rows[name]), np.sort(stayed_rows[name]))
    assert (tmp_path / "out" / "state.bbflow").exists()
    assert [path.name for path in (tmp_path / "out").glob(".*")] == [MARK]


def test_what_blocks_of_several_ranks_make_goes_on_when_they_move(fields, stayed, tmp_path):
    config = CONFIG | {"windows": ["month"], "operators": {"global": CONFIG["operators"]["global"]}}
    streams.store(tmp_path, fields, HOURS, ATTRIBUTES, steady=("lat", "lon"), moves=(3, 50))
    moved = streams.analyse(tmp_path, config, ranks=2, nodes=2)
    np.testing.assert_allclose(moved.global_month_mean, stayed[0].global_month_mean, rtol=1e-12)


def test_extremes_of_the_field_go_on_when_fewer_or_more_ranks_have_its_blocks(fields, tmp_path):
    """One rank's block has all of it, those of two are joined: values are of the variable's type in both."""
    half, space = STEPS // 2 + 1, {"max": ["lat", "lon"]}
    operators = {
        "warmest": {"of": "tas", "space": space, "operators": ["max", "mean"]},
        "days": {"of": "tas", "space": space, "each": {"day": "max"}, "operators": ["mean"]},
    }
    config = CONFIG | {"windows": ["run"], "operators": operators, "output": str(tmp_path / "out")}
    for ranks in ((1, 2), (2, 1)):
        for first, last, count in zip((0, half), (half, STEPS), ranks, strict=True):
            own = {name: values[first:last] if len(values) == STEPS else values for name, values in fields.items()}
            streams.store(tmp_path, own, HOURS[first:last], ATTRIBUTES, steady=("lat", "lon"))
            results = streams.analyse(
                tmp_path, config | ({"continue": str(tmp_path / "out")} if first else {}), ranks=count
            )
        steps = np.nanmax(fields["tas"], axis=(1, 2))
        assert results.warmest_run_max.dtype == np.float32
        np.testing.assert_array_equal(results.warmest_run_max, [steps.max()])
        np.testing.assert_allclose(results.warmest_run_mean, [steps.mean(dtype="f8")], rtol=1e-12)
        np.testing.assert_allclose(
            results.days_run_mean, [steps.reshape(-1, 4).max(axis=1).mean(dtype="f8")], rtol=1e-12
        )
        shutil.rmtree(tmp_path / "out")

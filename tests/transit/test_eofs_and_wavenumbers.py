"""Statistics that need the whole of a field, of streams whose ranks have parts of it, against NumPy."""

import numpy as np
import pytest

from bbflow.errors import ConfigError
from testsupport.programs import part, run_program

STEPS, LAT, LON = 40, np.linspace(-87, 87, 8), np.arange(12) * 30.0
UNITS = "days since 2000-01-20"
DIMS = ("lat", "lon")


def field():
    random = np.random.default_rng(2)
    waves = np.cos(np.deg2rad(LON) * np.array([[1], [3]]))
    made = 280 + random.normal(0, 4, (STEPS, 1, 1)) * waves[0] + random.normal(0, 2, (STEPS, 1, 1)) * waves[1]
    return (made + random.normal(0, 0.5, (STEPS, len(LAT), len(LON)))).astype("f4")


TAS = field()
TAS[4, 0, 3] = np.nan
OPERATORS = {
    "modes": {"of": "tas", "operators": [{"eof": {"modes": 3, "bound": True}}, "var"], "windows": ["run", "month"]},
    "coarse": {"of": "tas", "space": {"coarsen": {"lat": 2, "lon": 2}}, "operators": [{"eof": {"modes": 2}}]},
    "pairs": {"of": "tas", "each": {"window": {"steps": 2}, "operator": "mean"},
              "operators": [{"eof": {"modes": 1, "weights": "none"}}]},
    "waves": {"of": "tas", "space": {"wavenumbers": {"over": "lon", "most": 4}}, "operators": ["mean"]},
    "tropics": {"of": "tas", "space": [{"box": {"lat": [-30, 30]}}, {"wavenumbers": "lon"}, {"mean": ["lat"]}],
                "operators": ["mean"]},
}  # fmt: skip


def shares(lat):
    edges = np.deg2rad([-90, *((lat[1:] + lat[:-1]) / 2), 90])
    return np.repeat(np.diff(np.sin(edges))[:, None], len(LON), axis=1)


def modes_of(values, weights, count):
    """Patterns times the standard deviations of their series; points that miss a value are left out."""
    flat = values.reshape(len(values), -1).astype("f8")
    there = ~np.isnan(flat).any(axis=0)
    root = np.sqrt(weights.reshape(-1) / weights.sum())[there]
    _, sizes, directions = np.linalg.svd((flat[:, there] - flat[:, there].mean(axis=0)) * root, full_matrices=False)
    found = np.full((count, flat.shape[1]), np.nan)
    found[:, there] = directions[:count] * sizes[:count, None] / np.sqrt(len(values)) / root
    return found.reshape(count, *values.shape[1:])


def assert_modes(ours, theirs):
    for mine, own in zip(ours, theirs, strict=True):
        sign = np.sign(np.nansum(mine * own))
        np.testing.assert_allclose(mine, sign * own, rtol=1e-3, atol=1e-4 * np.nanmax(np.abs(own)))


ATTRIBUTES = {"tas/_ARRAY_DIMENSIONS": list(DIMS), "tas/units": "K", "time/units": UNITS}
ATTRIBUTES |= {"lat/units": "degrees_north", "lon/units": "degrees_east"}


def ranks_of(steps, size):
    """What each of some ranks writes in each step."""
    return [
        [
            [*([("lat", LAT), ("lon", LON)] if rank == 0 and step == steps[0] else []),
             *([("time", float(step))] if rank == 0 else []), ("tas", part(TAS[step], size, rank))]
            for step in steps
        ]
        for rank in range(size)
    ]  # fmt: skip


def test_modes_go_on_in_the_next_job_of_a_chain(tmp_path):
    config = {"operators": {"modes": OPERATORS["modes"]}, "time": {"variable": "time"}}
    for steps, size in ((range(17), 1), (range(17, STEPS), 2)):
        folder = tmp_path / str(size)
        folder.mkdir()
        ran = run_program(folder, ranks_of(steps, size), config, ATTRIBUTES)
        assert (ran.outcome.complete, ran.told) == (True, "")
        config["continue"] = str(folder / "out")
    assert_modes(ran.results.modes_run_eof[0].values, modes_of(TAS, shares(LAT), 3))
    assert_modes(ran.results.modes_month_eof[0].values, modes_of(TAS[12:], shares(LAT), 3))


@pytest.mark.parametrize(("size", "nodes", "batch"), [(1, 1, 64), (2, 2, 7)])
def test_modes_and_wavenumbers_are_those_of_the_whole_field(tmp_path, size, nodes, batch):
    config = {"operators": OPERATORS, "windows": ["run"], "time": {"variable": "time"},
              "workers": {"processes": 0, "threads": 2, "batch_steps": batch}}  # fmt: skip
    ran = run_program(tmp_path, ranks_of(range(STEPS), size), config, ATTRIBUTES, nodes)
    assert (ran.outcome.complete, ran.told) == (True, "")
    results = ran.results
    assert results.modes_run_eof.dims == ("time_run", "modes_eof_mode", *DIMS)
    assert results.modes_run_eof.attrs["units"] == "K"
    assert_modes(results.modes_run_eof[0].values, modes_of(TAS, shares(LAT), 3))
    assert_modes(results.modes_month_eof[1].values, modes_of(TAS[12:], shares(LAT), 3))
    assert not results.modes_run_eof_error.any()
    np.testing.assert_allclose(results.modes_run_var[0], np.nanvar(TAS, axis=0, dtype="f8"), rtol=1e-5)
    area = shares(LAT).reshape(4, 2, 6, 2)
    there = ~np.isnan(TAS.reshape(STEPS, 4, 2, 6, 2))
    boxes = (np.nan_to_num(TAS.reshape(STEPS, 4, 2, 6, 2)) * area).sum(axis=(2, 4)) / (there * area).sum(axis=(2, 4))
    assert_modes(results.coarse_run_eof[0].values, modes_of(boxes, area.sum(axis=(1, 3)), 2))
    pairs = np.nanmean(TAS.reshape(-1, 2, *TAS.shape[1:]), axis=1, dtype="f8")
    assert_modes(results.pairs_run_eof[0].values, modes_of(pairs, np.ones(TAS.shape[1:]), 1))
    power = np.abs(np.fft.rfft(TAS.astype("f8"), axis=-1, norm="forward")) ** 2 * [1, 2, 2, 2, 2, 2, 1]
    np.testing.assert_allclose(results.waves_run_mean[0], np.nanmean(power[..., :5], axis=0), rtol=1e-6)
    assert results.waves_run_mean.dims == ("time_run", "lat", "waves_wavenumber")
    assert results.waves_run_mean.attrs["units"] == "(K)2"
    np.testing.assert_array_equal(results.waves_wavenumber, range(5))
    near = np.abs(LAT) <= 30
    weights = shares(LAT)[near, 0]
    np.testing.assert_allclose(
        results.tropics_run_mean[0], np.average(power[:, near].mean(axis=0), axis=0, weights=weights), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("operators", "message"),
    [
        ({"space": [{"box": {"lon": [0, 90]}}, {"wavenumbers": "lon"}], "operators": ["mean"]}, "don't go around"),
        ({"space": {"wavenumbers": {"over": "lon", "most": 7}}, "operators": ["mean"]}, "none beyond 6"),
        ({"space": {"wavenumbers": "lat"}, "operators": ["mean"]}, "'lat' doesn't go around"),
    ],
)  # fmt: skip
def test_what_has_no_wavenumbers_is_refused(tmp_path, operators, message):
    step = [("lat", LAT), ("lon", LON), ("tas", TAS[0])]
    attributes = {"tas/_ARRAY_DIMENSIONS": list(DIMS), "lat/units": "degrees_north", "lon/units": "degrees_east"}
    with pytest.raises(ConfigError, match=message):
        run_program(tmp_path, [[step, [("tas", TAS[1])]]], {"operators": {"x": {"of": "tas", **operators}}}, attributes)

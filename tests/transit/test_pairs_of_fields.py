"""Statistics of two fields are the same however ranks divide them, also where their parts are joined first."""

import numpy as np
import pytest

from testsupport.programs import part, run_program

LATS, LONS, STEPS = np.arange(-82.5, 90, 15.0), np.arange(0, 360, 30.0), 5
ATTRIBUTES = {"lat/units": "degrees_north", "lon/units": "degrees_east"}
ATTRIBUTES |= {f"{name}/_ARRAY_DIMENSIONS": ["lat", "lon"] for name in "uv"}
ATTRIBUTES |= {f"{name}/_ARRAY_DIMENSIONS": [name] for name in ("lat", "lon")}
SPACES = {
    "global": "fldmean",
    "zonal": "zonmean",
    "box": {"box": {"lat": [-30, 30]}, "mean": ["lat"]},
    "nearest": {"remapnn": "r12x6"},
    "conservative": {"remapcon": "r12x6"},
}


def fields():
    dice = np.random.default_rng(4)
    return {name: dice.normal(size=(STEPS, len(LATS), len(LONS))) for name in "uv"}


def run(folder, ranks, nodes=1):
    folder.mkdir()
    steps = [
        [
            [
                *([("lat", LATS), ("lon", LONS)] if rank == 0 else []),
                *((name, part(values[step], ranks, rank)) for name, values in fields().items()),
            ]
            for step in range(STEPS)
        ]
        for rank in range(ranks)
    ]
    pairs = [
        {how: {"with": other, "name": f"{how}_{name}"}}
        for how in ("covariance", "correlation")
        for name, other in (("v", "v"), ("vv", "v * v"))
    ]
    operators = {name: {"of": "u", "space": space, "operators": pairs} for name, space in SPACES.items()}
    ran = run_program(folder, steps, {"operators": operators}, ATTRIBUTES, nodes=nodes)
    assert ran.outcome.complete
    return ran.results


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run(tmp_path_factory.mktemp("pairs") / "one", 1)


@pytest.mark.parametrize(("ranks", "nodes"), [(2, 2), (3, 1)])
def test_the_statistics_of_pairs_do_not_depend_on_the_ranks(whole, tmp_path, ranks, nodes):
    divided = run(tmp_path / "divided", ranks, nodes)
    for name in (
        f"{space}_run_{how}_{other}"
        for space in SPACES
        for how in ("covariance", "correlation")
        for other in ("v", "vv")
    ):
        np.testing.assert_allclose(divided[name], whole[name], rtol=1e-9, atol=1e-13, err_msg=name)


def test_each_field_is_reduced_before_they_are_compared(whole):
    weights = np.diff(np.sin(np.radians(np.linspace(-90, 90, len(LATS) + 1))))
    u, v = ((values.mean(axis=2) * weights).sum(axis=1) / weights.sum() for values in fields().values())
    expected = ((u - u.mean()) * (v - v.mean())).mean()
    np.testing.assert_allclose(np.squeeze(whole.global_run_covariance_v), expected, rtol=1e-9)

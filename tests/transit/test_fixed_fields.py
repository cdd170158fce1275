"""A field that the first step alone has is held for all that need it beside others, as masks and weights are."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import xarray as xr

from bbflow import start_nodes
from bbflow.errors import ConfigError
from bbflow.stream.records import BlockForm
from bbflow.transit.folding.fixed import FixedField
from bbflow.transit.states.shards import ShardKey
from bbflow.view.consumers import Consumers
from testsupport.programs import part, run_program, write_program

STEPS, SHAPE = 6, (4, 6)
LAND = np.random.default_rng(1).uniform(size=SHAPE)
TAS = np.random.default_rng(2).uniform(size=(STEPS, *SHAPE)) + 280
OPERATORS = {
    "product": {"of": "tas * land", "operators": ["mean", "count"]},
    "chosen": {"of": "where(land > 0.4, tas, nan)", "operators": ["max"]},
    "pair": {"of": "tas", "operators": [{"covariance": {"with": "land * tas"}}, "mean"]},
    "scaled": {"of": "tas * factor", "operators": ["mean"]},
    "area": {"of": "tas * land", "space": {"mean": ["tas_dim0", "tas_dim1"]}, "operators": ["mean"]},
    "kept": {"of": "tas * land", "operators": [{"filter": {"above": 250}}, "max"]},
}


def ranks_of(size, again=lambda step: [], by_first=True):
    """Ranks that divide tas; the first one Puts land as a whole, or each its part."""
    found = []
    for rank in range(size):
        own = [("land", LAND)] if by_first and rank == 0 else [] if by_first else [("land", part(LAND, size, rank))]
        own += [("factor", 2.5)] if rank == 0 else []
        steps = [[*(own if step == 0 else again(step) if rank == 0 else [])] for step in range(STEPS)]
        found.append([[*had, ("tas", part(TAS[step], size, rank))] for step, had in enumerate(steps)])
    return found


@pytest.mark.parametrize(("size", "nodes", "by_first"), [(1, 1, True), (3, 1, True), (2, 2, True), (2, 1, False)])
@pytest.mark.parametrize("batch", [1, 64])
def test_statistics_with_fixed_fields_are_those_of_all_steps(tmp_path, size, nodes, by_first, batch):
    config = {"operators": OPERATORS, "windows": [{"steps": 2}, "run"]}
    config["workers"] = {"processes": 0, "threads": 2, "batch_steps": batch}
    ran = run_program(tmp_path, ranks_of(size, by_first=by_first), config, nodes=nodes)
    assert (ran.outcome.complete, ran.told) == (True, "")
    results, product = ran.results, TAS * LAND
    np.testing.assert_allclose(results.product_run_mean[0], product.mean(axis=0))
    np.testing.assert_allclose(results.product_steps2_mean, product.reshape(3, 2, *SHAPE).mean(axis=1))
    assert (results.product_run_count == STEPS).all()
    np.testing.assert_allclose(results.chosen_run_max[0], np.where(LAND > 0.4, TAS.max(axis=0), np.nan))
    deviations = (TAS - TAS.mean(axis=0)) * (product - product.mean(axis=0))
    np.testing.assert_allclose(results.pair_run_covariance[0], deviations.mean(axis=0), rtol=1e-7)
    np.testing.assert_allclose(results.pair_run_mean[0], TAS.mean(axis=0))
    np.testing.assert_allclose(results.scaled_run_mean[0], 2.5 * TAS.mean(axis=0))
    np.testing.assert_allclose(results.area_run_mean[0], product.mean())
    np.testing.assert_allclose(results.kept_run_max[0], product.max(axis=0))
    with xr.open_zarr(ran.output / "results.zarr", group="kept_above", decode_times=False) as rows:
        assert len(rows.value) == (product > 250).sum()


class EndedError(Exception):
    """Stands for a signal."""


@pytest.mark.parametrize("size", [1, 2])
def test_fixed_fields_are_known_to_an_analysis_that_goes_on(tmp_path, monkeypatch, size):
    """The step that has them is gone then."""
    config = {"operators": OPERATORS, "windows": ["run"], "stream": "model", "time": "steps", "raw": "none"}
    config |= {"output": str(tmp_path / "out"), "workers": {"processes": 0, "threads": 1, "batch_steps": 2}}
    commit = Consumers.commit

    def killed(self, consumer, step, *more):
        commit(self, consumer, step, *more)
        raise EndedError

    with start_nodes(size, "16MiB") as buffer:
        write_program(tmp_path, ranks_of(size), buffer.contact)
        for _ in range(2):
            with monkeypatch.context() as patch:
                patch.setattr(Consumers, "commit", killed)
                with buffer.analyse(config) as analysis, pytest.raises(EndedError):
                    analysis.wait(100)
        with buffer.analyse(config) as analysis:
            assert analysis.wait(100).complete
    with xr.open_zarr(tmp_path / "out" / "results.zarr", decode_times=False) as results:
        np.testing.assert_allclose(results.product_run_mean[0], (TAS * LAND).mean(axis=0))
        np.testing.assert_allclose(results.scaled_run_mean[0], 2.5 * TAS.mean(axis=0))
        np.testing.assert_allclose(results.area_run_mean[0], (TAS * LAND).mean())
        np.testing.assert_array_equal(results.product_run_count, STEPS)


@pytest.mark.parametrize(("values", "complete"), [(LAND, True), (LAND + 1, False)])
def test_a_fixed_field_that_comes_again_is_compared(tmp_path, values, complete):
    ranks = ranks_of(1, lambda step: [("land", values)] if step == 3 else [])
    ran = run_program(tmp_path, ranks, {"operators": {"product": OPERATORS["product"]}})
    assert ran.outcome.complete is complete
    assert ("land changes with time, as seen in step 3" in ran.told) is not complete
    np.testing.assert_allclose(ran.results.product_run_mean[0], (TAS * LAND).mean(axis=0))


def test_a_fixed_field_that_is_put_again_in_its_step_has_not_changed(tmp_path):
    guess, (upper, lower) = ("land", np.zeros(SHAPE)), (("land", part(LAND, 2, at)) for at in range(2))
    own = {0: [guess, ("land", LAND)], 3: [guess, upper, lower]}
    ranks = [[[*own.get(step, ()), ("tas", TAS[step])] for step in range(STEPS)]]
    ran = run_program(tmp_path, ranks, {"operators": {"product": OPERATORS["product"]}})
    assert (ran.outcome.complete, ran.told) == (True, "")
    np.testing.assert_allclose(ran.results.product_run_mean[0], (TAS * LAND).mean(axis=0))


def test_a_fixed_field_that_changes_with_a_step_that_is_left_out_is_said(tmp_path):
    days = [0.0, 1.0, 2.0, 1.0, 3.0, 4.0]
    own = {0: [("land", LAND)], 3: [("land", LAND + 1)]}
    ranks = [[[*own.get(step, ()), ("time", day), ("tas", TAS[step])] for step, day in enumerate(days)]]
    config = {"operators": {"product": OPERATORS["product"]}, "time": {"late": "skip"}}
    ran = run_program(tmp_path, ranks, config, {"time/units": "days since 2001-01-01"})
    assert not ran.outcome.complete
    assert "land changes with time, as seen in step 3" in ran.told


def test_a_fixed_field_of_another_shape_is_refused(tmp_path):
    ranks = [[[*([("land", LAND[0])] if step == 0 else []), ("tas", TAS[step])] for step in range(STEPS)]]
    with pytest.raises(ConfigError, match="land"):
        run_program(tmp_path, ranks, {"operators": {"product": OPERATORS["product"]}})


def test_fixed_fields_alone_are_in_the_first_step_only(tmp_path):
    ran = run_program(tmp_path, ranks_of(1), {"operators": {"land": ["mean"], "tas": ["mean"]}})
    assert not ran.outcome.complete
    assert "'land': in 1 of 6 steps only" in ran.told


def test_a_surface_pressure_that_is_fixed_holds_for_all_steps(tmp_path):
    ps, b = np.random.default_rng(5).uniform(9e4, 1e5, size=(4, 6)), np.linspace(0.1, 1, 5)
    t = 200 + (b[:, None, None] * ps) / 1e3
    level = [("a", np.zeros(5)), ("b", b), ("ps", ps)]
    ranks = [
        [[*(level if step == 0 and rank == 0 else []), ("t", part(t + step, 2, rank, 1))] for step in range(4)]
        for rank in range(2)
    ]
    attributes = {"t/_ARRAY_DIMENSIONS": ["lev", "lat", "lon"], "ps/_ARRAY_DIMENSIONS": ["lat", "lon"]}
    attributes |= {"a/_ARRAY_DIMENSIONS": ["lev"], "b/_ARRAY_DIMENSIONS": ["lev"]}
    space = {"levels": {"to": [50000], "pressure": {"a": "a", "b": "b", "surface": "ps"}}}
    ran = run_program(
        tmp_path, ranks, {"operators": {"y": {"of": "t", "space": space, "operators": ["mean"]}}}, attributes
    )
    assert ran.outcome.complete
    np.testing.assert_allclose(ran.results.y_run_mean[0], 251.5)


def test_a_pool_without_room_for_a_second_step_is_not_waited_for(tmp_path):
    big = np.zeros((STEPS, 300, 300))
    ranks = [[[*([("land", big[0])] if step == 0 else []), ("tas", big[step])] for step in range(STEPS)]]
    ran = run_program(tmp_path, ranks, {"operators": {"product": OPERATORS["product"]}}, capacity="1536KiB")
    assert not ran.outcome.complete
    assert "'product': in 1 of 6 steps only" in ran.told


def test_a_held_field_is_mapped_once_in_a_process(tmp_path):
    np.save(tmp_path / "land.npy", LAND)
    held = FixedField(
        BlockForm("land", "double", "GlobalArray", SHAPE, (0, 0), SHAPE, 0, 0, 0, 8), f"{tmp_path}/land.npy"
    )
    keys = [ShardKey("a", "x", (row, 0), (1, 6)) for row in range(4)]
    with ThreadPoolExecutor(4) as threads:
        rows = list(threads.map(lambda key: held.part(key, None, 6), keys))
    np.testing.assert_array_equal(rows, LAND)
    (tmp_path / "land.npy").unlink()
    np.testing.assert_array_equal(held.part(keys[1], None, 6), LAND[1])
    with pytest.raises(FileNotFoundError):  # what is sent to another process is its name
        pickle.loads(pickle.dumps(held)).part(keys[1], None, 6)

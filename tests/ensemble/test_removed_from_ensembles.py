"""What somebody removes or cuts off of an ensemble's store, or of its members', while members run."""

import os
import re
import shutil

import numpy as np
import pytest
import xarray as xr
from members import MemberStreams, field, gathered
from test_gathering import analysis_in

from bbflow.ensemble.gathering import EnsembleFold
from bbflow.transit.output.lost_files import LOST

STEPS, HARMED = 4, 2
ROWS = ["tas_step_mean/c.1.0.0", "time_step/c.0", "time_step_bnds/c.0.0", "status_step/c.0", "members_step/c.0"]


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def cut_off(path):
    os.truncate(path, path.stat().st_size // 2)


def ended_after(
    act, path, tmp_path, *, restarts=False, before_turn=False, members=2, operators=("mean", "std"), **keys
):
    """Act on a file when some steps are joined; return whether the ensemble is complete, and what it said."""
    analysis = analysis_in(tmp_path, members, {"tas": {"operators": list(operators)}}, **keys)
    streams, said = MemberStreams(analysis), []
    gathering = EnsembleFold(analysis, None, said.append)
    for step in range(STEPS):
        for name in analysis.ensemble.runs:
            streams.write(name, {"tas": field(name.rpartition(".")[2], step)})
        if step == HARMED and before_turn:
            act(next(analysis.output.glob(path)))
        gathering.turn()
        if step == HARMED and not before_turn:
            act(next(analysis.output.glob(path)))
        if step == HARMED and restarts:
            gathering = EnsembleFold(analysis, None, said.append)
    for name in analysis.ensemble.runs:
        streams.end(name)
    complete, more = gathered(analysis) if restarts else (finished(gathering), [])
    return complete, said + more


def finished(gathering):
    for _ in range(100):
        if not gathering.turn() and gathering.is_over:
            return gathering.finish()
    raise AssertionError("it isn't over")


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("act", [remove, cut_off])
@pytest.mark.parametrize("name", ROWS)
def test_a_file_of_the_joined_store_that_is_damaged_is_told(tmp_path, act, name, restarts):
    complete, said = ended_after(act, f"ensemble.zarr/{name}", tmp_path, restarts=restarts)
    assert not complete
    assert f"{name}: {LOST}" in said
    with xr.open_zarr(tmp_path / "out/ensemble.zarr", decode_times=False) as found:
        assert (found.attrs["bbflow_status"], name in found.attrs["bbflow_removed"]) == ("incomplete", True)
        assert found.tas_step_mean.shape[0] == STEPS
        assert found.members_step[-1] == 2


@pytest.mark.parametrize("name", ["", "tas_step_mean", "zarr.json", "tas_step_mean/zarr.json"])
def test_an_array_or_the_store_that_is_gone_when_an_analysis_takes_over_is_told(tmp_path, name):
    complete, said = ended_after(remove, f"ensemble.zarr/{name}", tmp_path, restarts=True)
    assert not complete
    assert f"{name.partition('/')[0].replace('zarr.json', '') or 'ensemble.zarr'}: {LOST}" in said


def test_a_store_that_goes_before_any_time_is_complete_is_written_again(tmp_path):
    analysis = analysis_in(tmp_path, 2, show=1)
    streams = MemberStreams(analysis)
    streams.write("1", {"tas": field(1, 0)})
    EnsembleFold(analysis, None, lambda _: None).turn()
    remove(analysis.output / "ensemble.zarr")
    streams.write("2", {"tas": field(2, 0)})
    for member in "12":
        streams.end(member)
    assert gathered(analysis) == (True, [])
    with xr.open_zarr(analysis.output / "ensemble.zarr") as found:
        np.testing.assert_allclose(found.tas_step_mean[0], (field(1, 0) + field(2, 0)) / 2)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("act", [remove, cut_off])
def test_a_member_s_field_that_is_damaged_before_it_is_joined_is_told(tmp_path, act, restarts, keep):
    path = "members/1/results.zarr/tas_step_max/c.2.0.0"
    complete, said = ended_after(act, path, tmp_path, before_turn=True, restarts=restarts, keep=keep)
    assert (complete, said) == (False, [f"{path}: {LOST}"])
    with xr.open_zarr(tmp_path / "out/ensemble.zarr") as found:
        assert found.members_step.values.tolist() == [2, 2, 1, 2]


def test_a_member_whose_times_are_cut_off_is_refused_in_one_line(tmp_path):
    complete, (line, *_) = ended_after(cut_off, "members/1/results.zarr/time_step/c.0", tmp_path, before_turn=True)
    assert not complete
    assert "members/1/results.zarr/time_step/c.0 was cut off: it has 2048 of 4096 bytes" in line


@pytest.mark.parametrize("shape", [(3, 4), (90, 100)])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_cell_of_a_lead_time_and_a_start_that_is_removed_is_told(tmp_path, monkeypatch, shape, restarts):
    monkeypatch.setattr(field, "__defaults__", (shape,))
    starts = ["2001-01-01", "2001-01-02"]
    complete, said = ended_after(
        remove, "ensemble.zarr/tas_step_mean/c.1.*", tmp_path, starts=starts, restarts=restarts
    )
    (line,) = said
    assert not complete
    assert re.fullmatch(rf"tas_step_mean/c\.1\.[01]\.0\.0: {LOST}", line)


@pytest.mark.parametrize("restarts", [False, True])
def test_how_many_members_a_cell_has_is_told_where_that_is_cut_off(tmp_path, monkeypatch, restarts):
    monkeypatch.setattr(field, "__defaults__", ((90, 100),))
    starts, name = ["2001-01-01", "2001-01-02"], "members_step/c.1.0"
    complete, said = ended_after(cut_off, f"ensemble.zarr/{name}", tmp_path, starts=starts, restarts=restarts)
    assert (complete, said) == (False, [f"{name}: {LOST}"])


@pytest.mark.parametrize("act", [remove, cut_off])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_map_of_a_score_of_a_lead_time_and_a_start_that_is_damaged_is_told(tmp_path, monkeypatch, act, restarts):
    monkeypatch.setattr(field, "__defaults__", ((90, 100),))
    reference = xr.Dataset(  # of the first two steps
        {"tas": (("time", "y", "x"), np.stack([field(9, step) for step in range(2)]), {"units": "K"})},
        {"time": np.datetime64("2001-01-01", "ns") + np.arange(2) * np.timedelta64(6, "h")},
    )
    reference.to_netcdf(tmp_path / "reference.nc", engine="scipy")
    scores = {"reference": str(tmp_path / "reference.nc"), "maps": True}
    analysis = analysis_in(
        tmp_path, 2, {"tas": {"operators": ["mean"], "scores": scores}}, starts=["2001-01-01", "2001-01-02"]
    )
    streams, said = MemberStreams(analysis), []
    gathering = EnsembleFold(analysis, None, said.append)
    for step in range(STEPS):
        for name in analysis.ensemble.runs:
            streams.write(name, {"tas": field(name.rpartition(".")[2], step)})
        gathering.turn()
    for name in analysis.ensemble.runs:
        streams.end(name)
    there = sorted((analysis.output / "ensemble.zarr/scores/tas_step_mse_map").glob("c.*"))
    act(there[1])
    if restarts:
        gathering = EnsembleFold(analysis, None, said.append)
    assert not finished(gathering)
    assert [line for line in said if LOST in line] == [f"scores/tas_step_mse_map/{there[1].name}: {LOST}"]


@pytest.mark.parametrize("has", [slice(0, 2), slice(2, 4), slice(1, 3)])
@pytest.mark.parametrize("name", ["", "tas_step_mse_map/c.{}.0.0", "tas_step_mse/c.0"])
def test_scores_are_as_long_as_the_times_and_those_that_are_removed_are_told(tmp_path, has, name):
    values = np.stack([field(9, step) for step in range(STEPS)])
    times = np.datetime64("2001-01-01", "ns") + np.arange(STEPS) * np.timedelta64(6, "h")
    data = xr.Dataset({"tas": (("time", "y", "x"), values, {"units": "K"})}, {"time": times}).isel(time=has)
    data.to_netcdf(tmp_path / "reference.nc", engine="scipy")
    scores = {"reference": str(tmp_path / "reference.nc"), "maps": True}
    analysis = analysis_in(tmp_path, 2, {"tas": {"operators": ["mean"], "scores": scores}})
    streams, said = MemberStreams(analysis), []
    gathering = EnsembleFold(analysis, None, said.append)
    for step in range(STEPS):
        for member in "12":
            streams.write(member, {"tas": field(member, step)})
        gathering.turn()
    for member in "12":
        streams.end(member)
    name = name.format(has.start)
    if name:
        remove(analysis.output / "ensemble.zarr/scores" / name)
    complete = finished(gathering)
    assert (complete, f"scores/{name}: {LOST}" in said) == ((False, True) if name else (True, False))
    with xr.open_datatree(analysis.output / "ensemble.zarr", engine="zarr") as tree:
        there = np.isfinite(tree["scores/tas_step_mse"].values)
    wanted = [step in range(STEPS)[has] and "mse/" not in name for step in range(STEPS)]
    assert there.tolist() == wanted

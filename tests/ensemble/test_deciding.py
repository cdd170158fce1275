"""A user's function that sees the ensemble, spares members, and stops those that run."""

import sys

import numpy as np
import pytest
import xarray as xr
from members import MemberStreams, field
from test_gathering import analysis_in, shown

from bbflow.ensemble.gathering import EnsembleFold
from bbflow.errors import ConfigError
from testsupport.waiting import until

RULES = """
from bbflow.functions import Answer

def spares(ensemble):
    seen = {str(name): str(how) for name, how in zip(ensemble.realization.values, ensemble.standing.values)}
    if int(ensemble.members_step[-1]) >= 2:
        return Answer(spare=[name for name, how in seen.items() if how == "announced"])

def stops(ensemble):
    if int(ensemble.members_step[-1]) >= 2:
        error = float((ensemble.tas_step_std / ensemble.members_step**0.5).max())
        return Answer(stop=f"the standard error is below {error + 1:.0f} K")

has_enough = stops

def fails(ensemble):
    raise ValueError("no idea")

def names(ensemble):
    return Answer(spare=["77"])
"""


@pytest.fixture
def rules(tmp_path, monkeypatch):
    (tmp_path / "rules_of_ensembles.py").write_text(RULES)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("rules_of_ensembles", None)


def begun(tmp_path, function, operators=None, **keys):
    chosen = operators or {"tas": ["mean", "std"]}
    analysis = analysis_in(tmp_path, 4, chosen, show=1, decide=f"rules_of_ensembles:{function}", **keys)
    streams, said = MemberStreams(analysis), []
    for name in ("1", "2", "3"):
        streams.begin(name)
    for name in ("1", "2"):
        streams.write(name, {"tas": field(name, 0)})
    return analysis, streams, EnsembleFold(analysis, None, said.append), said


def standings(gathering):
    gathering.turn()
    return [member.standing.value for member, _ in gathering.progress.values()]


@pytest.mark.usefixtures("rules")
def test_a_function_spares_members_that_have_not_begun_and_nothing_is_missing_then(tmp_path):
    analysis, streams, gathering, said = begun(tmp_path, "spares")
    until(lambda: standings(gathering) == ["running", "running", "running", "spared"])
    streams.write("3", {"tas": field(3, 0)})
    for name in ("1", "2", "3"):
        streams.end(name)
    until(lambda: standings(gathering) == ["done", "done", "done", "spared"])
    until(lambda: not gathering.turn() and gathering.is_over)
    assert gathering.finish()
    gathering.close()
    assert said == []
    assert shown(analysis).members_step.values.tolist() == [3]


@pytest.mark.usefixtures("rules")
def test_a_function_that_has_enough_stops_members_and_what_they_gave_stays(tmp_path):
    analysis, streams, gathering, said = begun(tmp_path, "stops")
    until(lambda: standings(gathering) == ["stopped", "stopped", "stopped", "spared"])
    assert "enough: the standard error is below" in said[0]
    for name in ("1", "2", "3"):
        streams.fail(name)  # by the SIGTERM that follows
    until(lambda: not gathering.turn() and gathering.is_over)
    assert gathering.finish()
    gathering.close()
    found = shown(analysis)
    assert found.members_step.values.tolist() == [2]
    assert found.attrs["bbflow_status"] == "complete"


@pytest.mark.usefixtures("rules")
def test_the_truth_is_waited_for_and_scored_though_there_is_enough_before_it_begins(tmp_path):
    operators = {"tas": {"operators": ["mean", "std"], "scores": {}}}
    analysis, streams, gathering, _ = begun(tmp_path, "has_enough", operators, truth="truth")
    until(lambda: standings(gathering) == ["stopped", "stopped", "stopped", "spared", "announced"])
    for name in ("1", "2", "3"):
        streams.fail(name)
    until(lambda: not gathering.turn())
    assert not gathering.is_over
    streams.write("truth", {"tas": field(9, 0)})
    streams.end("truth")
    until(lambda: not gathering.turn() and gathering.is_over)
    assert gathering.finish()
    gathering.close()
    error = (field(1, 0) + field(2, 0)) / 2 - field(9, 0)
    with xr.open_zarr(analysis.output / "ensemble.zarr", group="scores") as found:
        np.testing.assert_allclose(found.tas_step_mse, [(error**2).mean()], rtol=1e-12)


@pytest.mark.usefixtures("rules")
@pytest.mark.parametrize(
    ("function", "message"), [("fails", "no idea"), ("names", "named a member '77' that there isn't")]
)
def test_a_function_that_fails_is_said_once_and_costs_nothing(tmp_path, function, message):
    _, streams, gathering, said = begun(tmp_path, function)
    until(lambda: gathering.turn() or said)
    until(lambda: said)
    streams.write("3", {"tas": field(3, 0)})
    until(lambda: not gathering.turn())
    assert len(said) == 1
    assert message in said[0]
    assert standings(gathering) == ["running", "running", "running", "announced"]
    gathering.close()


def test_what_is_no_function_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(ConfigError, match=r"decide: os:sep isn't a function"):
        analysis_in(tmp_path, 2, decide="os:sep")

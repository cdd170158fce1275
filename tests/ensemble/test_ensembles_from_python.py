"""An ensemble from Python: what its members have on the nodes now, as one dataset, and what came of them."""

import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import bbflow_adios2
import bbflow_catalogs
import msgspec
import numpy as np
import pytest
from members import MemberStreams, field, gathered
from test_gathering import analysis_in
from waves import STEPS, fields

import bbflow
from bbflow.ensemble.ensemble_settings import suffix_of
from bbflow.ensemble.places import STATUS
from bbflow.ensemble.roster import MemberRoster
from bbflow.ensemble.status import EnsembleStatus, MemberStatus
from bbflow.errors import ConfigError, StreamError
from bbflow.host.atomic import write_whole
from bbflow.run import ensemble_control
from bbflow.run.ensemble import told_contact
from bbflow.run.member import SUFFIX_VARIABLE

CATALOG = Path(bbflow_catalogs.__file__).parent / "ensembles"
CONFIG = """
stream: model
output: {folder}/out
ensemble: {{members: 3, states: {{directory: {folder}}}}}
operators: {{tas: {operators}}}
"""


def ensemble_in(folder, operators="[mean]"):
    (folder / "analysis.yml").write_text(CONFIG.format(folder=folder, operators=operators))
    return bbflow.Ensemble(folder / "analysis.yml")


def test_members_that_run_are_one_lazy_dataset_along_realization(tmp_path):
    ensemble = ensemble_in(tmp_path)
    ensemble.output.mkdir()
    roster = MemberRoster(ensemble.output)
    xml = tmp_path / "engine.xml"
    xml.write_text(bbflow_adios2.engine_xml("model"))
    with pytest.raises(StreamError, match="no member of the ensemble"):
        ensemble.live()
    with (
        bbflow.start_nodes(capacity="8MiB") as buffer,
        told_contact(ensemble.output, buffer.contact),
    ):
        for member, first in ((1, 0), (3, 2)):  # without an analysis, steps stay on the nodes
            roster.begin(str(member))
            own = bbflow_adios2.environment(buffer.contact) | {SUFFIX_VARIABLE: suffix_of(str(member), 1)}
            words = [sys.executable, "-c", f"from waves import write; write({member}, {str(xml)!r}, {first})"]
            where = os.environ | own | {"PYTHONPATH": str(Path(__file__).parent)}
            subprocess.run(words, env=where, check=True, timeout=100)
        with ensemble.live() as found:
            assert found.tas.chunks is not None
            assert found.realization.values.tolist() == ["1", "3"]
            assert found.tas.dims[:2] == ("realization", "time")
            tas = found.tas.load()
    for step in range(STEPS):
        np.testing.assert_array_equal(tas[0, step], fields(1, step)[0])
        assert (np.isnan(tas[1, step]) if step < 2 else tas[1, step] == fields(3, step)[0]).all()


def test_a_status_that_lags_behind_the_members_ends_no_ensemble_as_incomplete(tmp_path):
    ensemble = ensemble_in(tmp_path)
    streams = MemberStreams(ensemble.analysis)
    (ensemble.output / STATUS).parent.mkdir(exist_ok=True)
    for name in ("1", "2", "3"):
        streams.write(name, {"tas": field(name, 0)})
        streams.end(name)

    def tell(state, last):
        standings = {"1": "done", "2": "done", "3": last}
        members = tuple(MemberStatus(name=name, standing=own, attempts=1, times=1) for name, own in standings.items())
        told = EnsembleStatus(
            name="", written_s=0, state=state, members=members, open_moments=0, state_bytes=0, shown={}
        )
        write_whole(ensemble.output / STATUS, msgspec.json.encode(told))

    tell("running", "announced")  # the last one has begun and ended since
    later = threading.Timer(1, tell, ("complete", "done"))
    later.start()
    assert ensemble.settle()
    later.join()


def test_an_ensemble_that_ends_while_it_is_looked_at_is_over_and_not_down(tmp_path, monkeypatch):
    ensemble = ensemble_in(tmp_path)

    def tell(state):
        told = EnsembleStatus(name="", written_s=1, state=state, members=(), open_moments=0, state_bytes=0, shown={})
        (ensemble.output / STATUS).parent.mkdir(parents=True, exist_ok=True)
        write_whole(ensemble.output / STATUS, msgspec.json.encode(told))

    def ends(_):
        tell("complete")
        return False

    tell("running")
    monkeypatch.setattr(ensemble_control, "SILENT_ELSEWHERE_S", -1.0)  # as on a machine that is slow
    monkeypatch.setattr(bbflow.Ensemble, "is_up", property(ends))
    assert ensemble.wait(10)


def test_statistics_and_scores_are_one_tree(tmp_path):
    analysis = analysis_in(tmp_path, 2, {"tas": {"operators": ["mean"], "scores": {}}}, truth="truth")
    streams = MemberStreams(analysis)
    for at, name in enumerate(("1", "2", "truth")):
        streams.write(name, {"tas": field(at, 0)})
        streams.end(name)
    assert gathered(analysis)[0]
    ensemble = ensemble_in(tmp_path)
    tree = ensemble.results()
    assert tree["scores/tas_step_crps"].dims == ("time_step",)
    np.testing.assert_allclose(tree["tas_step_mean"][0], (field(0, 0) + field(1, 0)) / 2)


def test_what_cannot_be_is_refused_in_one_line(tmp_path):
    scored = "{operators: [mean], scores: {reference: era5.zarr}}"
    with pytest.raises(ConfigError, match=r"there is no .*era5.zarr: make it before"):
        ensemble_in(tmp_path, scored).up()
    ensemble = ensemble_in(tmp_path)
    for call in (ensemble.down, ensemble.status):
        with pytest.raises(ConfigError, match=r"isn't up|there is no ensemble"):
            call()
    with pytest.raises(ConfigError, match="its members are 1 to 3"):
        ensemble.spare("7", "enough")


def catalog_in(folder, members):
    """Copy the catalog's files; return the configuration of so many members of its Lorenz-96 model."""
    for path in CATALOG.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    config = folder / "lorenz96.yml"
    told = config.read_text().replace("members: 1000", f"members: {members}").replace("show: 20", "show: 2")
    config.write_text(told.replace(', decide: "rules:enough"', ""))
    return config


def model_in(folder):
    """Load the model of the catalog."""
    spec = importlib.util.spec_from_file_location("lorenz96_of_the_catalog", folder / "lorenz96.py")
    model = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(model)
    return model


@pytest.mark.timeout(300)
def test_one_command_runs_all_members_of_the_catalog_s_ensemble_and_scores_them(tmp_path):
    catalog_in(tmp_path, members=2)
    words = [sys.executable, "-m", "bbflow", "ensemble", "run", "lorenz96.yml", "--at-once", "2"]
    words += ["--", sys.executable, "lorenz96.py", "{member}"]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=250)
    assert (ran.returncode, ran.stderr) == (0, "")
    model = model_in(tmp_path)
    with bbflow.open_results(tmp_path / "lorenz96-ensemble" / "ensemble.zarr") as found:
        got = found.x_step_mean.values
    states = [model.begin(name) for name in ("1", "2")]
    for row in got:
        np.testing.assert_allclose(row, np.mean(states, axis=0), rtol=1e-12)
        states = [model.step(x) for x in states]
    assert bbflow.Ensemble(CATALOG / "climate.yml").analysis.ensemble.members[-1] == "50"

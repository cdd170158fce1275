"""Montage as a Pegasus workflow: its programs, its files, and what the planner makes of it."""

import json
import shutil
from pathlib import Path

import pytest
from bbflow_pegasus import BurstBufferSite
from bbflow_workflows import montage
from bbflow_workflows.montage import dag, jobs, planned

SURVEY = montage.Survey(rows=2, columns=2, pixels=80, stars=100)


@pytest.fixture(scope="module")
def abstract(tmp_path_factory):
    folder = tmp_path_factory.mktemp("montage")
    montage.make_tiles(folder / "pfs", SURVEY)
    tiles = sorted((folder / "pfs").glob("tile*.fits"))
    return folder, dag.make_abstract(tiles, folder / "pfs" / montage.REGION, folder)


def names(files):
    return {file.lfn for file in files}


def in_order(workflow):
    """Return the jobs so that each comes after those whose files it reads."""
    waiting, made, ordered = dict(workflow.jobs), set(), []
    outputs = set().union(*(names(job.get_outputs()) for job in waiting.values()))
    while waiting:
        ready = [key for key, job in waiting.items() if names(job.get_inputs()) & outputs <= made]
        assert ready, "jobs wait for each other"
        for key in ready:
            ordered.append(waiting.pop(key))
            made |= names(ordered[-1].get_outputs())
    return ordered


def test_the_jobs_make_a_flat_mosaic_of_files_in_one_directory(abstract, tmp_path, monkeypatch):
    folder, found = abstract
    for path in (*(folder / "pfs").glob("*"), folder / "pairs.json"):
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    for job in in_order(found.workflow):
        words = [str(getattr(word, "lfn", word)) for word in job.args]
        assert words[:2] == ["-m", "bbflow_workflows.montage.jobs"]
        assert jobs.main(words[2:]) == 0
        for output in job.get_outputs():
            said = int(output.metadata["size"])
            assert 0 < (tmp_path / output.lfn).stat().st_size <= said, "room is kept for the most it can be"
    flat = montage.measure(tmp_path / "mosaic.fits", montage.read_truth(folder / "pfs"))
    assert flat.factor > 100
    assert not list(tmp_path.glob(".montage*"))


def test_each_input_has_a_replica_and_only_results_are_staged_out(abstract):
    _, found = abstract
    workflow = found.workflow
    made = set().union(*(names(job.get_outputs()) for job in workflow.jobs.values()))
    read = set().union(*(names(job.get_inputs()) for job in workflow.jobs.values()))
    assert read - made == {lfn for lfn, _ in found.replicas.entries}
    staged_out = {
        each.file.lfn for job in workflow.jobs.values() for each in job.uses if each.stage_out and each.file.lfn in made
    }
    assert staged_out == set(dag.RESULTS)


def test_a_step_that_fails_says_which_and_why(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("tile.fits").write_text("no FITS")
    Path("region.hdr").write_text("")
    assert jobs.main(["reproject", "--inputs", "tile.fits", "region.hdr", "--outputs", "a.fits", "a_area.fits"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("montage: reproject: mProject failed:")
    assert len(said.splitlines()) == 1


def test_transfers_are_told_where_a_bucket_is_and_no_keys(abstract, tmp_path, monkeypatch):
    given = {"AWS_ENDPOINT_URL": "http://store:7070", "AWS_REGION": "us-east-1", "AWS_SECRET_ACCESS_KEY": "secret"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    settings = planned.Settings(tmp_path)
    planned.write_catalogs(abstract[1], settings)
    sites = (settings.folder / "sites.yml").read_text()
    assert "AWS_ENDPOINT_URL: http://store:7070" in sites
    assert "AWS_REGION: us-east-1" in sites
    assert "secret" not in sites


@pytest.mark.skipif(shutil.which("pegasus-plan") is None, reason="pegasus-plan isn't on PATH")
def test_the_planner_gives_it_waves_within_the_burst_buffer(abstract, tmp_path):
    _, found = abstract
    buffer = BurstBufferSite(tmp_path / "bb", "4MiB", slots=2)
    settings = planned.Settings(tmp_path / "out", "condor", buffer)
    planned.write_catalogs(found, settings)
    waves = json.loads((planned.plan(settings) / "bbflow-waves.json").read_text())
    assert waves["capacity_bytes"] == 4 << 20
    assert sum(len(wave["jobs"]) for wave in waves["waves"]) == len(found.workflow.jobs)
    assert max(len(wave["jobs"]) for wave in waves["waves"]) <= 2

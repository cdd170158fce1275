"""The real Montage by Snakemake: the same mosaic with and without a burst buffer, by an unmodified Snakefile."""

import subprocess
import sys
from pathlib import Path

import pytest
from bbflow_workflows import montage
from flows import PLUGIN, Flow

SNAKEFILE = Path(montage.__file__).parent / "Snakefile"
WORDS = ("--snakefile", str(SNAKEFILE), "--config", "rows=1", "columns=2", "tool=mProjectPP")
RESULTS = ("mosaic.fits", "mosaic_area.fits", "mosaic.png")
PROFILES = PLUGIN.parent / "catalogs" / "snakemake"


@pytest.mark.timeout(600)
def test_the_mosaic_is_the_same_with_and_without_a_burst_buffer(tmp_path):
    survey = montage.Survey(rows=1, columns=2, pixels=80, stars=50)
    flow = Flow(tmp_path)
    plain = tmp_path / "plain"
    for place in (flow.pfs, plain):
        montage.make_tiles(place / "survey", survey)
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *WORDS, "--directory", str(plain)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=flow.environment, check=False)
    assert done.returncode == 0, done.stderr
    (tmp_path / "work").mkdir()
    ran = flow.run(*WORDS, "--directory", str(tmp_path / "work"), capacity="10MiB")
    assert ran.returncode == 0, ran.stderr
    for name in RESULTS:
        assert (flow.pfs / name).read_bytes() == (plain / name).read_bytes()
    assert sorted(Path(event["url"]).name for event in flow.noted("transfer") if event["bytes"]) == [
        "region.hdr", "tile_0_0.fits", "tile_0_1.fits"
    ]  # fmt: skip
    assert not flow.left()


def test_the_profile_of_one_host_runs_a_workflow(flow):
    flow.make(2)
    command = [sys.executable, "-m", "snakemake", "--profile", str(PROFILES / "one-host"), "--cores", "2"]
    command += ["--default-storage-prefix", str(flow.pfs), "--local-storage-prefix", str(flow.bb)]
    done = subprocess.run(
        command, cwd=flow.directory, env=flow.environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert flow.sum().count("\n") == 2
    assert not flow.left()


def test_the_profile_of_slurm_has_settings_that_snakemake_knows(flow):
    flow.make(1)
    words = ["--profile", str(PROFILES / "slurm"), "--executor", "local", "--dry-run"]
    words += ["--local-storage-prefix", str(flow.bb), "--default-storage-prefix", str(flow.pfs)]
    command = [sys.executable, "-m", "snakemake", *words]
    done = subprocess.run(
        command, cwd=flow.directory, env=flow.environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "rule digest" in done.stdout + done.stderr

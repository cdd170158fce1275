import json
import os
import subprocess
import sys

import numpy as np
import pytest
from astropy.io import fits
from bbflow_workflows import montage
from bbflow_workflows.montage import steps
from bbflow_workflows.montage.__main__ import main
from PIL import Image

SMALL = {"rows": 2, "columns": 3, "pixels": 120, "stars": 150, "slope": 30.0}
TOOL = ("--tool", "mProjectPP")


def run(*words):
    command = [sys.executable, "-m", "bbflow_workflows.montage", *map(str, words)]
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    return subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)


def flags(**values):
    return [word for name, value in values.items() for word in (f"--{name}", value)]


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    """The command line makes the tiles, then a mosaic of them on the plain HighThroughputExecutor."""
    directory = tmp_path_factory.mktemp("montage")
    done = run("tiles", directory / "pfs", *flags(**SMALL))
    assert done.returncode == 0, done.stderr
    done = run("mosaic", directory / "pfs", "--output", directory / "out", *TOOL)
    assert done.returncode == 0, done.stderr
    return directory, done.stdout


def test_the_mosaic_is_a_hundred_times_flatter_than_the_tiles(survey):
    directory, printed = survey
    truth = montage.read_truth(directory / "pfs")
    assert max(abs(each.slope_x) for each in truth.backgrounds) > 10
    flat = montage.measure(directory / "out" / "mosaic.fits", truth)
    assert flat.before > 100
    assert flat.factor > 100
    assert flat.covered > 0.75
    assert "times flatter" in printed


def test_the_measure_sees_backgrounds_that_were_not_corrected(survey):
    directory, _ = survey
    names = sorted(path.name for path in (directory / "pfs").glob("tile*.fits"))
    projected = directory / "out" / "work" / "projected"
    areas = [steps._area(name) for name in names]
    raw = directory / "raw.fits"
    inputs = [*(projected / name for name in [*names, *areas]), directory / "pfs" / montage.REGION]
    steps.add(names, inputs, [raw, directory / "raw_area.fits"])
    flat = montage.measure(raw, montage.read_truth(directory / "pfs"))
    assert 0.5 < flat.factor < 2


def test_the_stars_of_the_mosaic_are_where_and_as_bright_as_they_are(survey):
    directory, _ = survey
    truth = montage.read_truth(directory / "pfs")
    with fits.open(directory / "out" / "mosaic.fits") as file:
        seen, expected = file[0].data, montage.stars_on(file[0].header, truth.survey)
    bright = np.isfinite(seen) & (expected > 50)
    assert bright.sum() > 50
    assert np.corrcoef(seen[bright], expected[bright])[0, 1] > 0.95


def test_the_picture_shows_the_sky(survey):
    directory, _ = survey
    with Image.open(directory / "out" / "mosaic.png") as picture:
        grey = np.asarray(picture.convert("L"), dtype=float)
    assert min(grey.shape) > 100
    assert grey.std() > 5


def test_the_same_seed_gives_the_same_tiles(tmp_path):
    survey = montage.Survey(rows=1, columns=2, pixels=40)
    first, second = (montage.make_tiles(tmp_path / name, survey) for name in "ab")
    assert first == second == montage.read_truth(tmp_path / "a")
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
    other = montage.make_tiles(tmp_path / "c", montage.Survey(rows=1, columns=2, pixels=40, seed=2))
    assert other.backgrounds != first.backgrounds


def test_a_tile_is_its_stars_its_background_and_noise(tmp_path):
    survey = montage.Survey(rows=1, columns=1, pixels=80, noise=0.5, slope=20)
    (background,) = montage.make_tiles(tmp_path, survey).backgrounds
    with fits.open(tmp_path / background.name) as file:
        left = file[0].data - montage.stars_on(file[0].header, survey)
    assert abs(left.mean() - background.offset) < 0.05
    assert abs(left[:, -1].mean() - left[:, 0].mean() - background.slope_x) < 0.5
    assert abs(left[-1].mean() - left[0].mean() - background.slope_y) < 0.5


def test_a_broken_tile_is_named_by_the_step_that_fails(tmp_path):
    (tmp_path / "tile.fits").write_text("no FITS")
    survey = montage.Survey(rows=1, columns=1, pixels=40)
    montage.make_tiles(tmp_path, survey)
    with pytest.raises(RuntimeError, match=r"mProject failed: .*tile\.fits"):
        steps.reproject("mProject", [tmp_path / "tile.fits", tmp_path / montage.REGION], [tmp_path / "p.fits"] * 2)
    assert not list(tmp_path.glob(".montage*"))


def test_a_directory_without_tiles_is_one_clear_error(tmp_path, capsys):
    assert main(["mosaic", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"montage: {tmp_path} has no tile*.fits: make some with the command 'tiles'\n"


@pytest.mark.parametrize("words", [["--rows", "-1"], ["--columns", "0"], ["--pixels", "1"]])
def test_a_survey_of_nothing_is_refused(tmp_path, capsys, words):
    assert main(["tiles", str(tmp_path / "survey"), *words]) == 1
    assert "can't be made" in capsys.readouterr().err
    assert not (tmp_path / "survey").exists()


def test_a_configuration_that_sets_none_is_one_clear_error(tmp_path, capsys):
    (tmp_path / "c.py").write_text("x = 1")
    montage.make_tiles(tmp_path, montage.Survey(rows=1, columns=1, pixels=40))
    assert main(["mosaic", str(tmp_path), "--output", str(tmp_path / "out"), "--config", str(tmp_path / "c.py")]) == 1
    assert "sets no 'config'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"), [(["über"], "ASCII characters only"), (["x", "--workers", "0"], "--workers 0: at least 1")]
)
def test_what_montage_or_parsl_cannot_do_is_refused_at_once(tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    assert main(["mosaic", *words, "--output", "out"]) == 1
    assert said in capsys.readouterr().err


def test_a_broken_tile_ends_the_mosaic_with_one_line_in_a_directory_with_blanks(tmp_path):
    survey = tmp_path / "my survey"
    montage.make_tiles(survey, montage.Survey(**SMALL))
    os.truncate(survey / "tile_0_0.fits", 5000)
    done = run("mosaic", survey, "--output", tmp_path / "my mosaic", *TOOL)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert "tile_0_0.fits" in done.stderr


def test_the_truth_is_written_so_that_people_can_read_it(survey):
    directory, _ = survey
    content = json.loads((directory / "pfs" / montage.TRUTH).read_text())
    assert len(content["backgrounds"]) == SMALL["rows"] * SMALL["columns"]


def test_a_burst_buffer_gives_the_same_mosaic_and_keeps_the_intermediate_files(survey, tmp_path):
    directory, _ = survey
    (tmp_path / "bb").mkdir()
    config = tmp_path / "config.py"
    config.write_text(
        f"from pathlib import Path\nPFS, BB = {str(directory)!r}, Path({str(tmp_path / 'bb')!r})\n{CONFIG}"
    )
    out = tmp_path / "out"
    done = run("mosaic", directory / "pfs", "--output", out, "--config", config, *TOOL)
    assert done.returncode == 0, done.stderr
    for name in ("mosaic.fits", "mosaic_area.fits"):
        with fits.open(out / name) as with_bb, fits.open(directory / "out" / name) as without:
            np.testing.assert_array_equal(with_bb[0].data, without[0].data)
    assert sorted(path.name for path in out.iterdir()) == ["mosaic.fits", "mosaic.png", "mosaic_area.fits"]
    assert not list((tmp_path / "bb").iterdir())


CONFIG = """
from bbflow_parsl import BurstBufferExecutor, BurstBufferSettings
from parsl.config import Config
from parsl.providers import LocalProvider

burst_buffer = BurstBufferSettings(
    directory=BB, capacity="64MiB", sources=[PFS], intermediate=[str(BB.parent / "out" / "work")],
    results=[str(BB.parent / "out")],
)
executor = BurstBufferExecutor(
    address="127.0.0.1", max_workers_per_node=2, cores_per_worker=1e-3, provider=LocalProvider(max_blocks=1),
    burst_buffer=burst_buffer,
)
run_dir = str(BB.parent / "runinfo")
config = Config(
    executors=[executor], run_dir=run_dir, strategy="none", strategy_period=0.2, initialize_logging=False
)
"""

"""The page about a model on a cubed sphere runs as it stands, and prints what it says."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

PAGE = Path(__file__).parents[2] / "docs" / "cubed-sphere.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"^(?:# |<!-- )([\w.]+)")
PROGRAMS = {"python": [sys.executable], "bbflow": [sys.executable, "-m", "bbflow"]}


def run_line(line, folder):
    words = [part for word in shlex.split(line) for part in PROGRAMS.get(word, [word])]
    ended = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, f"{line}: {ended.stdout}{ended.stderr}"
    return ended.stdout


@pytest.mark.skipif(shutil.which("cdo") is None, reason="CDO, which makes the page's weights, is not installed")
def test_the_page_runs_as_written_and_prints_what_it_says(tmp_path):
    said = ""
    for language, text in BLOCK.findall(PAGE.read_text()):
        if language == "sh":
            for line in text.splitlines():
                said = run_line(line, tmp_path)
        elif language == "text":
            assert said == text
        else:
            name = NAME.match(text)
            assert name, f"the block of {language} doesn't say its file"
            (tmp_path / name[1]).write_text(text)
    check_maps(tmp_path)


def check_maps(folder):
    """The temperature is known everywhere: the maps differ from it by what a cell of 1.9 degrees blurs."""
    results = xr.open_zarr(folder / "bbflow-out" / "results.zarr")
    lat, plev = (results[f"ta_{name}"].values for name in ("lat", "plev"))
    for day in range(10):
        mean = 200 + plev[:, np.newaxis] / 1000 - 20 * np.sin(np.radians(lat)) ** 2 + 0.1 * (4 * day + 1.5)
        found = results["ta_day_mean"].values[day]
        assert np.abs(found - mean[:, :, np.newaxis]).max() < 0.35
        np.testing.assert_allclose(results["ta_day_max"].values[day] - found, 0.15, atol=1e-4)
        exact = 250 - 20 / 3 + 0.1 * (4 * day + 1.5)
        np.testing.assert_allclose(results["ta_500_global_day_mean"].values[day], exact, atol=0.01)

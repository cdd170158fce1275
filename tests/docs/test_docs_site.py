"""The documentation as a site: every page is reached, every link leads somewhere, every page of the API is found."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(600)  # the site is built, and the tutorial in it runs

ROOT = Path(__file__).parents[2]
BUILD = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "dummy", "-c", "docs"]


def test_the_site_is_built_without_a_warning(tmp_path):
    environment = os.environ | {"BBFLOW_DOCS_NOTEBOOKS": "off"}
    command = [*BUILD, "-d", tmp_path / "tree", ".", tmp_path / "site"]
    done = subprocess.run(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    assert not done.returncode, done.stderr

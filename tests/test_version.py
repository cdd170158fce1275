"""The version comes from the package; what can't read it there says the same."""

import json
from importlib.metadata import version
from pathlib import Path

import yaml

import bbflow

ROOT = Path(__file__).parents[1]


def test_every_recipe_has_the_version_of_the_package():
    packaging = ROOT / "packaging"
    assert version("bbflow") == bbflow.__version__
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == bbflow.__version__
    assert json.loads((ROOT / ".zenodo.json").read_text())["version"] == bbflow.__version__
    assert yaml.safe_load((packaging / "conda/recipe.yaml").read_text())["context"]["version"] == bbflow.__version__
    assert f'version("{bbflow.__version__}")' in (packaging / "spack/packages/bbflow/package.py").read_text()
    (easyconfig,) = (packaging / "easybuild").iterdir()
    assert f"version = '{bbflow.__version__}'" in easyconfig.read_text()
    assert easyconfig.name.startswith(f"bbflow-{bbflow.__version__}-")
    assert f"## {bbflow.__version__}" in (ROOT / "CHANGELOG.md").read_text()

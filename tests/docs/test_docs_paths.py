"""The ways through the code for a first reading: short, and with modules that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOTS = [ROOT / folder for folder in ("adios2-engine/src", "adios2-engine/wire", "bbflow/mount/native", "bbflow")]
PAGE = (ROOT / "docs" / "structure.md").read_text()
PATHS = {name: text for name, _, text in (part.partition("\n") for part in PAGE.split("\n## ")) if "path of" in name}
MODULE = re.compile(r"^(\d+)\. `([\w/]+\.(?:py|cpp))`", re.MULTILINE)
ANY_MODULE = re.compile(r"[\w/]+\.(?:py|cpp)\b")


def test_there_are_paths():
    assert len(PATHS) == 3


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_a_few_modules_that_are_there(path):
    modules = {int(number): name for number, name in MODULE.findall(PATHS[path])}
    assert list(modules) == list(range(1, len(modules) + 1))
    assert 5 < len(modules) <= 25
    assert set(ANY_MODULE.findall(PATHS[path])) == set(modules.values())
    assert not [name for name in modules.values() if not any((root / name).is_file() for root in ROOTS)]


def test_the_readme_names_each_engine_and_plugin():
    readme = (ROOT / "README.md").read_text()
    parts = [path.name for path in ROOT.iterdir() if path.name.endswith(("-engine", "-executor", "-plugin"))]
    assert len(parts) >= 6
    assert not [part for part in parts if f"`{part}`" not in readme]


PAGES = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NAMED = re.compile(r"`([a-z][\w.-]*/[\w/.-]+\.(?:py|cpp|h|json|yml))`")
"""A file of the project, by a path with a folder."""
ABOVE = [*ROOTS, *(ROOT / folder for folder in ("", "bbflow/transit", "bbflow/files", "tests", "slurm-plugin"))]


def test_files_of_the_project_that_pages_name_are_there():
    named = {(page.name, name) for page in PAGES for name in NAMED.findall(page.read_text())}
    assert len(named) > 30
    assert not [each for each in sorted(named) if not any((above / each[1]).is_file() for above in ABOVE)]


SOURCES = ("bbflow", "adios2-engine", "pegasus-plugin", "slurm-plugin", "spark-plugin", "workflows")
VARIABLE = re.compile(r"\bBBFLOW_[A-Z_]+\b")
TARGET = re.compile(r"`make ([a-z-]+)[`\s]|^make ([a-z-]+)", re.MULTILINE)


def test_variables_and_targets_that_pages_name_are_there():
    texts = [page.read_text() for page in (ROOT / "README.md", *PAGES)]
    files = (path for folder in SOURCES for path in (ROOT / folder).rglob("*"))
    code = "\n".join(path.read_text() for path in files if path.suffix in {".py", ".cpp", ".h", ".lua"})
    code += (ROOT / "setup.py").read_text()
    makefile = (ROOT / "Makefile").read_text()
    variables = {name for text in texts for name in VARIABLE.findall(text)}
    targets = {first or second for text in texts for first, second in TARGET.findall(text)}
    assert len(variables) > 10
    assert len(targets) > 20
    assert not [name for name in sorted(variables) if name not in code]
    assert not [target for target in sorted(targets) if not re.search(rf"^{target}:", makefile, re.MULTILINE)]


def test_tests_that_pages_name_are_there():
    named = {name for page in PAGES for name in re.findall(r"`(test_\w+)`", page.read_text())}
    folders = (ROOT / "tests", *ROOT.glob("*-*/tests"))  # of engine and plugins
    code = "\n".join(path.read_text() for folder in folders for path in folder.rglob("test_*.py"))
    assert len(named) > 25
    assert sorted(named - set(re.findall(r"def (test_\w+)", code))) == []

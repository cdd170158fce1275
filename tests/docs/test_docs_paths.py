"""The two ways through the code for a first reading: short, and with modules that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOTS = [ROOT / folder for folder in ("adios2-engine/src", "adios2-engine/wire", "bbflow/mount/native", "bbflow")]
MODULE = re.compile(r"^\| (\d+) \| `([\w/]+\.(?:py|cpp))`", re.MULTILINE)
ANY_MODULE = re.compile(r"[\w/]+\.(?:py|cpp)\b")


@pytest.mark.parametrize(("page", "most"), [("path-of-a-block.md", 25), ("path-of-a-file.md", 20)])
def test_a_path_is_a_few_modules_that_are_there(page, most):
    text = (ROOT / "docs" / page).read_text()
    modules = {int(number): name for number, name in MODULE.findall(text)}
    assert list(modules) == list(range(1, len(modules) + 1))
    assert 5 < len(modules) <= most
    assert set(ANY_MODULE.findall(text)) == set(modules.values())
    assert not [name for name in modules.values() if not any((root / name).is_file() for root in ROOTS)]

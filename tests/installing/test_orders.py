"""One checkout is installed in any order into several environments (`make test-install`, some minutes).

Dependencies are left out: what can go wrong is what an earlier build has left in the checkout.
"""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEED = int(os.environ.get("SEED", random.randrange(1000)))
STEPS = int(os.environ.get("STEPS", "6"))
WAYS = (["."], ["-e", "."])


@pytest.fixture
def checkout(tmp_path):
    """The tracked files, as they are now, at a path that isn't ASCII."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in names.splitlines():
        if (ROOT / name).is_file():
            (tmp_path / "Klön" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tmp_path / "Klön" / name)
    return tmp_path / "Klön"


def environment(path):
    subprocess.run([sys.executable, "-m", "venv", path], check=True)
    return path / "bin" / "python"


def install(python, checkout, words):
    done = subprocess.run(
        [python, "-m", "pip", "install", "-q", "--no-deps", *words], cwd=checkout, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def installed(python, path):
    code = f"import importlib.util as i; print(i.find_spec('bbflow').submodule_search_locations[0] + '/{path}')"
    done = subprocess.run([python, "-c", code], text=True, capture_output=True, check=True, cwd="/")
    return Path(done.stdout.strip())


def test_any_order_of_installs_works(checkout, tmp_path):
    print(f"SEED={SEED} STEPS={STEPS}")
    dice = random.Random(SEED)
    pythons = [environment(tmp_path / name) for name in ("one", "two")]
    # twice the same, which is how it was found to fail, and then whatever comes
    steps = [(pythons[0], WAYS[0])] * 2 + [(dice.choice(pythons), dice.choice(WAYS)) for _ in range(STEPS)]
    for python, words in steps:
        print(python.parts[-3], *words)
        install(python, checkout, words)
        for library in ("operators/libbbflow_fold.so", "../bbflow_adios2/libbbflow_adios2.so"):
            if words == WAYS[0]:
                assert installed(python, library).stat().st_size


def test_snakemake_finds_the_plugins_of_an_editable_install(checkout, tmp_path):
    python = environment(tmp_path / "one")
    install(python, checkout, WAYS[1])
    code = "import pkgutil; print(*(each.name for each in pkgutil.iter_modules()))"  # as Snakemake looks for them
    done = subprocess.run(
        [python, "-c", code], text=True, capture_output=True, check=True, cwd="/", env={"LC_ALL": "C"}
    )
    found = done.stdout.split()
    assert {"snakemake_scheduler_plugin_bbflow", "snakemake_storage_plugin_bbflow"} <= set(found)


def test_what_was_compiled_is_not_compiled_again(checkout, tmp_path):
    objects = {}
    for name in ("one", "two"):  # pip makes another environment for each build
        install(environment(tmp_path / name), checkout, WAYS[1])
        (checkout / "bbflow" / "errors.py").touch()
        now = {file: file.stat().st_mtime_ns for file in (checkout / "build").rglob("*.o")}
        assert objects in ({}, now)
        objects = now
    assert len(objects) > 100


def test_an_upgrade_leaves_nothing_of_the_version_before(checkout, tmp_path):
    python = environment(tmp_path / "one")
    gone = checkout / "bbflow" / "gone.py"
    gone.write_text('"""Was there once."""\n')
    install(python, checkout, WAYS[0])
    assert installed(python, "gone.py").exists()
    gone.unlink()
    shutil.move(checkout, tmp_path / "moved")
    install(python, tmp_path / "moved", [".", "--upgrade"])
    assert not installed(python, "gone.py").exists()
    assert installed(python, "operators/libbbflow_fold.so").stat().st_size

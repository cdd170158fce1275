"""Operators and delay policies of another package, which is really installed: they are known by their names."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

ENTRY_POINTS = """
[bbflow.operators]
hot_share = polite:HotShare
[bbflow.policies]
half-pace = polite:HalfPace
"""
MODULE = '''
from dataclasses import dataclass

from bbflow.staging import Decision, Policy


class HotShare:
    """Share of hot values"""

    def map(values, valid, times, limit=300.0):
        return {"hot": (valid & (values > limit)).sum(axis=0), "all": valid.sum(axis=0)}

    def combine(left, right):
        return {name: left[name] + right[name] for name in left}

    def finalize(state):
        return state["hot"] / state["all"]


@dataclass(frozen=True)
class HalfPace(Policy):
    """Half of what was possible."""

    share: float = 0.5

    def choose(self, situation):
        if not situation.phases:
            return Decision()
        return Decision(bytes_per_s=self.share * (situation.peak_bytes_per_s or 1e6), reason="half pace")
'''
FOLD = """
import sys
from pathlib import Path
import numpy as np
from bbflow.configuring.config import load_config
from bbflow.operators import StateLayout, fold_steps
(operator,) = load_config(Path(sys.argv[1])).diagnostics["tas"].operators
layout = StateLayout.of([operator], dtype=np.dtype("f4"), points=3)
state = bytearray(layout.nbytes)
fold_steps(layout, None, state, [np.full(3, value, "f4") for value in (290, 294, 296, 300)])
print(operator.name, operator.finalize(layout, state)[0])
"""
USE = """
import pickle
from bbflow.phases import Phase
from bbflow.staging import Situation, parse_policy
for text in {texts}:
    policy = pickle.loads(pickle.dumps(parse_policy(text)))
    now = Situation(now_s=1.0, phases=(Phase("ocean-model", "pfs", 0.0),), peak_bytes_per_s=100.0)
    print(type(policy).__module__, policy.decide(now).bytes_per_s)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A place where pip has installed the package."""
    wheel, site = tmp_path_factory.mktemp("wheel") / "polite-1-py3-none-any.whl", tmp_path_factory.mktemp("site")
    files = {
        "polite.py": MODULE,
        "polite-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: polite\nVersion: 1\n",
        "polite-1.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "polite-1.dist-info/entry_points.txt": ENTRY_POINTS,
        "polite-1.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    words = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", site, wheel]
    done = subprocess.run([*map(str, words)], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return site


def run(site, *words, **keys):
    environment = {"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, *map(str, words)], text=True, capture_output=True, env=environment, **keys)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_policy_of_another_package_has_its_name_and_its_settings(site):
    texts = ["half-pace", "half-pace:share=0.25", "polite:HalfPace:share=0.1", "polite:HalfPace"]
    said = run(site, "-c", USE.format(texts=texts)).split()
    assert said == ["polite", "50.0", "polite", "25.0", "polite", "10.0", "polite", "50.0"]


def test_the_shell_stages_with_a_policy_that_lies_where_one_is(tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "a.dat").write_bytes(bytes(1 << 20))
    words = ["a.dat", "--to", tmp_path / "bb", "--capacity", "2MiB", "--phases", tmp_path / "phases"]
    place = run("", "-m", "bbflow", "stage", *words, "--policy", "mine:HalfPace:share=0.9", cwd=tmp_path)
    assert Path(place.strip()).stat().st_size == 1 << 20


def test_an_operator_of_another_package_has_its_name_in_the_configuration_of_a_run(site, tmp_path):
    config = {"stream": "s", "operators": {"tas": [{"hot_share": {"limit": 295.0}}]}}
    (tmp_path / "run.yml").write_text(yaml.safe_dump(config))
    assert run(site, "-c", FOLD, tmp_path / "run.yml").split() == ["hot_share", "0.5"]

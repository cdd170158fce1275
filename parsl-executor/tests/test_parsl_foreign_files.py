"""Sweeping what dead runs left on a burst buffer removes what runs have made, and nothing that only looks like it."""

import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from bbflow_parsl.rundirs import RunDirectory
from bbflow_parsl.sweeping import ALIVE, remove_if_dead
from hypothesis import given
from hypothesis import strategies as st

CONTENT = b"not ours"
PREFIX = f"bbflow-parsl-{socket.gethostname()}-"
FOLDERS = ("", "data", f"{PREFIX}results", f"{PREFIX}kept")
NAMES = ("thesis.tex", ALIVE, "inputs/files/a", ".bbflow")
KILLED = """
import os, sys
from pathlib import Path
from bbflow_parsl.rundirs import RunDirectory
run = RunDirectory(Path(sys.argv[1]), "a")
(run.path / "inputs").mkdir()
(run.path / "inputs" / "x").touch()
print(run.path, flush=True)
os.kill(os.getpid(), 9)
"""


def plant(directory, places):
    files = [directory / folder / name for folder, name in places]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(CONTENT)
    return files


@given(st.lists(st.tuples(st.sampled_from(FOLDERS), st.sampled_from(NAMES)), min_size=1, unique=True))
def test_what_only_looks_like_a_run_s_stays(places):
    with tempfile.TemporaryDirectory() as name:
        files = plant(Path(name), places)
        run = RunDirectory(Path(name), "label")
        (run.path / "inputs").mkdir()
        for folder in FOLDERS:
            remove_if_dead(str(Path(name, folder)), wait=False)
        run.remove()
        assert not run.path.exists()
        assert all(file.read_bytes() == CONTENT for file in files)


def test_a_dead_run_s_directory_goes_and_a_copy_of_it_stays(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], stdout=subprocess.PIPE, text=True, check=False)
    dead = Path(done.stdout.strip())
    shutil.copytree(dead, tmp_path / f"{dead.name}-kept")
    RunDirectory(tmp_path, "b").remove()
    assert [path.name for path in tmp_path.iterdir()] == [f"{dead.name}-kept"]


def test_what_has_taken_the_place_of_a_run_s_directory_stays(tmp_path):
    run = RunDirectory(tmp_path, "label")
    run.path.rename(tmp_path / "moved")
    (own,) = plant(tmp_path, [(run.path.name, "thesis.tex")])
    run.remove()
    assert own.read_bytes() == CONTENT

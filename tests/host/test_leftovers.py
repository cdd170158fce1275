import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bbflow.host.leftovers import SHARED_MEMORY, VARIABLE, run_name, scratch

KILLED = """
import multiprocessing, os, signal
from multiprocessing import resource_tracker
from bbflow.host.leftovers import name_semaphores, scratch

def work(value):
    mine = multiprocessing.get_context("spawn").Value("i", 0)
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    name_semaphores()
    held = scratch()
    directory = held.__enter__()
    (directory / "spilled").mkdir()
    (directory / "spilled" / "part").touch()
    spawn = multiprocessing.get_context("spawn")
    kept = spawn.Value("i", 0)
    process = spawn.Process(target=work, args=(kept,))
    process.start()
    process.join()
    os.kill(resource_tracker._resource_tracker._pid, signal.SIGKILL)  # who would clean up
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_run_leaves_is_known_by_its_name_and_what_others_have_stays(tmp_path):
    (tmp_path / "killed.py").write_text(KILLED)
    other = SHARED_MEMORY / f"sem.mp-of-nobody-{os.getpid()}"
    other.touch()
    try:
        with run_name() as name:
            subprocess.run(
                [sys.executable, tmp_path / "killed.py"],
                env=os.environ | {VARIABLE: name},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
            assert len(list(SHARED_MEMORY.glob(f"sem.{name}-*"))) == 2, "its own, and that of the process it started"
            scratch = Path(tempfile.gettempdir(), f"{name}-dask")
            assert (scratch / "spilled" / "part").exists()
        assert not list(SHARED_MEMORY.glob(f"sem.{name}*"))
        assert not scratch.exists()
        assert other.exists()
    finally:
        other.unlink()


def test_what_a_killed_process_of_no_run_leaves_goes_with_the_next_one(tmp_path, monkeypatch):
    (tmp_path / "killed.py").write_text(KILLED)
    named = {VARIABLE: f"bbflow-of-test-{os.getpid()}", "TMPDIR": str(tmp_path)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([sys.executable, tmp_path / "killed.py"], env=os.environ | named, check=False, **quiet)
    (left,) = tmp_path.glob("bbflow-*-dask")
    (others := tmp_path / "bbflow-of-others-dask").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch() as alive:
        assert left.exists()  # it may be one that has just been made
        for directory in (left, alive, others):
            os.utime(directory, (0, 0))
        with scratch():
            assert not left.exists()
            assert not list(SHARED_MEMORY.glob(f"sem.{named[VARIABLE]}*"))
            assert alive.exists()
            assert others.exists()
    assert sorted(tmp_path.glob("bbflow-*-dask")) == [others]

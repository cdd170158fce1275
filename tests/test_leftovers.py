import os
import subprocess
import sys

from bbflow.leftovers import SHARED_MEMORY, VARIABLE, new_name, remove_semaphores

KILLED = """
import multiprocessing, os, signal
from multiprocessing import resource_tracker
from bbflow.leftovers import name_semaphores

def work(value):
    mine = multiprocessing.get_context("spawn").Value("i", 0)
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    name_semaphores()
    spawn = multiprocessing.get_context("spawn")
    kept = spawn.Value("i", 0)
    process = spawn.Process(target=work, args=(kept,))
    process.start()
    process.join()
    os.kill(resource_tracker._resource_tracker._pid, signal.SIGKILL)  # who would clean up
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_semaphores_of_a_killed_run_are_known_by_their_name_and_others_stay(tmp_path):
    (tmp_path / "killed.py").write_text(KILLED)
    name, other = new_name(), SHARED_MEMORY / f"sem.mp-of-nobody-{os.getpid()}"
    other.touch()
    try:
        subprocess.run(
            [sys.executable, tmp_path / "killed.py"],
            env=os.environ | {VARIABLE: name},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        assert len(list(SHARED_MEMORY.glob(f"sem.{name}-*"))) == 2, "its own, and that of the process it started"
        remove_semaphores(name)
        assert not list(SHARED_MEMORY.glob(f"sem.{name}*"))
        assert other.exists()
    finally:
        other.unlink()

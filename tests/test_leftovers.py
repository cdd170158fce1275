import gc
import multiprocessing
import os

from bbflow.leftovers import SHARED_MEMORY, remove_leftovers, segments


def test_a_semaphore_of_a_living_process_stays_and_one_that_nobody_has_mapped_goes():
    """Others on this machine come and go meanwhile: only these two are looked at."""
    value = multiprocessing.get_context("spawn").Value("i", 0)
    living = SHARED_MEMORY / f"sem.{value.get_lock()._semlock.name.removeprefix('/')}"
    dead = SHARED_MEMORY / f"sem.mp-of-nobody-{os.getpid()}"
    dead.write_bytes(b"")
    try:
        assert {living, dead} <= segments()
        remove_leftovers(segments() - {living, dead})
        assert living.exists()
        assert not dead.exists()
    finally:
        dead.unlink(missing_ok=True)
        del value
        gc.collect()

import gc
import multiprocessing

from bbflow.leftovers import SHARED_MEMORY, remove_leftovers, segments


def test_a_semaphore_of_a_living_process_stays_and_one_that_nobody_has_mapped_goes():
    before = segments()
    value = multiprocessing.get_context("spawn").Value("i", 0)
    living = segments() - before
    dead = SHARED_MEMORY / "sem.mp-of-nobody"
    dead.write_bytes(b"")
    try:
        assert living
        remove_leftovers(before | (segments() - living - {dead}))
        assert living <= segments()
        assert not dead.exists()
    finally:
        dead.unlink(missing_ok=True)
        del value
        gc.collect()

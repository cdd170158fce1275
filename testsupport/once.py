"""What is built once for all tests, also where several processes run them."""

import fcntl
import os
import signal
from contextlib import contextmanager

BUILD_S = 1200
"""How long a build may take, beside others."""


def directory_of_run(tmp_path_factory):
    """Return the directory that all processes of this run have below them."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@contextmanager
def built_once(tmp_path_factory, name):
    """Yield a directory for what is built, and be alone with it: a second process finds there what the first has built.

    The limit of the test that happens to need it first doesn't run meanwhile.
    """
    root = directory_of_run(tmp_path_factory)
    left_s, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        with (root / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (root / name).mkdir(exist_ok=True)
            yield root / name
    finally:
        signal.setitimer(signal.ITIMER_REAL, left_s)

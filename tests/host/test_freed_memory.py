"""Freed memory stays with the process that folds."""

import subprocess
import sys

import pytest

LIMIT_S = 60
CODE = """
import resource, sys
import numpy as np
from bbflow.host.freed_memory import keep_freed_memory
if sys.argv[1:]:
    keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    parts = [np.ones(1 << 19) for _ in range(4)]
    del parts
before = faults()
for _ in range(10):
    parts = [np.ones(1 << 19) for _ in range(4)]
    del parts
print(faults() - before)
"""
PAGES = 10 * 4 * (1 << 19) * 8 // 4096


def faults_of(*arguments, **variables):
    done = subprocess.run([sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, timeout=LIMIT_S,
                          env=variables, check=True)  # fmt: skip
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's")
def test_arrays_are_made_of_pages_that_are_there():
    assert faults_of() > PAGES / 4, "who doesn't say so makes them anew"
    assert faults_of("keep") < PAGES / 20
    assert faults_of("keep", MALLOC_TRIM_THRESHOLD_="65536", MALLOC_MMAP_THRESHOLD_="65536") > PAGES / 4

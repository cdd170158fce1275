"""Memory that is freed stays with the process.

The C library gives back large parts at once, and each page of them is made again, with a fault, for the next array.
"""

import ctypes
import os
from contextlib import suppress

SETTINGS = {"MALLOC_TRIM_THRESHOLD_": (-1, 128 << 20), "MALLOC_MMAP_THRESHOLD_": (-3, 32 << 20)}
"""Variables by which users say the same, to mallopt's numbers and what we say: as much may be kept that nothing is in,
and larger arrays than this, the most that can be said, are given back still (mallopt(3))."""


def keep_freed_memory() -> None:
    """Keep freed memory with this process, unless the user says how much."""
    with suppress(AttributeError):  # glibc alone has it
        for variable, setting in SETTINGS.items():
            if variable not in os.environ:
                ctypes.CDLL(None).mallopt(*setting)

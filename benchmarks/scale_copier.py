"""Copies blocks of float32 into shared memory, as many as each line of its input says; run by scale_rate.py."""

import mmap
import sys
import tempfile

import numpy as np

POOL_BYTES = 1 << 30
"""Where the copies go, again and again: more than fits into any cache."""
LOOP_MAX = 4
"""Blocks repeat after this many, as those of scale_writer.py."""


def main() -> None:
    """Copy, and answer each line with an empty one when it is done."""
    points = int(sys.argv[1])
    blocks = np.random.default_rng(0).random((LOOP_MAX, points), dtype="f4")
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        file.truncate(POOL_BYTES)
        pool = np.frombuffer(mmap.mmap(file.fileno(), POOL_BYTES), "f4").reshape(-1, points)
        pool[:] = 0
        copied = 0
        for line in sys.stdin:
            end = copied + int(line)
            for number in range(copied, end):
                np.copyto(pool[number % len(pool)], blocks[number % LOOP_MAX])
            copied = end
            print(flush=True)


if __name__ == "__main__":
    main()

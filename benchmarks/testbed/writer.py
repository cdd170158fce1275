"""The HPC application, as IOR would play it: ranks that write together, compute for a while, and write again."""

import argparse
import json
import multiprocessing
import select
import sys
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from multiprocessing.synchronize import Barrier
from pathlib import Path

from bbflow.phases import io_phase
from benchmarks.testbed.objects import REQUEST_BYTES, open_store

RANKS = 4
STUCK_S = 120.0
"""A phase that takes longer than this ends the application."""


def write_as_rank(rank: int, requests: int, start: Barrier, end: Barrier) -> None:
    """Write this rank's share whenever all ranks have come to the start; one that fails ends all."""
    store, payload = open_store(), bytes(REQUEST_BYTES)
    try:
        while True:
            start.wait()
            for number in range(requests):
                store.put(f"hpc/rank-{rank}/{number}", payload, use_multipart=False)
            end.wait(STUCK_S)
    except threading.BrokenBarrierError:
        return
    finally:
        start.abort()
        end.abort()


def announced(board: Path | None) -> AbstractContextManager[object]:
    """Announce a phase, or not."""
    return nullcontext() if board is None else io_phase("ior", board)


def told_to_end(pause_s: float) -> bool:
    """Compute for `pause_s`; true if standard input was closed meanwhile."""
    until_s = time.monotonic() + pause_s
    ended, _, _ = select.select([sys.stdin], [], [], pause_s)
    if not ended:
        return False
    time.sleep(max(until_s - time.monotonic(), 0))
    return True


def main() -> None:
    """Write phase after phase and print the times of each, until standard input is closed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--phase-bytes", type=int, required=True)
    parser.add_argument("--pause-s", type=float, required=True)
    parser.add_argument("--board", type=Path)
    options = parser.parse_args()
    forked = multiprocessing.get_context("fork")
    start, end = forked.Barrier(RANKS + 1), forked.Barrier(RANKS + 1)
    requests = options.phase_bytes // RANKS // REQUEST_BYTES
    ranks = [
        forked.Process(target=write_as_rank, args=(rank, requests, start, end), daemon=True) for rank in range(RANKS)
    ]
    for process in ranks:
        process.start()
    while not told_to_end(options.pause_s):
        begun_s = time.monotonic()
        with announced(options.board):
            start.wait(STUCK_S)
            end.wait(STUCK_S)
        print(json.dumps([begun_s, time.monotonic()]), flush=True)
    start.abort()
    for process in ranks:
        process.join(STUCK_S)


if __name__ == "__main__":
    main()

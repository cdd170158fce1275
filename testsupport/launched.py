"""Ranks of one Python program: ``launched.py SIZE CODE WORDS…``. The environment tells each its number, as mpiexec's.

They are forks of this process, which takes no longer than one interpreter; where this is itself a fork of a warm one,
next to nothing. As with mpiexec, all end when one fails, and when this process is killed.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # prctl(2)


def main(size, code, words):
    """Be a rank in each of so many processes; in this one wait for them, and return the exit code."""
    running = set()
    for rank in range(size):
        if process := os.fork():
            running.add(process)
            continue
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.environ.update(PMI_RANK=str(rank), PMI_SIZE=str(size))
        sys.argv = ["-c", *words]
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        return 0
    failed = 0
    while running:
        process, status = os.wait()
        running.discard(process)
        if status and not failed:
            failed = os.waitstatus_to_exitcode(status)
            for each in running:
                os.kill(each, signal.SIGKILL)
    return failed if failed >= 0 else 128 - failed


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))

"""Programs that run beside a test, and waiting for what they do. A bound ends a hang; it is no measure of speed."""

import json
import subprocess
import sys
from contextlib import contextmanager

import psutil

from testsupport.waiting import PATIENCE_S, until

STARTER = """
import json, signal, subprocess, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    words, log = json.loads(line)
    with open(log, "ab") as file:
        print(subprocess.Popen(words, stdout=file, stderr=file).pid, flush=True)
"""


class Starter:
    """Starts programs from a process that has no files of a test open.

    A fork of the test's own would close those on a mount, and wait until they are committed: for the program, perhaps.
    """

    def __init__(self):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen([sys.executable, "-c", STARTER], **pipes)

    def start(self, words, log):
        """Start a program that says all into a log; return its `psutil.Process`."""
        print(json.dumps([[str(word) for word in words], str(log)]), file=self._process.stdin, flush=True)
        return psutil.Process(int(self._process.stdout.readline()))

    def close(self):
        """End it; what it has started goes on."""
        self._process.communicate()


@contextmanager
def running(command, env=None, cwd=None):
    """Run a program beside the test; it is killed if it is still there afterwards."""
    process = subprocess.Popen(
        [str(word) for word in command],
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def finish(process):
    """Wait for a program; return its exit code and what it said."""
    said, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, said


def finish_well(process):
    """Wait for a program that must succeed; return what it said."""
    returncode, said = finish(process)
    assert returncode == 0, said
    return said


def words_of(process):
    """Return the words that a process was started with; none if it has ended meanwhile."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def started(make):
    """Make something that starts a process of its own; return it and the process."""
    before = set(psutil.Process().children())
    made = make()
    new = set(psutil.Process().children()) - before
    (process,) = (child for child in new if "warm_server" not in str(words_of(child)))
    return made, process


def stop(process):
    """Stop a program, and wait until each of its threads has: some may do something until then."""
    process = psutil.Process(process.pid)
    process.suspend()
    threads = [psutil.Process(thread.id) for thread in process.threads()]
    until(lambda: all(thread.status() == psutil.STATUS_STOPPED for thread in threads), "its threads to stop")


def kill(process):
    """Kill a child of this process, and wait for its end, of which its parent is still to hear."""
    process.kill()
    until(lambda: process.status() == psutil.STATUS_ZOMBIE)


def agent_of(node):
    """Return the process of a node that this one has started; others may have left dead children behind."""
    (agent,) = (child for child in psutil.Process().children() if node.name in words_of(child))
    return agent

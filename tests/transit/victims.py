"""Finds the processes of a run, for tests that kill them."""

import time

import psutil

from testsupport.waiting import until


def wait_for_folds(output, count):
    events = output / "events.jsonl"
    until(lambda: events.exists() and events.read_text().count('"fold"') >= count, f"{count} batches were folded")


def descendants(process):
    return psutil.Process(process.pid).children(recursive=True)


def find(process, *words):
    """Return a process of a run; one that was killed before may be about to be started again."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        commands = {child: command_of(child) for child in descendants(process)}
        for child, command in commands.items():
            if all(word in command for word in words):
                return child
        time.sleep(0.01)
    raise AssertionError(f"no process with {words}: {list(commands.values())}")


def command_of(process):
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # it ended meanwhile
        return ""


def finish(process, timeout=300):
    said, _ = process.communicate(timeout=timeout)
    return process.returncode, said


def worker_of(analysis):
    """Return a Dask worker of an analysis; where one was killed before, the next may be starting just now."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        for child in analysis.children():
            # Dask renames its workers where it can.
            if any(name in command_of(child) for name in ("spawn_main", "dask worker")):
                return child
        time.sleep(0.01)
    raise AssertionError("the analysis has no worker")

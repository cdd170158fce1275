"""Finds the processes of a run, for tests that kill them."""

import time

import psutil


def wait_for_folds(output, count):
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        lines = (output / "events.jsonl").read_text().splitlines() if (output / "events.jsonl").exists() else []
        if sum('"fold"' in line for line in lines) >= count:
            return
        time.sleep(0.01)
    raise AssertionError(f"{count} batches weren't folded within five minutes")


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

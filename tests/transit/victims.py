"""Finds the processes of a run, for tests that kill them."""

import psutil

from testsupport.processes import words_of
from testsupport.waiting import until


def wait_for_folds(process, output, count):
    """Wait until a run has folded so many batches."""
    events = output / "events.jsonl"
    folded = lambda: events.exists() and events.read_text().count('"fold"') >= count  # noqa: E731
    until(folded, f"{count} batches were folded", of=process)


def descendants(process):
    return psutil.Process(process.pid).children(recursive=True)


def find(process, *words):
    """Return a process of a run; one that was killed before may be about to be started again."""

    def found():
        return [child for child in descendants(process) if all(word in " ".join(words_of(child)) for word in words)]

    return until(found, f"no process with {words}", of=process)[0]


def finish(process, timeout=300):
    said, _ = process.communicate(timeout=timeout)
    return process.returncode, said


def worker_of(analysis):
    """Return a Dask worker of an analysis; where one was killed before, the next may be starting just now."""

    def found():
        # Dask renames its workers where it can.
        names = ("spawn_main", "dask worker")
        return [child for child in analysis.children() if any(name in " ".join(words_of(child)) for name in names)]

    return until(found, "the analysis has no worker")[0]

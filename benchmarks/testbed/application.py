"""The map application on the compute host: reads the PFS directly, or what is staged."""

import json
import sys
from dataclasses import asdict

from benchmarks.testbed.job import Job, Outcome
from benchmarks.testbed.objects import open_store, read_in_ranges
from benchmarks.testbed.staged import read_staged
from benchmarks.testbed.tasks import run_tasks


def read_directly(job: Job) -> Outcome:
    """Run with every task reading the PFS itself: the paper's NaiveBB (section III.A.4)."""
    store = open_store()
    return run_tasks(job, lambda key: lambda: lambda: read_in_ranges(store, key, job.input_bytes), lambda key: None)


def main() -> None:
    """Run the job that is given as JSON and print its outcome."""
    job = Job(**json.loads(sys.argv[1]))
    outcome = read_directly(job) if job.policy == "naive" else read_staged(job)
    print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()

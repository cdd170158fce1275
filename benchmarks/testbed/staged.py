"""The map application with its inputs prefetched by bbflow's stager."""

import os
from pathlib import Path

from bbflow.phases import BoardSource
from bbflow.staging import File, Stager, parse_policy
from benchmarks.testbed.address import BUCKET, environment
from benchmarks.testbed.job import Job, Outcome
from benchmarks.testbed.tasks import Await, Read, run_tasks


def read_staged(job: Job) -> Outcome:
    """Run with all tasks given to a stager in program order; each waits until its input is on the BB."""
    os.environ.update(environment())
    with Stager(
        Path(job.directory),
        job.capacity_bytes,
        job.slots,
        policy=parse_policy(job.delay_policy),
        phases=BoardSource(Path(job.board)),
        fetchers=job.fetchers,
    ) as stager:
        return run_tasks(job, lambda key: submit(stager, key, job.input_bytes), stager.final)


def submit(stager: Stager, key: str, size_bytes: int) -> Await:
    """Return a task to the stager; what comes back waits for its input.

    Sizes are said: slots are held in program order here, and a task whose source answers late would come after others.
    """
    url = f"s3://{BUCKET}/{key}"
    future = stager.submit(key, [File(url, size_bytes)])

    def await_input() -> Read:
        path = future.result()[url]
        return lambda: len(Path(path).read_bytes())

    return await_input
